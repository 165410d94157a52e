package invoker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// TestNobodyWaitsForTheBooks: what a container holds is asked when its run is
// over and before it is given to the next run. Neither the caller nor the
// controller waits for that, only the record does.
func TestNobodyWaitsForTheBooks(t *testing.T) {
	for logs, answers := range map[int]string{0: "combined", 10: "result completion"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.action("f", func(a *activation.Action) {
				annotate("true")(a)
				a.Limits.LogsMB = logs
			})
			w.lasting(time.Second)
			w.gpu.hold = func(name string, _ gpu.Need) {
				time.Sleep(time.Second)
				w.gpu.note("held")
				w.gpu.holds(name, 3<<30, 3<<30, 0)
			}
			s := w.gpuSettings(1)
			s.GPU.Tokens = 1
			_, stop := w.start(s)
			first := w.invoke("f", nil)
			time.Sleep(time.Millisecond)
			w.invoke("f", nil)
			time.Sleep(time.Minute)
			stop()
			once := "begin run " + answers + " held"
			if got := strings.ReplaceAll(strings.Join(w.gpu.tale, " "), " end", ""); got != once+" "+once {
				t.Errorf("logs of %d MB: %s\nwant twice %s", logs, got, once)
			}
			if n := gpuNote(t, w.record(first)); n.Memory != 3<<30 {
				t.Errorf("the record tells %d bytes, not what was said at the end", n.Memory)
			}
		})
	}
}

// slowLogs has every run take a second, and the reading of its logs ten.
func (w *world) slowLogs() {
	w.run = func(int, []byte) proxy.Exchange {
		w.gpu.note("run")
		time.Sleep(time.Second)
		return answer(200, `{}`)
	}
	w.logging = func() {
		time.Sleep(10 * time.Second)
		w.gpu.note("logs")
	}
}

// TestTokenIsFreeWhileLogsAreRead: whose logs are being read needs no device,
// but its container; another function may have the token meanwhile.
func TestTokenIsFreeWhileLogsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"f", "g"} {
			w.action(name, annotate(`{"memory":"10 GB"}`))
		}
		w.slowLogs()
		s := w.gpuSettings(1)
		s.GPU.Tokens = 1
		_, stop := w.start(s)
		w.invoke("f", nil)
		time.Sleep(time.Minute)
		w.invoke("f", nil)
		time.Sleep(time.Millisecond)
		g := w.invoke("g", nil) // whose memory takes the place of f's
		time.Sleep(3 * time.Second)
		if got := w.kinds(g); len(got) != 1 || got[0] != "result" {
			t.Errorf("the other function is answered %v while logs are read", got)
		}
		if n := len(w.gpu.orders()); n != 1 {
			t.Errorf("%d moves, want the one off the device", n)
		}
		time.Sleep(time.Minute)
		stop()
		if got := w.kinds(g); len(got) != 2 || len(w.created) != 2 {
			t.Errorf("answers %v, %d containers", got, len(w.created))
		}
	})
}

// TestContainerIsNotSharedWithLogs: the next run of a function does without a
// new container: it has the one whose logs are being read, when they are.
func TestContainerIsNotSharedWithLogs(t *testing.T) {
	for _, policy := range []string{"mqfq-sticky", "sticky-plus", "fcfs"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.action("f", annotate(`{"memory":"1 GB"}`))
			w.slowLogs()
			s := w.gpuSettings(1)
			s.GPU.Policy, s.GPU.Tokens = policy, 1
			_, stop := w.start(s)
			var ids []activation.ID
			for range 3 {
				ids = append(ids, w.invoke("f", nil))
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Minute)
			stop()
			tale := strings.Join(w.gpu.tale, " ")
			for _, word := range []string{"begin ", "end ", "result ", "completion "} {
				tale = strings.ReplaceAll(tale+" ", word, "")
			}
			if tale = strings.TrimSpace(tale); tale != "run logs run logs run logs" || len(w.created) != 1 {
				t.Errorf("%s: %s, in %d containers", policy, tale, len(w.created))
			}
			for i, id := range ids {
				if n := gpuNote(t, w.record(id)); (n.Start == "gpu-warm") != (i > 0) {
					t.Errorf("%s: run %d was %s", policy, i, n.Start)
				}
			}
		})
	}
}

// TestCallerComesBackAtOnce: who has the answer may call again before the books
// are done; that is no reason for another container.
func TestCallerComesBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("f", annotate("true"))
		w.gpu.hold = func(name string, need gpu.Need) {
			time.Sleep(time.Second)
			w.gpu.holds(name, need.Bytes, need.Bytes, need.Context)
		}
		_, stop := w.start(w.gpuSettings(1)) // of two tokens
		for range 3 {
			id := w.invoke("f", nil)
			for len(w.kinds(id)) < 2 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Minute)
		stop()
		if len(w.created) != 1 {
			t.Errorf("%d containers", len(w.created))
		}
	})
}

// TestContainerDiesWhileItsLogsAreRead: who waited for its place runs elsewhere.
func TestContainerDiesWhileItsLogsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("f", annotate(`{"memory":"1 GB"}`))
		w.slowLogs()
		s := w.gpuSettings(1)
		s.GPU.Tokens = 1
		iv, stop := w.start(s)
		w.invoke("f", nil)
		time.Sleep(time.Millisecond)
		next := w.invoke("f", nil)
		time.Sleep(3 * time.Second) // the logs of the first are being read
		status, err := iv.Status(t.Context())
		if err != nil || status.Devices[0].InFlight != 1 || status.Containers[0].Active != 2 {
			t.Errorf("%+v %+v, %v", status.Devices, status.Containers, err)
		}
		w.setRun(func(n int, _ []byte) proxy.Exchange {
			if n > 1 { // of the container that ended
				return proxy.Exchange{Failure: proxy.Refused}
			}
			return answer(200, `{}`)
		})
		w.diedC <- "id1"
		time.Sleep(time.Minute)
		stop()
		if rec := w.record(next); rec == nil || rec.Response.StatusCode != 0 || len(w.created) != 2 {
			t.Errorf("%+v, in %d containers", rec, len(w.created))
		}
	})
}
