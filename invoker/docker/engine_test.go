package docker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

const provisionText = "Failed to provision resources to run the action."

func TestCreate(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	h, err := e.Create(t.Context(), fakeSpec(1))
	if err != nil {
		t.Fatal(err)
	}
	want := container.Handle{ID: "id-wsk00_1_guest_hello", Name: "wsk00_1_guest_hello", Addr: "172.17.0.2:8080"}
	if h != want {
		t.Errorf("got %+v, want %+v", h, want)
	}
	if n := d.count("POST /v1.41/containers") + d.count("GET /v1.41/containers/id-"); n != 3 {
		t.Errorf("a create took %d requests, want 3", n)
	}
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
			if !errors.As(err, &failed) || failed.Blame != c.blame || failed.Message != c.message || failed.Err == nil {
				t.Fatalf("got %v, want blame %d, %q", err, c.blame, c.message)
			}
			until(t, "nothing is left", func() bool { return d.names() == "" })
			if all := e.all(); len(all) > 0 {
				t.Errorf("%d containers are remembered", len(all))
			}
		})
	}
}

func pullError(w http.ResponseWriter, _ string) bool {
	_, _ = io.WriteString(w, `{"status":"pulling"}`+"\n"+`{"error":"denied","errorDetail":{"message":"denied"}}`+"\n")
	return true
}

// A tagged user image whose pull fails is tried all the same, and a missing
// image of ours is pulled as `docker run` does.
func TestPullTolerated(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	d.onPull = pullError
	spec := fakeSpec(1)
	spec.Image, spec.Pull = "a/b:1", true
	if _, err := e.Create(t.Context(), spec); err != nil {
		t.Error(err)
	}
}

func TestMissingImageIsPulled(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	var pulled atomic.Bool
	d.onPull = func(http.ResponseWriter, string) bool { pulled.Store(true); return false }
	d.onCreate = func(w http.ResponseWriter, _ string) bool {
		if !pulled.Load() {
			refuse(w, 404, "No such image: a/b:1")
			return true
		}
		return false
	}
	if _, err := e.Create(t.Context(), fakeSpec(1)); err != nil {
		t.Error(err)
	}
}

func TestPullsAreShared(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	var pulls atomic.Int32
	go_ := make(chan struct{})
	d.onPull = func(http.ResponseWriter, string) bool { pulls.Add(1); <-go_; return false }
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i := range 5 {
		wg.Go(func() {
			spec, c := fakeSpec(i), t.Context()
			spec.Image, spec.Pull = "a/b", true
			if i == 0 {
				c = ctx // gives up: the others go on
			}
			if _, err := e.Create(c, spec); err != nil {
				failed.Add(1)
			}
		})
	}
	until(t, "a pull", func() bool { return pulls.Load() > 0 })
	leave()
	until(t, "the first gives up", func() bool { return failed.Load() == 1 })
	close(go_)
	wg.Wait()
	if pulls.Load() != 1 || failed.Load() != 1 {
		t.Errorf("%d pulls, %d failed, want 1 and 1", pulls.Load(), failed.Load())
	}
}

func TestMovesOn(t *testing.T) {
	for image, want := range map[string]bool{
		"a": true, "a/b": true, "a/b:latest": true, "a/b:1": false, "host:5000/a/b": true,
		"host:5000/a/b:1": false, "a@sha256:00": false, "host:5000/a:latest": true,
	} {
		if got := movesOn(image); got != want {
			t.Errorf("%s: got %v", image, got)
		}
	}
}

// A create that runs into its time limit answers in time; what the daemon has
// made by then or makes later is removed.
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
			if !errors.As(err, &failed) || failed.Blame != container.BlameWhisk || !errors.Is(err, errTimeout) {
				t.Fatalf("got %v", err)
			}
			close(slow)
			until(t, "the late container is gone", func() bool {
				return d.count("DELETE") > 0 && d.names() == ""
			})
		})
	}
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
			// The semaphore gives no sign of who waits; a moment later it does.
			<-time.After(5 * time.Millisecond)
		}
	}
	for i := range 6 {
		until(t, "its turn", func() bool { return begun() >= min(i+2, 6) })
		step <- struct{}{}
	}
	wg.Wait()
	if most != 2 || !slices.Equal(order, want) {
		t.Errorf("at most %d at once in order %v", most, order)
	}
}

func TestDeaths(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	for i := range 3 {
		if _, err := e.Create(t.Context(), fakeSpec(i)); err != nil {
			t.Fatal(err)
		}
	}
	d.tell("die", "id-a-stranger")
	d.tell("die", "id-wsk00_0_guest_hello")
	d.tell("destroy", "id-wsk00_0_guest_hello") // the same death
	if err := e.Remove(t.Context(), "id-wsk00_1_guest_hello"); err != nil {
		t.Error(err)
	}
	d.tell("die", "id-wsk00_1_guest_hello") // asked for
	d.tell("destroy", "id-wsk00_2_guest_hello")
	for _, want := range []container.ID{"id-wsk00_0_guest_hello", "id-wsk00_2_guest_hello"} {
		if got := <-e.Died(); got != want {
			t.Errorf("died %s, want %s", got, want)
		}
	}
}

