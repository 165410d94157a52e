package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/load"
)

// errMemory means that a function did not find its device memory as it had left
// it.
var errMemory = errors.New("device memory was lost")

// The device of this part holds the small function's memory twice or the large
// one's, not both. The paper's own policy starts a second container where the first
// is in use; the default one may find that waiting is shorter.
const (
	memoryMB     = 80
	memoryPolicy = "mqfq-sticky"
)

// keepers keep memory on the device from call to call and check it: small, large and
// tiny, whose runs take longer.
var keepers = []Function{keeper("small", 16, 500), keeper("large", 66, 0), keeper("tiny", 1, 3000)}

func keeper(name string, mb, ms int) Function {
	return Function{
		Name: name, Kind: gpuKind, GPU: map[string]any{"memory": fmt.Sprintf("%d MB", mb+1)},
		Code: fmt.Sprintf("SIZE, MS = %d, %d\n", mb<<20, ms) + source("driver.py") + source("keep.py"),
	}
}

const small, large, tiny = 0, 1, 2 // indexes in keepers

// memoryStep is made of calls, of which those of one function are printed. ahead is printed
// where their memory is on the device when they start.
type memoryStep struct {
	what     string
	function int
	calls    []load.Arrival
	ahead    string
}

var memoryTour = []memoryStep{
	{"the first call loads it", small, []load.Arrival{{Action: small}}, ""},
	{"it is still there", small, []load.Arrival{{Action: small}}, ""},
	{"two calls at once, one container", small, []load.Arrival{{Action: small}, {Action: small}}, ""},
	{"another one needs all the memory", large, []load.Arrival{{Action: large}}, ""},
	{"and it comes back from the host", small, []load.Arrival{{Action: small}}, ""},
	{"out again", large, []load.Arrival{{Action: large}}, ""},
	{"while it waits behind two others", small, []load.Arrival{{Action: tiny}, {Action: tiny}, {At: time.Second, Action: small}},
		"its memory came in before its turn (prefetch), while the others ran"},
}

// showMemory shows, step by step on an installation of its own, how calls of GPU
// functions start and where their memory is meanwhile.
func showMemory(ctx context.Context, o Options, p printer) error {
	o.Standalone.Policy, o.Standalone.GPUMemory, o.Functions = memoryPolicy, memoryMB*activation.MB, keepers
	// Memory is prefetched when a function becomes active, so functions become inactive soon,
	// however slow the machine is.
	o.Standalone.Extra = append(slices.Clone(o.Standalone.Extra), "CONFIG_whisk_gpu_ttl_max=500 ms")
	return install(ctx, o, p, func(s *standalone.Standalone) error {
		if err := deploy(s, o.Functions); err != nil {
			return err
		}
		title := fmt.Sprintf("memory on a simulated GPU of %d MB", memoryMB)
		p.line("%s", p.bold(fmt.Sprintf("%-34s %-6s %-10s %6s %6s  %s", title, "call", "start", "out MB", "in MB", "contents")))
		var before moved
		for _, step := range memoryTour {
			result, err := callAll(ctx, o, s, step.calls, nil)
			if err != nil {
				return err
			}
			now, err := settledMoved(ctx, o.Standalone.Admin())
			if err != nil {
				return err
			}
			if err := p.step(step, result.Calls, moved{out: now.out - before.out, in: now.in - before.in}); err != nil {
				return err
			}
			before = now
		}
		p.line("")
		return nil
	})
}

// step prints a line for each call of the step's function, and the memory that was moved
// meanwhile.
func (p printer) step(s memoryStep, calls []load.Call, m moved) error {
	what, amounts := s.what, fmt.Sprintf("%6.0f %6.0f", m.out/(1<<20), m.in/(1<<20))
	for _, c := range calls {
		name, contents := keepers[c.Action].Name, "as it was left"
		switch {
		case c.Failure == "application error": // the function has compared it
			contents = p.bold("LOST")
		case c.Failure != "":
			return fmt.Errorf("call %s: %s %s", name, c.Failure, c.Detail)
		case c.Start == "cold" || c.Start == "busy-cold":
			contents = "new"
		}
		if c.Action == s.function {
			p.line("%-34s %-6s %-10s %13s  %s", what, name, c.Start, amounts, contents)
			what, amounts = "", ""
		}
		if c.Failure != "" {
			return errMemory
		}
		if c.Action == s.function && s.ahead != "" && c.Start == "gpu-warm" {
			p.line("  %s", s.ahead)
		}
	}
	return nil
}
