// Package sim is a discrete-event simulator of one GPU server. It measures the cost and the
// benefit of a scheduling policy on a workload, without a GPU.
//
// Package sched chooses the flow, and package gpu decides about containers, device memory and
// tokens, with the same code that the invoker runs. The package adds the environment: arrivals,
// container starts, transfers, interference between runs, and measurements. Its only rules are
// the orders of the policies that the invoker's policies are compared with. A run is a function
// of its workload and parameters. Nothing depends on the clock, on goroutines or on map order.
//
// The package starts goroutines only in runAll, which waits for all of them.
package sim

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Function holds the true costs of a function on an idle device, which a policy
// can only estimate.
type Function struct {
	Name      string
	Namespace string        // empty means DefaultNamespace
	Warm      time.Duration // a run in a live container with its memory on the device
	Cold      time.Duration // the same in a new container, without starting that container
	Memory    int64         // bytes on the device
	Weight    float64       // share in fair queueing; 0 means 1
}

// DefaultNamespace is the namespace of functions that name none.
const DefaultNamespace = "sim"

// Flow returns the function's flow.
func (f Function) Flow() sched.FlowID {
	return sched.FlowID{Namespace: cmp.Or(f.Namespace, DefaultNamespace), Function: f.Name}
}

// Arrival is one activation.
type Arrival struct {
	At       time.Duration
	Function int32         // index in Workload.Functions
	Work     time.Duration // its own warm time; 0 means the function's
}

// Workload is a set of functions and their arrivals in order of time.
type Workload struct {
	Name      string
	Functions []Function
	Arrivals  []Arrival
	Horizon   time.Duration // arrivals lie in [0, Horizon]
}

// Work returns an arrival's warm time.
func (w *Workload) Work(a Arrival) time.Duration {
	if a.Work > 0 {
		return a.Work
	}
	return w.Functions[a.Function].Warm
}

// Load returns the offered load: warm time asked for over the time it is asked
// in, so that 1 keeps one device busy without a single cold start when it
// takes one run at a time.
func (w *Workload) Load() float64 {
	if w.Horizon <= 0 {
		return 0
	}
	var sum float64
	for _, a := range w.Arrivals {
		sum += w.Work(a).Seconds()
	}
	return sum / w.Horizon.Seconds()
}

// Limits on the size of a workload. They keep an absurd input from taking
// the machine's memory before an error is seen.
const (
	MaxFunctions = 200_000
	MaxArrivals  = 10_000_000
	maxTime      = 366 * 24 * time.Hour
	maxCost      = 24 * time.Hour
)

// Validate returns an error for a workload that cannot be simulated.
func (w *Workload) Validate() error {
	switch {
	case len(w.Functions) == 0:
		return fmt.Errorf("workload %s: no functions", w.Name)
	case len(w.Arrivals) == 0:
		return fmt.Errorf("workload %s: no arrivals", w.Name)
	case len(w.Functions) > MaxFunctions || len(w.Arrivals) > MaxArrivals:
		return fmt.Errorf("workload %s: %d functions and %d arrivals, of %d and %d at most",
			w.Name, len(w.Functions), len(w.Arrivals), MaxFunctions, MaxArrivals)
	case w.Horizon <= 0 || w.Horizon > maxTime:
		return fmt.Errorf("workload %s: horizon %v: must be above 0 and at most %v", w.Name, w.Horizon, maxTime)
	}
	for _, f := range w.Functions {
		if err := f.validate(); err != nil {
			return fmt.Errorf("workload %s: %w", w.Name, err)
		}
	}
	last := time.Duration(0)
	for i, a := range w.Arrivals {
		switch {
		case a.At < last || a.At > w.Horizon:
			return fmt.Errorf("workload %s: arrival %d at %v: must lie within %v and %v", w.Name, i, a.At, last, w.Horizon)
		case a.Function < 0 || int(a.Function) >= len(w.Functions):
			return fmt.Errorf("workload %s: arrival %d: no function %d", w.Name, i, a.Function)
		case a.Work < 0 || a.Work > maxCost:
			return fmt.Errorf("workload %s: arrival %d: work %v: must lie within 0 and %v", w.Name, i, a.Work, maxCost)
		}
		last = a.At
	}
	return nil
}

func (f Function) validate() error {
	if f.Name == "" {
		return fmt.Errorf("function without a name")
	}
	if err := within(
		above("warm time", f.Warm, 0, maxCost),
		inside("cold time", f.Cold, f.Warm, maxCost),
		inside("memory", Bytes(f.Memory), 0, maxBytes),
		inside("weight", f.Weight, 0, 1000),
	); err != nil {
		return fmt.Errorf("function %s: %w", f.Name, err)
	}
	return nil
}
