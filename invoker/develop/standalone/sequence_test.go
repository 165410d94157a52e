package standalone

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
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
		check.That(t, made.Parameters.GetValue("_actions") != nil, "%s", name)
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
		text, _ := json.Marshal(got)
		check.Equal(t, string(text), one.want, "%s", one.name)
	}
	before := len(f.messages())
	_, _, err := c.Actions.Invoke("failing", nil, true, true)
	check.ErrorContains(t, err, "stop here")
	check.Equal(t, len(f.messages())-before, 1, "a sequence whose first failed")
	whole := must[any](t)(c.Actions.Invoke("seq", map[string]any{"n": 3}, true, false)).(map[string]any)
	record := eventually(t, func() (*whisk.Activation, error) {
		a, _, err := c.Activations.Get(whole["activationId"].(string))
		return a, err
	})
	check.Equal(t, record.Annotations.GetValue("topmost"), true)
	check.Equal(t, record.Annotations.GetValue("kind"), "sequence")
	check.Equal(check.Must(t), len(record.Logs), 2)
	component := eventually(t, func() (*whisk.Activation, error) { a, _, err := c.Activations.Get(record.Logs[0]); return a, err })
	check.Equal(t, component.Cause, record.ActivationID)
	check.Equal(t, component.Name, "inc")
	for text, bad := range map[string]*whisk.Exec{
		"itself":    {Kind: "sequence", Components: []string{"/_/nested"}},
		"not exist": {Kind: "sequence", Components: []string{"/_/none"}},
		"Too many":  {Kind: "sequence", Components: slices.Repeat([]string{"/_/inc"}, 51)},
		"No comp":   {Kind: "sequence"},
	} {
		_, _, err := c.Actions.Insert(&whisk.Action{Name: "seq", Exec: bad}, true)
		check.ErrorContains(t, err, text, "sequence %v", bad.Components)
	}
}

// TestConductorIsRefused: a composition gets an answer that says so, alone and as a part
// of a sequence, instead of the conductor's own answer.
func TestConductorIsRefused(t *testing.T) {
	d := at(t, begin(t, &fakeInvoker{run: echo}, nil))
	d.put("actions/cond", `{"exec":{"kind":"nodejs:20","code":"x"},"annotations":[{"key":"conductor","value":true}]}`)
	d.put("actions/seq", `{"exec":{"kind":"sequence","components":["/_/cond"]}}`)
	d.contains("POST", actions+"cond?blocking=true", `{}`, 501, "Compositions (the annotation conductor) are not supported here, by gpuwhisk standalone.")
	d.contains("POST", actions+"seq?blocking=true", `{}`, 500, "Sequence failed.")
}
