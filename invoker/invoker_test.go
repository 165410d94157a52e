package invoker

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// once runs one activation in a fresh world to its end.
func once(t *testing.T, prepare func(w *world) activation.ID) (*world, activation.ID) {
	t.Helper()
	var w *world
	var id activation.ID
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t)
		id = prepare(w)
		_, stop := w.start(w.settings())
		synctest.Wait()
		stop()
	})
	return w, id
}

func TestAcksFollowTheTable(t *testing.T) {
	for _, c := range []struct {
		blocking, logs bool
		want           []string
	}{
		{true, true, []string{"result", "completion"}},
		{true, false, []string{"combined"}},
		{false, true, []string{"completion"}},
		{false, false, []string{"completion"}},
	} {
		w, id := once(t, func(w *world) activation.ID {
			w.action("a", func(a *activation.Action) {
				if !c.logs {
					a.Limits.LogsMB = 0
				}
			})
			return w.invoke("a", func(m *activation.Message) { m.Blocking = c.blocking })
		})
		if got := w.kinds(id); !slices.Equal(got, c.want) {
			t.Errorf("blocking %t, logs %t: acks %v, want %v", c.blocking, c.logs, got, c.want)
		}
		if w.record(id) == nil || len(w.done) != 1 || len(w.events) != 1 {
			t.Errorf("blocking %t, logs %t: record %v, done %v, events %d", c.blocking, c.logs, w.record(id), w.done, len(w.events))
		}
	}
}

func TestWhatNeverReachesAContainer(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(w *world) activation.ID
		status  int
		text    string
		kind    string
	}{
		{"missing", func(w *world) activation.ID { return w.invoke("nope", nil) }, 1, textGone, "unknown"},
		{"too large for the namespace", func(w *world) activation.ID {
			w.action("a", func(a *activation.Action) { a.Limits.MemoryMB = 1024 })
			return w.invoke("a", nil)
		}, 1, "requirement failed: memory size 1024 MB exceeds allowed threshold of 512 MB", "unknown"},
		{"gpu without a device", func(w *world) activation.ID {
			w.action("a", annotate("true"))
			return w.invoke("a", nil)
		}, 1, "this invoker has none", "nodejs:20"},
		{"malformed gpu annotation", func(w *world) activation.ID {
			w.action("a", annotate(`{"memroy":"4 GB"}`))
			return w.invoke("a", nil)
		}, 1, "memroy", "nodejs:20"},
	} {
		w, id := once(t, c.prepare)
		rec := w.record(id)
		if rec == nil || rec.Response.StatusCode != c.status || !strings.Contains(string(rec.Response.Result), c.text) {
			t.Errorf("%s: record %+v, want status %d and %q", c.name, rec, c.status, c.text)
			continue
		}
		if kind, _ := rec.Annotations.Text("kind"); kind != c.kind {
			t.Errorf("%s: kind %q, want %q", c.name, kind, c.kind)
		}
		if got := w.kinds(id); !slices.Equal(got, []string{"combined"}) {
			t.Errorf("%s: acks %v, want combined", c.name, got)
		}
	}
}

func TestBlockedNamespaceGetsTheShortestAck(t *testing.T) {
	w, id := once(t, func(w *world) activation.ID {
		w.action("a", nil)
		return w.invoke("a", func(m *activation.Message) { m.User.Namespace.Name = "blocked" })
	})
	if w.record(id) != nil || len(w.events) != 0 || len(w.acks) != 1 || w.acks[0].Record != nil {
		t.Fatalf("record %v, events %d, acks %+v", w.record(id), len(w.events), w.acks)
	}
	if len(w.done) != 1 {
		t.Fatal("the message was not done")
	}
}

