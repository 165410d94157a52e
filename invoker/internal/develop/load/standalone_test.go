package load_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/load"
)

// openWhisk is a whole one on this machine with a simulated GPU and three actions, of
// which bad fails; it gives its addresses.
func openWhisk(t *testing.T) standalone.Info {
	t.Helper()
	peertest.Tool(t, "python3")
	s, _ := harness.Standalone(t, standalone.Options{GPUs: 1})
	info := s.Info()
	create(t, info, "cpu", "def main(p):\n    return {'n': p['n']}\n", false)
	create(t, info, "gpu", "def main(p):\n    return {'n': p['n']}\n", true)
	create(t, info, "bad", "def main(p):\n    return {'error': 'no'}\n", false)
	return info
}

const calls = 12 // four of each action

// roundRobin calls three actions.
func roundRobin(actions []string) load.Options {
	return load.Options{Actions: actions, Duration: time.Minute, InFlight: 4, Wait: time.Minute, Arrivals: func(yield func(load.Arrival) bool) {
		for i := range calls {
			if !yield(load.Arrival{At: time.Duration(i) * 5 * time.Millisecond, Action: i % 3}) {
				return
			}
		}
	}}
}

func create(t *testing.T, info standalone.Info, name, code string, gpu bool) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"exec":        map[string]any{"kind": "python:3", "code": code},
		"annotations": []any{map[string]any{"key": "gpu", "value": gpu}},
	})
	check.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), "PUT", info.APIHost+"/api/v1/namespaces/_/actions/"+name, strings.NewReader(string(body)))
	check.NoError(t, err)
	req.SetBasicAuth(info.Guest().UUID, info.Guest().Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	check.NoError(t, err)
	res.Body.Close()
	check.Equal(check.Must(t), res.StatusCode, 200, "create %s", name)
}

// starts are the ways in which runs can start.
func starts(gpu bool) []string {
	if gpu {
		return []string{"cold", "gpu-warm", "host-warm", "busy-cold"}
	}
	return []string{"cold", "warm"}
}

// TestAgainstStandalone puts load on a real installation: every call has one outcome,
// its record has the start kind, and failures are counted by kind.
func TestAgainstStandalone(t *testing.T) {
	info := openWhisk(t)
	c, err := load.NewClient(load.Access{APIHost: info.APIHost, Auth: info.Guest().AuthKey(), InFlight: 4, Parameters: []byte(`{"n":1}`)})
	check.NoError(t, err)
	t.Cleanup(c.Close)
	check.ErrorContains(t, c.Check(t.Context(), []string{"cpu", "none"}), "action none: The requested resource does not exist.")
	actions := []string{"/_/cpu", "gpu", "bad"}
	check.NoError(t, c.Check(t.Context(), actions))
	r := load.Run(t.Context(), roundRobin(actions), c)
	load.Starts(t.Context(), r, c, time.Minute, nil)
	s := load.Summarise(r, actions)
	text, _ := json.Marshal(s)
	check.Equal(t, s.Sent, calls, "%s", text)
	check.Equal(t, s.Ran, calls, "%s", text)
	check.Equal(t, s.Failed, 4, "%s", text)
	check.Equal(t, s.Unsent, 0, "%s", text)
	check.That(t, !s.Interrupted, "%s", text)
	var failed []string
	for _, g := range s.Actions {
		failed = append(failed, fmt.Sprintf("%s %d of %d", g.Name, g.Failed, g.Calls))
	}
	check.Equal(t, strings.Join(failed, ", "), "/_/cpu 0 of 4, bad 4 of 4, gpu 0 of 4")
	check.Equal(check.Must(t), len(s.Failures), 1, "%s", text)
	check.Equal(t, s.Failures[0].Kind, "application error")
	check.Equal(t, s.Failures[0].Count, 4)
	check.That(t, strings.HasPrefix(s.Failures[0].Example, "activation "), "%s", text)
	for _, call := range r.Calls {
		check.That(t, call.ID != "", "%+v", call)
		check.Greater(t, call.Latency, 0, "%+v", call)
		check.Includes(t, starts(actions[call.Action] == "gpu"), call.Start, "%+v", call)
	}
	wrong, err := load.NewClient(load.Access{APIHost: info.APIHost, Auth: "nobody:wrong", InFlight: 1})
	check.NoError(t, err)
	t.Cleanup(wrong.Close)
	check.ErrorContains(t, wrong.Check(t.Context(), actions), "--auth is refused")
	a := wrong.Invoke(t.Context(), "gpu")
	check.Equal(t, a.Failure, "401 Unauthorized")
	check.That(t, !a.Ran, "%+v", a)
}
