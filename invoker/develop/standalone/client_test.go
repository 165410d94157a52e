package standalone

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

func client(t *testing.T, s *Standalone) *whisk.Client {
	t.Helper()
	c, err := whisk.NewClient(http.DefaultClient, &whisk.Config{
		Host: s.Info().APIHost, AuthToken: s.Info().Guest().AuthKey(), Namespace: "_", Insecure: false,
	})
	check.NoError(t, err)
	return c
}

// echo answers with the arguments. The argument "fail" turns the answer into an error.
func echo(m *activation.Message) activation.Response {
	var args map[string]json.RawMessage
	if json.Unmarshal(m.Content, &args) == nil && args["fail"] != nil {
		return activation.ErrorValue(activation.StatusApplicationError, args["fail"])
	}
	return activation.Response{Result: m.Content}
}

func code(text string) *whisk.Exec { return &whisk.Exec{Kind: "nodejs:20", Code: &text} }

func must[T any](t *testing.T) func(T, *http.Response, error) T {
	return func(v T, _ *http.Response, err error) T {
		t.Helper()
		check.NoError(t, err)
		return v
	}
}

func TestActionsThroughTheClient(t *testing.T) {
	s := begin(t, &fakeInvoker{run: echo}, nil)
	c := client(t, s)
	made := must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{
		Name: "hello", Exec: code("function main(p) { return p; }"),
		Annotations: whisk.KeyValueArr{{Key: "gpu", Value: true}},
		Parameters:  whisk.KeyValueArr{{Key: "place", Value: "London"}},
	}, false))
	check.Equal(t, made.Version, "0.0.1")
	check.Equal(t, made.Namespace, "guest")
	check.That(check.Must(t), made.Limits != nil)
	check.Equal(t, *made.Limits.Memory, 256)
	_, _, err := c.Actions.Insert(&whisk.Action{Name: "hello", Exec: code("x")}, false)
	check.ErrorContains(t, err, "resource already exists")
	timeout := 1000
	updated := must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: "hello", Limits: &whisk.Limits{Timeout: &timeout},
		Annotations: whisk.KeyValueArr{{Key: "more", Value: 1}}, DelAnnotations: []string{"gpu"}}, true))
	check.Equal(t, updated.Version, "0.0.2")
	check.Equal(t, *updated.Limits.Timeout, 1000)
	check.Equal(t, *updated.Limits.Memory, 256)
	check.That(check.Must(t), updated.Exec.Code != nil)
	check.Equal(t, *updated.Exec.Code, "function main(p) { return p; }")
	check.Equal(t, updated.Annotations.GetValue("gpu"), nil)
	check.That(t, updated.Annotations.GetValue("more") != nil)
	check.Equal(t, updated.Annotations.GetValue("exec"), "nodejs:20")
	got := must[*whisk.Action](t)(c.Actions.Get("hello", false))
	check.That(t, got.Exec.Code == nil)
	check.Equal(t, got.Exec.Kind, "nodejs:20")
	check.Equal(t, got.Parameters.GetValue("place"), "London")
	list := must[[]whisk.Action](t)(c.Actions.List("", &whisk.ActionListOptions{Limit: 30}))
	check.Equal(check.Must(t), len(list), 1)
	check.Equal(t, list[0].Name, "hello")
	if _, err := c.Actions.Delete("hello"); err != nil {
		t.Error(err)
	}
	_, res, err := c.Actions.Get("hello", true)
	check.ErrorContains(t, err, "The requested resource does not exist.")
	check.Equal(t, res.StatusCode, 404)
}

