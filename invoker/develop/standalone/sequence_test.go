package standalone

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

func TestSequences(t *testing.T) {
	f := &fakeInvoker{run: func(m *activation.Message) activation.Response {
		var n struct {
			N int `json:"n"`
		}
		_ = json.Unmarshal(m.Content, &n)
		switch m.Action.Name {
		case "inc":
			n.N++
		case "dbl":
			n.N *= 2
		case "list":
			return activation.Response{Result: json.RawMessage(`[1,2]`)}
		case "take":
			return activation.Response{Result: json.RawMessage(`{"took":` + string(m.Content) + `}`)}
		case "bad":
			return activation.ErrorResponse(activation.StatusApplicationError, "stop here")
		}
		return activation.Response{Result: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n.N))}
	}}
	s := begin(t, f, nil)
	c := client(t, s)
	for _, name := range []string{"inc", "dbl", "list", "take", "bad"} {
		must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: name, Exec: code("x")}, false))
	}
	sequence := func(name string, components ...string) {
		t.Helper()
		made := must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: name, Exec: &whisk.Exec{Kind: "sequence", Components: components}}, true))
		if made.Parameters.GetValue("_actions") == nil {
			t.Errorf("%s has no _actions", name)
		}
	}
	sequence("seq", "/_/inc", "/_/dbl")
	sequence("nested", "/_/seq", "/guest/inc")
	sequence("arrays", "/_/list", "/_/take")
	sequence("failing", "/_/bad", "/_/inc")
	cases := []struct{ name, want string }{
		{"seq", `{"n":8}`}, {"nested", `{"n":9}`}, {"arrays", `{"took":[1,2]}`},
	}
	for _, one := range cases {
		got := must[any](t)(c.Actions.Invoke(one.name, map[string]any{"n": 3}, true, true))
		if text, _ := json.Marshal(got); string(text) != one.want {
			t.Errorf("%s: %s, want %s", one.name, text, one.want)
		}
	}
	before := len(f.messages())
	if _, _, err := c.Actions.Invoke("failing", nil, true, true); err == nil || !strings.Contains(err.Error(), "stop here") {
		t.Errorf("failing: %v", err)
	}
	if ran := len(f.messages()) - before; ran != 1 {
		t.Errorf("%d actions ran of a sequence whose first failed", ran)
	}
	whole := must[any](t)(c.Actions.Invoke("seq", map[string]any{"n": 3}, true, false)).(map[string]any)
	record := eventually(t, func() (*whisk.Activation, error) {
		a, _, err := c.Activations.Get(whole["activationId"].(string))
		return a, err
	})
	if len(record.Logs) != 2 || record.Annotations.GetValue("topmost") != true || record.Annotations.GetValue("kind") != "sequence" {
		t.Errorf("record of a sequence %+v", record)
	}
	component := eventually(t, func() (*whisk.Activation, error) { a, _, err := c.Activations.Get(record.Logs[0]); return a, err })
	if component.Cause != record.ActivationID || component.Name != "inc" {
		t.Errorf("component %+v of %s", component, record.ActivationID)
	}
	for text, bad := range map[string]*whisk.Exec{
		"itself":    {Kind: "sequence", Components: []string{"/_/nested"}},
		"not exist": {Kind: "sequence", Components: []string{"/_/none"}},
		"Too many":  {Kind: "sequence", Components: slices.Repeat([]string{"/_/inc"}, 51)},
		"No comp":   {Kind: "sequence"},
	} {
		if _, _, err := c.Actions.Insert(&whisk.Action{Name: "seq", Exec: bad}, true); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("sequence %v: %v, want %q", bad.Components, err, text)
		}
	}
}

func TestCompositions(t *testing.T) {
	f := &fakeInvoker{run: func(m *activation.Message) activation.Response {
		var in map[string]any
		_ = json.Unmarshal(m.Content, &in)
		switch {
		case m.Action.Name == "inc":
			return activation.Response{Result: json.RawMessage(fmt.Sprintf(`{"n":%v}`, in["n"].(float64)+1))}
		case in["$step"] == nil:
			return activation.Response{Result: json.RawMessage(`{"action":"inc","params":{"n":10},"state":{"$step":1}}`)}
		}
		delete(in, "$step")
		rest, _ := json.Marshal(in)
		return activation.Response{Result: json.RawMessage(`{"params":` + string(rest) + `}`)}
	}}
	s := begin(t, f, nil)
	c := client(t, s)
	must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: "inc", Exec: code("x")}, false))
	must[*whisk.Action](t)(c.Actions.Insert(&whisk.Action{Name: "cond", Exec: code("x"), Annotations: whisk.KeyValueArr{{Key: "conductor", Value: true}}}, false))
	got := must[any](t)(c.Actions.Invoke("cond", map[string]any{"n": 10}, true, false)).(map[string]any)
	response := got["response"].(map[string]any)
	if text, _ := json.Marshal(response["result"]); string(text) != `{"n":11}` {
		t.Errorf("result %s", text)
	}
	if logs := got["logs"].([]any); len(logs) != 3 {
		t.Errorf("%d activations in a composition of conductor, inc, conductor", len(logs))
	}
	if _, ok := response["size"]; ok {
		t.Error("a composition's response has no size")
	}
	if m := f.messages(); len(m) != 3 || m[1].Action.Name != "inc" || m[2].Cause != m[0].Cause || m[0].Cause == "" {
		t.Errorf("messages %+v", m)
	}
}
