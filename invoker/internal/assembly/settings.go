package assembly

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// settings translates the configuration into the settings of the invoker.
func settings(c *config.Config, id activation.Instance, m *activation.Manifest, devices []gpu.Device) invoker.Settings {
	return invoker.Settings{
		Instance:      id,
		Prefix:        id.ContainerPrefix(),
		InFlight:      c.MaxPeek(),
		Bounds:        c.Limits.Bounds(),
		Defaults:      namespaceDefaults(c.Limits.Namespace),
		Keys:          activation.Keys{AES128: c.Actions.AES128, AES256: c.Actions.AES256},
		Store:         storePolicy(c.Records),
		LogsOutOfBand: c.Logs.OutOfBand,
		Env:           c.ContainerEnv(),
		UserCPUs:      c.Pool.UserCPUs,
		Pool:          pool(c, m),
		Images: func(kind string) (string, bool) {
			r, ok := m.Runtime(kind)
			return m.ManagedReference(r.Image), ok
		},
		Rerun:       c.Drain.Rerun,
		Drain:       finite(c.Drain.Deadline),
		Explain:     c.GPU.Explain,
		LogErrors:   [4]bool{1: c.Proxy.LogErrors.Application, 2: c.Proxy.LogErrors.Developer, 3: c.Proxy.LogErrors.Whisk},
		LogUnstored: c.Records.UnstoredLogs,
		Events:      c.Events.Enabled,
		GPU:         gpuSettings(c.GPU, devices),
	}
}

func namespaceDefaults(n config.NamespaceLimits) activation.UserLimits {
	return activation.UserLimits{
		MinMemoryMB: new(mib(n.MemoryMin)), MaxMemoryMB: new(mib(n.MemoryMax)),
		MinLogsMB: new(mib(n.LogMin)), MaxLogsMB: new(mib(n.LogMax)),
		MinTimeoutMillis: new(int(n.TimeMin.Milliseconds())), MaxTimeoutMillis: new(int(n.TimeMax.Milliseconds())),
		MinConcurrency: new(n.ConcurrencyMin), MaxConcurrency: new(n.ConcurrencyMax),
		MaxPayload: new(activation.Size(n.Payload)), Truncation: new(activation.Size(n.Truncation)),
	}
}

func mib(s config.Size) int { return int(s / config.MiB) }

func storePolicy(r config.Records) invoker.StorePolicy {
	level := func(word string) invoker.StoreLevel {
		switch word {
		case "STORE_FAILURES":
			return invoker.StoreFailures
		case "STORE_FAILURES_NOT_APPLICATION_ERRORS":
			return invoker.StoreFailuresNotApplication
		}
		return invoker.StoreAlways
	}
	return invoker.StorePolicy{Blocking: level(r.BlockingLevel), NonBlocking: level(r.NonBlockingLevel)}
}

func pool(c *config.Config, m *activation.Manifest) container.Config {
	p := container.Config{
		MemoryMB:    mib(c.Pool.UserMemory),
		PauseGrace:  orNever(c.Proxy.PauseGrace),
		IdleTimeout: orNever(c.Proxy.IdleContainer),
		Overtake:    finite(c.Pool.Overtake),
		Expiry:      expiry(c.Pool.PrewarmExpiration, rand.N[time.Duration]),
	}
	for _, r := range m.Runtimes() {
		for _, cell := range r.StemCells {
			p.StemCells = append(p.StemCells, stemCell(r.Kind, cell))
		}
	}
	return p
}

// expiry fixes the time between checks for the whole run, with a random part: below
// returns a time from 0 up to its argument. So invokers that start together do not
// remove and create containers all at once.
func expiry(e config.PrewarmExpiration, below func(time.Duration) time.Duration) container.Expiry {
	x := container.Expiry{InitDelay: finite(e.InitDelay), Interval: finite(e.Interval), Limit: e.Limit}
	if x.Interval > 0 && e.Variance > 0 {
		x.Interval += below(finite(e.Variance))
	}
	return x
}

func stemCell(kind string, s activation.StemCell) container.StemCell {
	cell := container.StemCell{Kind: kind, MemoryMB: int(s.Memory / activation.MB), Count: s.Count}
	if r := s.Reactive; r != nil {
		cell.Reactive = &container.Reactive{
			Min: r.MinCount, Max: r.MaxCount, TTL: r.TTL, Threshold: r.Threshold, Increment: r.Increment,
		}
	}
	return cell
}

func orNever(d time.Duration) time.Duration {
	if d == config.Forever {
		return container.Never
	}
	return d
}

// finite turns "no limit" into a duration that can be added to a time.
func finite(d time.Duration) time.Duration { return min(d, math.MaxInt64/4) }

func limits(rules map[string]config.Size) map[string]int64 {
	out := make(map[string]int64, len(rules))
	for name, n := range rules {
		out[name] = int64(n)
	}
	return out
}

func gpuSettings(g config.GPU, devices []gpu.Device) invoker.GPUSettings {
	return invoker.GPUSettings{
		Config: scheduler.Config{
			Policy: g.Policy, Sched: g.Sched, Weights: g.Weights, NamespaceLimits: limits(g.NamespaceLimits),
			Devices: devices, Tokens: g.Tokens, Pool: g.Pool, Context: int64(g.ContextMemory), Memory: int64(g.DefaultMemory),
			AckTimeout: finite(g.AckTimeout), PrefetchActive: g.Prefetch, DeviceTimeout: finite(g.DeviceTimeout),
		},
		Limits:       limits(g.Limits),
		Modes:        g.Shim.Modes,
		Memory:       g.Memory,
		Forwards:     len(g.ForwardTo) > 0,
		Overdue:      finite(g.Overdue),
		BacklogBytes: int64(g.BacklogSize),
	}
}
