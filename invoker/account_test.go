package invoker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/explain"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// toldOf is the account of an activation in one text.
func toldOf(t *testing.T, iv *Invoker, id activation.ID) string {
	t.Helper()
	a, ok := iv.Explain().Find(string(id))
	if !ok {
		t.Fatalf("no account of %s", id)
	}
	var lines []string
	for _, s := range explain.Tell(&a) {
		lines = append(lines, s.Text)
	}
	return strings.Join(lines, "\n")
}

func holds(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in:\n%s", w, text)
		}
	}
}

// takes lets every run take a time.
func (w *world) takes(d time.Duration) {
	w.run = func(int, []byte) proxy.Exchange {
		began := time.Now()
		time.Sleep(d)
		return proxy.Exchange{Status: 200, Body: []byte(`{}`), ContentLength: 2, Start: began, End: time.Now()}
	}
}

func TestAccountsOfGPURuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"f", "g"} {
			w.action(name, annotate(`{"memory":"10 GB"}`))
		}
		w.takes(200 * time.Millisecond)
		s := w.gpuSettings(1)
		s.Explain = 100
		iv, stop := w.start(s)
		cold := w.invoke("f", nil)
		time.Sleep(time.Second)
		w.invoke("g", nil)
		time.Sleep(time.Second)
		warm := w.invoke("f", nil)
		time.Sleep(time.Millisecond)
		behind := w.invoke("f", nil)
		time.Sleep(5 * time.Second)
		stop()
		holds(t, toldOf(t, iv, cold), "Accepted", "Did not wait", "Started cold on 0 (test, simulated)",
			"Ran 200 ms alone on the device", "held 10 GB", "Answered with success", "Its record, written in a batch of 12, and its acks were safe")
		holds(t, toldOf(t, iv, warm), "Started host-warm")
		// Its container is busy, and there is no memory for a second one.
		holds(t, toldOf(t, iv, behind), "Waited 199 ms, because neither device memory nor a container could be had")
	})
}

// TestAccountOfAThrottledRun: who leads by more than it may waits, and its
// account says behind whom and why.
func TestAccountOfAThrottledRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"greedy", "modest"} {
			w.action(name, annotate(`{"memory":"1 GB"}`))
		}
		w.takes(2 * time.Second)
		s := w.gpuSettings(1)
		s.Explain, s.GPU.Tokens = 100, 1
		s.GPU.Sched.Overrun = time.Second
		iv, stop := w.start(s)
		for range 4 {
			w.invoke("greedy", nil)
		}
		time.Sleep(3 * time.Second)
		for range 3 {
			w.invoke("modest", nil)
		}
		time.Sleep(time.Millisecond)
		last := w.invoke("greedy", nil)
		time.Sleep(time.Minute)
		stop()
		holds(t, toldOf(t, iv, last), "Waited", "calls of its own function", "of guest/guest/modest", "lead over the others was", "1.00 s is allowed")
	})
}

// TestAccountOfARunAlone: who has its answer and its logs read is no company.
func TestAccountOfARunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.logging = func() { time.Sleep(time.Second) }
		for _, name := range []string{"f", "g"} {
			w.action(name, annotate(`{"memory":"1 GB"}`))
		}
		w.takes(200 * time.Millisecond)
		s := w.gpuSettings(1)
		s.Explain, s.GPU.Tokens = 100, 1
		iv, stop := w.start(s)
		w.invoke("f", nil)
		time.Sleep(time.Millisecond)
		second := w.invoke("g", nil)
		time.Sleep(time.Minute)
		stop()
		holds(t, toldOf(t, iv, second), "Waited 199 ms", "Ran 200 ms alone on the device")
	})
}

// TestAccountOfAParkedRun: what held an activation when it came is told although
// its message went to the shelf meanwhile.
func TestAccountOfAParkedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.shelf = newShelf()
		w.action("gpu", annotate("true"))
		s := w.aSecond()
		s.Explain = 100
		iv, stop := w.start(s)
		var last activation.ID
		for range 20 {
			last = w.invoke("gpu", nil)
			synctest.Wait()
		}
		time.Sleep(500 * time.Millisecond)
		if st, err := iv.Status(t.Context()); err != nil || st.Backlog.Parked == 0 {
			t.Fatalf("nothing is parked: %+v, %v", st.Backlog, err)
		}
		time.Sleep(time.Minute)
		stop()
		holds(t, toldOf(t, iv, last), "Accepted", "Waited 19", "behind 18 calls of its own function", "because every device had as many runs as it may", "Ran 1.00 s")
	})
}

func TestAccountsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("plain", nil)
		s := w.settings()
		s.Explain = 2
		iv, stop := w.start(s)
		none := w.invoke("absent", nil)
		time.Sleep(time.Second)
		holds(t, toldOf(t, iv, none), "Did not run: "+textGone)
		cold := w.invoke("plain", nil)
		time.Sleep(time.Second)
		warm := w.invoke("plain", nil)
		time.Sleep(time.Second)
		stop()
		holds(t, toldOf(t, iv, cold), "Started cold: there was no container", "Ran")
		holds(t, toldOf(t, iv, warm), "Started warm")
		if _, ok := iv.Explain().Find(string(none)); ok {
			t.Error("three accounts are kept where two may be")
		}
	})
}
