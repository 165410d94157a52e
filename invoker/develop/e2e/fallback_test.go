package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"
)

// TestFallsBackToCount runs a function whose driver refuses it managed memory:
// its run is served all the same, the next container only counts, and records,
// /status and the log say so until an operator clears it.
func TestFallsBackToCount(t *testing.T) {
	eachGPUWorld(t, fallsBackToCount)
}

func fallsBackToCount(t *testing.T, w parts) {
	p := startGPUIn(t, w, 200, nil)
	// The fake driver reads this when the function first uses it.
	p.insertGPU("refuses", "import os\nos.environ['FAKE_CUDA_FAIL'] = 'cuMemAllocManaged:0:1'\n", &whisk.Exec{Kind: "python:3"})
	p.deployGPU(true, "bears")
	p.gpuCall("bears", block)
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
		if err := json.Unmarshal(p.adminPage("/fallbacks"), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := listed(); len(all) != 1 || all[0].Action != "guest/refuses" || all[0].Reason == "" {
		t.Errorf("/fallbacks lists %+v", all)
	}
	var status struct{ Fallbacks []struct{ Action string } }
	if err := json.Unmarshal(p.adminPage("/status"), &status); err != nil || len(status.Fallbacks) != 1 {
		t.Errorf("/status lists %+v, %v", status, err)
	}
	if n := p.metric("gpuwhisk_shim_fallbacks", ""); n != 1 {
		t.Errorf("%.0f actions in the metrics", n)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, p.base+"/fallbacks?action=guest/refuses", nil)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := p.login.Password()
	req.SetBasicAuth(p.login.Username(), password)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || len(listed()) != 0 {
		t.Errorf("cleared with %s, and %+v are left", res.Status, listed())
	}
}
