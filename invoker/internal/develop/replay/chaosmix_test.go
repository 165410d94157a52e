package replay

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// call is one activation of a mix.
type call struct {
	id, action string
	n          int
	sealed     bool // it had ended at a checkpoint
	runs       int  // until then
}

// rerunAction is caller with the annotation rerun.
const rerunAction = "again"

// deployMix stores actions of several kinds: a slow action that runs beside many others,
// an action that may be rerun, and GPU functions that keep memory of one simulated
// device.
func (c *chaos) deployMix(gpu bool) {
	c.T.Helper()
	rerun := caller
	rerun.Name, rerun.Annotations = rerunAction, map[string]any{"provide-api-key": false, "rerun": true}
	c.Put(caller)
	c.Put(rerun)
	c.kinds = []string{caller.Name, caller.Name, caller.Name, rerunAction}
	if gpu {
		c.putGPUFunctions("alpha", "beta")
		c.kinds = append(c.kinds, "alpha", "beta")
	}
}

// send sends n activations of all kinds. They are with the broker when it returns.
func (c *chaos) send(n int) []*call {
	c.T.Helper()
	first := len(c.calls)
	var messages [][]byte
	for range n {
		n := len(c.calls) + 1
		m := harness.Message{Action: c.kinds[n%len(c.kinds)], NoAnswer: n%2 == 1, Content: map[string]any{"bytes": 1 << 20}}
		messages = append(messages, c.Message(m))
		c.calls = append(c.calls, &call{id: c.IDs[n-1], action: m.Action, n: n})
	}
	c.Publish(messages...)
	return c.calls[first:]
}

// judge checks an ended invoker whose activations all have their ack and record: each
// activation's account of events is consistent, and none ran too often.
func (c *chaos) judge() {
	c.T.Helper()
	for _, one := range c.calls {
		runs := c.Gate.RunsOf("/" + one.id)
		if one.sealed {
			check.Equal(c.T, runs, one.runs, "activation %d of %s had ended and ran again", one.n, one.action)
			continue
		}
		one.sealed, one.runs = true, runs
		most := 1
		if one.action == rerunAction {
			most = maxRuns
		}
		check.AtMost(c.T, runs, most, "activation %d of %s", one.n, one.action)
		c.account(one)
	}
}

// maxRuns is how often an action runs that may run again.
const maxRuns = 3

// account demands that the record of an activation holds, and counts it.
func (c *chaos) account(one *call) {
	a, err := c.answer(one.id)
	if err != nil {
		c.T.Errorf("activation %d of %s: record %q: %v", one.n, one.action, c.StoredRecord(one.id), err)
		return
	}
	c.tally.add("activations", 1)
	result := a.Result
	switch {
	case a.StatusCode == 0 && one.runs > 0 && (result.N == one.n || result.Intact):
		c.tally.add("activations: answered", 1)
		if one.runs > 1 {
			c.tally.add("activations: answered, by a later run", 1)
		}
	case one.action != rerunAction && strings.HasPrefix(result.Error, "The invoker ended while the action ran."):
		c.tally.add("activations: interrupted", 1)
	case one.action == rerunAction && strings.HasPrefix(result.Error, "The invoker ended 3 times while the action ran."):
		c.tally.add("activations: given up after three runs", 1)
	default:
		c.T.Errorf("activation %d of %s ran %d times and has the record %s", one.n, one.action, one.runs, c.StoredRecord(one.id))
	}
}

// spooled reports how many bytes the state of an invoker has of records that
// wait, and how many records are dead letters.
func (w *fixture) spooled() (bytes int64, dead int) {
	w.T.Helper()
	state := filepath.Join(w.Dir, "state", "invoker0")
	entries, _ := os.ReadDir(filepath.Join(state, "records"))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
	}
	letters, _ := os.ReadDir(filepath.Join(state, "dead-letters"))
	return bytes, len(letters)
}
