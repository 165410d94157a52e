package entity

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func terms(t testing.TB, now int64) Terms {
	t.Helper()
	return Terms{"guest", testManifest(t), activation.DefaultBounds(), now}
}

func create(t *testing.T, body string) (*Entity, error) {
	t.Helper()
	return New(Action, Ref{"guest", "a"}).Put([]byte(body), terms(t, 1))
}

func TestRefusedPuts(t *testing.T) {
	for body, want := range map[string]string{
		``:                  "not JSON from byte 0 on: unexpected end",
		`{`:                 "not JSON from byte 1 on: unexpected end",
		`{"exec":x}`:        "not JSON from byte 9 on: invalid character 'x'",
		`[]`:                "want an object, got JSON array",
		`{"publish":"yes"}`: "'publish' must be true or false, got JSON string",
		`{"version":1}`:     "'version' must be text, got JSON number",
		`{"exec":7}`:        "exec malformed: want an object, got JSON number",
		`{"exec":{"kind":"sequence","components":[3]}}`:                            "exec malformed: 'components' must be text, got JSON number",
		`{"exec":{"kind":"nodejs:20","code":"x"},"limits":{"timeout":"1 minute"}}`: "'limits.timeout' must be a whole number, got JSON string",
		`{"exec":{"kind":"nodejs:20","code":"x"},"limits":{"memory":256.5}}`:       "'limits.memory' must be a whole number, got JSON number 256.5",
		`{}`:                                                                           "exec undefined",
		`{"exec":{}}`:                                                                  "'kind' must be a string",
		`{"exec":{"kind":7}}`:                                                          "malformed",
		`{"exec":{"kind":"cobol","code":"x"}}`:                                         "kind 'cobol' not in Set(nodejs:20, python:3.11, java:8, old:1)",
		`{"exec":{"kind":"nodejs:20"}}`:                                                "'code' must be a string or attachment object defined in 'exec' for 'nodejs:20' actions",
		`{"exec":{"kind":"nodejs:20","code":7}}`:                                       "'code' must be a string",
		`{"exec":{"kind":"java:8","code":"x"}}`:                                        "'main' must be a string defined in 'exec' for 'java:8' actions",
		`{"exec":{"kind":"nodejs:20","code":"x","main":7}}`:                            "'main'",
		`{"exec":{"kind":"old:1","code":"x"}}`:                                         "no longer supported",
		`{"exec":{"kind":"blackbox"}}`:                                                 "'image' must be a string",
		`{"exec":{"kind":"sequence"}}`:                                                 "No component",
		`{"exec":{"kind":"sequence","components":["x"]}}`:                              "fully qualified name",
		`{"exec":{"kind":"nodejs:20","code":"x"},"limits":{"memory":99999}}`:           "memory size 99999 MB exceeds allowed threshold of 512 MB",
		`{"exec":{"kind":"nodejs:20","code":"x"},"limits":{"timeout":1}}`:              "duration 1 milliseconds",
		`{"exec":{"kind":"nodejs:20","code":"x"},"version":"0.0"}`:                     "malformed",
		`{"exec":{"kind":"nodejs:20","code":"x"},"annotations":{"a":1}}`:               "annotations malformed",
		`{"exec":{"kind":"nodejs:20","code":"x"},"parameters":[{"value":1}]}`:          "parameters malformed",
		`{"exec":{"kind":"nodejs:20","code":"x"},"parameters":[{"key":"","value":1}]}`: "parameters malformed",
	} {
		_, err := create(t, body)
		var bad *Refusal
		check.That(check.Must(t), errors.As(err, &bad), "%s: %v", body, err)
		check.Equal(t, bad.Status, 400, "%s", body)
		check.Contains(t, err.Error(), want, "%s", body)
	}
	_, err := create(t, `{"exec":{"kind":"nodejs:20","code":"x"},"parameters":[{"key":"a","value":"`+strings.Repeat("x", maxParameterBytes)+`"}]}`)
	var large *Refusal
	check.That(check.Must(t), errors.As(err, &large), "%v", err)
	check.Equal(t, large.Status, 413)
	check.That(t, strings.HasPrefix(large.Text, "parameters larger"), "%s", large.Text)
}

func TestFamilyDefaultResolves(t *testing.T) {
	a, err := create(t, `{"exec":{"kind":"python:default","code":"x"}}`)
	check.NoError(t, err)
	check.Equal(t, a.Exec.Kind, "python:3.11")
}

