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

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
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
	check.NoError(t, e.Remove(t.Context(), "id-wsk00_1_guest_hello"))
	d.emit("die", "id-wsk00_1_guest_hello") // asked for
	d.emit("destroy", "id-wsk00_2_guest_hello")
	for _, want := range []container.ID{"id-wsk00_0_guest_hello", "id-wsk00_2_guest_hello"} {
		check.Equal(t, check.Receive(t, e.Died()), want)
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
			k := e.Find(container.ID(id))
			select {
			case <-k.Ended():
				return true
			default:
				return false
			}
		})
		return false
	}
	h := created(t, e, 1)
	check.Equal(t, check.Receive(t, e.Died()), h.ID)
}

// After a restart of the daemon the engine lists the containers that still run, and removes
// those whose removal had failed.
func TestDaemonRestart(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	for i := range 3 {
		created(t, e, i)
	}
	d.down()
	check.That(t, e.Remove(t.Context(), "id-wsk00_2_guest_hello") != nil, "a container was removed by a daemon that is away")
	_, err := e.Create(t.Context(), fakeSpec(3))
	check.ErrorIs(t, err, container.ErrAway, "a daemon that is away made a container, or its error is that of a daemon that refuses")
	check.That(t, e.Ping(t.Context()) != nil, "a daemon that is away answers")
	d.set("id-wsk00_0_guest_hello", "exited")
	check.NoError(t, d.listen(d.addr))
	check.Equal(t, check.Receive(t, e.Died()), "id-wsk00_0_guest_hello")
	until(t, "the removal is made up for", func() bool { return !strings.Contains(d.names(), "wsk00_2_") })
	made(t, e, 4)
	d.emit("die", "id-wsk00_1_guest_hello") // the new stream is read
	check.Equal(t, check.Receive(t, e.Died()), "id-wsk00_1_guest_hello")
}

func TestOOMKilled(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	h := created(t, e, 1)
	check.That(t, !e.OOMKilled(t.Context(), h.ID), "a container that runs on was killed")
	check.That(t, !e.OOMKilled(t.Context(), "id-unknown"), "an unknown container was killed")
}

// The daemon's word that memory ran out settles the question at once.
func TestOOMKilledByEvent(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, func(o *Options) { o.Timeouts.Settle = time.Hour })
	h := created(t, e, 1)
	answer := make(chan bool)
	go func() { answer <- e.OOMKilled(t.Context(), h.ID) }()
	d.emit("oom", string(h.ID))
	check.That(t, check.Receive(t, answer), "the event was not received")
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
	check.That(t, e.OOMKilled(t.Context(), h.ID), "the state was not read")
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
		check.Equal(t, check.Receive(t, answer), memory, "ended for its memory")
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
	check.NoError(t, e.Pause(t.Context(), "slow"))
	check.Equal(t, slow.Load(), 3)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := e.Pause(ctx, "never")
	check.That(check.Must(t), err != nil, "a container that never freezes: %v", err)
	if !strings.Contains(err.Error(), "unable to freeze") && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a container that never freezes: %v", err)
	}
	err = e.Pause(t.Context(), "other")
	check.That(check.Must(t), err != nil, "%v after %d tries", err, other.Load())
	check.Equal(t, other.Load(), 1)
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
	check.NoError(t, e.Remove(t.Context(), h.ID))
	check.Equal(t, tries.Load(), 3)
	check.NoError(t, e.Remove(t.Context(), h.ID))
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
	err := e.CleanUp(t.Context(), "wsk00_")
	check.ErrorContains(t, err, "id-wsk00_1_a")
	free.Store(true)
	check.NoError(t, e.CleanUp(t.Context(), "wsk00_"))
	names := strings.Fields(d.names())
	slices.Sort(names)
	check.EqualSlices(t, names, []string{"wsk001_1_a", "xwsk00_1_a"})
}

func TestNewNeedsADaemon(t *testing.T) {
	options := DefaultOptions()
	options.Host = "unix://" + t.TempDir() + "/none.sock"
	_, err := New(t.Context(), options)
	check.ErrorIs(t, err, container.ErrAway, "an engine without a daemon")
}

func TestClosed(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	h := created(t, e, 1)
	for range 2 {
		check.NoError(t, e.Close())
	}
	_, err := e.Create(t.Context(), fakeSpec(2))
	check.That(t, err != nil, "a closed engine creates")
	check.That(t, e.Logs(t.Context(), h.ID, container.LogRequest{}).Incomplete, "a closed engine reads logs")
	_, open := <-e.Died()
	check.That(t, !open, "the end of the engine is reported as a death")
}
