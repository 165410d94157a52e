// Package load calls actions of a live OpenWhisk over its REST interface and measures
// the latencies. The load is open: each call is sent at its scheduled time, even if
// earlier calls are still running, and its latency counts from that time. If the system
// (or this program) falls behind, the latencies therefore include the delay.
//
// Run starts one goroutine for each running call and one that reports progress. Starts
// starts a few that fetch records. All end before the function returns.
package load

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Arrival is one call that is to be made.
type Arrival struct {
	At     time.Duration // since the load began
	Action int           // index in Options.Actions
}

// Answer is the outcome of one call.
type Answer struct {
	ID    string // of the activation, empty when the call was not taken
	Start string // gpu-warm, host-warm, cold ...; empty when the answer does not have it
	// Ran is true when the action has run to an end of its own, good or bad: only
	// such a call has a latency.
	Ran     bool
	Failure string // its kind; empty for a success
	Detail  string // the system's text of a failure
}

// System is the system under load.
type System interface {
	// Invoke calls an action and waits for its end.
	Invoke(ctx context.Context, action string) Answer
	// Start returns the start kind in an activation's record, or "" if there is no record
	// yet.
	Start(ctx context.Context, id string) string
}

// Options sets the calls and their times.
type Options struct {
	Actions  []string
	Arrivals iter.Seq[Arrival] // in order of time
	Duration time.Duration     // after which nothing more is sent
	InFlight int               // calls under way at most
	Wait     time.Duration     // for one answer, counted from the sending

	// Progress, if any, is called each second.
	Progress func(Progress)
}

// Progress is how a load goes.
type Progress struct {
	At             time.Duration
	Sent, Answered int
	Failed         int
	Slowest        time.Duration // since the last time
}

// Call is a call that was made.
type Call struct {
	Action  int
	At      time.Duration // when it was to be sent
	Late    time.Duration // how long after that it was sent
	Latency time.Duration // from At to the answer
	Answer
}

// Result is the outcome of a load.
type Result struct {
	Begin       time.Time
	Took        time.Duration // until the last answer
	Calls       []Call        // also those whose time came while InFlight were under way, until the end
	Interrupted bool
}

// Failures that are made here.
const (
	failureInterrupted = "interrupted"
	failureUnsent      = "not sent: too many calls under way"
)

// Run makes the calls and returns when all are answered. If ctx ends, Run returns at once
// with the results so far.
func Run(ctx context.Context, o Options, system System) *Result {
	r := &run{Options: o, system: system, slots: make(chan struct{}, o.InFlight)}
	r.result.Begin = time.Now()
	var reporting sync.WaitGroup
	loading, loaded := context.WithCancel(context.WithoutCancel(ctx))
	reporting.Go(func() {
		for o.Progress != nil && retry.Sleep(loading, time.Second) {
			o.Progress(r.since())
		}
	})
	r.send(ctx)
	r.running.Wait()
	loaded()
	reporting.Wait()
	r.result.Interrupted = ctx.Err() != nil
	return &r.result
}

type run struct {
	Options
	system  System
	slots   chan struct{} // one in it for each call under way
	running sync.WaitGroup

	mu       sync.Mutex // guards the following fields
	result   Result
	progress Progress
}

// send makes each call at its time. Without a free slot it waits, and the following
// calls become late; their latencies include the delay.
func (r *run) send(ctx context.Context) {
	sending, cancel := context.WithTimeout(ctx, r.Duration)
	defer cancel()
	over := false // the time is up, and slots were lacking then
	for a := range r.Arrivals {
		if a.At > r.Duration || !retry.Sleep(ctx, time.Until(r.result.Begin.Add(a.At))) {
			return
		}
		if over = over || !r.slot(sending); over {
			r.mu.Lock()
			r.result.Calls = append(r.result.Calls, Call{Action: a.Action, At: a.At, Answer: Answer{Failure: failureUnsent}})
			r.mu.Unlock()
			continue
		}
		r.running.Go(func() { r.call(ctx, a) })
	}
}

