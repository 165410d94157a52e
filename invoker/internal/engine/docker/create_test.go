package docker

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

const provisionText = "Failed to provision resources to run the action."

func TestCreate(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	h := created(t, e, 1)
	want := container.Handle{ID: "id-wsk00_1_guest_hello", Name: "wsk00_1_guest_hello", Addr: "172.17.0.2:8080"}
	check.Equal(t, h, want)
	check.Equal(t, d.count("POST /v1.40/containers")+d.count("GET /v1.40/containers/id-"), 3, "a create took")
}

func TestCreateFailures(t *testing.T) {
	cases := []struct {
		name    string
		prepare func(d *daemon)
		image   string
		pull    bool
		blame   container.Blame
		message string
	}{
		{"create refused", func(d *daemon) {
			d.onCreate = func(w http.ResponseWriter, _ string) bool { refuse(w, 500, "no space left"); return true }
		}, "a/b:1", false, container.BlameWhisk, provisionText},
		{"create cut off", func(d *daemon) {
			d.onCreate = func(w http.ResponseWriter, name string) bool {
				d.mu.Lock()
				d.containers["id-"+name] = &fakeContainer{name: name}
				d.mu.Unlock()
				panic(http.ErrAbortHandler)
			}
		}, "a/b:1", false, container.BlameWhisk, provisionText},
		{"broken container", func(d *daemon) {
			d.onStart = func(w http.ResponseWriter, _ string) bool { refuse(w, 500, "OCI runtime create failed"); return true }
		}, "a/b:1", false, container.BlameWhisk, provisionText},
		{"no such program", func(d *daemon) {
			d.onStart = func(w http.ResponseWriter, _ string) bool {
				refuse(w, 400, `exec: "/nothing": stat /nothing: no such file or directory: unknown`)
				return true
			}
		}, "a/b:1", false, container.BlameDeveloper, "executable file not found in image a/b:1"},
		{"no address", func(d *daemon) { d.noIP = true }, "a/b:1", false, container.BlameWhisk, provisionText},
		{"pull of a moving image fails", func(d *daemon) { d.onPull = pullError }, "a/b", true,
			container.BlameDeveloper, "Failed to pull container image 'a/b'."},
		{"pull of a fixed image and create fail", func(d *daemon) {
			d.onPull = pullError
			d.onCreate = func(w http.ResponseWriter, _ string) bool { refuse(w, 404, "No such image: a/b:1"); return true }
		}, "a/b:1", true, container.BlameDeveloper, "Failed to pull container image 'a/b:1'."},
		{"pull fails of a fixed image without its program", func(d *daemon) {
			d.onPull = pullError
			d.onStart = func(w http.ResponseWriter, _ string) bool {
				refuse(w, 400, `exec: "nothing": executable file not found in $PATH`)
				return true
			}
		}, "a/b:1", true, container.BlameDeveloper, "executable file not found in image a/b:1"},
		{"managed image is missing", func(d *daemon) {
			d.onPull = pullError
			d.onCreate = func(w http.ResponseWriter, _ string) bool { refuse(w, 404, "No such image: a/b:1"); return true }
		}, "a/b:1", false, container.BlameWhisk, provisionText},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := startDaemon(t)
			e := d.engine(t, nil)
			c.prepare(d)
			spec := fakeSpec(1)
			spec.Image, spec.Pull = c.image, c.pull
			_, err := e.Create(t.Context(), spec)
			var failed *container.CreateError
			check.That(check.Must(t), errors.As(err, &failed), "got %v, want blame %d, %q", err, c.blame, c.message)
			check.Equal(check.Must(t), failed.Blame, c.blame)
			check.Equal(check.Must(t), failed.Message, c.message)
			check.That(check.Must(t), failed.Err != nil, "got %v, want blame %d, %q", err, c.blame, c.message)
			until(t, "nothing is left", func() bool { return d.names() == "" })
			check.Equal(t, e.Len(), 0, "containers are remembered")
		})
	}
}

// TestInit: containers of the manifest's images have the daemon's init program, as far as
// there is one, and those of users' images if the operator says so.
func TestInit(t *testing.T) {
	const missing = `exec: "docker-init": executable file not found in $PATH: unknown`
	for name, c := range map[string]struct {
		extra   string
		missing bool
		user    bool
		want    []bool // of the creates
		fails   bool
	}{
		"manifest":            {want: []bool{true, true}},
		"user":                {user: true, want: []bool{false, false}},
		"user, operator":      {user: true, extra: "true", want: []bool{true, true}},
		"operator":            {extra: "false", want: []bool{false, false}},
		"missing":             {missing: true, want: []bool{true, false, false}},
		"missing, operator":   {missing: true, extra: "true", want: []bool{true, true}, fails: true},
		"user's own, missing": {missing: true, user: true, want: []bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t)
			if c.missing {
				d.onStart = func(w http.ResponseWriter, _ string) bool {
					d.mu.Lock()
					init := d.bodies[len(d.bodies)-1].HostConfig.Init
					d.mu.Unlock()
					if init == nil || !*init {
						return false
					}
					refuse(w, 400, missing)
					return true
				}
			}
			e := d.engine(t, func(o *Options) {
				if c.extra != "" {
					o.ExtraArgs = map[string][]string{"init": {c.extra}}
				}
			})
			for i := range 2 {
				spec := fakeSpec(i)
				spec.Pull = c.user
				_, err := e.Create(t.Context(), spec)
				if !c.fails {
					check.NoError(t, err)
					continue
				}
				var failed *container.CreateError
				check.That(check.Must(t), errors.As(err, &failed), "got %v", err)
				check.Equal(t, failed.Blame, container.BlameWhisk)
			}
			var got []bool
			for _, body := range d.bodies {
				got = append(got, body.HostConfig.Init != nil && *body.HostConfig.Init)
			}
			check.EqualSlices(t, got, c.want)
		})
	}
}

