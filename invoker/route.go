package invoker

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// ErrNotFound is an action, or its code, that is not in the store.
var ErrNotFound = errors.New("action not found")

// unfetched maps a failed fetch to the original's answer (contract table of the
// paths that never reach a container).
func unfetched(err error) *ending {
	switch {
	case errors.Is(err, ErrNotFound):
		return refused(activation.StatusApplicationError, textGone)
	case errors.Is(err, activation.ErrIncompatible):
		return refused(activation.StatusWhiskError, textIncompatible)
	}
	return refused(activation.StatusWhiskError, textUnfetchable)
}

// route decides what a pending activation needs, after its action is known. The result is not
// nil if the activation cannot run at all. It is pure.
func (s Settings) route(p *pending, a *activation.Action) *ending {
	p.bounds = s.Bounds.For(s.Defaults, p.User.Limits)
	if err := p.bounds.Check(a.Limits); err != nil {
		return appError(err.Error())
	}
	p.action = a
	var err error
	if p.gpu, err = a.Annotations.GPU(); err != nil {
		return badAnnotation(err)
	}
	if text := s.unfit(p); text != "" {
		return appError(text)
	}
	if p.content, err = activation.Unlock(p.Content, p.LockedArgs, s.Keys); err != nil {
		return refused(activation.StatusWhiskError, proxy.TextAbnormal)
	}
	p.timeout = time.Duration(a.Limits.TimeoutMillis) * time.Millisecond
	if p.concurrency = max(a.Limits.Concurrency, 1); p.gpu != nil && p.gpu.Concurrency > 0 {
		p.concurrency = min(p.concurrency, p.gpu.Concurrency)
	}
	p.key = containerKey(p)
	p.collect = a.Limits.LogsMB != 0 && !s.LogsOutOfBand
	return nil
}

// badAnnotation ends an activation whose action has an unreadable annotation. The author gets
// the reason. Traces do not repeat the author's text.
func badAnnotation(err error) *ending {
	e := appError(err.Error())
	if bad := new(activation.GPUError); errors.As(err, &bad) {
		e.cause = bad.Cause()
	}
	return e
}

// unfit is why this invoker cannot run a pending activation's action, or empty.
func (s Settings) unfit(p *pending) string {
	a := p.action
	if a.Limits.MemoryMB > s.Pool.MemoryMB {
		return fmt.Sprintf(
			"The action needs %d MB of memory, but this invoker has %d MB for all of its containers (CONFIG_whisk_containerPool_userMemory).",
			a.Limits.MemoryMB, s.Pool.MemoryMB)
	}
	if p.gpu == nil {
		return ""
	}
	if text := s.GPU.judge(p.gpu, p.User.Namespace.Name, a); text != "" {
		return text
	}
	if len(s.GPU.Devices) == 0 && !s.GPU.Forwards {
		return "The action asks for a GPU (annotation gpu), but this invoker has none."
	}
	return ""
}

// containerKey returns a digest of all facts that must be equal for two activations to share a
// container: the invoking namespace, the action and its revision, and the parts of /init that
// depend on the caller. These are the caller's key, if the action gets one, and the binding,
// if its parameters become variables. Namespaces never share containers. The key also covers
// this host's settings for the action, since containers outlive a process. It is a digest,
// because it covers a secret key of the user and is stored on disk.
func containerKey(p *pending) string {
	a := p.action
	var binding, key, device string
	if len(p.InitArgs) > 0 {
		binding = p.Action.Binding
	}
	if a.Annotations.ProvidesAPIKey() {
		key = string(p.User.AuthKey.JSON())
	}
	if p.gpu != nil {
		device = fmt.Sprint(p.gpu.Shim, p.gpu.Limit)
	}
	text := make([]byte, 0, 512) // which stays on the stack
	for i, part := range [...]string{
		p.User.Namespace.Name, a.FQN(), a.Rev, a.Version, binding, key, a.Exec.Kind, a.Exec.Image, device,
	} {
		if i > 0 {
			text = append(text, 0)
		}
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// prewarmable reports whether a prewarmed container can run the action.
func prewarmable(e activation.Exec) bool { return !e.Pull && e.Kind != activation.Blackbox }

// spec describes the container of an action. Its name is given later.
func (s Settings) spec(e activation.Exec, memoryMB int) container.Spec {
	parts := max(s.Pool.MemoryMB/max(memoryMB, 1), 1)
	spec := container.Spec{
		Kind: e.Kind, Image: e.Image, Pull: e.Pull, MemoryMB: memoryMB,
		CPUShares: max(2, 1024/parts), Env: s.Env,
	}
	if s.UserCPUs > 0 {
		// Five decimals and a floor, as the original passes them to Docker.
		spec.CPUs = max(float64(int(s.UserCPUs/float64(parts)*1e5+0.5))/1e5, 0.01)
	}
	return spec
}

// containerName follows the original's pattern, so that its clean-up and ours
// find each other's containers: head, running number, prefix and suffix with
// nothing but letters, digits and underscores. A long name is cut: engines and state
// files use it as the beginning of a file name, and the number makes it unique.
func containerName(head string, n int64, prefix, suffix string) string {
	name := fmt.Sprintf("%s%d_%s_%s", head, n, plain(prefix), plain(suffix))
	return name[:min(len(name), maxContainerName)]
}

// maxContainerName leaves room for additions in a file name, which may have 255 bytes.
const maxContainerName = 180

func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r < 0x80 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return -1
	}, s)
}

// judge checks an action's GPU request against the operator's rules. It writes the resulting
// limit and shim mode into the request. It returns a text if the action is refused.
func (g GPUSettings) judge(wish *activation.GPURequest, namespace string, a *activation.Action) (refused string) {
	if wish.Shim == "" {
		wish.Shim = cmp.Or(g.Memory, activation.ShimManaged)
	} else if len(g.Modes) > 0 && !slices.Contains(g.Modes, wish.Shim) {
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

// tenant returns the limit for all containers of a namespace on a device, 0 for no limit.
func (g GPUSettings) tenant(namespace string) int64 {
	if n, ok := g.NamespaceLimits[namespace]; ok {
		return n
	}
	return g.NamespaceLimits["*"]
}

// limit returns the operator's most specific rule for a function.
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
