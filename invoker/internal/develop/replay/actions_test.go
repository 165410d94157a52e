package replay

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// document is one document of the database of actions as the original had it.
type document struct {
	body map[string]any
	rev  string // the original's
	code *attached
}

// attached is code that lies beside its document.
type attached struct{ name, mime, text string }

// library finds the document of every action that a scenario names: as
// captured where it was, else from the code that the original sent to the
// action's container and the kind and limits that it wrote into the record.
type library struct {
	docs        map[string]document
	inits       map[string]map[string]any // value of /init by action name
	annotations map[string]map[string]any // annotations by path
	revs        map[string]string         // as messages name them
	vers        map[string]string
}

// images are those of actions whose documents were not captured. The first two
// have the prefix of local images, which are never pulled.
var images = map[string]string{
	"rawproxy": "whisk/rawproxy", "rawproxynolog": "whisk/rawproxy", "noimage": "whisk/does-not-exist",
	"nopull": "127.0.0.1:1/none/does-not-exist:9",
}

// missing are the actions that the original had not, either.
var missing = map[string]bool{"guest/never-was": true}

func newLibrary(t *testing.T, all []scenario) *library {
	t.Helper()
	l := &library{
		docs: map[string]document{}, inits: readInits(t),
		annotations: map[string]map[string]any{}, revs: map[string]string{}, vers: map[string]string{},
	}
	for _, s := range all {
		for id, text := range s.actions {
			if name, stubs := strings.CutSuffix(id, " (stubs)"); stubs {
				l.add(t, name, text)
			}
		}
		for _, m := range s.sent() {
			l.rev(m)
		}
		for _, doc := range s.docs {
			annotations := annotations(doc)
			if path, ok := annotations["path"].(string); ok && annotations["limits"] != nil {
				l.annotations[path] = annotations
			}
		}
	}
	return l
}

// readInits reads OpenWhisk's requests to /init, the last one per action.
func readInits(t *testing.T) map[string]map[string]any {
	t.Helper()
	inits := map[string]map[string]any{}
	for line := range bytes.Lines(harness.Read(t, filepath.Join(golden, "http", "container.txt"))) {
		line, ok := bytes.CutPrefix(line, []byte(`{"value":`))
		if !ok {
			continue
		}
		name, ok := bytes.CutPrefix(line, []byte(`{"name":"`))
		if !ok {
			continue
		}
		name, rest, _ := bytes.Cut(name, []byte(`"`))
		inits[string(name)] = initOf(line, rest)
	}
	return inits
}

// initOf decodes the value of /init. One is cut off in the middle of a long
// comment, which is repeated to the length that the database had.
func initOf(value, rest []byte) map[string]any {
	var body map[string]any
	if d := json.NewDecoder(bytes.NewReader(value)); d.Decode(&body) == nil {
		return body
	}
	const length = 24118
	_, text, _ := bytes.Cut(rest, []byte(`"code":"`))
	var code string
	start, _, _ := bytes.Cut(text, []byte("pad "))
	_ = json.Unmarshal([]byte(`"`+string(start)+`"`), &code) // the comment's beginning
	code += strings.Repeat("pad ", length/4)
	return map[string]any{"code": code[:length], "main": "main", "binary": false}
}

func (l *library) add(t *testing.T, id string, text json.RawMessage) {
	t.Helper()
	var body map[string]any
	decode(t, text, &body)
	rev, _ := body["_rev"].(string)
	d := document{body: body, rev: rev}
	delete(body, "_rev")
	if stubs, ok := body["_attachments"].(map[string]any); ok {
		delete(body, "_attachments")
		for name, stub := range stubs {
			mime, _ := stub.(map[string]any)["content_type"].(string)
			code, _ := l.inits[base(id)]["code"].(string)
			d.code = &attached{name, mime, code}
		}
	}
	l.docs[id] = d
}

func base(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

// rev remembers the revision and the version that a message names of an action.
func (l *library) rev(m harness.Record) {
	var msg struct {
		Action   struct{ Path, Name, Version string }
		Revision string
	}
	if json.Unmarshal([]byte(m.Value), &msg) == nil && msg.Revision != "" {
		id := msg.Action.Path + "/" + msg.Action.Name
		l.revs[id], l.vers[id] = msg.Revision, msg.Action.Version
	}
}

// find returns the document of an action. ok is false if OpenWhisk did not have the
// action.
func (l *library) find(t testing.TB, id string) (document, bool) {
	t.Helper()
	if missing[id] {
		return document{}, false
	}
	if d, ok := l.docs[id]; ok {
		return d, true
	}
	annotations := l.annotations[id]
	check.That(check.Must(t), annotations != nil, "nothing is known of action %s", id)
	path, name, _ := strings.Cut(id, "/")
	return document{rev: l.revs[id], body: map[string]any{
		"entityType": "action", "namespace": path, "name": name, "version": l.vers[id], "publish": false, "updated": 1,
		"annotations": []any{map[string]any{"key": "provide-api-key", "value": false}},
		"parameters":  []any{}, "limits": annotations["limits"], "exec": l.exec(t, name, annotations["kind"]),
	}}, true
}

func (l *library) exec(t testing.TB, name string, kind any) map[string]any {
	t.Helper()
	if kind == "blackbox" {
		return map[string]any{"kind": kind, "binary": false, "image": images[name]}
	}
	init := l.inits[name]
	check.That(check.Must(t), init != nil, "no code is known of action %s", name)
	exec := map[string]any{"kind": kind, "binary": init["binary"], "code": init["code"]}
	if init["main"] != "main" {
		exec["main"] = init["main"]
	}
	return exec
}

// annotations are those of a record, by key.
func annotations(record any) map[string]any {
	annotations := map[string]any{}
	body, _ := record.(map[string]any)
	list, _ := body["annotations"].([]any)
	for _, n := range list {
		annotation, _ := n.(map[string]any)
		if key, ok := annotation["key"].(string); ok {
			annotations[key] = annotation["value"]
		}
	}
	return annotations
}
