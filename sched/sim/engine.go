package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// engine is one run: the scheduler that the invoker runs, and a simulated server
// around it. Every choice is the scheduler's; the server adds arrivals, container
// starts, transfers over links and the runs themselves.
type engine struct {
	p          Params
	w          *Workload
	scheduler  *scheduler.Scheduler
	devices    []*device
	fns        []function
	byFlow     map[sched.FlowID]int32
	executions []execution // by arrival; an invocation's number is one more
	containers []container // by the scheduler's number, which counts from 1

	now     time.Duration
	timers  timers
	set     int // timers that were set
	arrived int // arrivals taken
	done    int
	gaps    gaps
	cost    cost
	checks  int
	fault   error
	server  *Server // that receives what happens; nil in a run of its own
}

// function is what the engine keeps of one function.
type function struct {
	Function
	submitted scheduler.Function
	queued    int
	backlog   time.Duration // since when something is queued
	service   time.Duration // device time received, in all
	counted   time.Duration // service at the start of the present window
	largest   time.Duration // the largest service charged or used of one run
}

// weight is the function's share in fair queueing.
func (f *function) weight() float64 { return cmp.Or(f.Weight, 1) }

type phase uint8

const (
	queued  phase = iota
	waiting       // for its new container, or for its container's memory
	initing       // its container initializes
	running
	finished
)

// execution is one activation.
type execution struct {
	fn        int32
	dev       int32
	phase     phase
	kind      sched.StartKind
	container scheduler.Container
	submitted time.Duration
	granted   time.Duration
	ran       time.Duration // when its run proper began
	ended     time.Duration
	remaining int64 // ns of undisturbed work left in this phase
}

// Run simulates a workload under parameters to its end: when all is served, or
// Drain after the workload's horizon.
func Run(w *Workload, p Params) (*Result, error) {
	e, err := newEngine(w, p)
	if err != nil {
		return nil, err
	}
	if err := e.loop(); err != nil {
		return nil, fmt.Errorf("simulate %s under %s at %v: %w", w.Name, p.Policy, e.now, err)
	}
	return e.result(), nil
}

func newEngine(w *Workload, p Params) (*engine, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := p.fits(w); err != nil {
		return nil, err
	}
	if n := len(w.Arrivals); n > 0 && w.Arrivals[n-1].At < p.Warmup {
		return nil, fmt.Errorf("--warmup %v: nothing is left to measure, the last arrival is at %v", p.Warmup, w.Arrivals[n-1].At)
	}
	e := &engine{
		p: p, w: w,
		fns:        make([]function, len(w.Functions)),
		byFlow:     make(map[sched.FlowID]int32, len(w.Functions)),
		executions: make([]execution, len(w.Arrivals)),
		containers: make([]container, 1),
		gaps:       gaps{end: p.Window},
	}
	var err error
	if e.scheduler, err = newScheduler(p, &e.cost); err != nil {
		return nil, err
	}
	for i := range p.Devices {
		e.devices = append(e.devices, &device{})
		if p.Tokens.Dynamic {
			e.after(sampleEvery, timer{kind: sampled, dev: int32(i)})
		}
	}
	for i, f := range w.Functions {
		flow := f.Flow()
		if _, ok := e.byFlow[flow]; ok {
			return nil, fmt.Errorf("workload %s: function %s twice", w.Name, flow)
		}
		e.byFlow[flow] = int32(i)
		e.fns[i] = function{Function: f, submitted: scheduler.Function{Flow: flow, Key: flow.String(), Memory: f.Memory, Width: 1, Weight: f.Weight}}
	}
	return e, nil
}

// loop takes one time after another until nothing is left to do.
func (e *engine) loop() error {
	end := e.w.Horizon + e.p.Drain
	for e.done < len(e.executions) {
		at, ok := e.next()
		if !ok {
			return fmt.Errorf("stalled with %d activations left", len(e.executions)-e.done)
		}
		if at > end {
			break
		}
		e.windows(at)
		e.now = at
		e.take()
		for _, o := range e.scheduler.Ready() {
			e.execute(o)
		}
		e.check()
		if e.fault != nil {
			return e.fault
		}
	}
	return nil
}

