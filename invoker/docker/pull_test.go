package docker

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/steps"
)

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

// A pull is told of, in the transaction that it is for.
func TestPullIsToldOf(t *testing.T) {
	d := startDaemon(t)
	told := &heard{}
	e := d.engine(t, func(o *Options) { o.Steps = told })
	spec := fakeSpec(1)
	spec.Image, spec.Pull = "a/b:1", true
	ctx := steps.With(t.Context(), activation.NewTransID("theirs", 1, false))
	if _, err := e.Create(ctx, spec); err != nil {
		t.Fatal(err)
	}
	d.onPull = pullError
	spec = fakeSpec(2)
	spec.Image, spec.Pull = "a/c:1", true
	if _, err := e.Create(ctx, spec); err != nil {
		t.Fatal(err)
	}
	want := "theirs invoker_docker.pull running docker pull a/b:1, ended true, theirs invoker_docker.pull running docker pull a/c:1, ended false"
	if got := strings.Join(*told, ", "); got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
}

// heard is what was told of pulls, of one at a time.
type heard []string

func (h *heard) Begins(t activation.TransID, s steps.Step) func(string, error) {
	*h = append(*h, t.ID()+" "+s.Token+" "+s.Text)
	return func(_ string, err error) { *h = append(*h, fmt.Sprintf("ended %t", err == nil)) }
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
