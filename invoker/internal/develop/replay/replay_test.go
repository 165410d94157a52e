package replay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// engine is where the actions of a replay run.
type engine struct {
	name  string
	parts harness.Parts
	// fit prepares a fixture for the kind of container. It returns the reason if a
	// scenario cannot be played there.
	fit func(w *fixture, s scenario) (cannot string)
}

// action is the first action that a scenario invokes.
func (s scenario) action() string {
	for _, m := range s.sent() {
		if id := actionOf(m.Value); id != "" {
			return id
		}
	}
	return ""
}

// actionOf reads the action that a message invokes.
func actionOf(message string) string {
	var m struct{ Action struct{ Path, Name string } }
	if json.Unmarshal([]byte(message), &m) != nil || m.Action.Name == "" {
		return ""
	}
	return m.Action.Path + "/" + m.Action.Name
}

// rawProxy is the program that stands for the image of the captured actions
// rawproxy and rawproxynolog.
func rawProxy(t *testing.T) (path string) {
	t.Helper()
	path, err := peertest.Program("./testdata/rawproxy")
	check.NoError(t, err)
	return path
}

// TestReplayInProcesses plays every captured scenario that needs no image, with plain
// processes as containers.
func TestReplayInProcesses(t *testing.T) {
	t.Parallel()
	raw := rawProxy(t)
	replayAll(t, engine{"process", harness.Parts{}, func(w *fixture, s scenario) string {
		if s.name == "blackbox-image-missing" || s.name == "blackbox-pull-fails" {
			return "there are no images to miss"
		}
		if strings.HasPrefix(s.action(), "guest/rawproxy") {
			w.Self = raw
		}
		return ""
	}})
}

func replayAll(t *testing.T, e engine) {
	scenarios := loadScenarios(t)
	allowed := loadList(t)
	actions := newLibrary(t, scenarios)
	var mu sync.Mutex
	ran := map[string]bool{}
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				differences := play(t, e, actions, s)
				mu.Lock()
				ran[s.name] = true
				mu.Unlock()
				for _, d := range differences {
					check.That(t, allowed.allows(s.name, e.name, d), "%s: %s", e.name, d)
				}
			})
		}
	})
	for _, line := range allowed.stale(e.name, ran) {
		t.Error(line)
	}
}

// play runs one scenario in a fixture of its own and reports how it differed.
func play(t *testing.T, e engine, actions *library, s scenario) []difference {
	w := newFixture(t, e.parts)
	if cannot := e.fit(w, s); cannot != "" {
		return []difference{{"scenario", "played", "not played: " + cannot}}
	}
	revs := w.seed(actions, s)
	if prepare := stages[s.name]; prepare != nil {
		prepare(w)
	}
	invoker := w.Start(0)
	for _, m := range s.warmUps() {
		w.Publish([]byte(revs.replace(m)))
		w.AwaitSlot(idOf(m))
	}
	w.perform(s, revs)
	w.awaitEnds(s)
	sent := len(s.warmUps()) + len(s.sent())
	if s.next != nil {
		w.AwaitSlot(s.ids()[0])
		w.Publish([]byte(revs.replace(nextRun(s))))
		w.AwaitSlot(idOf(nextRun(s)))
		sent++
	}
	w.fence()
	invoker.End()
	if invoker.Slow {
		harness.AwaitRemoval(t, w.Containers, harness.RemoveFromDocker)
	}
	w.noContainers()
	want := int64(sent + 1)
	if s.name == "direct-other-controller" { // its ack has no topic, and was not retried for the minute that a topic may be missing
		want = int64(len(s.warmUps()))
	}
	check.Equal(t, w.Recording.Committed("invoker0"), want, "messages behind the committed offset")
	return w.compare(s, w.Recording.ToTheEnd())
}

// stages prepares the scenarios that need more than their actions.
var stages = map[string]func(w *fixture){
	"blocked-namespace": func(w *fixture) {
		doc := `{"subject":"guest","blocked":true,"namespaces":[{"name":"guest","uuid":"23bc46b1-71f6-4ed5-8c54-816aa4f8c502","key":"k"}]}`
		w.DB.Store(w.T, harness.Names.Subjects, "guest", []byte(doc))
	},
	"deleted-while-running": func(w *fixture) {
		var fetched atomic.Bool
		reported := func(r *http.Request) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "guest/gone") && fetched.CompareAndSwap(false, true) {
				w.delete("guest/gone")
			}
		}
		w.Store.Served.Store(&reported)
	},
}

// revisions maps OpenWhisk's revisions to ours.
type revisions map[string]string

func (r revisions) replace(message string) string {
	for original, ours := range r {
		message = strings.ReplaceAll(message, `"`+original+`"`, `"`+ours+`"`)
	}
	return message
}

// seed stores the documents that a scenario's messages name.
func (w *fixture) seed(actions *library, s scenario) revisions {
	w.T.Helper()
	revs := revisions{}
	for _, m := range s.sent() {
		id := actionOf(m.Value)
		if id == "" {
			continue
		}
		d, ok := actions.find(w.T, id)
		if !ok || revs[d.rev] != "" {
			continue
		}
		revs[d.rev] = w.putCaptured(id, d, s)
	}
	return revs
}

