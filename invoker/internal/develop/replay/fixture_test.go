package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// fixture is a deployment with an invoker in its own process, and the checks of this
// package.
type fixture struct {
	*harness.Deployment
	invoker *harness.Process  // the last that begin started
	images  *strings.Replacer // of the captured documents
	// activations that allEnded does not check: the scheduler ended them without a record, or
	// an ack may have come twice
	unchecked []string

	shipped bool                // begin starts the released program
	other   *harness.Process    // another invoker of a row of kills
	lease   fakescheduler.Lease // of an invoker that is killed
}

// newFixture deploys the given parts, or embedded parts in classic mode.
func newFixture(t *testing.T, p ...harness.Parts) *fixture {
	t.Helper()
	return &fixture{Deployment: harness.Deploy(t, append(p, harness.Parts{})[0]), images: strings.NewReplacer()}
}

// begin starts invoker 0.
func (w *fixture) begin() {
	w.T.Helper()
	if w.shipped {
		w.invoker = w.Ship(0)
	} else {
		w.invoker = w.Spawn(0)
	}
}

// inFlight is the number of activations that run when something happens.
const inFlight = 50

// caller is an action that calls its parameter url, or without a url waits 200 ms, and
// then answers with its parameter n. One container runs many at once.
var caller = harness.Action{
	Name: "caller", Kind: "nodejs:20", Annotations: map[string]any{"provide-api-key": false},
	Concurrency: 100, LogsMB: 10, Timeout: 5 * time.Minute,
	Code: "const http=require('http'); function main(p){ return new Promise((ok,no)=>!p.url?setTimeout(()=>ok({n:p.n}),200):" +
		"http.get(p.url,r=>{r.resume();r.on('end',()=>ok({n:p.n}))}).on('error',no)); }",
}

// alone is caller, one run in a container.
func alone(name string, memoryMB int) harness.Action {
	a := caller
	a.Name, a.Concurrency, a.MemoryMB, a.LogsMB = name, 1, memoryMB, 0
	return a
}

// call sends n activations of caller.
func (w *fixture) call(n int) (ids []string) {
	w.T.Helper()
	return w.Invoke(n, harness.Message{Action: caller.Name})
}

// answer is the part of a record about an activation's end.
type answer struct {
	StatusCode int
	Result     struct {
		N, Runs         int
		Intact, Correct bool
		Error           string
	}
}

// answer decodes the record of an activation.
func (w *fixture) answer(id string) (answer, error) {
	w.T.Helper()
	var r struct{ Response answer }
	err := json.Unmarshal(w.StoredRecord(id), &r)
	return r.Response, err
}

// awaitRecords blocks until each activation has its record.
func (w *fixture) awaitRecords(ids []string) {
	w.T.Helper()
	for _, id := range ids {
		w.DB.AwaitRecord(w.T, activation.ID(id))
	}
}

// ranOnce checks that each activation ran once.
func (w *fixture) ranOnce() {
	w.T.Helper()
	check.Equal(w.T, w.Gate.Runs(), len(w.IDs), "runs of activations")
}

// hasResults checks that the record of each activation has its result.
func (w *fixture) hasResults() {
	w.T.Helper()
	for i, id := range w.IDs {
		doc, want := string(w.StoredRecord(id)), fmt.Sprintf(`"result":{"n":%d}`, i+1)
		check.That(w.T, strings.Contains(doc, want), "activation %d: record %.300s, want %s in it", i+1, doc, want)
	}
}

// nothingLost checks, for an ended invoker, that every activation has a result and a
// completion in this order, or both in one ack, and a record of the same, and that no
// message is left to be read.
func (w *fixture) nothingLost() {
	w.T.Helper()
	acks := map[string][]string{}
	for _, r := range unfolded(w.Recording.ToTheEnd()) {
		if r.IsAck() {
			id := r.ActivationID()
			acks[id] = append(acks[id], r.Shape())
		}
	}
	for i, id := range w.IDs {
		shapes := slices.Compact(acks[id]) // a lost answer of the broker may double one
		check.AtLeast(w.T, len(shapes), 2, "activation %d: acks %v", i+1, acks[id])
		if len(shapes) > 0 {
			check.Equal(w.T, shapes[0], "result", "activation %d: acks %v", i+1, acks[id])
			check.Equal(w.T, shapes[len(shapes)-1], "completion", "activation %d: acks %v", i+1, acks[id])
		}
	}
	w.hasResults()
	w.nothingLeft()
}