func TestInvocationsThroughTheClient(t *testing.T) {
	f := &fakeInvoker{run: echo}
	s := begin(t, f, nil)
	c := client(t, s)
	must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: "hello world", Exec: code("x"),
		Parameters: whisk.KeyValueArr{{Key: "place", Value: "London"}, {Key: "name", Value: "Bob"}}}, false))

	blocking := must[any](t)(c.Actions.Invoke("hello world", map[string]any{"name": "Ada"}, true, false)).(map[string]any)
	result := blocking["response"].(map[string]any)["result"].(map[string]any)
	check.Equal(t, result["name"], "Ada")
	check.Equal(t, result["place"], "London")
	only := must[any](t)(c.Actions.Invoke("hello world", map[string]any{}, true, true)).(map[string]any)
	check.Equal(t, only["name"], "Bob")
	check.Equal(t, len(only), 2)
	nonBlocking := must[any](t)(c.Actions.Invoke("hello world", nil, false, false)).(map[string]any)
	id := nonBlocking["activationId"].(string)
	failed, _, err := c.Actions.Invoke("hello world", map[string]any{"fail": "no good"}, true, false)
	check.ErrorContains(t, err, "no good")
	check.That(t, failed.(map[string]any)["activationId"] != nil, "%v", failed)
	_, _, err = c.Actions.Invoke("nothing", nil, true, false)
	check.ErrorContains(t, err, "does not exist")
	record := eventually(t, func() (*whisk.Activation, error) { a, _, err := c.Activations.Get(id); return a, err })
	check.Equal(t, record.Name, "hello world")
	check.Equal(t, record.Namespace, "guest")
	check.That(t, record.Success)
	check.Equal(t, record.Annotations.GetValue("path"), "guest/hello world")
	logs := must[*whisk.Activation](t)(c.Activations.Logs(id))
	check.Equal(check.Must(t), len(logs.Logs), 1)
	check.That(t, strings.HasSuffix(logs.Logs[0], "stdout: ran"), "%s", logs.Logs[0])
	res := must[*whisk.Response](t)(c.Activations.Result(id))
	check.That(t, res.Success)
	check.Equal(t, res.Status, "success")
	list := must[[]whisk.Activation](t)(c.Activations.List(&whisk.ActivationListOptions{Limit: 10, Docs: true}))
	check.Equal(t, len(list), 4)
	check.That(t, slices.IsSortedFunc(list, func(a, b whisk.Activation) int { return int(b.Start - a.Start) }))
	named := must[[]whisk.Activation](t)(c.Activations.List(&whisk.ActivationListOptions{Limit: 2, Name: "hello world"}))
	check.Equal(t, len(named), 2, "the limit")
	m := f.messages()[0]
	check.Equal(t, m.Action.Version, "0.0.1")
	check.That(t, strings.HasPrefix(m.Revision, "1-"), "%s", m.Revision)
	check.Equal(t, m.Controller, "0")
	check.That(t, m.Blocking)
	check.Equal(t, m.User.Subject, "guest")
	check.Equal(t, len(m.User.Rights), 4)
	check.Equal(t, string(m.User.AuthKey.JSON()), `{"api_key":"`+s.Info().Guest().AuthKey()+`"}`)
}

// eventually repeats fn until it succeeds, because records are written after callers
// have their answers.
func eventually[T any](t *testing.T, fn func() (T, error)) (v T) {
	t.Helper()
	peertest.Until(t, "it succeeds", func() string {
		var err error
		if v, err = fn(); err != nil {
			return err.Error()
		}
		return ""
	})
	return v
}

func TestResultTooLargeForAnAckComesFromTheDatabase(t *testing.T) {
	s := begin(t, &fakeInvoker{run: echo, shrink: true}, nil)
	c := client(t, s)
	must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: "big", Exec: code("x")}, false))
	got := must[any](t)(c.Actions.Invoke("big", map[string]any{"a": 1}, true, true)).(map[string]any)
	check.Equal(t, fmt.Sprint(got["a"]), "1")
}

