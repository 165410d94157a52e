package scheduler

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Config is all of a scheduler's settings.
type Config struct {
	Policy string
	Sched  sched.Config
	// Weights are the operator's, by "namespace/path/action" or "namespace". They
	// override those of the functions' annotations.
	Weights map[string]float64 `json:",omitempty"`
	// NamespaceLimits is the most device memory that the containers of a namespace have on
	// one device, by namespace, or "*" for each that is not named.
	NamespaceLimits map[string]int64 `json:",omitempty"`

	// Devices in the order of their indices, which count from 0.
	Devices []gpu.Device
	// Tokens is how each device's D is found; a MIG slice takes one.
	Tokens gpu.TokensConfig
	// Pool bounds the containers of each device.
	Pool gpu.PoolConfig
	// Link is how fast memory moves until moves were measured; a zero one takes
	// the default.
	Link gpu.TransferModel

	// Context is the device memory of a container's CUDA context. Memory is the expected need
	// of a function without an annotation for it.
	Context int64
	Memory  int64
	// Headroom is device memory that is kept free ahead of need.
	Headroom int64
	// AckTimeout is how long a Move order may be unacknowledged before its container
	// is removed, unless its memory keeps pace; 0 is for ever. Halfway the order is
	// given again.
	AckTimeout time.Duration
	// IdleTimeout is how long a container may be idle; 0 is for ever.
	IdleTimeout time.Duration

	// PrefetchActive moves in the memory of a flow that becomes active, where
	// memory is free.
	PrefetchActive bool
	// SwapEachRun evicts a container's memory after every run, as the baselines of the
	// paper do.
	SwapEachRun bool
	// Faults means that memory comes by itself when a run touches it: a run need
	// not wait for its prefetch.
	Faults bool

	// DeviceTimeout is how long an invocation waits while no device is there that could
	// serve it; 0 is for ever.
	DeviceTimeout time.Duration

	// NewPolicy makes the policy. By default that is sched.New, which knows the policies that
	// an invoker offers. Recorded logs do not have it.
	NewPolicy func(name string, cfg sched.Config, view sched.View) (Policy, error) `json:"-"`
}

// Policy has the methods of sched.Scheduler that the scheduler calls. sched documents them.
type Policy interface {
	Enqueue(now time.Duration, in sched.Invocation)
	Cancel(now time.Duration, id uint64) bool
	Next(now time.Duration) (sched.Choice, bool)
	Done(now time.Duration, id uint64, used sched.Usage)
	Undo(now time.Duration, id uint64)
	Abandon(now time.Duration, id uint64)
	AddDevice(now time.Duration, device, tokens int)
	RemoveDevice(now time.Duration, device int)
	SetTokens(now time.Duration, device, tokens int)
	Revised(now time.Duration, flow sched.FlowID)
	SetWeight(now time.Duration, flow sched.FlowID, weight float64) error
	SetNamespaceWeight(now time.Duration, namespace string, weight float64) error
	Deadline() (time.Duration, bool)
	Tick(now time.Duration)
	Changes() []sched.Change
	State(flow sched.FlowID) sched.State
	Competes(flow sched.FlowID) bool
	Leads(flow, other sched.FlowID) bool
	Explainer(now time.Duration) func(flow sched.FlowID) sched.Reason
	Flow(flow sched.FlowID) (sched.FlowStats, bool)
	Len() (queued, inFlight int)
}

// maxBytes exceeds every device, and a sum of a few does not overflow. maxDevices far exceeds
// the devices of one machine.
const (
	maxBytes   = int64(1) << 50
	maxDevices = 1024
)

func (c *Config) complete() {
	if c.Link == (gpu.TransferModel{}) {
		c.Link = gpu.DefaultTransferModel()
	}
	if c.NewPolicy == nil {
		c.NewPolicy = func(name string, cfg sched.Config, view sched.View) (Policy, error) {
			return sched.New(name, cfg, view)
		}
	}
}

func (c *Config) validate() error {
	switch {
	case c.Context < 0 || c.Memory < 0 || max(c.Context, c.Memory) > maxBytes:
		return fmt.Errorf("context of %d bytes and memory of %d: must lie within 0 and %d", c.Context, c.Memory, maxBytes)
	case c.IdleTimeout < 0 || c.IdleTimeout > maxLogTime:
		return fmt.Errorf("idle timeout of %s: must lie within 0 and %s", c.IdleTimeout, maxLogTime)
	case c.AckTimeout < 0 || c.AckTimeout > maxLogTime:
		return fmt.Errorf("acknowledgement timeout of %s: must lie within 0 and %s", c.AckTimeout, maxLogTime)
	case c.DeviceTimeout < 0 || c.DeviceTimeout > maxLogTime:
		return fmt.Errorf("device timeout of %s: must lie within 0 and %s", c.DeviceTimeout, maxLogTime)
	case len(c.Devices) > maxDevices:
		return fmt.Errorf("%d devices: must be at most %d", len(c.Devices), maxDevices)
	}
	for i, d := range c.Devices {
		if err := d.Validate(); err != nil {
			return err
		}
		if d.MemoryBytes > maxBytes {
			return fmt.Errorf("device %s: memory of %d bytes: must be at most %d", d, d.MemoryBytes, maxBytes)
		}
		if d.Index != i {
			return fmt.Errorf("device %s is listed as number %d: must be listed in the order of indices", d, i)
		}
	}
	return cmp.Or(c.Pool.Validate(), c.Link.Validate())
}