// slot waits for one until ctx ends.
func (r *run) slot(ctx context.Context) bool {
	select {
	case r.slots <- struct{}{}: // also at the end of ctx, if one is free
		return true
	default:
	}
	select {
	case r.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *run) call(ctx context.Context, a Arrival) {
	defer func() { <-r.slots }()
	r.mu.Lock()
	r.progress.Sent++
	r.mu.Unlock()
	c := Call{Action: a.Action, At: a.At, Late: time.Since(r.result.Begin) - a.At}
	bounded, cancel := context.WithTimeout(ctx, r.Wait)
	defer cancel()
	c.Answer = r.system.Invoke(bounded, r.Actions[a.Action])
	now := time.Since(r.result.Begin)
	c.Latency = now - a.At
	if !c.Ran && ctx.Err() != nil {
		c.Failure, c.Detail = failureInterrupted, ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Calls = append(r.result.Calls, c)
	r.result.Took = max(r.result.Took, now)
	r.progress.Answered++
	if c.Failure != "" {
		r.progress.Failed++
	}
	r.progress.Slowest = max(r.progress.Slowest, c.Latency)
}

// since is the progress since the last time.
func (r *run) since() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.progress
	p.At, r.progress.Slowest = time.Since(r.result.Begin), 0
	return p
}

// Mix is a load that is drawn: Poisson arrivals, and the n-th action as popular
// as n to the power of -Zipf.
type Mix struct {
	Actions int
	Rate    float64 // calls a second, of all actions together
	Zipf    float64 // 0: all actions alike
	Count   int     // calls at most
	Seed    uint64
}

// Validate returns an error that names the flag of an impossible value.
func (m Mix) Validate() error {
	switch {
	case !(m.Rate > 0 && m.Rate <= 100_000):
		return fmt.Errorf("--rate %v: want more than 0 and at most 100000 calls a second", m.Rate)
	case !(m.Zipf >= 0 && m.Zipf <= 10):
		return fmt.Errorf("--zipf %v: want 0 (all alike) to 10", m.Zipf)
	}
	return nil
}

// Arrivals draws them. The same mix gives the same calls at the same times.
func (m Mix) Arrivals() iter.Seq[Arrival] {
	cumulative := make([]float64, m.Actions) // running sums
	sum := 0.0
	for i := range cumulative {
		sum += math.Pow(float64(i+1), -m.Zipf)
		cumulative[i] = sum
	}
	return func(yield func(Arrival) bool) {
		random := rand.New(rand.NewPCG(m.Seed, 0))
		at := 0.0
		for range m.Count {
			at += random.ExpFloat64() / m.Rate
			if at > math.MaxInt64/1e9 {
				return
			}
			pick, _ := slices.BinarySearch(cumulative, random.Float64()*sum)
			if !yield(Arrival{time.Duration(at * 1e9), min(pick, m.Actions-1)}) {
				return
			}
		}
	}
}

// fetchers is how many records are asked for at the same time. Few, for the load
// is over and its other users are not.
const fetchers = 8

// Unknown is the start of a run without a record.
const Unknown = "unknown"

// Starts fetches the records of calls whose answers lack the start kind. A record may be
// written some time after its answer, so Starts repeats the requests until no record
// has come for the time of timeout, or ctx ends.
func Starts(ctx context.Context, r *Result, system System, timeout time.Duration, progress func(missing int)) {
	var missing []*Call
	for i := range r.Calls {
		if c := &r.Calls[i]; c.Ran && c.Start == "" {
			missing = append(missing, c)
		}
	}
	for last := time.Now(); len(missing) > 0; {
		if progress != nil {
			progress(len(missing))
		}
		var all errgroup.Group
		all.SetLimit(fetchers)
		for _, c := range missing {
			all.Go(func() error {
				bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				c.Start = system.Start(bounded, c.ID)
				return nil
			})
		}
		_ = all.Wait() // always nil: missing records are requested again
		asked := len(missing)
		missing = slices.DeleteFunc(missing, func(c *Call) bool { return c.Start != "" })
		if len(missing) < asked {
			last = time.Now()
		}
		if len(missing) > 0 && (time.Since(last) >= timeout || !retry.Sleep(ctx, 500*time.Millisecond)) {
			break
		}
	}
	for _, c := range missing {
		c.Start = Unknown
	}
}
