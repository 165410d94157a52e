package load_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/load"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
)

// openWhisk is a whole one on this machine with a simulated GPU; it gives its
// addresses.
func openWhisk(t *testing.T) standalone.Info {
	t.Helper()
	peertest.Tool(t, "python3")
	s, _ := harness.Standalone(t, standalone.Options{GPUs: 1})
	return s.Info()
}

func create(t *testing.T, info standalone.Info, name, code string, gpu bool) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"exec":        map[string]any{"kind": "python:3", "code": code},
		"annotations": []any{map[string]any{"key": "gpu", "value": gpu}},
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "PUT", info.APIHost+"/api/v1/namespaces/_/actions/"+name, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(info.Guest().UUID, info.Guest().Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Fatalf("create %s: %s", name, res.Status)
	}
}

// A load on a real installation: every call has one outcome, its record has
// how it started, and what fails is counted by its kind.
func TestAgainstStandalone(t *testing.T) {
	info := openWhisk(t)
	create(t, info, "cpu", "def main(p):\n    return {'n': p['n']}\n", false)
	create(t, info, "gpu", "def main(p):\n    return {'n': p['n']}\n", true)
	create(t, info, "bad", "def main(p):\n    return {'error': 'no'}\n", false)
	c, err := load.NewClient(load.Access{APIHost: info.APIHost, Auth: info.Guest().AuthKey(), InFlight: 4, Parameters: []byte(`{"n":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Check(t.Context(), []string{"cpu", "none"}); err == nil || !strings.Contains(err.Error(), "action none: The requested resource does not exist.") {
		t.Errorf("a check of an action that is not there: %v", err)
	}
	actions := []string{"/_/cpu", "gpu", "bad"}
	if err := c.Check(t.Context(), actions); err != nil {
		t.Fatal(err)
	}
	const calls = 12 // four of each
	o := load.Options{Actions: actions, Duration: time.Minute, InFlight: 4, Wait: time.Minute, Arrivals: func(yield func(load.Arrival) bool) {
		for i := range calls {
			if !yield(load.Arrival{At: time.Duration(i) * 5 * time.Millisecond, Action: i % 3}) {
				return
			}
		}
	}}
	r := load.Run(t.Context(), o, c)
	load.Starts(t.Context(), r, c, time.Minute, nil)
	s := load.Summarise(r, actions)
	text, _ := json.Marshal(s)
	if s.Sent != calls || s.Ran != calls || s.Failed != 4 || s.Unsent != 0 || s.Interrupted {
		t.Fatalf("%s", text)
	}
	var failed []string
	for _, g := range s.Actions {
		failed = append(failed, fmt.Sprintf("%s %d of %d", g.Name, g.Failed, g.Calls))
	}
	if got := strings.Join(failed, ", "); got != "/_/cpu 0 of 4, bad 4 of 4, gpu 0 of 4" {
		t.Errorf("failed: %s", got)
	}
	if len(s.Failures) != 1 || s.Failures[0].Kind != "application error" || s.Failures[0].Count != 4 || !strings.HasPrefix(s.Failures[0].Example, "activation ") {
		t.Errorf("%s", text)
	}
	for _, call := range r.Calls {
		if call.ID == "" || call.Latency <= 0 {
			t.Errorf("%+v", call)
		}
		switch isGPU := actions[call.Action] == "gpu"; call.Start {
		case "warm":
			if isGPU {
				t.Errorf("a GPU run that is reported only as %+v", call)
			}
		case "gpu-warm", "host-warm", "busy-cold":
			if !isGPU {
				t.Errorf("a CPU run that was %+v", call)
			}
		case "cold":
		default:
			t.Errorf("%+v", call)
		}
	}
	wrong, err := load.NewClient(load.Access{APIHost: info.APIHost, Auth: "nobody:wrong", InFlight: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wrong.Close)
	if err := wrong.Check(t.Context(), actions); err == nil || !strings.Contains(err.Error(), "--auth is refused") {
		t.Errorf("a wrong key: %v", err)
	}
	if a := wrong.Invoke(t.Context(), "gpu"); a.Failure != "401 Unauthorized" || a.Ran {
		t.Errorf("a wrong key: %+v", a)
	}
}
