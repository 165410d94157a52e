// Package load calls actions of a live OpenWhisk over its REST interface and
// tells how long the answers took. The load is open: a call is sent when its
// time has come, whatever became of those before, and its latency counts from
// that time. A call that had to wait because the system (or this program) was
// behind therefore shows that wait.
//
// Run starts one goroutine for each call under way and one that tells how it
// goes; Starts starts a few that fetch records. All have ended when either
// returns.
package load

import (
	"context"
	"sync"
	"time"
)

// Arrival is one call that is to be made.
type Arrival struct {
	At     time.Duration // since the load began
	Action int           // index in Options.Actions
}

// Answer is what became of one call.
type Answer struct {
	ID    string // of the activation, empty when the call was not taken
	Start string // gpu-warm, host-warm, cold ...; empty when the answer did not tell
	// Ran says that the action has run to an end of its own, good or bad: only
	// such a call has a latency.
	Ran     bool
	Failure string // its kind; empty for a success
	Detail  string // what the system said of a failure
}

// System is what is loaded.
type System interface {
	// Invoke calls an action and waits for its end.
	Invoke(ctx context.Context, action string) Answer
	// Start asks an activation's record how it started; false when there is no
	// such record (yet).
	Start(ctx context.Context, id string) (string, bool)
}

// Options says what is called, and when.
type Options struct {
	Actions  []string
	Arrivals func(yield func(Arrival) bool) // in order of time
	Duration time.Duration                  // after which nothing more is sent
	InFlight int                            // calls under way at most
	Wait     time.Duration                  // for one answer, counted from the sending

	// Progress, if any, is told each second how it goes.
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

// Result is what a load came to.
type Result struct {
	Begin       time.Time
	Took        time.Duration // until the last answer
	Calls       []Call
	Unsent      []int // for each action: calls whose time came while InFlight were under way, until the end
	Interrupted bool
}

// Failures that are made here.
const (
	failureInterrupted = "interrupted"
	failureUnsent      = "not sent: too many calls under way"
)

// Run makes the calls and returns when all are answered. The end of ctx ends it
// at once, with what there is.
func Run(ctx context.Context, o Options, system System) *Result {
	r := &run{Options: o, system: system, slots: make(chan struct{}, o.InFlight)}
	r.result = Result{Begin: time.Now(), Unsent: make([]int, len(o.Actions))}
	var telling sync.WaitGroup
	loading, loaded := context.WithCancel(context.WithoutCancel(ctx))
	telling.Go(func() { r.tell(loading) })
	r.send(ctx)
	r.running.Wait()
	loaded()
	telling.Wait()
	r.result.Interrupted = ctx.Err() != nil
	return &r.result
}

type run struct {
	Options
	system  System
	slots   chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex // over what follows
	result   Result
	progress Progress
}

// send makes each call in its time. When no place is free it waits for one, and
// the calls behind it become late, which their latencies show.
func (r *run) send(ctx context.Context) {
	sending, cancel := context.WithTimeout(ctx, r.Duration)
	defer cancel()
	next := time.NewTimer(0)
	defer next.Stop()
	over := false // the time is up, and places were lacking then
	for a := range r.Arrivals {
		if a.At > r.Duration {
			return
		}
		next.Reset(time.Until(r.result.Begin.Add(a.At)))
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		if over = over || !r.place(sending); over {
			if ctx.Err() != nil {
				return
			}
			r.result.Unsent[a.Action]++
			continue
		}
		r.mu.Lock()
		r.progress.Sent++
		r.mu.Unlock()
		r.running.Go(func() {
			r.call(ctx, a)
			<-r.slots
		})
	}
}

// place takes a place for a call, and waits for one until the sending is over.
func (r *run) place(sending context.Context) bool {
	select {
	case r.slots <- struct{}{}:
		return true
	default:
	}
	select {
	case r.slots <- struct{}{}:
		return true
	case <-sending.Done():
		return false
	}
}

func (r *run) call(ctx context.Context, a Arrival) {
	begin := r.result.Begin
	c := Call{Action: a.Action, At: a.At, Late: time.Since(begin) - a.At}
	bounded, cancel := context.WithTimeout(ctx, r.Wait)
	defer cancel()
	c.Answer = r.system.Invoke(bounded, r.Actions[a.Action])
	now := time.Since(begin)
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

// tell reports each second until ctx ends.
func (r *run) tell(ctx context.Context) {
	if r.Progress == nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		p := r.progress
		r.progress.Slowest = 0
		r.mu.Unlock()
		p.At = time.Since(r.result.Begin)
		r.Progress(p)
	}
}
