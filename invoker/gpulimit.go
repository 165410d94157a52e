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
	return ""
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

// hostMB is the host memory that a container of the job takes: the action's,
// and where a limit is said, what its device memory may take while it is out.
func (j *job) hostMB() int {
	mb := j.action.Limits.MemoryMB
	if j.gpu.Shim == activation.ShimManaged {
		mb += int(j.gpu.Limit >> 20)
	}
	return mb
}
