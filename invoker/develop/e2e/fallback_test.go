package e2e

import (
	"net/http"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
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
		{true, "cold", true}, // the container that showed it takes no second run
		{false, "gpu-warm", true},
	} {
		a, run := p.gpuRun("refuses", block)
		if a.Cold != want.cold || run.Start != want.start || (run.Fallback != "") != want.counts {
			t.Errorf("run %d: %+v, %+v, want %+v", i, a, run, want)
		}
	}
	if a, run := p.gpuRun("bears", block); a.Cold || run.Fallback != "" {
		t.Errorf("a function that bears it: %+v, %+v", a, run)
	}
	listed := func() (all []struct{ Action, Reason string }) {
		p.admin.Get(t, "/fallbacks", &all)
		return all
	}
	if all := listed(); len(all) != 1 || all[0].Action != "guest/refuses" || all[0].Reason == "" {
		t.Errorf("/fallbacks lists %+v", all)
	}
	if all := p.status().Fallbacks; len(all) != 1 {
		t.Errorf("/status lists %+v", all)
	}
	p.wantMetric("gpuwhisk_shim_fallbacks", 1)
	p.admin.Do(t, http.MethodDelete, "/fallbacks?action=guest/refuses")
	if all := listed(); len(all) != 0 {
		t.Errorf("%+v are left after they were cleared", all)
	}
}
