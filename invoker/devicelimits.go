package invoker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// judge holds what an action asks of its GPU against the operator's word, and
// writes into the request what limit it has. A text refuses the action.
func (g GPUSettings) judge(wish *activation.GPURequest, namespace string, a *activation.Action) (refused string) {
	if len(g.Modes) > 0 && !slices.Contains(g.Modes, wish.Shim) {
		return fmt.Sprintf("The action asks for the shim as %s (annotation gpu, key shim), but this invoker allows %s (whisk.gpu.shim.modes).",
			wish.Shim, strings.Join(g.Modes, ", "))
	}
	own := wish.Limit
	if rule := g.limit(namespace, a.FQN()); rule > 0 && (own == 0 || rule < own) {
		wish.Limit = rule
	}
	if wish.Limit > 0 && wish.Memory > wish.Limit {
		return fmt.Sprintf("The action asks for %s of GPU memory (annotation gpu, key memory), but its limit is %s (%s).",
			wish.Memory, wish.Limit, limitSource(wish.Limit == own))
	}
	if most := g.tenant(namespace); most > 0 && int64(wish.Memory) > most {
		return fmt.Sprintf("The action asks for %s of GPU memory (annotation gpu, key memory), but its namespace may have %s on a device (whisk.gpu.namespace-limits).",
			wish.Memory, activation.Size(most))
	}
	return ""
}

// tenant is what all containers of a namespace may have on a device, 0 for no limit.
func (g GPUSettings) tenant(namespace string) int64 {
	if n, ok := g.NamespaceLimits[namespace]; ok {
		return n
	}
	return g.NamespaceLimits["*"]
}

// limit is the operator's rule for a function: the closest one that there is.
func (g GPUSettings) limit(namespace, function string) activation.Size {
	for _, name := range []string{function, namespace, "*"} {
		if n, ok := g.Limits[name]; ok {
			return activation.Size(n)
		}
	}
	return 0
}

func limitSource(own bool) string {
	if own {
		return "annotation gpu, key limit"
	}
	return "whisk.gpu.limits"
}