func (w *fixture) putCaptured(id string, d document, s scenario) string {
	w.T.Helper()
	var body strings.Builder
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // retimed replaces code as it is written
	check.NoError(w.T, e.Encode(d.body))
	rev := w.DB.Store(w.T, harness.Names.Whisks, id, []byte(w.images.Replace(s.retimed(body.String()))))
	if a := d.code; a != nil {
		var err error
		rev, err = w.DB.PutAttachment(w.T.Context(), harness.Names.Whisks, id, rev, a.name, a.mime, []byte(a.text))
		check.NoError(w.T, err)
	}
	return rev
}

func (w *fixture) delete(id string) {
	doc, err := w.DB.Get(w.T.Context(), harness.Names.Whisks, id)
	var has struct {
		Rev string `json:"_rev"`
	}
	if err == nil {
		err = json.Unmarshal(doc, &has)
	}
	if err == nil {
		err = w.DB.Delete(w.T.Context(), harness.Names.Whisks, id, has.Rev)
	}
	if err != nil {
		w.T.Error(err)
	}
}

// retimings shorten scenarios of a minute to seconds, but allow ten seconds for a start
// of Node.js on a busy machine. It maps texts of the action's document and of the
// capture to their replacements.
var retimings = map[string][]string{
	"blocking-202-after-60s": {`setTimeout(()=>r({slept:p.ms}),p.ms)`, `setTimeout(()=>r({slept:p.ms}),p.ms/50)`},
	"container-closes":       {`"timeout":20000`, `"timeout":5000`, `of 20000 milliseconds`, `of 5000 milliseconds`},
	"timeout": {
		`"timeout":1000`, `"timeout":10000`, `of 1000 milliseconds`, `of 10000 milliseconds`,
		`({slept:p.ms}),p.ms`, `({slept:p.ms}),4*p.ms`,
	},
}

func (s scenario) retimed(text string) string {
	return strings.NewReplacer(retimings[s.name]...).Replace(text)
}

// warmUps are messages that bring the containers about that the original had
// from before the scenario.
func (s scenario) warmUps() []string {
	var all []string
	begun := map[string]bool{}
	for _, m := range s.sent() {
		action := actionOf(m.Value)
		if action == "" || begun[action] {
			continue
		}
		begun[action] = true
		if s.ranWarm(m.ActivationID()) {
			all = append(all, warmUp(m.Value, len(all)))
		}
	}
	return all
}

// ranWarm reports whether the original ran an activation in a container that was
// there: it has limits, as all whose action was found, and no initTime.
func (s scenario) ranWarm(id string) bool {
	if action := s.action(); action == "guest/noimage" || action == "guest/nopull" {
		return false
	}
	found := annotations(s.docs[id])
	for _, r := range s.records {
		if r.IsAck() && r.ActivationID() == id && len(found) == 0 {
			var ack struct{ Response any }
			_ = json.Unmarshal([]byte(r.Value), &ack)
			found = annotations(ack.Response)
		}
	}
	_, inited := found["initTime"]
	return found["limits"] != nil && !inited
}

// warmUp is a short run of the same action, with parameters that are harmless
// to every captured one.
func warmUp(message string, n int) string {
	return rewritten(message, fmt.Sprintf("%032x", n+1), map[string]any{"n": 1, "ms": 1})
}

// nextRun is the run after the scenario that was captured for its logs.
func nextRun(s scenario) string {
	return rewritten(s.sent()[0].Value, strings.Repeat("e", 32), map[string]any{"n": 3, "w": 10})
}

// rewritten is a message with another id and other parameters, blocking, not
// through a binding, and of the controller whose acks are read.
func rewritten(message, id string, content map[string]any) string {
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(message))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		panic(err)
	}
	m["activationId"], m["content"] = id, content
	m["blocking"] = true
	m["rootControllerIndex"] = map[string]any{"asString": "0", "instanceType": "controller"}
	delete(m["action"].(map[string]any), "binding")
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func idOf(message string) string { return harness.Record{Value: message}.ActivationID() }

// perform sends a scenario's messages like the controller: a message that followed an
// ack waits for our ack.
func (w *fixture) perform(s scenario, revs revisions) {
	w.T.Helper()
	acks := map[string]int{}
	for _, r := range s.records {
		switch {
		case r.IsAck():
			acks[r.ActivationID()]++
		case r.Topic == "invoker0":
			for id, n := range acks {
				w.await(n, id)
			}
			w.Publish([]byte(revs.replace(r.Value)))
		}
	}
}

// awaitEnds waits until every activation of a scenario is answered on the controller's
// topic. An invoker that is asked to stop gives up after half a minute, and a Docker
// daemon on a busy machine may need longer to start a container.
func (w *fixture) awaitEnds(s scenario) {
	w.T.Helper()
	for _, r := range s.records {
		if r.Topic == "completed0" && r.Shape() != "result" {
			w.AwaitSlot(r.ActivationID())
		}
	}
}

// await waits for so many acks of an activation.
func (w *fixture) await(n int, id string) {
	w.T.Helper()
	w.Recording.Wait(fmt.Sprintf("ack %d of %s", n, id), func(records []harness.Record) bool {
		got := 0
		for _, r := range records {
			if r.IsAck() && r.ActivationID() == id {
				got++
				if r.Shape() == "combined" {
					got++ // it stands for a result and a completion
				}
			}
		}
		return got >= n
	})
}

// fence sends a message that is answered at once, and waits for the answer:
// then the invoker has accepted everything before it.
func (w *fixture) fence() {
	w.T.Helper()
	const id = "ffffffffffffffffffffffffffffffff"
	w.Publish(harness.Message{ID: id, Action: "no-such-action", Revision: "1-a", NoAnswer: true}.Text(w.T))
	w.await(1, id)
}
