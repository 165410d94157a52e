package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// Actions of rows in scheduler mode.
var (
	rerunnable      = annotated("rerunnable", map[string]any{"rerun": true})
	rerunnableOnGPU = func() harness.Action {
		a := gpuFunction("rerunnable", reporter)
		a.Annotations = map[string]any{"rerun": true, "gpu": true, "invoker-resources": []string{"gpu"}}
		return a
	}()
)

func annotated(name string, annotations map[string]any) harness.Action {
	a := alone(name, 256)
	a.Annotations = annotations
	return a
}

func oneInvoker(w *fixture) { check.Equal(w.T, len(w.KeysBelow("invokers/")), 1, "keys of invokers") }

// allSucceeded checks that each activation succeeded and has one record, and that the
// scheduler lost none and ended none itself.
var allSucceeded = []func(*fixture){func(w *fixture) {
	for _, r := range w.Recording.ToTheEnd() {
		if a, err := activation.DecodeAck([]byte(r.Value)); r.FreesSlot() {
			check.NoError(w.T, err)
			check.Equal(w.T, a.SystemError, false, "ack %s", r.Value)
		}
	}
	for _, id := range w.IDs {
		check.Equal(w.T, w.DB.AwaitRecord(w.T, activation.ID(id)).Response.StatusCode, activation.StatusSuccess)
	}
	check.Equal(w.T, len(w.Store.Repeated()), 0, "records that were written twice: %v", w.Store.Repeated())
	seen, _ := w.Scheduler.Seen()
	check.Equal(w.T, len(seen.Failures), 0, "%+v", seen.Failures)
	w.allEnded(2)
}}

func invokeTwoOnGPU(w *fixture) {
	for _, name := range []string{"a", "b"} {
		w.Put(annotated(name, map[string]any{"gpu": true, "invoker-resources": []string{"gpu"}}))
	}
	for range 2 {
		w.Invoke(1, harness.Message{Action: "a"})
		w.Invoke(1, harness.Message{Action: "b"})
	}
}

func allPulled(w *fixture) {
	w.Until("all are pulled", func() string {
		for _, name := range []string{"a", "b"} {
			if q, ok := w.Queue(name); !ok || q.Waiting > 0 {
				return fmt.Sprintf("%s: %+v", name, q)
			}
		}
		return ""
	})
}

// holdFirstHost lets runs on hosts other than the first end by themselves.
func holdFirstHost(w *fixture) {
	w.Gate.Holds = func(path string) bool { return strings.Contains(path, "/wsk00_") }
}

// otherHostAnswers starts another invoker, and waits until it has answered two of the
// activations that the first has not pulled.
func otherHostAnswers(w *fixture) {
	w.other = w.Spawn(1)
	w.Until("two activations are answered", func() string {
		if n := w.Recording.Completions(); n < 2 {
			return fmt.Sprint(n)
		}
		return ""
	})
}

func otherHostEnds(w *fixture) { w.other.Terminate(w.T) }

// leaveIdle leaves a paused container of an action.
func leaveIdle(w *fixture) {
	w.Put(counter("idle"))
	check.Contains(w.T, w.result("idle"), `{"n":1}`)
	w.Until("its container is paused", func() string {
		if keys := w.KeysBelow("warmed/guest/guest/idle/"); len(keys) == 0 {
			return "no key"
		}
		return ""
	})
}

// allContainersRun waits until no container is fetching: an answer to a fetch that is not
// in the journal yet would be lost by a kill.
func allContainersRun(w *fixture) {
	w.Until("all containers run", func() string {
		there, ordered := w.KeysBelow("namespace/guest/guest/busy/"), w.KeysBelow("in-progress/")
		if n := w.Gate.Runs(); n < 6 || n != len(there) || len(ordered) > 0 {
			return fmt.Sprintf("%d runs, containers %v, ordered %v", n, there, ordered)
		}
		return ""
	})
	_, w.lease = w.Health(0)
}

// idleAdopted checks that the next invoker uses the idle container, with keys on its own
// lease.
func idleAdopted(w *fixture) {
	_, lease := w.Health(0)
	check.That(w.T, lease != w.lease, "the lease is that of the process that was killed")
	w.Until("all keys hang on the new lease", func() string {
		for _, below := range []string{"namespace/", "warmed/"} {
			for key, of := range w.KeysBelow(below) {
				if of != lease {
					return key
				}
			}
		}
		return ""
	})
	check.AtLeast(w.T, w.invoker.Admin.Metric(w.T, "gpuwhisk_containers_adopted_total", ""), 1)
	w.AwaitNoKeys("namespace/")
	w.Scheduler.SetLimit("guest", 30) // creations for the dead invoker count for a while
	w.AwaitState("the namespace has places again", "idle", memoryqueue.Running)
	w.AwaitNoKeys("namespace/")
	check.Contains(w.T, w.result("idle"), `{"n":2}`)
	w.AwaitNoKeys("namespace/")
	w.imageMissing()
}

// imageMissing checks that an image that cannot be pulled is the developer's error, and
// is not tried all the time.
func (w *fixture) imageMissing() {
	w.T.Helper()
	w.PutNowhere(harness.Action{Name: "missing", Kind: activation.Blackbox, Image: "localhost:1/missing:1", Timeout: time.Minute})
	for range 2 {
		w.refusal("missing", "Failed to pull container image 'localhost:1/missing:1'.")
		w.Until("the queue is removed", func() string {
			if q, ok := w.Queue("missing"); ok {
				return q.State.String()
			}
			return ""
		})
	}
	check.AtMost(w.T, len(w.Creations("missing")), 20, "creations of an image that cannot be pulled")
}
