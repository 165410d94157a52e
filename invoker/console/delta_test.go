package console

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// merge does what page/merge.js does.
func merge(into, change map[string]any) {
	for name, v := range change {
		switch v := v.(type) {
		case nil:
			delete(into, name)
		case map[string]any:
			if set, ok := v["$set"]; ok {
				into[name] = set
			} else if rows, ok := v["$rows"].(map[string]any); ok {
				list, _ := into[name].([]any)
				into[name] = mergeRows(list, rows)
			} else {
				merge(into[name].(map[string]any), v)
			}
		default:
			into[name] = v
		}
	}
}

func mergeRows(list []any, change map[string]any) []any {
	gone, _ := change["gone"].([]any)
	var kept []any
	for i, row := range list {
		if !slices.Contains(gone, any(float64(i))) {
			kept = append(kept, row)
		}
	}
	more, _ := change["new"].([]any)
	kept = append(kept, more...)
	set, _ := change["set"].(map[string]any)
	for field, pair := range set {
		places, values := pair.([]any)[0], pair.([]any)[1].([]any)
		for i, v := range values {
			at := i
			if places != nil {
				at = int(places.([]any)[i].(float64))
			}
			if row := kept[at].(map[string]any); v == nil {
				delete(row, field)
			} else {
				row[field] = v
			}
		}
	}
	return kept
}

func decoded(t *testing.T, v any) map[string]any {
	t.Helper()
	text, ok := v.([]byte)
	if !ok {
		var err error
		if text, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

// shaken is a snapshot with much of it changed at random: lists in another
// order, with items gone and new ones, maps with other keys, fields left out.
func shaken(r *rand.Rand, turn int) *snapshot {
	s := large(40, 3, turn)
	w := s.Status.Work
	drop := func(n int) int { return r.IntN(n + 1) }
	r.Shuffle(len(w.Flows), func(i, j int) { w.Flows[i], w.Flows[j] = w.Flows[j], w.Flows[i] })
	r.Shuffle(len(s.Functions), func(i, j int) { s.Functions[i], s.Functions[j] = s.Functions[j], s.Functions[i] })
	w.Flows, s.Functions = w.Flows[:drop(len(w.Flows))], s.Functions[:drop(len(s.Functions))]
	w.Containers, s.Recent = w.Containers[drop(len(w.Containers)):], s.Recent[drop(len(s.Recent)):]
	for i := range w.Flows {
		w.Flows[i].OverrunMs = int64(r.IntN(2)) * 5000
		w.Flows[i].Why += []string{"", ` "<é>" \ `, "\x00\n"}[r.IntN(3)]
	}
	for i := range w.Devices {
		if r.IntN(2) == 0 {
			w.Devices[i].Utilization = nil
		}
	}
	switch r.IntN(9) {
	case 0:
		s.Status.Work = nil
	case 1:
		w.Flows = nil
	case 7:
		w.Flows, w.Containers = []*flow{}, []*container{}
	case 2:
		w.Containers = nil
	case 3:
		s.Counters = nil
	case 4:
		s.Counters = map[string]float64{`odd "name"`: 1e300, "tiny": 1e-9, "third": 1.0 / 3}
	case 5:
		s.Status.Reasons = []string{"pings: no broker"}
	case 6:
		s.Status.Kafka.Last = s.Status.Kafka.Last.AddDate(-2025, 0, 0)
	}
	return s
}

func keyOf(row any) string {
	// The first of these that a row has is its key.
	for _, name := range []string{"id", "name", "function", "flow", "device"} {
		if key, ok := row.(map[string]any)[name].(string); ok {
			return key
		}
	}
	return ""
}

// sorted puts keyed lists in an order, null lists and absent ones being the same.
func sorted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if list, ok := x.([]any); x == nil || ok && len(list) == 0 {
				delete(v, name)
				continue
			}
			v[name] = sorted(x)
		}
	case []any:
		for i := range v {
			v[i] = sorted(v[i])
		}
		if len(v) == 0 {
			break
		}
		if _, rows := v[0].(map[string]any); rows {
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(keyOf(a), keyOf(b)) })
		}
	}
	return v
}

// TestDeltas: who merges what has changed has what there is, whatever changes.
func TestDeltas(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		var d differ
		last := shaken(r, 0)
		page := decoded(t, last)
		for turn := range 30 {
			next := shaken(r, turn)
			whole := sorted(decoded(t, next))
			delta, err := d.change(last, next)
			if err != nil {
				t.Fatal(err)
			}
			if delta != nil {
				merge(page, decoded(t, delta))
			}
			if got := sorted(decoded(t, page)); !reflect.DeepEqual(got, whole) {
				a, _ := json.Marshal(got)
				b, _ := json.Marshal(whole)
				t.Fatalf("seed %d, turn %d: after %s\n got %s\nwant %s", seed, turn, delta, a, b)
			}
			// The value itself is in the page's order: the next change counts on it.
			if a, b := decoded(t, page)["recent"], decoded(t, next)["recent"]; !reflect.DeepEqual(a, b) && len(next.Recent) > 0 {
				t.Fatalf("seed %d, turn %d: the page's order is not the server's", seed, turn)
			}
			last = next
		}
	}
}

func TestDeltaOfNothing(t *testing.T) {
	var d differ
	if delta, err := d.change(large(10, 2, 3), large(10, 2, 3)); delta != nil || err != nil {
		t.Errorf("between two alike: %s, %v", delta, err)
	}
	if _, err := d.change(large(1, 1, 1), map[string]int{}); err == nil {
		t.Error("two types were compared")
	}
	if _, err := d.change(map[string]any{}, map[string]any{"a": func() {}}); err == nil {
		t.Error("a function was written")
	}
}

// TestDeltaIsSmall: what a page hears of 1,000 flows of which a tenth ran.
func TestDeltaIsSmall(t *testing.T) {
	var d differ
	from, to := large(1000, 16, 7), large(1000, 16, 8)
	delta, err := d.change(from, to)
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := json.Marshal(to)
	if len(delta) > len(whole)/8 {
		t.Errorf("%d bytes of change, %d of all", len(delta), len(whole))
	}
}
