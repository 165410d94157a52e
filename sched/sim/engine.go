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

	now       time.Duration
	timers    Queue[timer]
	set       int // timers that were set
	arrived   int // arrivals taken
	done      int
	decisions int
	deciding  time.Duration // time in the scheduler, by the clock of the parameters
	gaps      gaps
	checks    int
	fault     error

	// A server that is fed from outside reports these.
	hosted         bool
	queued         int // submitted and not started
	running        int
	ended, touched []int
}

// function is the engine's state of one function.
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
	if err := p.validateFor(w); err != nil {
		return nil, err
	}
	return buildEngine(w, p)
}

func buildEngine(w *Workload, p Params) (*engine, error) {
	e := &engine{
		p: p, w: w,
		fns:        make([]function, 0, len(w.Functions)),
		byFlow:     make(map[sched.FlowID]int32, len(w.Functions)),
		executions: make([]execution, len(w.Arrivals)),
		containers: make([]container, 1),
		gaps:       gaps{end: p.Window},
	}
	var err error
	if e.scheduler, err = newScheduler(p); err != nil {
		return nil, err
	}
	for range p.GPUs {
		d := &device{}
		e.devices = append(e.devices, d)
		if p.Tokens.Dynamic {
			e.sampleLater(d, len(e.devices)-1)
		}
	}
	for _, f := range w.Functions {
		if _, ok := e.byFlow[f.Flow()]; ok {
			return nil, fmt.Errorf("workload %s: function %s twice", w.Name, f.Flow())
		}
		e.addFunction(f)
	}
	return e, nil
}

func (e *engine) addFunction(f Function) {
	flow := f.Flow()
	e.byFlow[flow] = int32(len(e.fns))
	e.fns = append(e.fns, function{Function: f, submitted: scheduler.Function{Flow: flow, Key: flow.String(), Memory: f.Memory, Width: 1, Weight: f.Weight}})
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
		if e.decide(); e.fault != nil {
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
		earlier(e.timers[0].at, busy || !e.timers[0].reading)
	}
	deadline, set := e.scheduler.Deadline()
	earlier(deadline, set && busy)
	return max(at, e.now), ok
}

// take handles every event of the present time: ends of runs before arrivals, as in an
// invoker.
func (e *engine) take() {
	for _, d := range e.devices {
		e.advance(d)
		e.completions(d)
	}
	for len(e.timers) > 0 && e.timers[0].at <= e.now {
		heap.Pop(&e.timers).(timer).do()
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
	e.queued++
	e.executions[j].fn, e.executions[j].submitted = fn, e.now
	e.notify(scheduler.Event{Kind: scheduler.Submitted, Invocation: uint64(j) + 1, Function: &f.submitted})
}

// notify sends the scheduler an event of the present time.
func (e *engine) notify(v scheduler.Event) {
	v.At = e.now
	start := e.p.Clock.read()
	e.scheduler.Take(v)
	e.deciding += e.p.Clock.read() - start
	if v.Container > 0 {
		e.touch(e.containers[v.Container].fn)
	}
}

// decide carries out the scheduler's orders after the events of the present time.
func (e *engine) decide() {
	start := e.p.Clock.read()
	orders := e.scheduler.Ready()
	e.deciding += e.p.Clock.read() - start
	for _, o := range orders {
		e.execute(o)
	}
	e.check()
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

// timer is something to do at a known time. Equal times go by the order in which
// timers were set.
type timer struct {
	at      time.Duration
	seq     int
	do      func()
	reading bool // of utilization: it keeps no run alive
}

// Before orders timers by time.
func (t timer) Before(u timer) bool { return t.at < u.at || t.at == u.at && t.seq < u.seq }

// after does something after a time.
func (e *engine) after(d time.Duration, do func()) { e.setTimer(timer{at: e.now + d, do: do}) }

func (e *engine) setTimer(t timer) {
	e.set++
	t.seq = e.set
	heap.Push(&e.timers, t)
}