// next returns the time of the next event of any kind.
func (e *engine) next() (at time.Duration, ok bool) {
	earlier := func(t time.Duration, set bool) {
		if set && (!ok || t < at) {
			at, ok = t, true
		}
	}
	if e.arrived < len(e.w.Arrivals) {
		earlier(e.w.Arrivals[e.arrived].At, true)
	}
	for _, d := range e.devices {
		earlier(e.finish(d))
	}
	// Readings and deadlines alone would keep an idle run alive.
	busy := e.arrived < len(e.w.Arrivals) || e.done < e.arrived
	if len(e.timers) > 0 {
		earlier(e.timers[0].at, busy || e.timers[0].kind != sampled)
	}
	deadline, set := e.scheduler.Deadline()
	earlier(deadline, set && busy)
	return max(at, e.now), ok
}

// notify sends the scheduler an event of the present time.
func (e *engine) notify(v scheduler.Event) {
	v.At = e.now
	e.scheduler.Take(v)
	if e.server != nil && v.Container > 0 {
		e.server.touched = append(e.server.touched, int(e.containers[v.Container].fn))
	}
}

// take handles every event of the present time, runs that end before those
// that arrive, as in an invoker.
func (e *engine) take() {
	for _, d := range e.devices {
		e.advance(d)
		e.completions(d)
	}
	for len(e.timers) > 0 && e.timers[0].at <= e.now {
		e.fire(heap.Pop(&e.timers).(timer))
	}
	for e.arrived < len(e.w.Arrivals) && e.w.Arrivals[e.arrived].At <= e.now {
		e.arrive(int32(e.arrived))
		e.arrived++
	}
	if at, ok := e.scheduler.Deadline(); ok && at <= e.now {
		e.notify(scheduler.Event{Kind: scheduler.Tick})
	}
}

func (e *engine) arrive(j int32) {
	fn := e.w.Arrivals[j].Function
	f := &e.fns[fn]
	if f.queued == 0 {
		f.backlog = e.now
	}
	f.queued++
	e.executions[j].fn, e.executions[j].submitted = fn, e.now
	e.notify(scheduler.Event{Kind: scheduler.Submitted, Invocation: uint64(j) + 1, Function: &f.submitted})
}

func (e *engine) fail(err error) {
	if err != nil && e.fault == nil {
		e.fault = err
	}
}

// checkEvery is how many instants with events pass between checks: each check
// walks the scheduler's whole state.
const checkEvery = 20

// check asserts the scheduler's invariants, and that they agree with the server.
func (e *engine) check() {
	e.checks++
	if !e.p.Verify || e.checks%checkEvery != 0 {
		return
	}
	e.fail(e.scheduler.Check())
	for i, d := range e.devices {
		st := e.scheduler.Device(i)
		if e.p.Pool.Size > 0 && st.Containers > e.p.Pool.Size {
			e.fail(fmt.Errorf("device %d: %d containers in a pool of %d", i, st.Containers, e.p.Pool.Size))
		}
		if !e.p.Tokens.Dynamic && st.InFlight > e.p.Tokens.Max {
			e.fail(fmt.Errorf("device %d: %d runs with %d tokens", i, st.InFlight, e.p.Tokens.Max))
		}
		if d.live != st.Containers {
			e.fail(fmt.Errorf("device %d: %d containers live, %d by the scheduler", i, d.live, st.Containers))
		}
	}
}

// timerKind is what a timer ends.
type timerKind uint8

const (
	containerStarted timerKind = iota // of an execution's new container
	initialized                       // of an execution's new container
	transferred                       // a container's memory has moved
	removed                           // a container is gone
	overlapped                        // an execution need not wait longer for its transfer
	sampled                           // utilization is read
)

// timer is one event at a known time. seq makes the order of equal times that
// of their creation.
type timer struct {
	at        time.Duration
	seq       int
	kind      timerKind
	execution int32
	dev       int32
	container scheduler.Container
	epoch     uint64
	bytes     int64
	evict     bool
}

// after sets a timer.
func (e *engine) after(d time.Duration, t timer) {
	e.set++
	t.at, t.seq = e.now+d, e.set
	heap.Push(&e.timers, t)
}

// timers is a heap by (at, seq).
type timers []timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].seq < t[j].seq
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)   { *t = append(*t, x.(timer)) }

func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}
