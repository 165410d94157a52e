package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

const nodeHello = `function main(p) { console.log('hello', p.name); return {greeting: 'hi ' + p.name}; }`

var ada = map[string]any{"name": "Ada"}

// hello deploys nodeHello under a name.
func (p *platform) hello(name string) {
	p.t.Helper()
	p.create(name, "nodejs:20", nodeHello, nil)
}

// greets invokes a function that greets, and checks the answer.
func (p *platform) greets(name string) {
	p.t.Helper()
	p.call(name, ada).want(p.t, activation.StatusSuccess, "hi Ada")
}

// TestUser uses wsk's library like a person, step by step on one installation.
func TestUser(t *testing.T) {
	withEachParts(t, func(t *testing.T, w parts) {
		p := start(t, w, setup{})
		for _, c := range []struct {
			name string
			do   func(*testing.T, *platform)
		}{
			{"actions of each kind", kinds4}, {"one action's life", life}, {"sequence", sequence},
			{"package and binding", packageAndBinding},
			{"docker image", dockerImage}, {"large code", largeCode},
		} {
			t.Run(c.name, func(t *testing.T) { c.do(t, p.at(t)) })
		}
	})
}

// at is the same installation seen from a subtest.
func (p *platform) at(t *testing.T) *platform {
	q := *p
	q.t = t
	return &q
}

// kinds4 runs code of each kind, plain and zipped.
func kinds4(t *testing.T, p *platform) {
	native := programCode(t, "./testdata/greeter")
	for _, c := range []struct{ name, kind, code, main string }{
		{"node", "nodejs:20", nodeHello, ""},
		{"node-zip", "nodejs:20", zipped(t, map[string]string{
			"package.json": `{"main":"lib.js"}`, "lib.js": `exports.greet = p => ({greeting: 'hi ' + p.name})`}), "greet"},
		{"python", "python:3", "def main(p):\n    print('hello', p['name'])\n    return {'greeting': 'hi ' + p['name']}\n", ""},
		{"python-zip", "python:3", zipped(t, map[string]string{
			"__main__.py": "from other import text\ndef greet(p):\n    return {'greeting': text + p['name']}\n", "other.py": "text = 'hi '\n"}), "greet"},
		{"script", "native:1", "#!/bin/bash\necho hello Ada\necho '{\"greeting\": \"hi Ada\"}'\n", ""},
		{"binary", "native:1", base64.StdEncoding.EncodeToString(native), ""},
		{"binary-zip", "native:1", zipped(t, map[string]string{"exec": string(native)}), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := p.at(t)
			p.insert(&whisk.Action{Name: c.name, Exec: &whisk.Exec{Kind: c.kind, Code: &c.code, Main: c.main}})
			for range 2 { // cold and warm
				o := p.call(c.name, ada)
				o.want(t, 0, "hi Ada")
			}
		})
	}
}

// zipped makes an archive, as wsk sends it.
func zipped(t *testing.T, files map[string]string) string {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for name, text := range files {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(0o755)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		check.NoError(t, err)
	}
	check.NoError(t, w.Close())
	return base64.StdEncoding.EncodeToString(buf.Bytes())
}

// programCode is a program as an action's code.
func programCode(t testing.TB, source string) []byte {
	t.Helper()
	path, err := peertest.Program(source)
	check.NoError(t, err)
	return harness.Read(t, path)
}

// life is an action's: created, invoked in both ways, read, updated, deleted.
func life(t *testing.T, p *platform) {
	p.hello("life")
	p.wantResult("life", ada, "map[greeting:hi Ada]")
	o := p.finish(p.started("life", map[string]any{"name": "Bob"}, false))
	check.Equal(t, fmt.Sprint(kinds(o.acks)), "[completion]", "acks of a call that does not wait")
	id := string(o.id)
	got := soon(t, func() (*whisk.Activation, error) { a, _, err := p.c.Activations.Get(id); return a, err })
	check.Equal(t, got.Name, "life")
	check.Equal(t, got.Namespace, "guest")
	check.That(t, got.Success, "activation %+v", got)
	check.Equal(t, got.Annotations.GetValue("path"), "guest/life")
	check.Equal(t, got.Annotations.GetValue("kind"), "nodejs:20")
	logs := soon(t, func() (*whisk.Activation, error) { a, _, err := p.c.Activations.Logs(id); return a, err })
	wantLine(t, logs.Logs, "stdout: hello Bob")
	result := soon(t, func() (*whisk.Response, error) { r, _, err := p.c.Activations.Result(id); return r, err })
	check.That(t, result.Success, "result %+v", result)
	check.Equal(t, result.Status, "success")
	check.Equal(t, fmt.Sprint(*result.Result), "map[greeting:hi Bob]")
	soon(t, func() (int, error) { // the record of the first was not awaited
		list, _, err := p.c.Activations.List(&whisk.ActivationListOptions{Name: "life", Limit: 5})
		if err == nil && len(list) != 2 {
			err = fmt.Errorf("%d activations listed, want 2", len(list))
		}
		return len(list), err
	})
	p.create("life", "nodejs:20", `function main() { return {version: 2}; }`, nil)
	p.call("life", nil).want(t, 0, `"version":2`)
	if _, err := p.c.Actions.Delete("life"); err != nil {
		t.Error(err)
	}
	_, res, err := p.c.Actions.Invoke("life", nil, true, true)
	check.That(t, err != nil, "invoked after its deletion")
	check.Equal(t, res.StatusCode, 404, "invoked after its deletion: %v", err)
}