func TestFailuresOfContainersAndActions(t *testing.T) {
	whisk := &container.CreateError{Blame: container.BlameWhisk, Message: "Failed to provision resources to run the action."}
	user := &container.CreateError{Blame: container.BlameDeveloper, Message: "Failed to pull container image 'x'."}
	for _, c := range []struct {
		name   string
		change func(w *world)
		status int
		text   string
		acks   []string
	}{
		{"creation fails", func(w *world) { w.create = func(container.Spec) error { return whisk } }, 3, whisk.Message, []string{"combined"}},
		{"image cannot be pulled", func(w *world) { w.create = func(container.Spec) error { return user } }, 2, user.Message, []string{"combined"}},
		{"creation panics", func(w *world) { w.create = func(container.Spec) error { panic("engine bug") } }, 3, textAborted, []string{"combined"}},
		{"init fails", func(w *world) { w.init = func([]byte) proxy.Exchange { return answer(502, `{"error":"bad code"}`) } }, 2, "bad code", []string{"result", "completion"}},
		{"init says 503", func(w *world) { w.init = func([]byte) proxy.Exchange { return answer(503, ``) } }, 2, textNotInitialised, []string{"result", "completion"}},
		{"application error", func(w *world) { w.run = func(int, []byte) proxy.Exchange { return answer(200, `{"error":"no"}`) } }, 1, `"no"`, []string{"result", "completion"}},
		{"run says 503", func(w *world) { w.run = func(int, []byte) proxy.Exchange { return answer(503, ``) } }, 2, proxy.TextAbnormal, []string{"result", "completion"}},
		{"connection breaks", func(w *world) {
			w.run = func(int, []byte) proxy.Exchange { return proxy.Exchange{Failure: proxy.NoResponse} }
		}, 2, proxy.TextAbnormal, []string{"result", "completion"}},
		{"out of memory", func(w *world) {
			w.oom = true
			w.run = func(int, []byte) proxy.Exchange { return proxy.Exchange{Failure: proxy.NoResponse} }
		}, 2, "exhausted its memory", []string{"result", "completion"}},
		{"run panics", func(w *world) { w.run = func(int, []byte) proxy.Exchange { panic("client bug") } }, 3, textAborted, []string{"combined"}},
	} {
		w, id := once(t, func(w *world) activation.ID {
			w.action("a", nil)
			c.change(w)
			return w.invoke("a", nil)
		})
		rec := w.record(id)
		if rec == nil || rec.Response.StatusCode != c.status || !strings.Contains(string(rec.Response.Result), c.text) {
			t.Errorf("%s: record %+v, want status %d and %q", c.name, rec, c.status, c.text)
		}
		if got := w.kinds(id); !slices.Equal(got, c.acks) {
			t.Errorf("%s: acks %v, want %v", c.name, got, c.acks)
		}
		if len(w.done) != 1 {
			t.Errorf("%s: done %v", c.name, w.done)
		}
	}
}

// TestFirstRunAfterRest: a container that turns out to be gone before the
// action could see anything costs nobody anything.
func TestFirstRunAfterRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("a", nil)
		w.run = func(n int, _ []byte) proxy.Exchange {
			if n == 2 {
				return proxy.Exchange{Failure: proxy.Refused}
			}
			return answer(200, `{}`)
		}
		_, stop := w.start(w.settings())
		w.invoke("a", nil)
		synctest.Wait()
		id := w.invoke("a", nil)
		synctest.Wait()
		stop()
		if rec := w.record(id); rec == nil || rec.Response.StatusCode != 0 || w.made != 2 {
			t.Fatalf("record %+v after %d containers, want success in a second one", rec, w.made)
		}
		if len(w.acks) != 4 || len(w.done) != 2 {
			t.Fatalf("%d acks, done %v", len(w.acks), w.done)
		}
	})
}

// TestDeathDuringInit: nobody waits for a proxy whose container has ended,
// even if its death is told before its creation.
func TestDeathDuringInit(t *testing.T) {
	for _, early := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.action("a", nil)
			w.create = func(container.Spec) error {
				if early {
					w.diedC <- "id1"
					time.Sleep(time.Second)
				}
				return nil
			}
			w.hang = true
			began := time.Now()
			_, stop := w.start(w.settings())
			id := w.invoke("a", nil)
			time.Sleep(2 * time.Second)
			if !early {
				w.diedC <- "id1"
			}
			stop()
			rec := w.record(id)
			if rec == nil || rec.Response.StatusCode != 2 || time.Since(began) > 3*time.Second {
				t.Errorf("early %t: record %+v after %s", early, rec, time.Since(began))
			}
		})
	}
}

func TestResumeThatFailsGoesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("a", nil)
		w.resume = func() error { return container.ErrGone }
		_, stop := w.start(w.settings())
		w.invoke("a", nil)
		synctest.Wait()
		time.Sleep(time.Minute) // the container is paused meanwhile
		id := w.invoke("a", nil)
		synctest.Wait()
		stop()
		if rec := w.record(id); rec == nil || rec.Response.StatusCode != 0 || w.made != 2 || w.removed != 1 {
			t.Fatalf("record %+v, %d made, %d removed", rec, w.made, w.removed)
		}
	})
}

func TestNothingIsPulledWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("a", nil)
		block := make(chan struct{})
		w.run = func(int, []byte) proxy.Exchange { <-block; return answer(200, `{}`) }
		s := w.settings()
		s.InFlight = 4
		iv, stop := w.start(s)
		for range 10 {
			w.invoke("a", nil)
		}
		synctest.Wait()
		if got := len(w.feed); got != 6 || iv.InFlight() != 4 {
			t.Errorf("%d messages left on the topic, %d in flight, want 6 and 4", got, iv.InFlight())
		}
		close(block)
		synctest.Wait()
		stop()
		if len(w.done) != 10 {
			t.Errorf("done %d of 10", len(w.done))
		}
	})
}

// TestDrainDeadline: what is not finished in time is not done at the feed, so
// that it comes again, and the process still ends.
func TestDrainDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("a", nil)
		hang := make(chan struct{})
		w.run = func(int, []byte) proxy.Exchange {
			<-hang
			return proxy.Exchange{Failure: proxy.Cancelled}
		}
		_, stop := w.start(w.settings())
		w.invoke("a", nil)
		synctest.Wait()
		go func() {
			time.Sleep(2 * time.Minute)
			close(hang)
		}()
		stop()
		if len(w.done) != 0 || len(w.records) != 0 {
			t.Fatalf("done %v, %d records of an unfinished activation", w.done, len(w.records))
		}
	})
}

// A connection that outlives its container keeps the container's address from
// whoever gets it next.
func TestTalksEndBeforeContainers(t *testing.T) {
	w, _ := once(t, func(w *world) activation.ID {
		w.action("a", nil)
		return w.invoke("a", nil)
	})
	if len(w.cleaned) != 2 || w.cleaned[1] == 0 {
		t.Errorf("talks ended when containers were removed at start and end: %v, want none and some", w.cleaned)
	}
}

func TestStoreOff(t *testing.T) {
	off := false
	w, id := once(t, func(w *world) activation.ID {
		w.action("a", nil)
		return w.invoke("a", func(m *activation.Message) { m.User.Limits.StoreActivations = &off })
	})
	if w.record(id) != nil || len(w.done) != 1 {
		t.Fatalf("record %v, done %v", w.record(id), w.done)
	}
}

func TestStoreLevels(t *testing.T) {
	m := &activation.Message{Blocking: true}
	for _, c := range []struct {
		level StoreLevel
		want  [4]bool
	}{
		{StoreAlways, [4]bool{true, true, true, true}},
		{StoreFailures, [4]bool{false, true, true, true}},
		{StoreFailuresNotApplication, [4]bool{false, false, true, true}},
	} {
		for status, want := range c.want {
			p := StorePolicy{Blocking: c.level}
			if got := p.keeps(m, activation.Response{StatusCode: status}); got != want {
				t.Errorf("level %d, status %d: kept %t", c.level, status, got)
			}
		}
	}
	m.TransID = activation.NewTransID("t", 1, true)
	if !(StorePolicy{Blocking: StoreFailures}).keeps(m, activation.Response{}) {
		t.Error("extra logging did not keep the record")
	}
}
