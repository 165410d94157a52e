package e2e

import (
	"net/http"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestFallsBackToCount runs a function whose driver refuses it managed memory:
// its run is served all the same, the next container only counts, and records,
// /status and the metrics show it until an operator clears it.
func TestFallsBackToCount(t *testing.T) {
	withEachEngine(t, fallsBackToCount)
}

func fallsBackToCount(t *testing.T, w parts) {
	p := startGPUIn(t, w, 200, setup{})
	p.insertGPU("refuses", true, python(refusesManaged+harness.GPUFunction(t)))
	p.deployGPU(true, "bears")
	p.gpuCall("bears", 1, "cold")
	for i, want := range []struct {
		cold   bool
		start  string
		counts bool
	}{
		{true, "cold", false},
		{true, "cold", true}, // the container that failed gets no second run
		{false, "gpu-warm", true},
	} {
		a, run := p.gpuRun("refuses", block)
		check.Equal(t, a.Cold, want.cold, "run %d: %+v, %+v", i, a, run)
		check.Equal(t, run.Start, want.start, "run %d: %+v, %+v", i, a, run)
		check.Equal(t, run.Fallback != "", want.counts, "run %d: %+v, %+v", i, a, run)
	}
	a, run := p.gpuRun("bears", block)
	check.That(t, !a.Cold, "a function that bears it: %+v, %+v", a, run)
	check.Equal(t, run.Fallback, "", "a function that bears it")
	all := p.fallbacks()
	check.Equal(check.Must(t), len(all), 1, "/fallbacks lists %+v", all)
	check.Equal(t, all[0].Action, "guest/refuses")
	check.That(t, all[0].Reason != "", "%+v", all)
	check.Equal(t, len(p.status().Fallbacks), 1)
	p.wantMetric("gpuwhisk_shim_fallbacks", 1)
	p.admin.Do(t, http.MethodDelete, "/fallbacks?action=guest/refuses")
	all = p.fallbacks()
	check.Equal(t, len(all), 0, "%+v are left after they were cleared", all)
}

// fallbacks returns the actions that are only counted, as an operator sees them, with
// the reasons.
func (p *platform) fallbacks() (all []struct{ Action, Reason string }) {
	p.t.Helper()
	p.admin.Get(p.t, "/fallbacks", &all)
	return all
}