// wantResult invokes an action, and checks the result alone.
func (p *platform) wantResult(name string, args map[string]any, want string) {
	p.t.Helper()
	got, _, err := p.c.Actions.Invoke(name, args, true, true)
	if err != nil {
		p.t.Errorf("%s: %v", name, err)
	}
	check.Equal(p.t, fmt.Sprint(got), want, "result of %s", name)
}

func sequence(t *testing.T, p *platform) {
	p.create("inc", "python:3", "def main(p):\n    return {'n': p['n'] + 1}\n", nil)
	p.create("double", "nodejs:20", "const main = p => ({n: p.n * 2})", nil)
	p.create("refuse", "nodejs:20", "const main = p => ({error: 'no more'})", nil)
	make := func(name string, parts ...string) {
		p.insert(&whisk.Action{Name: name, Exec: &whisk.Exec{Kind: "sequence", Components: parts}})
	}
	make("steps", "/_/inc", "/_/double", "/_/inc")
	make("nested", "/_/steps", "/_/double")
	make("broken", "/_/inc", "/_/refuse", "/_/double")
	for name, want := range map[string]string{"steps": "map[n:9]", "nested": "map[n:18]"} {
		p.wantResult(name, map[string]any{"n": 3}, want)
	}
	_, _, err := p.c.Actions.Invoke("broken", map[string]any{"n": 3}, true, true)
	check.ErrorContains(t, err, "no more", "a sequence that breaks")
	id := string(p.started("steps", map[string]any{"n": 1}, true))
	whole := soon(t, func() (*whisk.Activation, error) { a, _, err := p.c.Activations.Get(id); return a, err })
	check.Equal(check.Must(t), len(whole.Logs), 3, "a sequence of three logs that it ran %v", whole.Logs)
	for _, part := range whole.Logs {
		o := p.finish(activation.ID(part))
		check.Equal(t, string(o.record.Cause), id, "cause of %s, which is a part of a sequence", part)
	}
}

func packageAndBinding(t *testing.T, p *platform) {
	_, _, err := p.c.Packages.Insert(&whisk.Package{Name: "tools", Parameters: whisk.KeyValueArr{{Key: "a", Value: "package"}, {Key: "b", Value: "package"}}}, true)
	check.NoError(t, err)
	p.create("tools/show", "nodejs:20", "function main(p) { return {got: p, name: process.env.__OW_ACTION_NAME}; }", nil)
	_, _, err = p.c.Packages.Insert(&whisk.BindingPackage{Name: "mine", Binding: whisk.Binding{Namespace: "_", Name: "tools"},
		Parameters: whisk.KeyValueArr{{Key: "b", Value: "binding"}}}, true)
	check.NoError(t, err)
	o := p.call("mine/show", map[string]any{"c": "call"})
	o.want(t, 0, `{"got":{"a":"package","b":"binding","c":"call"},"name":"/guest/tools/show"}`)
	annotation, _ := o.record.Annotations.Get("binding")
	check.Equal(t, string(annotation), `"guest/mine"`, "binding in the record")
	p.call("tools/show", nil).want(t, 0, `"b":"package"`)
}

// dockerImage runs an image of the user's own, made from nothing but a
// program, as `wsk action create --docker` has it.
func dockerImage(t *testing.T, p *platform) {
	p.insert(&whisk.Action{Name: "image", Exec: &whisk.Exec{Kind: "blackbox", Image: actorImage(t, p.parts)}, Limits: limits(20000, 0, 0)})
	o := p.call("image", map[string]any{"do": "echo", "name": "Ada"})
	if !p.parts.real() { // no image without Docker: the skeleton runs
		o.want(t, activation.StatusApplicationError, "This is a stub action.")
		return
	}
	o.want(t, 0, `"name":"Ada"`)
	// It prints no sentinels: a line that Docker writes late is the next activation's.
	got := o.logged()
	for range 20 {
		if len(got) > 0 {
			break
		}
		got = p.call("image", map[string]any{"do": "echo"}).logged()
	}
	check.Greater(t, len(got), 0, "no activation has a log")
	for _, line := range got {
		check.Equal(t, line, "stdout: actor ran", "logs %q", got)
	}
}

// largeCode is code that the database keeps as an attachment.
func largeCode(t *testing.T, p *platform) {
	code := "//" + strings.Repeat("x", 200_000) + "\n" + nodeHello
	p.create("large", "nodejs:20", code, nil)
	p.greets("large")
}
