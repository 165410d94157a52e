package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// golden is where the captured data lies.
const golden = "../../../../activation/testdata/golden"

// scenario is one captured story: the messages to the invoker, its messages and its
// records, in the order of the capture.
type scenario struct {
	name    string
	records []harness.Record
	docs    map[string]any // activation records by activation id
	actions map[string]json.RawMessage
	lastLog string // of a log whose middle the capture left out
	next    any    // annotations and logs of one more run of the same action
}

// sent are the messages that the invoker got.
func (s scenario) sent() []harness.Record {
	var all []harness.Record
	for _, r := range s.records {
		if r.Topic == "invoker0" {
			all = append(all, r)
		}
	}
	return all
}

// ids are the activations that were sent, in order.
func (s scenario) ids() []string {
	var all []string
	for _, r := range s.sent() {
		if id := r.ActivationID(); id != "" {
			all = append(all, id)
		}
	}
	return all
}

func loadScenarios(t *testing.T) []scenario {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(golden, "scenarios", "*"))
	check.NoError(t, err)
	check.Greater(check.Must(t), len(dirs), 0, "no captured scenarios")
	var all []scenario
	for _, dir := range dirs {
		all = append(all, loadScenario(t, dir))
	}
	return all
}

func loadScenario(t *testing.T, dir string) scenario {
	t.Helper()
	s := scenario{name: filepath.Base(dir)}
	var story struct {
		Docs  json.RawMessage            `json:"activation_docs"`
		Acts  map[string]json.RawMessage `json:"action_docs"`
		Again struct {
			Last []string `json:"last_3"`
			Next any      `json:"next_invocation_same_action"`
		} `json:"again_with_the_last_lines"`
	}
	// The capture wrote a number that it could not hold as no JSON can.
	text := bytes.ReplaceAll(harness.Read(t, filepath.Join(dir, "all.json")), []byte(": Infinity"), []byte(": 1e400"))
	decode(t, text, &story)
	s.actions, s.next = story.Acts, story.Again.Next
	if n := len(story.Again.Last); n > 0 {
		s.lastLog = story.Again.Last[n-1]
	}
	decode(t, story.Docs, &s.docs)
	lines := bufio.NewScanner(bytes.NewReader(harness.Read(t, filepath.Join(dir, "records.jsonl"))))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var c harness.Record
		decode(t, lines.Bytes(), &c)
		s.records = append(s.records, c)
	}
	return s
}

// decode keeps numbers as they are written.
func decode(t testing.TB, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	check.NoError(t, d.Decode(into), "decode %.80s", text)
}
