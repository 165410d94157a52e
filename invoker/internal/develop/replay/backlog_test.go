package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// shortBacklog is how many activations wait in the short form;
// GPUWHISK_BACKLOG sets another number.
const shortBacklog = 2000

// TestBacklogOutlivesAKill: if an invoker is killed while many activations wait for its
// GPU, the next one serves each activation once, with one record. The record of an
// activation that was running reports an interruption.
func TestBacklogOutlivesAKill(t *testing.T) {
	t.Parallel()
	w, n := newFixture(t), harness.Number(t, "GPUWHISK_BACKLOG", shortBacklog)
	w.once = true
	w.extra = append(w.extra,
		"CONFIG_whisk_gpu_simulated_devices=1", "CONFIG_whisk_gpu_shim_library=none", "CONFIG_whisk_timeLimit_max=1 hour",
		"CONFIG_whisk_gpu_backlogSize=1g",
	)
	waits := caller
	waits.Annotations = map[string]any{"provide-api-key": false, "gpu": true}
	waits.Timeout = time.Hour // very many take minutes
	w.load(waits)
	first := w.spawn()
	w.call(n)
	const running = 2 // the default D
	w.gate.await(running)
	limit := peertest.WaitLimit + time.Duration(n)*10*time.Millisecond
	first.Admin.AwaitWithin(t, limit, "all activations wait", func(s harness.Status) bool { return s.Work.Backlog.Activations == n })
	first.Kill()
	w.gate.open()
	second := w.spawn()
	w.awaitSlot(w.ids...)
	second.Admin.AwaitWithin(t, limit, "no activation waits", func(s harness.Status) bool { return s.Work.InFlight == 0 })
	second.Terminate(t)
	interrupted := 0
	for i, id := range w.ids {
		a, err := w.answer(id)
		check.NoError(t, err, "activation %d", i+1)
		switch r := a.Result; {
		case r.N == i+1:
		case strings.HasPrefix(r.Error, "The invoker ended while the action ran."):
			interrupted++
		default:
			t.Errorf("activation %d: record %s", i+1, w.record(id))
		}
	}
	check.Equal(t, interrupted, running)
	w.ranOnce()
	w.recording.ToTheEnd()
	for _, id := range w.ids {
		check.Equal(t, w.recording.Completed(id), 1, "times that activation %s freed its slot", id)
	}
	w.nothingLeft()
}
