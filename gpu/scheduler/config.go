package scheduler

import (
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Config is all of a scheduler's settings.
type Config struct {
	Policy string
	Sched  sched.Config
	// Weights are the operator's, by "namespace/path/action" or "namespace".
	// They rule over what functions say of themselves.
	Weights map[string]float64 `json:",omitempty"`
	// NamespaceLimits is the most device memory that the containers of a namespace have on
	// one device, by namespace, or "*" for each that is not named.
	NamespaceLimits map[string]int64 `json:",omitempty"`

	// Devices in the order of their indices, which count from 0.
	Devices []gpu.Device
	// Tokens says how each device's D is found; a MIG slice takes one.
	Tokens gpu.TokensConfig
	// Pool bounds the containers of each device.
	Pool gpu.PoolConfig
	// Link is how fast memory moves until moves were measured; a zero one takes
	// the default.
	Link gpu.Link

	// Context is the device memory that a container's CUDA context takes, Memory what
	// a function is expected to need that says nothing.
	Context int64
	Memory  int64
	// Headroom is device memory that is kept free ahead of need.
	Headroom int64
	// AckTimeout is how long a Move order may go unanswered before it is given
	// again; 0 never asks.
	AckTimeout time.Duration
	// IdleTimeout is how long a container may be idle; 0 is for ever.
	IdleTimeout time.Duration

	// PrefetchActive brings in the memory of a flow that becomes active, where
	// there is room. PrefetchNext brings in that of the flow that runs next,
	// and evicts for it.
	PrefetchActive bool
	PrefetchNext   bool
	// SwapEachRun moves a container's memory out after every run: the baselines of
	// the paper do it.
	SwapEachRun bool
	// Faults says that memory comes by itself when a run touches it: a run need
	// not wait for its prefetch.
	Faults bool

	// DeviceTimeout is how long an invocation waits while no device is there that could
	// serve it; 0 is for ever.
	DeviceTimeout time.Duration
	// Ahead is how many invocations of a flow are near their turn: their bodies are
	// asked for. 0 takes the default.
	Ahead int

	// NewPolicy replaces sched.NewPolicy where the policy's calls are measured or
	// checked.
	NewPolicy func(name string, cfg sched.Config, view sched.View) (sched.Policy, error) `json:"-"`
}

// maxBytes is more than any device has, and no sum of a few overflows;
// maxDevices is far beyond what one machine holds.
const (
	maxBytes   = int64(1) << 50
	maxDevices = 1024
)

// DefaultAhead is enough for a device to be busy while bodies are brought.
const DefaultAhead = 4

func (c *Config) complete() {
	if c.Link == (gpu.Link{}) {
		c.Link = gpu.DefaultLink()
	}
	if c.Ahead == 0 {
		c.Ahead = DefaultAhead
	}
	if c.NewPolicy == nil {
		c.NewPolicy = func(name string, cfg sched.Config, view sched.View) (sched.Policy, error) {
			return sched.NewPolicy(name, cfg, view)
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
	case c.Ahead < 1:
		return fmt.Errorf("%d invocations ahead: must be at least 1", c.Ahead)
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
	return c.Link.Validate()
}
