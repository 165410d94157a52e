package invoker

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// TestLimitRules: the closest rule counts, an annotation may only say less, and
// what the operator does not allow is refused with the key that says so.
func TestLimitRules(t *testing.T) {
	const gib = 1 << 30
	g := GPUSettings{
		Limits: map[string]int64{"guest/pkg/big": 8 * gib, "guest": 4 * gib, "*": 2 * gib},
		Modes:  []string{activation.ShimManaged, activation.ShimCount},
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
		{"other", "f", activation.GPURequest{Shim: "managed", Memory: 3 * gib}, 2 * gib, "whisk.gpu.limits"},
		{"other", "f", activation.GPURequest{Shim: "managed", Memory: 2 * gib, Limit: gib}, gib, "key limit"},
	} {
		path, name, nested := strings.Cut(c.action, "/")
		a := &activation.Action{Namespace: c.namespace, Name: c.action}
		if nested {
			a.Namespace, a.Name = c.namespace+"/"+path, name
		}
		got := g.judge(&c.wish, c.namespace, a)
		if !strings.Contains(got, c.refused) || c.refused == "" && got != "" {
			t.Errorf("%s/%s: refused %q, want %q", c.namespace, c.action, got, c.refused)
		}
		if c.limit > 0 && c.wish.Limit != c.limit {
			t.Errorf("%s/%s: limit %s, want %s", c.namespace, c.action, c.wish.Limit, c.limit)
		}
	}
}