// A container that dies while it is created is told dead after Create has
// returned it.
func TestDeathDuringCreate(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	d.onStart = func(_ http.ResponseWriter, id string) bool {
		d.tell("die", id)
		until(t, "the death is noticed", func() bool {
			k := e.find(container.ID(id))
			select {
			case <-k.ended:
				return true
			default:
				return false
			}
		})
		return false
	}
	h, err := e.Create(t.Context(), fakeSpec(1))
	if err != nil {
		t.Fatal(err)
	}
	if id := <-e.Died(); id != h.ID {
		t.Errorf("died %s, want %s", id, h.ID)
	}
}

// After a restart the daemon is asked what still runs, and what could not be
// removed while it was away is removed.
func TestDaemonRestart(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	for i := range 3 {
		if _, err := e.Create(t.Context(), fakeSpec(i)); err != nil {
			t.Fatal(err)
		}
	}
	d.down()
	if err := e.Remove(t.Context(), "id-wsk00_2_guest_hello"); err == nil {
		t.Error("a container was removed by a daemon that is away")
	}
	if _, err := e.Create(t.Context(), fakeSpec(3)); err == nil {
		t.Error("a container was created by a daemon that is away")
	}
	if err := e.Ping(t.Context()); err == nil {
		t.Error("a daemon that is away answers")
	}
	d.set("id-wsk00_0_guest_hello", "exited")
	d.listen(t, d.addr)
	if id := <-e.Died(); id != "id-wsk00_0_guest_hello" {
		t.Errorf("died %s", id)
	}
	until(t, "the removal is made up for", func() bool { return !strings.Contains(d.names(), "wsk00_2_") })
	if _, err := e.Create(t.Context(), fakeSpec(4)); err != nil {
		t.Error(err)
	}
	d.tell("die", "id-wsk00_1_guest_hello") // the new stream is heard
	if id := <-e.Died(); id != "id-wsk00_1_guest_hello" {
		t.Errorf("died %s", id)
	}
}

func TestOOMKilled(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	h, err := e.Create(t.Context(), fakeSpec(1))
	if err != nil {
		t.Fatal(err)
	}
	if e.OOMKilled(t.Context(), h.ID) {
		t.Error("a container that runs on was killed")
	}
	answer := make(chan bool)
	go func() { answer <- e.OOMKilled(t.Context(), h.ID) }()
	d.tell("oom", string(h.ID))
	if !<-answer {
		t.Error("the event was not heard")
	}
	if e.OOMKilled(t.Context(), "id-unknown") {
		t.Error("an unknown container was killed")
	}
}

// The end of the container settles the question at once.
func TestOOMKilledByState(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, func(o *Options) { o.Timeouts.Settle = time.Hour })
	h, err := e.Create(t.Context(), fakeSpec(1))
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.containers[string(h.ID)].oom = true
	d.mu.Unlock()
	d.tell("die", string(h.ID))
	if !e.OOMKilled(t.Context(), h.ID) {
		t.Error("the state was not read")
	}
}

func TestRemove(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	h, err := e.Create(t.Context(), fakeSpec(1))
	if err != nil {
		t.Fatal(err)
	}
	var tries atomic.Int32
	d.onRemove = func(w http.ResponseWriter, id string) bool {
		if tries.Add(1) < 3 {
			refuse(w, http.StatusConflict, "removal of container "+id+" is already in progress")
			return true
		}
		return false
	}
	if err := e.Remove(t.Context(), h.ID); err != nil || tries.Load() != 3 {
		t.Errorf("%v after %d tries", err, tries.Load())
	}
	if err := e.Remove(t.Context(), h.ID); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestCleanUp(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	d.mu.Lock()
	for _, name := range []string{"wsk00_1_a", "wsk00_2_b", "wsk001_1_a", "xwsk00_1_a"} {
		d.containers["id-"+name] = &fakeContainer{name: name, state: "exited"}
	}
	d.mu.Unlock()
	d.onRemove = func(w http.ResponseWriter, id string) bool {
		if id == "id-wsk00_1_a" {
			refuse(w, 500, "device or resource busy")
			return true
		}
		return false
	}
	if err := e.CleanUp(t.Context(), "wsk00_"); err == nil || !strings.Contains(err.Error(), "id-wsk00_1_a") {
		t.Errorf("got %v", err)
	}
	d.onRemove = nil
	if err := e.CleanUp(t.Context(), "wsk00_"); err != nil {
		t.Error(err)
	}
	names := strings.Fields(d.names())
	slices.Sort(names)
	if !slices.Equal(names, []string{"wsk001_1_a", "xwsk00_1_a"}) {
		t.Errorf("left: %v", names)
	}
}

func TestNewNeedsADaemon(t *testing.T) {
	options := DefaultOptions()
	options.Host = "unix://" + t.TempDir() + "/none.sock"
	if _, err := New(t.Context(), options); err == nil {
		t.Error("an engine without a daemon")
	}
}

func TestClosed(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	h, err := e.Create(t.Context(), fakeSpec(1))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.Create(t.Context(), fakeSpec(2)); err == nil {
		t.Error("a closed engine creates")
	}
	if got := e.Logs(t.Context(), h.ID, container.LogRequest{}); !got.Incomplete {
		t.Error("a closed engine reads logs")
	}
	if _, open := <-e.Died(); open {
		t.Error("the end of the engine is told as a death")
	}
}