func TestUpdates(t *testing.T) {
	old, err := create(t, `{"exec":{"kind":"nodejs:20","code":"x"},"parameters":[{"key":"p","value":1}],"annotations":[{"key":"a","value":1},{"key":"b","value":2}]}`)
	check.NoError(t, err)
	sequence, err := create(t, `{"exec":{"kind":"sequence","components":["/_/x"]}}`)
	check.NoError(t, err)
	cases := []struct {
		name, body string
		old        *Entity
		holds      func(*Entity) bool
	}{
		{"patch version", `{}`, old, func(a *Entity) bool { return a.Version == "0.0.2" && a.Updated == 9 }},
		{"given version", `{"version":"1.0.0"}`, old, func(a *Entity) bool { return a.Version == "1.0.0" }},
		{"parameters stay", `{"publish":true}`, old, func(a *Entity) bool { return len(a.Parameters) == 1 && a.Publish }},
		{"parameters are replaced", `{"parameters":[]}`, old, func(a *Entity) bool { return len(a.Parameters) == 0 }},
		{"annotations are merged", `{"annotations":[{"key":"a","value":3}]}`, old, func(a *Entity) bool {
			v, _ := a.Annotations.Get("a")
			return string(v) == "3" && len(a.Annotations) == len(old.Annotations)
		}},
		{"annotations are removed", `{"delAnnotations":["a"]}`, old, func(a *Entity) bool { _, ok := a.Annotations.Get("a"); return !ok }},
		{"a sequence's parameters do not stay", `{"exec":{"kind":"nodejs:20","code":"y"}}`, sequence, func(a *Entity) bool { return len(a.Parameters) == 0 }},
		{"a sequence keeps its own", `{"parameters":[{"key":"z","value":1}]}`, sequence, func(a *Entity) bool { return len(a.Parameters) == 1 && a.Parameters[0].Key == "_actions" }},
		{"the kind is annotated", `{"exec":{"kind":"python:3.11","code":"y"}}`, old, func(a *Entity) bool { v, _ := a.Annotations.Text("exec"); return v == "python:3.11" }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, err := c.old.Put([]byte(c.body), terms(t, 9))
			check.NoError(t, err)
			check.That(t, c.holds(a), "became %s", a.Answer())
		})
	}
}

func TestRefs(t *testing.T) {
	for text, want := range map[string]string{
		"/_/a": "guest/a", "_/p/a": "guest/p/a", "/other/a": "other/a", "/other/p/a b": "other/p/a b",
		"a": "", "/a": "", "/a/b/c/d": "", "//b": "", "/guest/ ": "",
	} {
		ref, err := ParseRef(text, "guest")
		if want == "" {
			check.That(t, err != nil, "%q became %s", text, ref)
			continue
		}
		check.NoError(t, err, "%q", text)
		check.Equal(t, ref.String(), want, "%q", text)
	}
	r := Ref{"guest/p", "a"}
	check.Equal(t, r.Namespace(), "guest")
	check.Equal(t, r.Package(), "p")
}

func TestOtherKindsAreRefused(t *testing.T) {
	const trigger = `{"entityType":"trigger","namespace":"guest","name":"t","version":"0.0.1","publish":false,"annotations":[],"parameters":[],"updated":1}`
	for _, kind := range []Kind{Action, Package} {
		_, err := Decode(kind, []byte(trigger))
		check.ErrorIs(t, err, ErrOtherKind, "a trigger as %s", kind)
	}
}

func TestParameterOrderAndPrecedence(t *testing.T) {
	p := Parameters{{Key: "both", Value: json.RawMessage(`"action"`)}, {Key: "a", Value: json.RawMessage(`1`)}}
	under := Parameters{{Key: "pkg", Value: json.RawMessage(`1`)}, {Key: "both", Value: json.RawMessage(`"package"`)}}
	over := p.Over(under)
	check.Equal(check.Must(t), len(over), 3)
	check.Equal(t, string(over[1].Value), `"action"`)
	check.Equal(t, string(under[1].Value), `"package"`, "the merged parameters")
}

func FuzzPuts(f *testing.F) {
	for _, s := range scenarios(f) {
		if s.Put != nil {
			f.Add([]byte(s.Put.Request))
		}
		for _, doc := range s.ActionDocs {
			f.Add([]byte(doc))
		}
	}
	f.Add([]byte(`{"binding":{"namespace":"_","name":"p"},"parameters":[{"key":"a"}]}`))
	terms := terms(f, 1)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, kind := range []Kind{Action, Package} {
			e, err := New(kind, Ref{"guest", "x"}).Put(body, terms)
			if err != nil {
				continue
			}
			check.That(check.Must(t), json.Valid(e.Answer()), "%s from %q: %q", kind, body, e.Answer())
			_, err = Decode(kind, e.Document())
			check.NoError(t, err, "%s", e.Document())
		}
		_, _, _ = rewrite(body)
	})
}
