package invoker

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Containers are shared as far as /init saw the same.
func TestContainersAreSharedByWhatInitSaw(t *testing.T) {
	type invocation struct {
		namespace, binding, key, rev string
		initArgs                     []string
	}
	first := invocation{"guest", "", "u:k", "1-a", nil}
	for _, c := range []struct {
		name    string
		apiKey  string // annotation provide-api-key
		a, b    invocation
		sharing bool
	}{
		{"the same", "true", first, first, true},
		{"another namespace", "false", first, invocation{"other", "", "u:k", "1-a", nil}, false},
		{"another revision", "false", first, invocation{"guest", "", "u:k", "2-b", nil}, false},
		{"another key that the action does not get", "false", first, invocation{"guest", "", "u:other", "1-a", nil}, true},
		{"another key that the action gets", "true", first, invocation{"guest", "", "u:other", "1-a", nil}, false},
		{"through a binding", "false", first, invocation{"guest", "guest/bound", "u:k", "1-a", nil}, true},
		{"through a binding whose parameters go to init", "false",
			invocation{"guest", "", "u:k", "1-a", []string{"x"}}, invocation{"guest", "guest/bound", "u:k", "1-a", []string{"x"}}, false},
	} {
		key := func(i invocation) string {
			m := &activation.Message{InitArgs: i.initArgs}
			m.User.Namespace.Name, m.Action.Binding = i.namespace, i.binding
			m.User.AuthKey = activation.NewAuthKey(i.key)
			a := &activation.Action{Namespace: "guest", Name: "a", Rev: i.rev, Version: "0.0.1",
				Annotations: activation.Annotations{{Key: "provide-api-key", Value: json.RawMessage(c.apiKey)}}}
			return containerKey(ofPending(m, a))
		}
		check.Equal(t, key(c.a) == key(c.b), c.sharing, "%s: shared", c.name)
	}
}

// A prewarmed container is of a kind, and an image of a user's is of none.
func TestPrewarmedAreForManagedKinds(t *testing.T) {
	for _, c := range []struct {
		exec activation.Exec
		want bool
	}{
		{activation.Exec{Kind: "python:3"}, true},
		{activation.Exec{Kind: "blackbox"}, false},
		{activation.Exec{Kind: "blackbox", Pull: true}, false},
		{activation.Exec{Kind: "python:3", Pull: true}, false},
	} {
		check.Equal(t, prewarmable(c.exec), c.want, "%+v: a prewarmed container would do", c.exec)
	}
}

// TestLimitRules: the most specific rule counts, an annotation may only ask for less, and the
// refusal of an action names the key of the rule.
func TestLimitRules(t *testing.T) {
	const gib = 1 << 30
	g := GPUSettings{
		Limits: map[string]int64{"guest/pkg/big": 8 * gib, "guest": 4 * gib, "*": 2 * gib},
		Modes:  []string{activation.ShimManaged, activation.ShimCount},
		Memory: activation.ShimVMM,
	}
	for _, c := range []struct {
		namespace, action string
		wish              activation.GPURequest
		limit             activation.Size
		refused           string
	}{
		{"guest", "f", activation.GPURequest{Shim: "managed"}, 4 * gib, ""},
		{"guest", "pkg/big", activation.GPURequest{Shim: "managed"}, 8 * gib, ""},
		{"other", "f", activation.GPURequest{Shim: "count"}, 2 * gib, ""},
		{"other", "f", activation.GPURequest{Shim: "managed", Limit: gib}, gib, ""},
		{"other", "f", activation.GPURequest{Shim: "managed", Limit: 9 * gib}, 2 * gib, ""},
		{"other", "f", activation.GPURequest{Shim: "off"}, 0, "whisk.gpu.shim.modes"},
		{"other", "f", activation.GPURequest{Shim: "vmm"}, 0, "whisk.gpu.shim.modes"},
		{"other", "f", activation.GPURequest{}, 2 * gib, ""},
		{"other", "f", activation.GPURequest{Shim: "managed", Memory: 3 * gib}, 2 * gib, "whisk.gpu.limits"},
		{"other", "f", activation.GPURequest{Shim: "managed", Memory: 2 * gib, Limit: gib}, gib, "key limit"},
	} {
		path, name, nested := strings.Cut(c.action, "/")
		a := &activation.Action{Namespace: c.namespace, Name: c.action}
		if nested {
			a.Namespace, a.Name = c.namespace+"/"+path, name
		}
		asked := c.wish.Shim
		got := g.judge(&c.wish, c.namespace, a)
		check.Equal(t, c.wish.Shim, cmp.Or(asked, activation.ShimVMM), "the operator's mode where the action asks for none")
		check.Contains(t, got, c.refused, "%s/%s: refused", c.namespace, c.action)
		if c.refused == "" && got != "" {
			t.Errorf("%s/%s: refused %q, want %q", c.namespace, c.action, got, c.refused)
		}
		if c.limit > 0 && c.wish.Limit != c.limit {
			t.Errorf("%s/%s: limit %s, want %s", c.namespace, c.action, c.wish.Limit, c.limit)
		}
	}
}