func TestPackagesAndBindings(t *testing.T) {
	f := &fakeInvoker{run: echo}
	s := begin(t, f, nil)
	c := client(t, s)
	made := must[*whisk.Package](t)(c.Packages.Insert(&whisk.Package{Name: "pkg",
		Parameters: whisk.KeyValueArr{{Key: "pp", Value: "from package"}, {Key: "both", Value: "package"}}}, false))
	check.That(check.Must(t), made.Binding != nil)
	check.Equal(t, made.Binding.Name, "")
	must[*whisk.Package](t)(c.Packages.Insert(&whisk.BindingPackage{Name: "bound", Binding: whisk.Binding{Namespace: "_", Name: "pkg"},
		Parameters: whisk.KeyValueArr{{Key: "bp", Value: "from binding"}, {Key: "both", Value: "binding"}}}, false))
	must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: "pkg/inpkg", Exec: code("x"),
		Parameters: whisk.KeyValueArr{{Key: "ap", Value: "from action"}, {Key: "both", Value: "action"}}}, false))
	got := must[any](t)(c.Actions.Invoke("bound/inpkg", map[string]any{"call": 2}, true, true))
	text, _ := json.Marshal(got)
	check.Equal(t, string(text), `{"ap":"from action","both":"action","bp":"from binding","call":2,"pp":"from package"}`, "through a binding")
	m := f.messages()[0]
	check.Equal(t, m.Action.Path, "guest/pkg")
	check.Equal(t, m.Action.Binding, "guest/bound")
	pkg := must[*whisk.Package](t)(c.Packages.Get("bound"))
	check.Equal(t, pkg.Parameters.GetValue("pp"), "from package")
	check.Equal(t, pkg.Binding.Name, "pkg")
	check.Equal(check.Must(t), len(pkg.Actions), 1)
	check.Equal(t, pkg.Actions[0].Name, "inpkg")
	// The client's type of a package cannot represent the false that lists contain in
	// place of a binding, but its names and their number are right.
	packages, _, err := c.Packages.List(&whisk.PackageListOptions{Limit: 30})
	check.NoError(t, err)
	check.Equal(t, len(packages), 2)
	inside := must[[]whisk.Action](t)(c.Actions.List("bound", &whisk.ActionListOptions{Limit: 30}))
	check.Equal(check.Must(t), len(inside), 1)
	check.Equal(t, inside[0].Namespace, "guest/pkg")
	byName := eventually(t, func() ([]whisk.Activation, error) {
		l, _, err := c.Activations.List(&whisk.ActivationListOptions{Limit: 5, Name: "bound/inpkg"})
		if err == nil && len(l) == 0 {
			err = fmt.Errorf("no activation by the name of the binding")
		}
		return l, err
	})
	check.Equal(t, byName[0].Name, "inpkg")
	_, _, err = c.Actions.Insert(&whisk.Action{Name: "bound/x", Exec: code("x")}, false)
	check.ErrorContains(t, err, "binding")
	_, err = c.Packages.Delete("pkg")
	check.ErrorContains(t, err, "Package not empty (contains 1 entity)")
	if _, err := c.Packages.Delete("bound"); err != nil {
		t.Error(err)
	}
}

// TestListsOfOtherKindsAreEmpty: wsk list asks for every collection of the API, also for
// those without entities here.
func TestListsOfOtherKindsAreEmpty(t *testing.T) {
	s := begin(t, &fakeInvoker{}, nil)
	c := client(t, s)
	check.Equal(t, len(must[[]whisk.Trigger](t)(c.Triggers.List(&whisk.TriggerListOptions{Limit: 30}))), 0)
	check.Equal(t, len(must[[]whisk.Rule](t)(c.Rules.List(&whisk.RuleListOptions{Limit: 30}))), 0)
	d := at(t, s)
	for _, name := range []string{"triggers", "rules"} {
		d.equals("GET", "/api/v1/namespaces/_/"+name+"?count=true", "", 200, `{"`+name+`":0}`)
		d.anonymous().contains("GET", "/api/v1/namespaces/_/"+name, "", 401, "requires authentication")
	}
}

func TestNamespacesAndInfo(t *testing.T) {
	s := begin(t, &fakeInvoker{}, nil)
	c := client(t, s)
	check.Equal(t, must[*whisk.Info](t)(c.Info.Get()).BuildNo, "test")
	names := must[[]whisk.Namespace](t)(c.Namespaces.List())
	check.Equal(check.Must(t), len(names), 1)
	check.Equal(t, names[0].Name, "guest")
}
