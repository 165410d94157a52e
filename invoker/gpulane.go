package invoker

import (
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
	largest  int64       // bytes of the largest device, lost or not
	demand   *gpu.Demand // by flow name
	flows    map[sched.FlowID]*flow
	queued   map[uint64]*job
	boxes    map[string]*box // by container name, which is their id in gpu

	starting []*run                // reservations stand, to be launched
	misfits  map[sched.FlowID]bool // flows that could not be placed for room
	short    int                   // MiB of host memory that a placement lacked
	changes  []sched.Change
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
		l.largest = max(l.largest, word.MemoryBytes)
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

// settle grants tokens until none can be granted, follows the flows' changes
// with their memory, and hands out what the ledgers ordered.
func (l *gpuLane) settle(now time.Duration) {
	if l == nil {
		return
	}
	l.short = 0
	for l.grantNext(now) {
	}
	back := false
	for _, dev := range l.devices {
		back = l.yield(now, dev) || back
	}
	for back && l.grantNext(now) {
	}
	l.follow(now)
	l.prefetchLikely(now)
	for _, dev := range l.devices {
		l.obey(now, dev)
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
	l.unqueue(f, j)
	r := &run{job: j, box: b, start: container.Warm, first: b.gpu.rests()}
	if !kind.Warm() {
		r.start = container.Cold
	}
	own := b.name
	if r.start == container.Cold {
		own = ""
	}
	r.grant = l.grant(now, c, kind, b, l.need(f, dev, own))
	b.gpu.runs = append(b.gpu.runs, r)
	l.reserve(now, r)
	return true
}

func (l *gpuLane) unqueue(f *flow, j *job) {
	delete(l.queued, j.item)
	f.queued--
}

// container takes a container of the action that takes another run, or makes a
// place for a new one; nil when neither can be had.
func (l *gpuLane) container(now time.Duration, dev *device, j *job, f *flow) (*box, gpu.StartKind) {
	name, kind, ok := dev.pool.Take(now, j.key)
	if ok {
		return l.boxes[name], l.warmth(name)
	}
	if b, r := l.vacating(dev, j.key); b != nil {
		r.grant.lent = true
		return b, l.warmth(b.name)
	}
	if !l.roomForOne(now, dev) || !l.d.pool.Claim(f.memoryMB) {
		return nil, kind
	}
	b := l.d.newBox(0, f.id.Namespace, j.action.Name, func(name string) container.Spec {
		e := j.action.Exec
		return l.d.settings.spec(name, e.Kind, e.Image, e.Pull, f.memoryMB)
	})
	b.gpu = &gpuBox{
		device: dev, flow: f.id, key: j.key, shim: j.gpu.Shim, unseen: f.unseen,
		claimed: f.memoryMB, width: j.concurrency(),
	}
	dev.pool.Add(now, b.name, j.key)
	l.boxes[b.name] = b
	return b, kind
}
