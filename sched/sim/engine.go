package sim

import (
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/gpu/start"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// engine is one run: the lane that the invoker runs, and the world around it.
// Who goes, stays or moves is the lane's to say; the world lets functions call,
// containers start, memory move over links and runs take their time.
type engine struct {
	p       Params
	w       *Workload
	lane    *lane.Lane
	devices []*device
	fns     []function
	byFlow  map[sched.FlowID]int32
	jobs    []job       // by arrival; an item's number is one more
	boxes   []container // by box

	now     time.Duration
	timers  timers
	arrived int // arrivals taken
	done    int
	slow    []int64 // fixed-point slowdown by concurrency
	gaps    gaps
	cost    cost
	checks  int
	fault   error
}

// function is what the engine keeps of one function.
type function struct {
	spec    Function
	flow    sched.FlowID
	told    lane.Function
	queued  int
	backlog time.Duration // since when something is queued
	service time.Duration // device time received, in all
	largest time.Duration // the largest service of one run
}

// container is one container of the simulated server.
type container struct {
	fn      int32
	dev     int32
	moving  bool          // the lane awaits the end of its newest transfer
	epoch   uint64        // of that
	arrives time.Duration // when the newest transfer to the device ends
}

type phase uint8

const (
	queued     phase = iota
	starting         // its container is being started
	initing          // its container initializes
	swappingIn       // waits for its container's memory
	running
	finished
)

// job is one activation.
type job struct {
	fn        int32
	dev       int32
	phase     phase
	kind      start.Kind
	box       lane.Box
	granted   time.Duration
	ran       time.Duration // when its run proper began
	ended     time.Duration
	remaining int64 // ns of undisturbed work left in this phase
}

// Run simulates a workload under parameters to its end: when all is served, or
// Drain after the workload's horizon.
func Run(w *Workload, p Params) (*Result, error) {
	r, err := simulate(w, p)
	if err != nil {
		return nil, err
	}
	r.least = func() float64 { return LowerBound(w, p) }
	r.bounded()
	return r, nil
}

// simulate is Run without the lower bound.
func simulate(w *Workload, p Params) (*Result, error) {
	e, err := newEngine(w, p)
	if err != nil {
		return nil, err
	}
	if err := e.loop(); err != nil {
		return nil, err
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
		byFlow: make(map[sched.FlowID]int32, len(w.Functions)),
		jobs:   make([]job, len(w.Arrivals)),
		boxes:  make([]container, 1), // boxes count from 1
	}
	core, err := newLane(p, &e.cost)
	if err != nil {
		return nil, err
	}
	e.lane = core
	for i := range p.Devices {
		e.devices = append(e.devices, &device{})
		if p.Tokens.Dynamic {
			e.timers.push(timer{at: sampleEvery, kind: sampled, dev: int32(i)})
		}
	}
	e.gaps.init(len(w.Functions), p)
	return e, e.addFunctions()
}

func (e *engine) addFunctions() error {
	e.fns = make([]function, len(e.w.Functions))
	for i, f := range e.w.Functions {
		flow := f.Flow()
		if _, ok := e.byFlow[flow]; ok {
			return fmt.Errorf("workload %s: function %s twice", e.w.Name, flow)
		}
		e.byFlow[flow] = int32(i)
		e.fns[i] = function{
			spec: f, flow: flow,
			told: lane.Function{Flow: flow, Key: flow.String(), Memory: f.Memory, Width: 1, Weight: f.Weight},
		}
	}
	return nil
}

// sampleEvery is the paper's interval of utilization readings (section 4.1).
const sampleEvery = 200 * time.Millisecond

// loop takes one time after another until nothing is left to do.
func (e *engine) loop() error {
	end := e.w.Horizon + e.p.Drain
	for e.done < len(e.jobs) {
		at, ok := e.next()
		if !ok {
			return fmt.Errorf("simulate %s under %s: stalled at %v with %d activations left",
				e.w.Name, e.p.Policy, e.now, len(e.jobs)-e.done)
		}
		if at > end {
			break
		}
		e.windows(at)
		e.now = at
		e.take()
		for _, o := range e.lane.Ready() {
			e.obey(o)
		}
		e.check()
		if e.fault != nil {
			return fmt.Errorf("simulate %s under %s at %v: %w", e.w.Name, e.p.Policy, e.now, e.fault)
		}
	}
	return nil
}

// next returns the time of the next event of any kind.
func (e *engine) next() (at time.Duration, ok bool) {
	earlier := func(t time.Duration, any bool) {
		if any && (!ok || t < at) {
			at, ok = t, true
		}
	}
	if e.arrived < len(e.w.Arrivals) {
		earlier(e.w.Arrivals[e.arrived].At, true)
	}
	for _, d := range e.devices {
		earlier(e.finish(d))
	}
	if at, set := e.timers.next(); set && (e.timers.heap[0].kind != sampled || e.busy()) {
		earlier(at, true)
	}
	if at, set := e.lane.Deadline(); set && e.busy() {
		earlier(at, true)
	}
	return max(at, e.now), ok
}

// busy reports whether anything is still to happen that a reading or a
// deadline could matter to. Without it they would keep an idle run alive.
func (e *engine) busy() bool {
	return e.arrived < len(e.w.Arrivals) || e.done < e.arrived
}

// tell brings the lane an event of the present time.
func (e *engine) tell(v lane.Event) {
	v.At = e.now
	e.lane.Take(v)
}

// take handles every event of the present time, runs that end before those
// that arrive, as an invoker hears of completions.
func (e *engine) take() {
	for _, d := range e.devices {
		e.advance(d)
		e.completions(d)
	}
	for {
		at, ok := e.timers.next()
		if !ok || at > e.now {
			break
		}
		e.fire(e.timers.pop())
	}
	for e.arrived < len(e.w.Arrivals) && e.w.Arrivals[e.arrived].At <= e.now {
		e.arrive(int32(e.arrived))
		e.arrived++
	}
	if at, ok := e.lane.Deadline(); ok && at <= e.now {
		e.tell(lane.Event{Kind: lane.Tick})
	}
}

func (e *engine) arrive(j int32) {
	fn := e.w.Arrivals[j].Function
	f := &e.fns[fn]
	if f.queued == 0 {
		f.backlog = e.now
	}
	f.queued++
	e.jobs[j].fn = fn
	e.tell(lane.Event{Kind: lane.Submitted, Item: uint64(j) + 1, Function: &f.told})
}

func (e *engine) fail(err error) {
	if err != nil && e.fault == nil {
		e.fault = err
	}
}

// checkEvery is how many times of events pass between checks: each looks at all
// that the lane knows.
const checkEvery = 20

// check asserts the lane's books, and that they agree with the world.
func (e *engine) check() {
	e.checks++
	if !e.p.Verify || e.checks%checkEvery != 0 {
		return
	}
	e.fail(e.lane.Check())
	for i, d := range e.devices {
		st := e.lane.Device(i)
		if e.p.Pool.Size > 0 && st.Containers > e.p.Pool.Size {
			e.fail(fmt.Errorf("device %d: %d containers in a pool of %d", i, st.Containers, e.p.Pool.Size))
		}
		if !e.p.Tokens.Dynamic && st.InFlight > e.p.Tokens.Max {
			e.fail(fmt.Errorf("device %d: %d runs with %d tokens", i, st.InFlight, e.p.Tokens.Max))
		}
		if d.live != st.Containers {
			e.fail(fmt.Errorf("device %d: %d containers live, %d by the lane", i, d.live, st.Containers))
		}
	}
}