// nothingLeft checks, for an ended invoker, that no unread message, no process and no
// file of an action is left.
func (w *fixture) nothingLeft() {
	w.T.Helper()
	check.Equal(w.T, w.behind(), "", "the position, for %d activations", len(w.IDs))
	w.noStrays()
}

// behind describes the committed position, if it is not at the end of the topic. An
// invoker that has just started must first skip the activations that the previous one
// had ended but not committed.
func (w *fixture) behind() string {
	w.T.Helper()
	// A message that the controller's own retry has doubled is read, too.
	if at, end := w.Recording.Committed("invoker0"), w.Recording.End("invoker0"); at != end || end < int64(len(w.IDs)) {
		return fmt.Sprintf("%d of %d", at, end)
	}
	return ""
}

// noStrays checks that no process and no file of an action is left.
func (w *fixture) noStrays() {
	w.T.Helper()
	w.noContainers()
	for pid, command := range peertest.Processes(w.Dir) {
		check.Contains(w.T, command, harness.RoleInvoker, "process %d is left", pid)
	}
}

func (w *fixture) noContainers() {
	w.T.Helper()
	left := w.Containers()
	check.Equal(w.T, len(left), 0, "containers are left: %v", left)
}

// settled blocks until each activation has a completion and a record. The scheduler must
// not have ended an activation itself.
func (w *fixture) settled(ids []string) {
	w.T.Helper()
	for _, id := range ids {
		w.AwaitSlot(id)
	}
	seen, _ := w.Scheduler.Seen()
	for _, f := range seen.Failures {
		check.That(check.Must(w.T), !slices.Contains(ids, string(f.Activation)), "the scheduler gave up %+v", f)
	}
	w.awaitRecords(ids)
}

// allEnded checks, for ended invokers in scheduler mode, that each activation has a
// completion, or at most so many, and a record, that no key is left, and that the
// scheduler could read every message.
func (w *fixture) allEnded(mostCompletions int) {
	w.T.Helper()
	completions := map[string]int{}
	for _, r := range w.Recording.ToTheEnd() {
		if r.FreesSlot() {
			completions[r.ActivationID()]++
		}
	}
	for i, id := range w.IDs {
		if slices.Contains(w.unchecked, id) {
			continue
		}
		check.AtLeast(w.T, completions[id], 1, "activation %d of %d", i+1, len(w.IDs))
		check.AtMost(w.T, completions[id], mostCompletions, "activation %d of %d", i+1, len(w.IDs))
		check.That(w.T, w.StoredRecord(id) != nil, "activation %d of %d", i+1, len(w.IDs))
	}
	for _, below := range []string{"invokers/", "namespace/", "warmed/"} {
		w.AwaitNoKeys(below)
	}
	w.CheckNothingLost()
	w.noStrays()
}

// counter says how often its container has run it, after so many milliseconds.
func counter(name string, change ...func(*harness.Action)) harness.Action {
	a := harness.Action{Name: name, Kind: "nodejs:20", Timeout: 5 * time.Minute,
		Code: "let n = 0; function main(p) { return new Promise(done => setTimeout(() => done({n: ++n}), p.ms)); }"}
	for _, do := range change {
		do(&a)
	}
	return a
}

// result invokes an action once, and returns the result.
func (w *fixture) result(action string) string {
	w.T.Helper()
	ids := w.Invoke(1, harness.Message{Action: action})
	w.settled(ids)
	return string(w.DB.AwaitRecord(w.T, activation.ID(ids[0])).Response.Result)
}

// refusal invokes an action once, and checks that the scheduler ends the activation as a
// developer's error with a text.
func (w *fixture) refusal(action, text string) {
	w.T.Helper()
	id := w.Invoke(1, harness.Message{Action: action})[0]
	w.unchecked = append(w.unchecked, id)
	w.AwaitSlot(id)
	seen, _ := w.Scheduler.Seen()
	for _, f := range seen.Failures {
		if string(f.Activation) == id {
			check.Equal(w.T, f.Status, activation.StatusDeveloperError, "it failed with %+v", f)
			check.Contains(w.T, f.Reason, text)
			return
		}
	}
	w.T.Errorf("%s did not fail: %+v", id, seen.Failures)
}
