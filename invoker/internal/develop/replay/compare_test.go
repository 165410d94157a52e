package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// difference is one field in which we depart from the original.
type difference struct{ field, original, ours string }

func (d difference) String() string {
	return fmt.Sprintf("%s: the original gave %s, we give %s", d.field, d.original, d.ours)
}

// masked lists the values that differ between any two runs. Their presence and type are
// compared.
var masked = map[string]bool{
	"_rev": true, "start": true, "end": true, "duration": true, "updated": true, "timestamp": true,
	"waitTime": true, "initTime": true,
}

// differ lists the fields below path in which two decoded documents differ.
// Numbers are compared as they are written.
func differ(path string, original, ours any) []difference {
	if o, ok := original.(map[string]any); ok {
		if u, ok := ours.(map[string]any); ok {
			return differObjects(path, o, u)
		}
	}
	if o, ok := original.([]any); ok {
		if u, ok := ours.([]any); ok {
			return differLists(path, o, u)
		}
	}
	if same(original, ours) {
		return nil
	}
	return []difference{{path, show(original), show(ours)}}
}

func differObjects(path string, original, ours map[string]any) (all []difference) {
	keys := map[string]bool{}
	for k := range original {
		keys[k] = true
	}
	for k := range ours {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		at := strings.TrimPrefix(path+"."+k, ".")
		o, inOriginal := original[k]
		u, inOurs := ours[k]
		switch {
		case !inOurs:
			all = append(all, difference{at, show(o), "nothing"})
		case !inOriginal:
			all = append(all, difference{at, "nothing", show(u)})
		default:
			all = append(all, differ(at, o, u)...)
		}
	}
	return all
}

var cutList = regexp.MustCompile(`^\.\.\.<(\d+) more>$`)

// differLists compares element by element. The capture cut long lists: then
// only their lengths and beginnings are known.
func differLists(path string, original, ours []any) (all []difference) {
	length := len(original)
	if length > 0 {
		last, _ := original[length-1].(string)
		if m := cutList.FindStringSubmatch(last); m != nil {
			more, _ := strconv.Atoi(m[1])
			original = original[:length-1]
			length += more - 1
		}
	}
	cut := length != len(original)
	if cut && near(length, len(ours)) {
		ours = ours[:len(original)]
	} else if length != len(ours) {
		return []difference{{path, fmt.Sprintf("%d: %s", length, show(original)), fmt.Sprintf("%d: %s", len(ours), show(ours))}}
	}
	for i := range original {
		all = append(all, differ(fmt.Sprintf("%s[%d]", path, i), original[i], ours[i])...)
	}
	return all
}

// near reports whether two numbers of log lines can come of the same limit: how
// many bytes a line takes depends on how its time ends.
func near(a, b int) bool { return 100*max(a-b, b-a) <= a }

var cutText = regexp.MustCompile(` \.\.\.<(\d+) characters cut>\.\.\. `)

func same(original, ours any) bool {
	o, isText := original.(string)
	u, ok := ours.(string)
	if isText && ok {
		if at := cutText.FindStringSubmatchIndex(o); at != nil {
			cut, _ := strconv.Atoi(o[at[2]:at[3]])
			return strings.HasPrefix(u, o[:at[0]]) && strings.HasSuffix(u, o[at[1]:]) && len(u) == at[0]+cut+len(o)-at[1]
		}
	}
	if original == ours {
		return true
	}
	n, isNumber := original.(printed)
	v, ok := ours.(json.Number)
	return isNumber && ok && equalNumbers(string(n), string(v))
}

// printed is a number of a captured record. The capture printed it anew, so
// its text is not the original's and only its value can be compared.
type printed json.Number

// MarshalText shows the number.
func (p printed) MarshalText() ([]byte, error) { return []byte(p), nil }

func equalNumbers(a, b string) bool {
	x, _, errX := big.ParseFloat(a, 10, 200, big.ToNearestEven)
	y, _, errY := big.ParseFloat(b, 10, 200, big.ToNearestEven)
	return errX == nil && errY == nil && x.Cmp(y) == 0
}

// longest is how much of a value a message shows.
const longest = 300

func show(v any) string {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case printed:
		text = string(v)
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		text = string(b)
	}
	if len(text) > longest {
		text = text[:longest/2] + "..." + text[len(text)-longest/2:]
	}
	return text
}

// plain prepares a decoded document for comparison: values that no two runs
// share are masked, annotations become fields, logs become one list for each
// stream, and the stack traces of runtimes go.
func plain(v any, printedAnew bool) any {
	switch v := v.(type) {
	case map[string]any:
		if trace := cutTraces(v); trace {
			v["size"] = mask(v["size"])
		}
		out := map[string]any{}
		for k, value := range v {
			switch {
			case masked[k]:
				out[k] = mask(value)
			case k == "annotations":
				out[k] = plain(annotationsOf(value), printedAnew)
			case k == "logs":
				out[k] = streams(value)
			default:
				out[k] = plain(value, printedAnew)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = plain(value, printedAnew)
		}
		return out
	case json.Number:
		if printedAnew {
			return printed(v)
		}
	}
	return v
}

// annotationsOf turns annotations into an object; their order means nothing.
func annotationsOf(list any) any {
	annotations := annotations(map[string]any{"annotations": list})
	if l, ok := list.([]any); !ok || len(l) != len(annotations) {
		return list // not in the form of annotations: compare unchanged
	}
	return annotations
}

// mask keeps the type of a value. Whether an activation was initialised shows
// in its annotations; in events an initTime of 0 may also be a quick one.
func mask(v any) any {
	switch v.(type) {
	case nil:
		return nil
	case json.Number:
		return "a number"
	}
	return fmt.Sprintf("a %T", v)
}

// trace is where the stack trace of Node.js begins.
const trace, traceCut = "\n    at ", " (and where)"

// cutTraces cuts the trace off the error of a response and reports whether there
// was one: the response's size counts it.
func cutTraces(response map[string]any) bool {
	result, ok := response["result"].(map[string]any)
	if !ok {
		return false
	}
	text, ok := result["error"].(string)
	if !ok {
		return false
	}
	before, _, found := strings.Cut(text, trace)
	if found {
		result["error"] = before + traceCut
	}
	return found || strings.HasSuffix(text, traceCut)
}

// logLine is the form of a log line: a time padded to 30 characters, a stream
// padded to 6, the text.
var logLine = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}Z) *(stdout|stderr): `)

// streams divides log lines by stream: which of two streams comes first is
// chance.
func streams(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := map[string]any{"lines": map[string]any{}}
	by := map[string][]any{}
	for _, line := range list {
		text, _ := line.(string)
		m := logLine.FindStringSubmatchIndex(text)
		switch {
		case m == nil && cutList.MatchString(text):
			by["stdout"] = append(by["stdout"], text)
		case m == nil || m[4] != 31:
			by["other"] = append(by["other"], text)
		case !strings.HasPrefix(text[m[1]:], "    at "):
			stream := text[m[4]:m[5]]
			by[stream] = append(by[stream], text[m[1]:])
		}
	}
	for stream, lines := range by {
		out[stream] = lines
	}
	delete(out, "lines")
	return out
}
