package standalone

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

func client(t *testing.T, s *Standalone) *whisk.Client {
	t.Helper()
	c, err := whisk.NewClient(http.DefaultClient, &whisk.Config{
		Host: s.Info().APIHost, AuthToken: s.Info().Guest().AuthKey(), Namespace: "_", Insecure: false,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// echo answers with the arguments; an argument "fail" makes it an error.
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
		if err != nil {
			t.Fatal(err)
		}
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
	if made.Version != "0.0.1" || made.Namespace != "guest" || made.Limits == nil || *made.Limits.Memory != 256 {
		t.Errorf("created %+v", made)
	}
	if _, _, err := c.Actions.Insert(&whisk.Action{Name: "hello", Exec: code("x")}, false); err == nil || !strings.Contains(err.Error(), "resource already exists") {
		t.Errorf("created twice: %v", err)
	}
	timeout := 1000
	updated := must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: "hello", Limits: &whisk.Limits{Timeout: &timeout},
		Annotations: whisk.KeyValueArr{{Key: "more", Value: 1}}, DelAnnotations: []string{"gpu"}}, true))
	if updated.Version != "0.0.2" || *updated.Limits.Timeout != 1000 || *updated.Limits.Memory != 256 ||
		updated.Exec.Code == nil || *updated.Exec.Code != "function main(p) { return p; }" {
		t.Errorf("updated %+v", updated)
	}
	if updated.Annotations.GetValue("gpu") != nil || updated.Annotations.GetValue("more") == nil || updated.Annotations.GetValue("exec") != "nodejs:20" {
		t.Errorf("annotations %v", updated.Annotations)
	}
	got := must[*whisk.Action](t)(c.Actions.Get("hello", false))
	if got.Exec.Code != nil || got.Exec.Kind != "nodejs:20" || got.Parameters.GetValue("place") != "London" {
		t.Errorf("got %+v with %+v", got, got.Exec)
	}
	list := must[[]whisk.Action](t)(c.Actions.List("", &whisk.ActionListOptions{Limit: 30}))
	if len(list) != 1 || list[0].Name != "hello" {
		t.Errorf("list %+v", list)
	}
	if _, err := c.Actions.Delete("hello"); err != nil {
		t.Error(err)
	}
	if _, res, err := c.Actions.Get("hello", true); err == nil || res.StatusCode != 404 || !strings.Contains(err.Error(), "The requested resource does not exist.") {
		t.Errorf("after delete: %v", err)
	}
}

func TestInvocationsThroughTheClient(t *testing.T) {
	f := &fakeInvoker{run: echo}
	s := begin(t, f, nil)
	c := client(t, s)
	must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: "hello world", Exec: code("x"),
		Parameters: whisk.KeyValueArr{{Key: "place", Value: "London"}, {Key: "name", Value: "Bob"}}}, false))

	blocking := must[any](t)(c.Actions.Invoke("hello world", map[string]any{"name": "Ada"}, true, false)).(map[string]any)
	result := blocking["response"].(map[string]any)["result"].(map[string]any)
	if result["name"] != "Ada" || result["place"] != "London" {
		t.Errorf("result %v", result)
	}
	only := must[any](t)(c.Actions.Invoke("hello world", map[string]any{}, true, true)).(map[string]any)
	if only["name"] != "Bob" || len(only) != 2 {
		t.Errorf("result alone %v", only)
	}
	nonBlocking := must[any](t)(c.Actions.Invoke("hello world", nil, false, false)).(map[string]any)
	id := nonBlocking["activationId"].(string)
	failed, _, err := c.Actions.Invoke("hello world", map[string]any{"fail": "no good"}, true, false)
	if err == nil || !strings.Contains(err.Error(), "no good") || failed.(map[string]any)["activationId"] == nil {
		t.Errorf("failing action: %v, %v", failed, err)
	}
	if _, _, err := c.Actions.Invoke("nothing", nil, true, false); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("unknown action: %v", err)
	}
	record := eventually(t, func() (*whisk.Activation, error) { a, _, err := c.Activations.Get(id); return a, err })
	if record.Name != "hello world" || record.Namespace != "guest" || !record.Success || record.Annotations.GetValue("path") != "guest/hello world" {
		t.Errorf("record %+v", record)
	}
	logs := must[*whisk.Activation](t)(c.Activations.Logs(id))
	if len(logs.Logs) != 1 || !strings.HasSuffix(logs.Logs[0], "stdout: ran") {
		t.Errorf("logs %v", logs.Logs)
	}
	res := must[*whisk.Response](t)(c.Activations.Result(id))
	if !res.Success || res.Status != "success" {
		t.Errorf("result %+v", res)
	}
	list := must[[]whisk.Activation](t)(c.Activations.List(&whisk.ActivationListOptions{Limit: 10, Docs: true}))
	if len(list) != 4 || !slices.IsSortedFunc(list, func(a, b whisk.Activation) int { return int(b.Start - a.Start) }) {
		t.Errorf("%d activations in a list", len(list))
	}
	named := must[[]whisk.Activation](t)(c.Activations.List(&whisk.ActivationListOptions{Limit: 2, Name: "hello world"}))
	if len(named) != 2 {
		t.Errorf("%d activations by name, want the limit", len(named))
	}
	m := f.messages()[0]
	if m.Action.Version != "0.0.1" || !strings.HasPrefix(m.Revision, "1-") || m.Controller != "0" || !m.Blocking ||
		m.User.Subject != "guest" || len(m.User.Rights) != 4 || string(m.User.AuthKey.JSON()) != `{"api_key":"`+s.Info().Guest().AuthKey()+`"}` {
		t.Errorf("message %+v", m)
	}
}

