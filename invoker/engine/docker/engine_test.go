package docker

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

func TestDeaths(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	for i := range 3 {
		created(t, e, i)
	}
	d.emit("die", "id-a-stranger")
	d.emit("die", "id-wsk00_0_guest_hello")
	d.emit("destroy", "id-wsk00_0_guest_hello") // the same death
	if err := e.Remove(t.Context(), "id-wsk00_1_guest_hello"); err != nil {
		t.Error(err)
	}
	d.emit("die", "id-wsk00_1_guest_hello") // asked for
	d.emit("destroy", "id-wsk00_2_guest_hello")
	for _, want := range []container.ID{"id-wsk00_0_guest_hello", "id-wsk00_2_guest_hello"} {
		if got := <-e.Died(); got != want {
			t.Errorf("died %s, want %s", got, want)
		}
	}
}

// A container that dies while it is created is reported dead after Create has
// returned it.
func TestDeathDuringCreate(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	d.onStart = func(_ http.ResponseWriter, id string) bool {
		d.emit("die", id)
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
	h := created(t, e, 1)
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
		created(t, e, i)
	}
	d.down()
	if err := e.Remove(t.Context(), "id-wsk00_2_guest_hello"); err == nil {
		t.Error("a container was removed by a daemon that is away")
	}
	if _, err := e.Create(t.Context(), fakeSpec(3)); !errors.Is(err, container.ErrAway) {
		t.Errorf("a daemon that is away made a container, or its error is that of one that refuses: %v", err)
	}
	if err := e.Ping(t.Context()); err == nil {
		t.Error("a daemon that is away answers")
	}
	d.set("id-wsk00_0_guest_hello", "exited")
	if err := d.listen(d.addr); err != nil {
		t.Fatal(err)
	}
	if id := <-e.Died(); id != "id-wsk00_0_guest_hello" {
		t.Errorf("died %s", id)
	}
	until(t, "the removal is made up for", func() bool { return !strings.Contains(d.names(), "wsk00_2_") })
	made(t, e, 4)
	d.emit("die", "id-wsk00_1_guest_hello") // the new stream is read
	if id := <-e.Died(); id != "id-wsk00_1_guest_hello" {
		t.Errorf("died %s", id)
	}
}

func TestOOMKilled(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	h := created(t, e, 1)
	if e.OOMKilled(t.Context(), h.ID) {
		t.Error("a container that runs on was killed")
	}
	if e.OOMKilled(t.Context(), "id-unknown") {
		t.Error("an unknown container was killed")
	}
}

// The daemon's word that memory ran out settles the question at once.
func TestOOMKilledByEvent(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, func(o *Options) { o.Timeouts.Settle = time.Hour })
	h := created(t, e, 1)
	answer := make(chan bool)
	go func() { answer <- e.OOMKilled(t.Context(), h.ID) }()
	d.emit("oom", string(h.ID))
	if !<-answer {
		t.Error("the event was not received")
	}
}

// The end of the container settles the question at once.
func TestOOMKilledByState(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, func(o *Options) { o.Timeouts.Settle = time.Hour })
	h := created(t, e, 1)
	d.mu.Lock()
	d.containers[string(h.ID)].oom = true
	d.mu.Unlock()
	d.emit("die", string(h.ID))
	if !e.OOMKilled(t.Context(), h.ID) {
		t.Error("the state was not read")
	}
}

// The daemon may learn why the container ended after it has reported that it did.
func TestOOMKilledThatIsReportedLate(t *testing.T) {
	for _, memory := range []bool{true, false} {
		d := startDaemon(t)
		e := d.engine(t, func(o *Options) { o.Timeouts.Settle = time.Hour })
		h := created(t, e, 1)
		d.mu.Lock()
		c := d.containers[string(h.ID)]
		c.state, c.code = "exited", 137
		d.mu.Unlock()
		inspections := d.count("GET /v1.40/containers/id-")
		answer := make(chan bool)
		go func() { answer <- e.OOMKilled(t.Context(), h.ID) }()
		d.emit("die", string(h.ID))
		until(t, "the state is read", func() bool { return d.count("GET /v1.40/containers/id-") > inspections })
		if memory {
			d.mu.Lock()
			c.oom = true // read again when nothing is reported in time
			d.mu.Unlock()
			d.emit("oom", string(h.ID))
		}
		if got := <-answer; got != memory {
			t.Errorf("ended for its memory: %t, want %t", got, memory)
		}
	}
}

// A container whose processes did not freeze in time is tried again, for as
// long as a pause may take; another refusal is an error at once.
func TestPauseIsTriedAgain(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, func(o *Options) { o.Timeouts.Pause = time.Minute })
	const refusal = "Cannot pause container x: OCI runtime pause failed: unable to freeze: unknown"
	var slow, other atomic.Int32
	d.onPause = func(w http.ResponseWriter, id string) bool {
		switch {
		case id == "other":
			other.Add(1)
			refuse(w, http.StatusInternalServerError, "something else")
		case id == "slow" && slow.Add(1) > 2:
			return false
		default:
			refuse(w, http.StatusInternalServerError, refusal)
		}
		return true
	}
	if err := e.Pause(t.Context(), "slow"); err != nil || slow.Load() != 3 {
		t.Errorf("%v after %d tries", err, slow.Load())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := e.Pause(ctx, "never"); err == nil || !strings.Contains(err.Error(), "unable to freeze") && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a container that never freezes: %v", err)
	}
	if err := e.Pause(t.Context(), "other"); err == nil || other.Load() != 1 {
		t.Errorf("%v after %d tries", err, other.Load())
	}
}

func TestRemove(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	h := created(t, e, 1)
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
	var free atomic.Bool
	d.onRemove = func(w http.ResponseWriter, id string) bool {
		if id == "id-wsk00_1_a" && !free.Load() {
			refuse(w, 500, "device or resource busy")
			return true
		}
		return false
	}
	if err := e.CleanUp(t.Context(), "wsk00_"); err == nil || !strings.Contains(err.Error(), "id-wsk00_1_a") {
		t.Errorf("got %v", err)
	}
	free.Store(true)
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
	if _, err := New(t.Context(), options); !errors.Is(err, container.ErrAway) {
		t.Errorf("an engine without a daemon: %v", err)
	}
}

func TestClosed(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	h := created(t, e, 1)
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
		t.Error("the end of the engine is reported as a death")
	}
}
