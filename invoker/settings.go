package invoker

import (
	"fmt"
	"io"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// Settings has the settings of one invoker. cmd fills it from the configuration.
type Settings struct {
	Instance activation.Instance
	// Prefix starts the name of every container, such as "wsk00_".
	Prefix string
	// InFlight bounds the accepted activations that are not completed, without the GPU
	// backlog. GPU.BacklogBytes bounds the backlog.
	InFlight int
	// Bounds are the limits of the system. Defaults are the limits of a namespace without
	// limits of its own.
	Bounds   activation.Bounds
	Defaults activation.UserLimits
	// Keys decrypt parameters.
	Keys activation.Keys
	// Store states which records are kept.
	Store StorePolicy
	// LogsOutOfBand means that a log driver carries the logs, and the invoker collects none.
	LogsOutOfBand bool
	// Env is set in every container when it is created.
	Env []string
	// UserCPUs is shared out by memory; 0 sets no CPU limit.
	UserCPUs float64
	Pool     container.Config
	// Images gives the image of a prewarmed container of a kind.
	Images func(kind string) (image string, ok bool)
	GPU    GPUSettings
	// LogErrors states, by status code, which failed activations are logged. With LogUnstored
	// a line is logged for each record that is not stored.
	LogErrors   [activation.StatusWhiskError + 1]bool
	LogUnstored bool
	// Explain is the number of activations whose traces are kept; 0 keeps none.
	Explain int
	// Events is set if user events have a reader. Otherwise none are made.
	Events bool
	// Rerun runs activations again that were running when an earlier process ended, unless the
	// action's annotation excludes it.
	Rerun bool
	// Drain bounds how long work may go on after the stop was asked for.
	Drain time.Duration
}

// GPUSettings is the GPU part of Settings. Without devices no scheduler is
// made.
type GPUSettings struct {
	// Config holds the settings of the GPU scheduler. The mover decides whether memory faults,
	// and the pool has IdleTimeout. An AckTimeout of 0 means the default.
	scheduler.Config
	// Limits is the most device memory of a container in bytes, by "namespace/path/action",
	// "namespace" or "*". Modes lists the values of the annotation's key shim that actions may
	// use; an empty list allows all.
	Limits map[string]int64
	Modes  []string
	// Memory is the mode of actions that ask for none. Empty means managed.
	Memory string
	// Fallbacks has the actions whose memory cannot be moved; nil: none falls back.
	Fallbacks CountOnlyActions
	Forwards  bool // activations are passed on to other invokers when there is no device
	// Overdue is the time after which an activation that has not begun is refused, because its
	// caller does not wait longer; 0 means never.
	Overdue time.Duration
	// BacklogBytes bounds the messages of activations that wait for a device.
	BacklogBytes int64
	// Record, when not nil, gets the GPU scheduler's log, a line at a time. It does not
	// block; after its first error it is left alone.
	Record io.Writer
}

// Validate returns an error that names the wrong setting.
func (s Settings) Validate() error {
	switch {
	case s.InFlight < 1:
		return fmt.Errorf("in-flight bound of %d: must be at least 1", s.InFlight)
	case s.Prefix == "":
		return fmt.Errorf("container prefix is empty: clean-up would remove every container")
	case s.Drain < 0:
		return fmt.Errorf("drain deadline of %s: must not be negative", s.Drain)
	}
	return s.GPU.validate()
}

func (g GPUSettings) validate() error {
	if len(g.Devices) > 0 && g.BacklogBytes < 1 {
		return fmt.Errorf("GPU backlog of %d bytes: must be at least 1", g.BacklogBytes)
	}
	if g.AckTimeout < 0 {
		return fmt.Errorf("acknowledgement timeout of %s: must not be negative", g.AckTimeout)
	}
	for i, d := range g.Devices {
		if err := d.Validate(); err != nil {
			return err
		}
		if d.Index != i {
			return fmt.Errorf("device %s is listed as number %d: must be listed in the order of indices", d, i)
		}
	}
	return nil
}

// defaultAckTimeout is several times the time for moving a whole device's memory.
const defaultAckTimeout = 10 * time.Second

// schedulerConfig returns the GPU scheduler's part of the settings.
func (g GPUSettings) schedulerConfig(pool container.Config, faults bool) scheduler.Config {
	c := g.Config
	c.Faults = faults
	if c.AckTimeout == 0 {
		c.AckTimeout = defaultAckTimeout
	}
	if pool.IdleTimeout >= 0 {
		c.IdleTimeout = max(pool.IdleTimeout+max(pool.PauseGrace, 0), 1)
	}
	return c
}