// eventually repeats until fn succeeds: records are written while their
// callers already have their answers.
func eventually[T any](t *testing.T, fn func() (T, error)) T {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := fn()
		if err == nil {
			return v
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal(err)
		}
	}
}

func TestResultTooLargeForAnAckComesFromTheDatabase(t *testing.T) {
	s := begin(t, &fakeInvoker{run: echo, shrink: true}, nil)
	c := client(t, s)
	must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: "big", Exec: code("x")}, false))
	got := must[any](t)(c.Actions.Invoke("big", map[string]any{"a": 1}, true, true)).(map[string]any)
	if fmt.Sprint(got["a"]) != "1" {
		t.Errorf("got %v", got)
	}
}

func TestPackagesAndBindings(t *testing.T) {
	f := &fakeInvoker{run: echo}
	s := begin(t, f, nil)
	c := client(t, s)
	made := must[*whisk.Package](t)(c.Packages.Insert(&whisk.Package{Name: "pkg",
		Parameters: whisk.KeyValueArr{{Key: "pp", Value: "from package"}, {Key: "both", Value: "package"}}}, false))
	if made.Binding == nil || made.Binding.Name != "" {
		t.Errorf("package %+v", made)
	}
	must[*whisk.Package](t)(c.Packages.Insert(&whisk.BindingPackage{Name: "bound", Binding: whisk.Binding{Namespace: "_", Name: "pkg"},
		Parameters: whisk.KeyValueArr{{Key: "bp", Value: "from binding"}, {Key: "both", Value: "binding"}}}, false))
	must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: "pkg/inpkg", Exec: code("x"),
		Parameters: whisk.KeyValueArr{{Key: "ap", Value: "from action"}, {Key: "both", Value: "action"}}}, false))
	got := must[any](t)(c.Actions.Invoke("bound/inpkg", map[string]any{"call": 2}, true, true))
	if text, _ := json.Marshal(got); string(text) != `{"ap":"from action","both":"action","bp":"from binding","call":2,"pp":"from package"}` {
		t.Errorf("through a binding: %s", text)
	}
	if m := f.messages()[0]; m.Action.Path != "guest/pkg" || m.Action.Binding != "guest/bound" {
		t.Errorf("action %+v", m.Action)
	}
	pkg := must[*whisk.Package](t)(c.Packages.Get("bound"))
	if len(pkg.Actions) != 1 || pkg.Actions[0].Name != "inpkg" || pkg.Parameters.GetValue("pp") != "from package" || pkg.Binding.Name != "pkg" {
		t.Errorf("binding %+v", pkg)
	}
	// The client's own type of a package cannot hold the false that a package
	// has for a binding in lists; it has names and number right.
	packages, _, err := c.Packages.List(&whisk.PackageListOptions{Limit: 30})
	if err != nil || len(packages) != 2 {
		t.Errorf("packages %+v, %v", packages, err)
	}
	inside := must[[]whisk.Action](t)(c.Actions.List("bound", &whisk.ActionListOptions{Limit: 30}))
	if len(inside) != 1 || inside[0].Namespace != "guest/pkg" {
		t.Errorf("actions in a binding %+v", inside)
	}
	byName := eventually(t, func() ([]whisk.Activation, error) {
		l, _, err := c.Activations.List(&whisk.ActivationListOptions{Limit: 5, Name: "bound/inpkg"})
		if err == nil && len(l) == 0 {
			err = fmt.Errorf("no activation by the name of the binding")
		}
		return l, err
	})
	if byName[0].Name != "inpkg" {
		t.Errorf("by name %+v", byName)
	}
	if _, _, err := c.Actions.Insert(&whisk.Action{Name: "bound/x", Exec: code("x")}, false); err == nil || !strings.Contains(err.Error(), "binding") {
		t.Errorf("action in a binding: %v", err)
	}
	if _, err := c.Packages.Delete("pkg"); err == nil || !strings.Contains(err.Error(), "Package not empty (contains 1 entity)") {
		t.Errorf("delete of a package with an action: %v", err)
	}
	if _, err := c.Packages.Delete("bound"); err != nil {
		t.Error(err)
	}
}

