package entity

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// golden is where the answers of a real OpenWhisk controller were recorded.
const golden = "../../../../activation/testdata/golden/scenarios"

const manifest = `{"runtimes":{
"nodejs":[{"kind":"nodejs:20","default":true,"image":{"prefix":"openwhisk","name":"action-nodejs-v20","tag":"nightly"},"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}],
"python":[{"kind":"python:3.11","default":true,"image":{"prefix":"openwhisk","name":"action-python-v3.11","tag":"nightly"},"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}],
"java":[{"kind":"java:8","default":true,"image":{"name":"j"},"requireMain":true}],
"old":[{"kind":"old:1","default":true,"deprecated":true,"image":{"name":"o"}}]}}`

func testManifest(t testing.TB) *activation.Manifest {
	t.Helper()
	m, err := activation.ParseManifest([]byte(manifest), activation.ManifestOptions{})
	check.NoError(t, err)
	return m
}

// scenario holds the entities of a recording.
type scenario struct {
	name string
	Put  *struct {
		URL     string
		Request json.RawMessage
		Body    json.RawMessage
	}
	ActionDocs map[string]json.RawMessage `json:"action_docs"`
}

func scenarios(t testing.TB) []scenario {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(golden, "*", "all.json"))
	check.NoError(t, err)
	check.That(check.Must(t), len(files) > 0, "under %s", golden)
	var all []scenario
	for _, file := range files {
		text, err := os.ReadFile(file)
		check.NoError(t, err)
		// The recorder was not JSON's strictest friend: it wrote 1E+400 so.
		text = bytes.ReplaceAll(text, []byte(": Infinity"), []byte(": 0"))
		s := scenario{name: filepath.Base(filepath.Dir(file))}
		check.NoError(t, json.Unmarshal(text, &s), "%s", file)
		all = append(all, s)
	}
	return all
}

// squeezed is JSON without white space, its members in the order they stand.
func squeezed(t testing.TB, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	check.NoError(t, json.Compact(&b, text))
	return b.String()
}

// bounds are those of the recorded installation, whose scenario "concurrent"
// was run with more allowed at once.
func bounds() activation.Bounds {
	b := activation.DefaultBounds()
	b.Concurrency.Max = 500
	return b
}

func TestAnswersToPutsAreThoseOfTheController(t *testing.T) {
	compared := 0
	for _, s := range scenarios(t) {
		if s.Put == nil || len(s.Put.Request) == 0 || s.Put.Request[0] != '{' || strings.Contains(string(s.Put.Body), "...<") {
			continue // none, or too long to be recorded whole
		}
		t.Run(s.name, func(t *testing.T) {
			var want struct {
				Name, Namespace, Version string
				Updated                  int64
			}
			check.NoError(t, json.Unmarshal(s.Put.Body, &want))
			a, err := New(Action, Ref{want.Namespace, want.Name}).Put(s.Put.Request, Terms{"guest", testManifest(t), bounds(), want.Updated})
			check.NoError(t, err)
			a.Version = want.Version // some had been there before
			check.Equal(t, string(a.Answer()), squeezed(t, s.Put.Body))
			compared++
		})
	}
	check.AtLeast(t, compared, 10)
}

// TestDocumentsComeBackAsTheyWere decodes every recorded document and encodes it again.
// The result must be the same as the real controller's document.
func TestDocumentsComeBackAsTheyWere(t *testing.T) {
	kinds := map[Kind]int{}
	for _, s := range scenarios(t) {
		for id, doc := range s.ActionDocs {
			if len(doc) == 0 || doc[0] != '{' || strings.Contains(string(doc), "...<") {
				continue
			}
			kind, again, err := rewrite(doc)
			if kind != Action && kind != Package {
				continue
			}
			if err != nil {
				t.Errorf("%s %s: %v", s.name, id, err)
				continue
			}
			kinds[kind]++
			check.Equal(t, canonical(t, again), canonical(t, doc), "%s %s", s.name, id)
		}
	}
	for _, kind := range []Kind{Action, Package} {
		check.AtLeast(t, kinds[kind], 1, "%s", kind)
	}
}

func rewrite(doc []byte) (kind Kind, again []byte, err error) {
	var d struct{ EntityType Kind }
	if err := json.Unmarshal(doc, &d); err != nil {
		return "", nil, err
	}
	if d.EntityType == "" {
		d.EntityType = Action
	}
	e, err := Decode(d.EntityType, doc)
	if err != nil {
		return d.EntityType, nil, err
	}
	return d.EntityType, e.Document(), nil
}

func canonical(t testing.TB, text []byte) string {
	t.Helper()
	c, err := activation.Canonical(text)
	check.NoError(t, err)
	return string(c)
}
