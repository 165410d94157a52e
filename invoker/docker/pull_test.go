package docker

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
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
