package activation

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const goldenDir = "testdata/golden"

// captured is one Kafka record of a scenario.
type captured struct {
	scenario   string
	Topic      string
	Value      string
	ValueBytes int
}

func (c captured) whole() bool { return len(c.Value) == c.ValueBytes }

// capturedRecords reads the records of every scenario.
func capturedRecords(t testing.TB) []captured {
	t.Helper()
	files, err := filepath.Glob(goldenDir + "/scenarios/*/records.jsonl")
	check.NoError(t, err)
	check.That(check.Must(t), len(files) != 0, "no scenarios: %v", err)
	var all []captured
	for _, file := range files {
		data, err := os.ReadFile(file)
		check.NoError(t, err)
		for line := range bytes.Lines(data) {
			c := captured{scenario: filepath.Base(filepath.Dir(file))}
			err := json.Unmarshal(line, &c)
			check.NoError(t, err, "%s", file)
			all = append(all, c)
		}
	}
	return all
}

// examples reads the raw lines of one file of topic examples.
func examples(t testing.TB, topic string) []string {
	t.Helper()
	data, err := os.ReadFile(goldenDir + "/topics/" + topic + ".examples.txt")
	check.NoError(t, err)
	var all []string
	for line := range strings.Lines(string(data)) {
		if raw, ok := strings.CutPrefix(line, "raw:"); ok {
			all = append(all, strings.TrimSpace(raw))
		}
	}
	check.That(check.Must(t), len(all) != 0, "no examples of %s", topic)
	return all
}

// scenario is the part of all.json that the tests use.
type scenario struct {
	name        string
	Activations map[string]json.RawMessage `json:"activation_docs"`
	Actions     map[string]json.RawMessage `json:"action_docs"`
}

// cut marks a value that the capture shortened.
const cut = "...<"

func scenarios(t testing.TB) []scenario {
	t.Helper()
	files, err := filepath.Glob(goldenDir + "/scenarios/*/all.json")
	check.NoError(t, err)
	check.That(check.Must(t), len(files) != 0, "no scenarios: %v", err)
	var all []scenario
	for _, file := range files {
		data, err := os.ReadFile(file)
		check.NoError(t, err)
		// The capture's JSON library wrote 1E+400 as an infinity.
		data = bytes.ReplaceAll(data, []byte("Infinity"), []byte("1E+400"))
		s := scenario{name: filepath.Base(filepath.Dir(file))}
		err = json.Unmarshal(data, &s)
		check.NoError(t, err, "%s", file)
		all = append(all, s)
	}
	return all
}

func canonical(t testing.TB, value []byte) string {
	t.Helper()
	out, err := Canonical(value)
	check.NoError(t, err)
	return string(out)
}

// unknownField stands in one message: readers ignore it.
const unknownField = `"somethingNew":{"a":1},`

// same compares the bytes where the capture is compact, else the meaning.
func same(t *testing.T, name, want, got string) {
	t.Helper()
	if strings.Contains(want, `": `) && strings.HasPrefix(want, `{"action": `) {
		want, got = canonical(t, []byte(want)), canonical(t, []byte(got))
	}
	want = strings.Replace(want, unknownField, "", 1)
	check.Equal(t, got, want, "%s", name)
}

const testManifest = `{"runtimes":{
 "nodejs":[{"kind":"nodejs:18","image":{"prefix":"openwhisk","name":"action-nodejs-v18","tag":"nightly"},"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}},
  {"kind":"nodejs:20","default":true,"image":{"prefix":"openwhisk","name":"action-nodejs-v20","tag":"nightly"},"deprecated":false,
   "attached":{"attachmentName":"codefile","attachmentType":"text/plain"},
   "stemCells":[{"initialCount":2,"memory":"256 MB","reactive":{"minCount":1,"maxCount":4,"ttl":"2 minutes","threshold":1,"increment":1}}]}],
 "python":[{"kind":"python:3.11","image":{"prefix":"openwhisk","name":"action-python-v3.11"},"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}],
 "java":[{"kind":"java:8","image":{"name":"java8action"},"requireMain":true,"sentinelledLogs":false,"attached":{"attachmentName":"jarfile","attachmentType":"application/java-archive"}}],
 "plain":[{"kind":"plain:1","image":{"registry":"reg:5000","name":"plain"}}]},
 "blackboxes":[{"prefix":"openwhisk","name":"dockerskeleton","tag":"nightly"}],"other":[1]}`

func manifest(t testing.TB) *Manifest {
	t.Helper()
	m, err := ParseManifest([]byte(testManifest), ManifestOptions{})
	check.NoError(t, err)
	return m
}
