package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// engine is one run: the policy, the devices and the events between them.
type engine struct {
	p       Params
	w       *Workload
	policy  sched.Policy
	devices []*device
	demand  *gpu.Demand
	fns     []function
	byFlow  map[sched.FlowID]int32
	byKey   map[string]int32
	jobs    []job // by arrival
	conts   map[string]*container
	born    int

	now     time.Duration
	timers  timers
	arrived int // arrivals taken
	done    int
	changes []sched.Change
	slow    []int64 // fixed-point slowdown by concurrency
	gaps    gaps
	cost    cost
	fault   error
}

// function is what the engine keeps of one function.
type function struct {
	spec    Function
	flow    sched.FlowID
	key     string // the flow's name for gpu
	need    gpu.Need
	queued  int
	backlog time.Duration // since when something is queued
	service time.Duration // device time received, in all
	largest time.Duration // the largest service of one run
	conts   []*container  // in order of creation
}

// container is a live container of the simulated server.
type container struct {
	id      string
	fn      int32
	dev     int32
	job     int32         // the job that holds it, or -1
	arrives time.Duration // when the transfer of its newest prefetch ends
}

type phase uint8

const (
	queued     phase = iota
	noRoom           // granted, and its reservation does not stand yet
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
	kind      gpu.StartKind
	cont      *container
	granted   time.Duration
	ran       time.Duration // when its run proper began
	ended     time.Duration
	remaining int64 // ns of undisturbed work left in this phase
	shared    int64 // integral of concurrency over its running time
}

// Run simulates a workload under parameters to its end: when all is served, or
// Drain after the workload's horizon.
func Run(w *Workload, p Params) (*Result, error) {
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
		demand: gpu.NewDemand(0, 0),
		byFlow: make(map[sched.FlowID]int32, len(w.Functions)),
		byKey:  make(map[string]int32, len(w.Functions)),
		jobs:   make([]job, len(w.Arrivals)),
		conts:  make(map[string]*container),
	}
	policy, err := newPolicy(p, e)
	if err != nil {
		return nil, err
	}
	e.policy = policy
	e.gaps.init(len(w.Functions), p)
	if err := e.addFunctions(); err != nil {
		return nil, err
	}
	return e, e.addDevices()
}

func (e *engine) addFunctions() error {
	e.fns = make([]function, len(e.w.Functions))
	for i, f := range e.w.Functions {
		flow := f.Flow()
		if _, ok := e.byFlow[flow]; ok {
			return fmt.Errorf("workload %s: function %s twice", e.w.Name, flow)
		}
		e.byFlow[flow] = int32(i)
		e.byKey[flow.String()] = int32(i)
		e.fns[i] = function{
			spec: f, flow: flow, key: flow.String(),
			need: gpu.Need{Bytes: f.Memory, Context: e.p.Context},
		}
		if f.Weight > 0 && f.Weight != 1 {
			if err := e.policy.SetWeight(0, flow, f.Weight); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *engine) addDevices() error {
	for i := range e.p.Devices {
		d, err := newDevice(e.p)
		if err != nil {
			return err
		}
		e.devices = append(e.devices, d)
		e.policy.AddDevice(0, i, d.d)
		if e.p.Tokens.Dynamic {
			e.timers.push(timer{at: sampleEvery, kind: sampled, dev: int32(i)})
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
		e.settle()
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
	if at, set := e.policy.Deadline(); set && e.busy() {
		earlier(at, true)
	}
	return max(at, e.now), ok
}

// busy reports whether anything is still to happen that a reading or a
// deadline could matter to. Without it they would keep an idle run alive.
func (e *engine) busy() bool {
	return e.arrived < len(e.w.Arrivals) || e.done < e.arrived
}

// take handles every event of the present time, runs that end before those
// that arrive, as an invoker hears of completions.
func (e *engine) take() {
	for i, d := range e.devices {
		e.advance(d)
		e.completions(i, d)
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
	if at, ok := e.policy.Deadline(); ok && at <= e.now {
		e.policy.Tick(e.now)
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
	e.demand.Arrived(e.now, f.key)
	e.cost.begin(e.p.Clock)
	e.policy.Enqueue(e.now, sched.Item{ID: uint64(j), Flow: f.flow})
	e.cost.end(e.p.Clock)
}

// newContainer enters a container of a function on a device.
func (e *engine) newContainer(fn, dev int32) *container {
	e.born++
	c := &container{id: e.fns[fn].spec.Name + "#" + strconv.Itoa(e.born), fn: fn, dev: dev, job: -1}
	e.conts[c.id] = c
	e.fns[fn].conts = append(e.fns[fn].conts, c)
	return c
}

// remove ends a container's life and tells who accounted for it.
func (e *engine) remove(c *container) {
	d := e.devices[c.dev]
	delete(e.conts, c.id)
	f := &e.fns[c.fn]
	for i := range f.conts {
		if f.conts[i] == c {
			f.conts = append(f.conts[:i], f.conts[i+1:]...)
			break
		}
	}
	d.pool.Remove(c.id)
	d.ledger.Gone(e.now, c.id)
}