func pullError(w http.ResponseWriter, _ string) bool {
	_, _ = io.WriteString(w, `{"status":"pulling"}`+"\n"+`{"error":"denied","errorDetail":{"message":"denied"}}`+"\n")
	return true
}

// A create that runs into its time limit returns in time. The container is removed, also if
// the daemon makes it later.
func TestTimedOutCreateLeavesNothing(t *testing.T) {
	for _, phase := range []string{"create", "start"} {
		t.Run(phase, func(t *testing.T) {
			d := startDaemon(t)
			e := d.engine(t, func(o *Options) { o.Timeouts.Create = 20 * time.Millisecond })
			slow := make(chan struct{})
			if phase == "create" {
				d.onCreate = func(http.ResponseWriter, string) bool { <-slow; return false }
			} else {
				d.onStart = func(http.ResponseWriter, string) bool { <-slow; return false }
			}
			_, err := e.Create(t.Context(), fakeSpec(1))
			var failed *container.CreateError
			check.That(check.Must(t), errors.As(err, &failed), "got %v", err)
			check.Equal(check.Must(t), failed.Blame, container.BlameWhisk)
			check.ErrorIs(check.Must(t), err, roster.ErrTimeout)
			close(slow)
			until(t, "the late container is gone", func() bool {
				return d.count("DELETE") > 0 && d.names() == ""
			})
		})
	}
}

// queued counts the creates that wait for a permit. The semaphore does not export
// that: the goroutines that wait in Acquire are counted.
func queued() int {
	stacks := make([]byte, 1<<20)
	n := 0
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		head, rest, _ := strings.Cut(stack, "\n")
		if strings.Contains(head, " [select") && strings.Contains(rest, "semaphore.(*Weighted).Acquire(") {
			n++
		}
	}
	return n
}

func TestParallelCreates(t *testing.T) {
	for _, c := range []struct{ asked, processors, want int }{
		{10, 2, 2}, {10, 1, 2}, {10, 4, 4}, {10, 64, 10}, {1, 4, 1}, {10, 0, 10}, {0, 2, 0}, {-1, 2, 0},
	} {
		check.Equal(t, parallelCreates(c.asked, c.processors), c.want, "%d asked for on %d processors", c.asked, c.processors)
	}
	d := startDaemon(t)
	d.info = `{"ServerVersion":"20.10","NCPU":3}`
	e := d.engine(t, nil)
	check.That(t, e.Slots.TryAcquire(3), "a daemon with three processors does not create three at once")
	check.That(t, !e.Slots.TryAcquire(1), "a daemon with three processors creates a fourth")
}

// An image that takes long to come must not hold up creates that need none.
func TestPullGivesItsSlotToOthers(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, func(o *Options) { o.ParallelCreates = 1 })
	pulling, goOn := make(chan struct{}), make(chan struct{})
	missing := fakeSpec(1)
	missing.Image = "missing:1"
	var here atomic.Bool
	d.onCreate = func(w http.ResponseWriter, name string) bool {
		if name != missing.Name || here.Load() {
			return false
		}
		refuse(w, http.StatusNotFound, "No such image: "+missing.Image)
		return true
	}
	d.onPull = func(http.ResponseWriter, string) bool {
		close(pulling)
		<-goOn
		here.Store(true)
		return false
	}
	made := make(chan error, 1)
	go func() {
		_, err := e.Create(t.Context(), missing)
		made <- err
	}()
	check.Receive(t, pulling)
	_, err := e.Create(t.Context(), fakeSpec(2))
	check.NoError(t, err)
	close(goOn)
	check.NoError(t, check.Receive(t, made))
	until(t, "the place is given back", func() bool { return e.Slots.TryAcquire(1) })
}

func TestCreatesAreLimitedAndFair(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, func(o *Options) { o.ParallelCreates = 2 })
	var mu sync.Mutex
	var order []string
	now, most := 0, 0
	step := make(chan struct{})
	d.onCreate = func(_ http.ResponseWriter, name string) bool {
		mu.Lock()
		now++
		most = max(most, now)
		order = append(order, name)
		mu.Unlock()
		<-step
		mu.Lock()
		now--
		mu.Unlock()
		return false
	}
	var wg sync.WaitGroup
	begun := func() int { mu.Lock(); defer mu.Unlock(); return len(order) }
	var want []string
	for i := range 6 {
		want = append(want, fakeSpec(i).Name)
		wg.Go(func() {
			if _, err := e.Create(t.Context(), fakeSpec(i)); err != nil {
				t.Error(err)
			}
		})
		if i < 2 {
			until(t, "a create", func() bool { return begun() == i+1 })
		} else {
			until(t, "a create in the queue", func() bool { return queued() == i-1 })
		}
	}
	for i := range 6 {
		until(t, "its turn", func() bool { return begun() >= min(i+2, 6) })
		step <- struct{}{}
	}
	wg.Wait()
	check.Equal(t, most, 2)
	check.EqualSlices(t, order, want)
}
