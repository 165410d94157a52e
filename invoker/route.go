package invoker

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// ErrNotFound is an action, or its code, that is not in the store.
var ErrNotFound = errors.New("action not found")

// refusal is an activation that ends without a container.
type refusal struct {
	response activation.Response
	known    bool // the action is known: the record shows its kind and limits
	former   bool // an earlier process is to blame
}

// refuse maps a failed fetch to the original's answer (contract table of the
// paths that never reach a container).
func refuse(err error) refusal {
	status, text := activation.StatusWhiskError, textUnfetchable
	switch {
	case errors.Is(err, ErrNotFound):
		status, text = activation.StatusApplicationError, textGone
	case errors.Is(err, activation.ErrIncompatible):
		text = textIncompatible
	}
	return refusal{response: activation.ErrorResponse(status, text)}
}

// routed is an activation whose action is known: what it needs, and where it
// goes.
type routed struct {
	*pending
	action     *activation.Action
	invocation uint64 // the cores' name of it
	key        string // containers are shared among equal keys
	bounds     activation.Bounds
	content    json.RawMessage
	collect    bool                   // logs are read before the completion
	gpu        *activation.GPURequest // nil: the CPU path
	queued     time.Duration
	near       bool // the GPU scheduler wants its message in memory
	host       int  // MiB of host memory that its container takes, as it was submitted
	// fallback is why its memory is only counted, where the action lets it be moved.
	fallback string

	came     arrivalCounts // for its trace
	obstacle *obstacle     // what held it when it came; nil if nothing did
}

// router turns messages with their actions into jobs. It is pure.
type router struct {
	settings Settings
	devices  int
}

// route decides what an activation needs. The second result is not nil when it
// cannot run at all.
func (r router) route(p *pending, a *activation.Action) (*routed, *refusal) {
	bounds := r.settings.Bounds.For(r.settings.Defaults, p.User.Limits)
	if err := bounds.Check(a.Limits); err != nil {
		return nil, &refusal{response: appError(err.Error())}
	}
	if a.Limits.MemoryMB > r.settings.Pool.MemoryMB {
		return nil, &refusal{known: true, response: appError(fmt.Sprintf(
			"The action needs %d MB of memory, but this invoker has %d MB for all of its containers (CONFIG_whisk_containerPool_userMemory).",
			a.Limits.MemoryMB, r.settings.Pool.MemoryMB))}
	}
	wish, err := a.Annotations.GPU()
	if err != nil {
		return nil, &refusal{known: true, response: appError(err.Error())}
	}
	if wish != nil {
		if refused := r.settings.GPU.judge(wish, p.User.Namespace.Name, a); refused != "" {
			return nil, &refusal{known: true, response: appError(refused)}
		}
	}
	content, err := activation.Unlock(p.Content, p.LockedArgs, r.settings.Keys)
	if err != nil {
		return nil, &refusal{known: true, response: activation.ErrorResponse(activation.StatusWhiskError, textAborted)}
	}
	act := &routed{
		pending: p, action: a, bounds: bounds, content: content, gpu: wish,
		key:     containerKey(p.Message, a, wish),
		collect: a.Limits.LogsMB != 0 && !r.settings.LogsOutOfBand,
	}
	if wish != nil && r.devices == 0 && r.settings.GPU.ForwardTo == "" {
		return nil, &refusal{known: true, response: appError(
			"The action asks for a GPU (annotation gpu), but this invoker has none.")}
	}
	return act, nil
}

func appError(text string) activation.Response {
	return activation.ErrorResponse(activation.StatusApplicationError, text)
}

// containerKey joins everything that must be equal for two activations to
// share a container: the invoking namespace, the action and its revision, and
// what /init saw of the caller: its key, where the action gets one, and the
// binding, where its parameters become variables. Containers are never shared
// by namespaces. What this host's settings make of the action is in it, too,
// since containers outlive a process. It is a digest: it holds a key of the
// user's and lies on disk.
func containerKey(m *activation.Message, a *activation.Action, wish *activation.GPURequest) string {
	var binding, key string
	if len(m.InitArgs) > 0 {
		binding = m.Action.Binding
	}
	if a.Annotations.ProvidesAPIKey() {
		key = string(m.User.AuthKey.JSON())
	}
	device := ""
	if wish != nil {
		device = fmt.Sprint(wish.Shim, wish.Limit)
	}
	text := make([]byte, 0, 512) // which stays on the stack
	for i, part := range [...]string{
		m.User.Namespace.Name, a.FQN(), a.Rev, a.Version, binding, key, a.Exec.Kind, a.Exec.Image, device,
	} {
		if i > 0 {
			text = append(text, 0)
		}
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// demand is what the pool has to find for a job of the CPU path.
func (act *routed) demand() container.Demand {
	return container.Demand{
		Invocation: act.invocation, Key: act.key, Kind: act.action.Exec.Kind,
		MemoryMB: act.action.Limits.MemoryMB, Concurrency: act.concurrency(),
		Prewarm: !act.action.Exec.Pull && act.action.Exec.Kind != "blackbox",
	}
}

// concurrency is how many runs of the action one container takes at once: the
// action's limit, which the system bounds, or less where the gpu annotation says
// so.
func (act *routed) concurrency() int {
	limit := max(act.action.Limits.Concurrency, 1)
	if act.gpu != nil && act.gpu.Concurrency > 0 {
		return min(act.gpu.Concurrency, limit)
	}
	return limit
}

func (act *routed) timeout() time.Duration {
	return time.Duration(act.action.Limits.TimeoutMillis) * time.Millisecond
}

// spec is the container that a job of an action needs.
func (s Settings) spec(name, kind, image string, pull bool, memoryMB int) container.Spec {
	parts := max(s.Pool.MemoryMB/max(memoryMB, 1), 1)
	spec := container.Spec{
		Name: name, Kind: kind, Image: image, Pull: pull, MemoryMB: memoryMB,
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
// nothing but letters, digits and underscores.
func containerName(head string, n int64, prefix, suffix string) string {
	return fmt.Sprintf("%s%d_%s_%s", head, n, plain(prefix), plain(suffix))
}

func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r < 0x80 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return -1
	}, s)
}

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
