package invoker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// gpuLane is the dispatcher's part for activations that need a GPU: the flows
// (sched), and for each device its containers, memory and tokens (gpu). All
// methods are called by the dispatcher's goroutine; a nil lane has nothing to
// do, which is how an invoker without devices runs.
type gpuLane struct {
	d        *dispatcher
	settings GPUSettings
	mover    Mover
	policy   sched.Policy
	devices  []*device
	demand   *gpu.Demand // by flow name
	flows    map[sched.FlowID]*flow
	queued   map[uint64]*job
	boxes    map[string]*box // by container name, which is their id in gpu

	starting []*run                // reservations stand, to be launched
	misfits  map[sched.FlowID]bool // flows that could not be placed for room
	short    int                   // MiB of host memory that a placement lacked
	changes  []sched.Change
}

// flow is what the lane knows of a function.
type flow struct {
	id       sched.FlowID
	name     string // the id as text
	key      string // of the newest revision seen
	memoryMB int
	need     gpu.Need
	weight   float64
	queued   int
}

// gpuBox is a box's part in the lane.
type gpuBox struct {
	device  *device
	flow    sched.FlowID
	key     string
	shim    string             // the annotation's word
	claimed int                // MiB of host memory
	busy    bool               // a run holds it
	doomed  bool               // being removed
	failed  bool               // ended by itself
	moving  bool               // a prefetch is under way
	replace context.CancelFunc // ends the last order when a newer one comes
	waiting *run               // its reservation does not stand yet
	held    *run               // its reservation stands, its memory is coming
	since   time.Duration
	memory  int64 // device footprint as last told
	context int64 // what its CUDA contexts take on the device
}

// grant is a token that a run holds.
type grant struct {
	choice   sched.Choice
	device   *device
	kind     gpu.StartKind
	need     gpu.Need
	at       time.Duration // when the token was granted
	launched time.Duration
	prefetch time.Duration
	memory   int64
}

func newGPULane(d *dispatcher, s GPUSettings, mover Mover) (*gpuLane, error) {
	if len(s.Devices) == 0 {
		return nil, nil
	}
	l := &gpuLane{
		d: d, settings: s, mover: mover, demand: gpu.NewDemand(d.clock(), 0), flows: map[sched.FlowID]*flow{},
		queued: map[uint64]*job{}, boxes: map[string]*box{}, misfits: map[sched.FlowID]bool{},
	}
	policy, err := sched.NewPolicy(s.Policy, s.Sched, l)
	if err != nil {
		return nil, err
	}
	l.policy = policy
	for key, w := range s.Weights {
		if strings.Contains(key, "/") {
			continue // a flow's, set when the flow is first seen
		}
		if err := policy.SetNamespaceWeight(0, key, w); err != nil {
			return nil, err
		}
	}
	for _, word := range s.Devices {
		dev, err := newDevice(word, s)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", word, err)
		}
		l.devices = append(l.devices, dev)
		policy.AddDevice(0, word.Index, dev.tokens.D())
	}
	return l, nil
}

// enqueue puts a job in its flow: the function as the invoking namespace sees
// it.
func (l *gpuLane) enqueue(now time.Duration, j *job) {
	f := l.flow(now, j)
	f.queued++
	l.demand.Arrived(now, f.name)
	l.queued[j.item] = j
	l.policy.Enqueue(now, sched.Item{ID: j.item, Flow: f.id})
	l.follow(now)
}

func (l *gpuLane) flow(now time.Duration, j *job) *flow {
	id := sched.FlowID{Namespace: j.User.Namespace.Name, Function: j.action.FQN()}
	f := l.flows[id]
	if f == nil {
		f = &flow{id: id, name: id.String(), weight: 1}
		l.flows[id] = f
	}
	changed := f.key != j.key
	f.key, f.memoryMB = j.key, j.action.Limits.MemoryMB
	if changed {
		f.need = gpu.Need{Bytes: l.hint(j), Context: l.settings.ContextMem}
		l.policy.Touch(now, id)
	}
	l.weigh(now, f, j)
	return f
}

// hint is the memory to reserve before any run was measured.
func (l *gpuLane) hint(j *job) int64 {
	if j.gpu.Memory > 0 {
		return int64(j.gpu.Memory)
	}
	return l.settings.DefaultMem
}

// weigh sets a flow's weight: the operator's word counts over the annotation.
func (l *gpuLane) weigh(now time.Duration, f *flow, j *job) {
	w := j.gpu.Weight
	if set, ok := l.settings.Weights[f.name]; ok {
		w = set
	}
	if w == f.weight || w <= 0 {
		return
	}
	if err := l.policy.SetWeight(now, f.id, w); err != nil {
		l.d.log.Warn("set weight", keyFlow, f.name, "error", err)
	}
	f.weight = w
}

// Facts answers the scheduler's question what a start of a flow on a device
// would be. It is called from within the policy.
func (l *gpuLane) Facts(id sched.FlowID, index int) sched.Facts {
	f, dev := l.flows[id], l.devices[index]
	facts := sched.Facts{Start: sched.Cold, Setup: seconds(l.demand.Restart(f.name))}
	need := f.need
	own := ""
	all, idle := dev.pool.Count(f.key)
	if idle > 0 {
		facts.Start, facts.Setup = sched.GPUWarm, 0
		dev.pool.Idle(f.key, func(name string) bool {
			own = name
			if _, footprint := dev.ledger.Residency(name); !dev.ledger.Resident(name) {
				facts.Start = sched.HostWarm
				need.Bytes = max(need.Bytes, footprint)
			}
			return false
		})
	} else if all > 0 {
		facts.Start = sched.BusyCold
	}
	facts.Fits = l.fits(dev, own, need, f)
	return facts
}

