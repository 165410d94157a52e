package docker

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

// hang answers nothing until the other side goes.
func hang(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

// A daemon that takes the request for its events and never answers it is asked
// again.
func TestEventsThatNeverBegin(t *testing.T) {
	d := startDaemon(t)
	var asked atomic.Int32
	d.onEvents = func(w http.ResponseWriter, r *http.Request) bool {
		return asked.Add(1) == 1 && hang(w, r)
	}
	e := d.engine(t, func(o *Options) { o.Timeouts.Answer = 200 * time.Millisecond })
	h := created(t, e, 1)
	until(t, "the engine receives events", func() bool { return !e.Blind() })
	d.emit("die", string(h.ID))
	check.Equal(t, check.Receive(t, e.Died()), h.ID)
}

// A stream that breaks off as soon as it has begun is asked for ever more seldom.
func TestEventsThatBreakOff(t *testing.T) {
	d := startDaemon(t)
	var asked atomic.Int32
	d.onEvents = func(w http.ResponseWriter, r *http.Request) bool {
		n := asked.Add(1)
		if n > 6 {
			return false
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for d.count("GET /v1.40/containers/json") < int(n) && r.Context().Err() == nil { // it has begun
			<-time.After(time.Millisecond)
		}
		return true
	}
	began := time.Now()
	d.engine(t, nil) // returns when it listens
	check.AtLeast(t, time.Since(began), roster.FirstRetry*(1+2+4+8+16+32)/2, "asked %d times", asked.Load())
}

// A daemon that accepts requests and never answers counts as away after any request. A
// daemon that answers a ping counts as slow.
func TestDaemonThatHangsIsAway(t *testing.T) {
	for what, spec := range map[string]container.Spec{"create": fakeSpec(1), "pull": {Name: "wsk00_1_guest_hello", Image: "hello", Pull: true, MemoryMB: 256}} {
		for _, answers := range []bool{true, false} {
			t.Run(fmt.Sprint(what, ", answers a ping: ", answers), func(t *testing.T) {
				d := startDaemon(t)
				e := d.engine(t, func(o *Options) {
					o.Timeouts.Create, o.Timeouts.Pull = 50*time.Millisecond, 50*time.Millisecond
					if !answers {
						o.Timeouts.Answer = 50 * time.Millisecond
					}
				})
				hung := make(chan struct{})
				d.onCreate = func(http.ResponseWriter, string) bool { <-hung; return false }
				d.onPull = func(http.ResponseWriter, string) bool { <-hung; return false }
				if !answers {
					d.onPing = func(*http.Request) { <-hung }
				}
				_, err := e.Create(t.Context(), spec)
				check.That(t, errors.Is(err, container.ErrAway) != answers, "got %v", err)
				close(hung)
				until(t, "nothing is left", func() bool { return d.names() == "" })
			})
		}
	}
}

// While no deaths are reported, a container starts only when those that ended are
// known: it may get the address of one of them.
func TestDeathsAreKnownBeforeAddressesAreGivenAnew(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	old := created(t, e, 0)
	d.down()
	d.set(string(old.ID), "exited")
	d.onEvents = hang
	known := make(chan bool, 1)
	d.onStart = func(http.ResponseWriter, string) bool {
		select {
		case <-e.Find(old.ID).Ended():
			known <- true
		default:
			known <- false
		}
		return false
	}
	until(t, "the engine is blind", e.Blind)
	check.NoError(t, d.listen(d.addr))
	made(t, e, 1)
	check.That(t, check.Receive(t, known), "a container was started while an ended container was taken for alive")
	check.Equal(t, check.Receive(t, e.Died()), old.ID)
}

// A container that the daemon may have made without a proper answer is removed. After a
// refusal there is no container.
func TestCreateWithoutAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		made   bool
	}{
		"cut off": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"Id":"id-`))
		}, true},
		"a fault":  {func(w http.ResponseWriter) { refuse(w, http.StatusInternalServerError, "context canceled") }, true},
		"conflict": {func(w http.ResponseWriter) { refuse(w, http.StatusConflict, "name is in use") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t)
			e := d.engine(t, nil)
			d.onCreate = func(w http.ResponseWriter, name string) bool {
				d.mu.Lock()
				d.containers["id-"+name] = &fakeContainer{name: name, state: "created"}
				d.mu.Unlock()
				c.answer(w)
				return true
			}
			_, err := e.Create(t.Context(), fakeSpec(1))
			check.That(check.Must(t), err != nil, "no error")
			if c.made {
				until(t, "it is gone", func() bool { return d.names() == "" })
				return
			}
			if err := e.Close(); err != nil { // waits for whatever removes
				t.Error(err)
			}
			check.AtMost(t, d.count("DELETE"), 0, "another's container was removed")
		})
	}
}

// A container that cannot be removed for a while holds up neither the events nor
// the removal of others, and is removed in the end.
func TestRemovalIsTriedAgain(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	for i := range 3 {
		created(t, e, i)
	}
	var free, back atomic.Bool
	d.onRemove = func(w http.ResponseWriter, id string) bool {
		if id == "id-wsk00_0_guest_hello" && free.Load() || id == "id-wsk00_1_guest_hello" && back.Load() {
			return false
		}
		refuse(w, 500, "driver failed to remove root filesystem: device or resource busy")
		return true
	}
	for _, id := range []container.ID{"id-wsk00_0_guest_hello", "id-wsk00_1_guest_hello"} {
		check.That(t, e.Remove(t.Context(), id) != nil, "removed")
	}
	free.Store(true) // the daemon never went away
	until(t, "the first is gone", func() bool { return !strings.Contains(d.names(), "wsk00_0_") })

	d.down()
	until(t, "the engine is blind", e.Blind)
	check.NoError(t, d.listen(d.addr))
	until(t, "the engine receives events again although one cannot be removed", func() bool { return !e.Blind() })
	d.emit("die", "id-wsk00_2_guest_hello")
	check.Equal(t, check.Receive(t, e.Died()), "id-wsk00_2_guest_hello")
	back.Store(true)
	until(t, "the second is gone", func() bool { return !strings.Contains(d.names(), "wsk00_1_") })
}

// A daemon that hangs holds up the reading of logs for a bounded time.
func TestLogsOfAHungDaemon(t *testing.T) {
	for name, begin := range map[string]bool{"sends nothing": false, "begins to answer": true} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t)
			e := d.engine(t, func(o *Options) { o.LogWaits.Idle = 10 * time.Millisecond })
			h := created(t, e, 1)
			d.onLogs = func(w http.ResponseWriter, r *http.Request) {
				if begin {
					w.WriteHeader(http.StatusOK)
					w.(http.Flusher).Flush()
				}
				hang(w, r)
			}
			for _, sentinels := range []bool{true, false} {
				got := e.Logs(t.Context(), h.ID, container.LogRequest{WaitForSentinel: sentinels, LimitBytes: 1 << 20, Alone: true})
				check.That(t, got.Incomplete, "sentinels %t: %+v", sentinels, got)
			}
		})
	}
}