func TestTriggersAndRules(t *testing.T) {
	f := &fakeInvoker{run: echo}
	s := begin(t, f, nil)
	c := client(t, s)
	must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: "ruled", Exec: code("x"), Parameters: whisk.KeyValueArr{{Key: "ad", Value: "action default"}}}, false))
	must[*whisk.Trigger](t)(c.Triggers.Insert(&whisk.Trigger{Name: "trig", Parameters: whisk.KeyValueArr{{Key: "tp", Value: "from trigger"}}}, false))
	if fired, res, err := c.Triggers.Fire("trig", map[string]any{}); err != nil || res.StatusCode != 204 || fired.ActivationId != "" {
		t.Errorf("without a rule: %v %v", res, err)
	}
	rule := must[*whisk.Rule](t)(c.Rules.Insert(&whisk.Rule{Name: "rule1", Trigger: "/_/trig", Action: "/_/ruled"}, false))
	if rule.Status != "active" {
		t.Errorf("rule %+v", rule)
	}
	fired := must[*whisk.Trigger](t)(c.Triggers.Fire("trig", map[string]any{"fired": "with this"}))
	record := eventually(t, func() (*whisk.Activation, error) { a, _, err := c.Activations.Get(fired.ActivationId); return a, err })
	if len(record.Logs) != 1 || !strings.Contains(record.Logs[0], `"rule":"guest/rule1","action":"guest/ruled"`) || record.End != 0 {
		t.Errorf("record of a trigger %+v", record)
	}
	var line struct{ ActivationID string }
	if err := json.Unmarshal([]byte(record.Logs[0]), &line); err != nil {
		t.Fatal(err)
	}
	ran := eventually(t, func() (*whisk.Activation, error) { a, _, err := c.Activations.Get(line.ActivationID); return a, err })
	result := (*ran.Result).(map[string]any)
	if result["ad"] != "action default" || result["tp"] != "from trigger" || result["fired"] != "with this" || result["__ow_headers"] == nil {
		t.Errorf("arguments of a rule's action %v", result)
	}
	if _, _, err := c.Rules.SetState("rule1", "inactive"); err != nil {
		t.Error(err)
	}
	if got := must[*whisk.Rule](t)(c.Rules.Get("rule1")); got.Status != "inactive" {
		t.Errorf("disabled rule %+v", got)
	}
	if _, res, _ := c.Triggers.Fire("trig", nil); res.StatusCode != 204 {
		t.Errorf("firing with all rules inactive: %d", res.StatusCode)
	}
	if rules := must[[]whisk.Rule](t)(c.Rules.List(&whisk.RuleListOptions{Limit: 30})); len(rules) != 1 || rules[0].Name != "rule1" {
		t.Errorf("rules %+v", rules)
	}
	if triggers := must[[]whisk.Trigger](t)(c.Triggers.List(&whisk.TriggerListOptions{Limit: 30})); len(triggers) != 1 {
		t.Errorf("triggers %+v", triggers)
	}
	if _, err := c.Rules.Delete("rule1"); err != nil {
		t.Error(err)
	}
	if trig := must[*whisk.Trigger](t)(c.Triggers.Get("trig")); len(trig.Rules) != 0 {
		t.Errorf("a deleted rule stays in its trigger: %v", trig.Rules)
	}
	if _, _, err := c.Triggers.Delete("trig"); err != nil {
		t.Error(err)
	}
	if _, _, err := c.Rules.Insert(&whisk.Rule{Name: "r", Trigger: "/_/none", Action: "/_/ruled"}, false); err == nil || !strings.Contains(err.Error(), "trigger /guest/none does not exist") {
		t.Errorf("rule without trigger: %v", err)
	}
}

func TestNamespacesAndInfo(t *testing.T) {
	s := begin(t, &fakeInvoker{}, nil)
	c := client(t, s)
	info := must[*whisk.Info](t)(c.Info.Get())
	if info.BuildNo != "test" {
		t.Errorf("info %+v", info)
	}
	if names := must[[]whisk.Namespace](t)(c.Namespaces.List()); len(names) != 1 || names[0].Name != "guest" {
		t.Errorf("namespaces %v", names)
	}
}
