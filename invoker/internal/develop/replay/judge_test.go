package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// compare compares our records with OpenWhisk's, for each activation of the scenario.
func (w *fixture) compare(s scenario, ours []harness.Record) []difference {
	w.T.Helper()
	var all []difference
	for _, id := range s.ids() {
		all = append(all, w.compareAcks(s, id, ours)...)
		all = append(all, w.compareEvents(s, id, ours)...)
		all = append(all, w.compareRecord(s, id)...)
	}
	if s.next != nil {
		all = append(all, w.compareNext(s)...)
	}
	if s.name == "concurrent" {
		return slices.DeleteFunc(all, func(d difference) bool { return shuffled.MatchString(d.field) })
	}
	return all
}

// shuffled matches the values that concurrent activations of one container share out by
// chance: the order of their starts, and the lines.
var shuffled = regexp.MustCompile(`\.response\.result\.k$|^record\.logs\.stdout`)

func (w *fixture) compareAcks(s scenario, id string, ours []harness.Record) (all []difference) {
	w.T.Helper()
	acks := func(records []harness.Record) (shapes []string, by map[string]string) {
		by = map[string]string{}
		for _, r := range records {
			if r.IsAck() && r.ActivationID() == id {
				shapes = append(shapes, r.Shape())
				by[r.Shape()] = r.Value
			}
		}
		return shapes, by
	}
	wanted, original := acks(s.records)
	if slices.Contains(wanted, "result") && slices.Contains(wanted, "completion") {
		ours = unfolded(ours)
	}
	got, by := acks(ours)
	if o, u := listing(wanted), listing(got); o != u {
		all = append(all, difference{"acks", o, u})
	}
	for _, shape := range slices.Sorted(maps.Keys(original)) {
		if text, ok := by[shape]; ok {
			field, _, _ := strings.Cut(shape, " ")
			all = append(all, differ(field, w.parse(w.renamed(s.retimed(original[shape])), false), w.parse(text, false))...)
		}
	}
	return all
}

// unfolded replaces each ack that is both by the result and the completion that it
// stands for: where the logs are there at once we send one where
// the original sends two.
func unfolded(records []harness.Record) (all []harness.Record) {
	for _, r := range records {
		if !r.IsAck() || r.Shape() != "combined" {
			all = append(all, r)
			continue
		}
		var m map[string]json.RawMessage
		_ = json.Unmarshal([]byte(r.Value), &m) // it has a shape
		id, _ := json.Marshal(r.ActivationID())
		for _, part := range []map[string]json.RawMessage{
			{"response": m["response"], "transid": m["transid"]},
			{"activationId": id, "instance": m["instance"], "isSystemError": m["isSystemError"], "transid": m["transid"]},
		} {
			text, _ := json.Marshal(part)
			one := r
			one.Value = string(text)
			all = append(all, one)
		}
	}
	return all
}

// renamed replaces the name of OpenWhisk's invoker by the name of this fixture's.
func (w *fixture) renamed(ack string) string {
	return strings.Replace(ack, `"uniqueName":"0"`, `"uniqueName":"`+w.Unique+`"`, 1)
}

func listing(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func (w *fixture) compareEvents(s scenario, id string, ours []harness.Record) []difference {
	w.T.Helper()
	events := func(records []harness.Record) (all []string) {
		for _, r := range records {
			if r.Topic == "events" && r.ActivationID() == id && strings.Contains(r.Value, `"source":"invoker`) {
				all = append(all, r.Value)
			}
		}
		return all
	}
	original, got := events(s.records), events(ours)
	if len(original) != len(got) {
		return []difference{{"events", fmt.Sprint(len(original)), fmt.Sprint(len(got))}}
	}
	if len(original) == 0 {
		return nil
	}
	o, u := w.parse(s.retimed(original[0]), false), w.parse(got[0], false)
	if cutTraces(responseOf(s.docs[id])) {
		for _, event := range []any{o, u} {
			body := event.(map[string]any)["body"].(map[string]any)
			body["size"] = mask(body["size"])
		}
	}
	return differ("event", o, u)
}

func responseOf(record any) map[string]any {
	body, _ := record.(map[string]any)
	response, _ := body["response"].(map[string]any)
	return response
}

func (w *fixture) compareRecord(s scenario, id string) []difference {
	w.T.Helper()
	text, err := json.Marshal(s.docs[id])
	check.NoError(w.T, err)
	original := w.parse(s.retimed(string(text)), true)
	stored := w.StoredRecord(id)
	_, has := original.(map[string]any)["_id"]
	switch {
	case !has && stored == nil:
		return nil
	case !has:
		ours := responseOf(w.parse(string(stored), false))["result"]
		return []difference{{"record", "none", "stored with " + show(ours)}}
	case stored == nil:
		return []difference{{"record", "stored", "none"}}
	}
	if logs, ok := original.(map[string]any)["logs"].(map[string]any); ok && s.lastLog != "" {
		logs["stderr"] = streams([]any{s.lastLog}).(map[string]any)["stderr"]
	}
	return differ("record", original, w.parse(string(stored), false))
}

// compareNext compares the run after the scenario with the capture: its annotations and
// logs show the fate of the container.
func (w *fixture) compareNext(s scenario) []difference {
	w.T.Helper()
	var stored map[string]any
	decode(w.T, w.StoredRecord(idOf(nextRun(s))), &stored)
	ours := map[string]any{"annotations": stored["annotations"], "logs": stored["logs"]}
	return differ("next", plain(s.next, true), plain(ours, false))
}

// parse decodes a document for comparison.
func (w *fixture) parse(text string, printedAnew bool) any {
	w.T.Helper()
	var v any
	decode(w.T, []byte(text), &v)
	return plain(v, printedAnew)
}