// fits tells whether container, host memory and device memory can be had now,
// counting what idle containers hold as room that can be made. own is the idle
// container that would serve, empty for a new one.
func (l *gpuLane) fits(dev *device, own string, need gpu.Need, f *flow) bool {
	// What never fits is let through, to be refused with a reason.
	ok := need.Bytes+need.Context > dev.MemoryBytes || dev.ledger.Possible(own, need)
	if own == "" && ok {
		_, idle := dev.pool.Len()
		ok = !dev.pool.Full() || idle > 0
		if ok && l.d.pool.Free() < f.memoryMB {
			ok, l.short = false, max(l.short, f.memoryMB)
		}
	}
	if !ok {
		l.misfits[f.id] = true
	}
	return ok
}

// settle grants tokens until none can be granted, follows the flows' changes
// with their memory, and hands out what the ledgers ordered.
func (l *gpuLane) settle(now time.Duration) {
	if l == nil {
		return
	}
	l.short = 0
	for l.grantNext(now) {
	}
	l.follow(now)
	l.prefetchLikely(now)
	for _, dev := range l.devices {
		l.yield(now, dev)
		l.obey(dev)
	}
	for _, r := range l.starting {
		l.launch(now, r)
	}
	l.starting = l.starting[:0]
	l.relieve(now)
}

func (l *gpuLane) grantNext(now time.Duration) bool {
	c, ok := l.policy.Next(now)
	if !ok {
		return false
	}
	j, dev := l.queued[c.Item], l.devices[c.Device]
	f := l.flows[c.Flow]
	b, kind := l.container(now, dev, j, f)
	if b == nil {
		l.misfits[c.Flow] = true
		l.policy.Undo(now, c.Item)
		return false
	}
	delete(l.queued, c.Item)
	f.queued--
	r := &run{job: j, box: b, start: container.Warm, grant: &grant{
		choice: c, device: dev, kind: kind, at: now, memory: b.gpu.memory,
		need: gpu.Need{Bytes: max(f.need.Bytes, b.gpu.memory), Context: l.settings.ContextMem},
	}}
	r.first = true
	if !kind.Warm() {
		r.start = container.Cold
	}
	l.reserve(now, r)
	return true
}

// container takes an idle container of the action or makes a place for a new
// one; nil when neither can be had.
func (l *gpuLane) container(now time.Duration, dev *device, j *job, f *flow) (*box, gpu.StartKind) {
	name, kind, ok := dev.pool.Take(now, j.key)
	if ok {
		if !dev.ledger.Resident(name) {
			kind = gpu.HostWarm
		}
		b := l.boxes[name]
		b.gpu.busy = true
		return b, kind
	}
	if !l.roomForOne(now, dev) || !l.d.pool.Claim(f.memoryMB) {
		return nil, kind
	}
	b := l.d.newBox(0, f.id.Namespace, j.action.Name, func(name string) container.Spec {
		e := j.action.Exec
		spec := l.d.settings.spec(name, e.Kind, e.Image, e.Pull, f.memoryMB)
		return spec
	})
	b.gpu = &gpuBox{
		device: dev, flow: f.id, key: j.key, shim: j.gpu.Shim,
		claimed: f.memoryMB, busy: true, context: f.need.Context,
	}
	dev.pool.Add(now, b.name, j.key)
	l.boxes[b.name] = b
	return b, kind
}

// roomForOne gives an idle container up when the device's pool is full.
func (l *gpuLane) roomForOne(now time.Duration, dev *device) bool {
	if !dev.pool.Full() {
		return true
	}
	name, ok := dev.pool.Victim(l.value(now))
	if ok {
		l.dispose(now, l.boxes[name])
	}
	return ok
}

// yield gives idle containers up for a reservation that even moving all idle
// memory out would not let stand: a context stays on the device as long as its
// container lives.
func (l *gpuLane) yield(now time.Duration, dev *device) {
	for dev.ledger.Shortfall() > dev.leaving {
		name, ok := dev.pool.Victim(l.value(now))
		if !ok {
			return
		}
		l.dispose(now, l.boxes[name])
	}
}

// value tells a pool what the containers of a key are worth.
func (l *gpuLane) value(now time.Duration) func(key string) gpu.FlowView {
	return func(key string) gpu.FlowView {
		for _, b := range l.boxes { // all of a key are of one flow
			if b.gpu.key != key {
				continue
			}
			v := gpu.FlowView{State: gpu.Inactive}
			if st, ok := l.policy.Flow(b.gpu.flow); ok {
				v.State = flowState(st)
			}
			if f := l.flows[b.gpu.flow]; f != nil {
				v.Rate, v.Restart = l.demand.Rate(now, f.name), l.demand.Restart(f.name)
			}
			return v
		}
		return gpu.FlowView{State: gpu.Inactive}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func flowState(s sched.FlowStats) gpu.FlowState {
	switch {
	case s.State == sched.Throttled:
		return gpu.Throttled
	case s.Queued > 0:
		return gpu.Backlogged
	case s.State == sched.Active:
		return gpu.Active
	}
	return gpu.Inactive
}
