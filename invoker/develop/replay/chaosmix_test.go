package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
)

// mix sends activations of several kinds: of an action that works for a while
// beside many others, of one that may run again, and of GPU functions.
type mix struct {
	w     *fixture
	gate  *gate
	revs  map[string]string
	calls []*call
	kinds []string
}

// call is one activation.
type call struct {
	id, action string
	n          int
	sealed     bool // it had ended at a checkpoint
	runs       int  // until then
}

// Names of the actions: caller of the load, the same with the annotation
// rerun, and two functions that keep memory of one simulated device.
const (
	plainAction = "caller"
	rerunAction = "again"
)

var gpuActions = []string{"alpha", "beta"}

func newMix(w *fixture, gate *gate, gpu bool) *mix {
	w.t.Helper()
	m := &mix{w: w, gate: gate, revs: map[string]string{}, kinds: []string{plainAction, plainAction, plainAction, rerunAction}}
	rerun := caller
	rerun.Name, rerun.Annotations = rerunAction, map[string]any{"provide-api-key": false, "rerun": true}
	m.revs[plainAction], m.revs[rerunAction] = w.put(caller), w.put(rerun)
	if gpu {
		for name, rev := range newGPUFunctions(w, gpuActions...).revs {
			m.revs[name] = rev
		}
		m.kinds = append(m.kinds, gpuActions...)
	}
	return m
}

// invoke sends n activations. They are with the broker when it returns.
func (m *mix) invoke(n int) []*call {
	m.w.t.Helper()
	first := len(m.calls)
	var messages [][]byte
	for range n {
		c := &call{id: fmt.Sprintf("%032x", len(m.calls)+1), n: len(m.calls) + 1}
		c.action = m.kinds[c.n%len(m.kinds)]
		m.calls = append(m.calls, c)
		message := harness.Message{
			ID: c.id, Action: c.action, Revision: m.revs[c.action], NoAnswer: c.n%2 == 1,
			Content: map[string]any{"n": c.n, "url": m.gate.url + "/" + c.id, "bytes": 1 << 20},
		}
		messages = append(messages, message.Text(m.w.t))
	}
	m.w.recording.Publish(m.w.t, "invoker0", messages...)
	return m.calls[first:]
}

// verdict is what became of activations.
type verdict struct {
	answered, interrupted, givenUp, again int
}

// judge demands of an invoker that has ended, all of whose activations had
// their ack and their record, that each has an account of what happened that
// holds, and that none ran too often.
func (m *mix) judge(v *verdict) {
	m.w.t.Helper()
	for _, c := range m.calls {
		runs := m.gate.of("/" + c.id)
		if c.sealed {
			if runs != c.runs {
				m.w.t.Errorf("activation %d of %s had ended after %d runs and ran again: %d now", c.n, c.action, c.runs, runs)
			}
			continue
		}
		c.sealed, c.runs = true, runs
		most := 1
		if c.action == rerunAction {
			most = maxRuns
		}
		if runs > most {
			m.w.t.Errorf("activation %d of %s ran %d times", c.n, c.action, runs)
		}
		v.count(m, c, runs)
	}
}

// maxRuns is how often an action runs that may run again.
const maxRuns = 3

func (v *verdict) count(m *mix, c *call, runs int) {
	var r struct {
		Response struct {
			StatusCode int
			Result     struct {
				N      int
				Intact *bool
				Error  string
			}
		}
	}
	doc := m.w.record(c.id)
	if err := json.Unmarshal(doc, &r); err != nil {
		m.w.t.Errorf("activation %d of %s: record %q: %v", c.n, c.action, doc, err)
		return
	}
	result := r.Response.Result
	switch {
	case r.Response.StatusCode == 0 && runs > 0 && (result.N == c.n || result.Intact != nil && *result.Intact):
		v.answered++
		if runs > 1 {
			v.again++
		}
	case c.action != rerunAction && strings.HasPrefix(result.Error, "The invoker ended while the action ran."):
		v.interrupted++
	case c.action == rerunAction && strings.HasPrefix(result.Error, "The invoker ended 3 times while the action ran."):
		v.givenUp++
	default:
		m.w.t.Errorf("activation %d of %s ran %d times and has the record %s", c.n, c.action, runs, doc)
	}
}

// spooled reports how many bytes the state of an invoker has of records that
// wait, and how many records are dead letters.
func (w *fixture) spooled() (bytes int64, dead int) {
	w.t.Helper()
	state := filepath.Join(w.dir, "state", "invoker0")
	entries, _ := os.ReadDir(filepath.Join(state, "records"))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
	}
	letters, _ := os.ReadDir(filepath.Join(state, "dead-letters"))
	return bytes, len(letters)
}
