package invoker

import (
	"cmp"
	"context"
	"path"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// gpuLane turns the lane's orders into work and the world's news into the
// lane's events. It decides nothing. All methods are called by the dispatcher's
// goroutine; a nil one has nothing to do, which is how an invoker without
// devices runs.
type gpuLane struct {
	d        *dispatcher
	settings GPUSettings
	mover    Mover
	lane     *lane.Lane
	record   *recorder
	jobs     map[uint64]*job     // submitted, and not started
	runs     map[uint64]*run     // started, and not left
	heirs    map[uint64]*gpuHeir // to be given their boxes
	boxes    map[lane.Box]*box
	named    map[string]*box        // the same by the containers' names
	assumed  map[sched.FlowID]int64 // bytes on devices that nobody saw, where there are any
	host     lane.HostMemory        // as told last, less what was taken since
	told     bool
	past     history
	backlog  *backlog
	shown    shownFlows
}

// gpuBox is what a box of the lane has beside its container.
type gpuBox struct {
	id        lane.Box
	device    gpu.Device
	wish      container.GPUWish
	action    string
	measured  bool   // somebody sees what its processes hold
	fallback  string // why its memory is only counted, where the action did not ask for that
	furnished bool   // spec and wish are known
	flow      sched.FlowID
	claimed   int                // MiB of host memory
	spill     int                // of it, for what is swapped out, as it was last allowed
	runs      []*run             // started there, and not left
	cease     context.CancelFunc // ends the mover's work on the newest order
	transfer  *transfer          // the newest prefetch
	usage     map[int]gpu.Usage  // of its processes
	held      atomic.Pointer[container.Holds]
	assumed   int64     // resident bytes that nobody saw
	names     [2]string // of its device and its flow, as shown
}

func newGPULane(d *dispatcher, s GPUSettings, mover Mover) (*gpuLane, error) {
	if len(s.Devices) == 0 {
		return nil, nil
	}
	cfg := s.lane(d.settings.Pool, mover.Faults())
	core, err := lane.New(cfg)
	if err != nil {
		return nil, err
	}
	record, err := newRecorder(s.Record, cfg)
	if err != nil {
		return nil, err
	}
	for _, device := range s.Devices {
		d.metrics.lost(device, false)
	}
	return &gpuLane{
		d: d, settings: s, mover: mover, lane: core, record: record,
		heirs: map[uint64]*gpuHeir{}, jobs: map[uint64]*job{}, runs: map[uint64]*run{}, boxes: map[lane.Box]*box{}, named: map[string]*box{}, assumed: map[sched.FlowID]int64{},
		past: history{flows: map[sched.FlowID]*past{}},
	}, nil
}

// take tells the lane an event.
func (l *gpuLane) take(now time.Duration, e lane.Event) {
	e.At = now
	l.record.event(e)
	l.lane.Take(e)
}

// settle has the lane decide and carries out what it orders.
func (l *gpuLane) settle(now time.Duration) {
	if l == nil {
		return
	}
	l.tellHost(now)
	orders := l.lane.Ready()
	l.record.orders(orders)
	for _, o := range orders {
		l.carryOut(now, o)
	}
	l.hold(now)
}

// tellHost tells the lane what host memory is left, where that has changed.
func (l *gpuLane) tellHost(now time.Duration) {
	free, spare := l.d.pool.Left()
	h := lane.HostMemory{Free: free, Spare: spare, Lacking: l.d.pool.Lacking()}
	if l.told && h == l.host {
		return
	}
	l.host, l.told = h, true
	l.take(now, lane.Event{Kind: lane.Host, Host: h})
}

func (l *gpuLane) tick(now time.Duration) {
	if l != nil {
		l.take(now, lane.Event{Kind: lane.Tick})
	}
}

func (l *gpuLane) deadline() (time.Duration, bool) {
	if l == nil {
		return 0, false
	}
	return l.lane.Deadline()
}

// submit puts a job into its flow: the function as the invoking namespace sees
// it.
func (l *gpuLane) submit(now time.Duration, j *job) {
	l.jobs[j.item] = j
	park, far := l.parks(j)
	l.mode(j)
	due := time.Duration(0)
	if l.settings.Overdue > 0 {
		due = j.accepted + l.settings.Overdue
	}
	j.host = l.hostOf(j)
	l.take(now, lane.Event{Kind: lane.Submitted, Item: j.item, Due: due, Parked: far, Function: &lane.Function{
		Flow: flowOf(j),
		Key:  j.key, HostMB: j.host, Memory: int64(j.gpu.Memory),
		Unseen: j.gpu.Shim == activation.ShimOff, Width: j.concurrency(), Weight: j.gpu.Weight,
	}})
	l.stands(j)
	if park {
		l.backlog.parker.add(j)
	}
}

// carryOut does one order of the lane.
func (l *gpuLane) carryOut(now time.Duration, o lane.Order) {
	b := l.boxes[o.Box]
	switch o.Do {
	case lane.Make:
		l.make(o)
	case lane.Start:
		l.start(now, o, b)
	case lane.Move:
		l.move(now, o, b)
	case lane.Void:
		b.gpu.cease()
	case lane.Remove:
		if b.gpu.cease != nil {
			b.gpu.cease()
		}
		l.d.remove(b, gpuGone{b})
	case lane.Refuse:
		l.refuse(o)
	case lane.Bring:
		l.bring(o.Item)
	case lane.Room:
		l.d.pool.Room(o.HostMB)
	case lane.Served:
		l.served(o)
	case lane.Forget:
		l.d.metrics.forget(o.Flow)
		l.past.forget(o.Flow)
		l.shown.stale = true
	case lane.Mute:
		l.d.log.Warn("container does not answer about its device memory, given up", keyContainer, b.name, "order", o.Move.String())
	}
}

// make takes a place for a container, which its first run creates.
func (l *gpuLane) make(o lane.Order) {
	if h := l.heirs[o.Item]; h != nil {
		l.makeHeir(o, h)
		return
	}
	b := l.d.newBox(0, o.Flow.Namespace, path.Base(o.Flow.Function), func(name string) container.Spec {
		return container.Spec{Name: name, MemoryMB: o.HostMB}
	})
	b.gpu = &gpuBox{id: o.Box, device: l.settings.Devices[o.Device], flow: o.Flow}
	if j := l.jobs[o.Item]; j != nil {
		l.furnish(b, j)
	}
	l.boxes[o.Box], l.named[b.name] = b, b
	l.d.shown.enter(b)
	if !l.d.pool.Claim(o.HostMB) {
		l.d.log.Error("host memory that was left is not there", keyContainer, b.name, "megabytes", o.HostMB)
		return
	}
	b.gpu.claimed = o.HostMB
	l.host.Free -= o.HostMB
}

// furnish says what container a box is, once it is known.
func (l *gpuLane) furnish(b *box, j *job) {
	if b.gpu.furnished {
		return
	}
	e := j.action.Exec
	l.mode(j) // it may have fallen back while the job waited
	b.gpu.furnished, b.gpu.action, b.gpu.fallback = true, j.action.FQN(), j.fallback
	b.spec = l.d.settings.spec(b.name, e.Kind, e.Image, e.Pull, j.action.Limits.MemoryMB)
	b.gpu.wish = container.GPUWish{
		Shim: j.gpu.Shim, Limit: int64(j.gpu.Limit), Host: int64(b.spec.MemoryMB) << 20, Memory: int64(j.gpu.Memory),
		Namespace: b.gpu.flow.Namespace, NamespaceLimit: l.settings.tenant(b.gpu.flow.Namespace),
	}
}

// start starts a run's worker, when its message is at hand.
func (l *gpuLane) start(now time.Duration, o lane.Order, b *box) {
	if l.await(o, b) {
		return
	}
	j := l.jobs[o.Item]
	delete(l.jobs, o.Item)
	l.furnish(b, j)
	l.d.shown.furnished(b)
	r := &run{job: j, box: b, start: container.Warm, first: o.Rested}
	if !o.Start.Warm() {
		r.start = container.Cold
	}
	r.grant = &grant{device: b.gpu.device.String(), kind: o.Start, need: o.Need, waited: o.Waited, fallback: b.gpu.fallback}
	r.grant.memory.Store(o.Memory)
	r.grant.measured.Store(b.gpu.measured)
	if t := b.gpu.transfer; t != nil && t.epoch == o.Transfer {
		r.grant.transfer = t
	}
	l.started(now, r, o)
	l.runs[o.Item] = r
	b.gpu.runs = append(b.gpu.runs, r)
	l.d.metrics.gpuStarts.WithLabelValues(o.Start.String()).Inc()
	l.d.metrics.queued(o.Flow, o.Waited)
	l.d.run(r)
}

// move has the mover carry out an order, for as long as the next one has not
// come.
func (l *gpuLane) move(now time.Duration, o lane.Order, b *box) {
	if b.gpu.cease != nil {
		b.gpu.cease()
	}
	if t := b.gpu.transfer; o.Move == gpu.Prefetch && (t == nil || t.epoch != o.Epoch) {
		b.gpu.transfer = &transfer{epoch: o.Epoch, began: now}
	}
	current, end := context.WithCancel(l.d.work)
	b.gpu.cease = end
	order := gpu.Order{Kind: o.Move, Container: b.name, Epoch: o.Epoch, Bytes: o.Bytes, Again: o.Again}
	size := l.outgrows(b, o)
	l.d.goWork(func(context.Context) {
		defer end()
		bytes, err := int64(0), l.d.resize(current, b, size)
		if err == nil {
			bytes, err = l.mover.Move(current, order, o.Footprint)
		}
		l.d.post(moved{b, order, bytes, err})
	})
}

// served takes what a run used of its device.
func (l *gpuLane) served(o lane.Order) {
	l.d.metrics.served(o.Flow, o.Service)
	l.past.touched = append(l.past.touched, o.Flow)
	if r := l.runs[o.Item]; r != nil {
		r.grant.memory.Store(o.Memory)
	}
}

// ended is what the lane hears of the end of a run. The making and initialising
// of a container is not the device's time.
func (l *gpuLane) ended(kind lane.EventKind, e left) lane.Event {
	r := e.run
	out := lane.Event{Kind: kind, Item: r.item, Keep: e.keep, Unused: e.unused}
	switch at := r.at; {
	case !at.runStart.IsZero():
		out.Ran = at.runEnd.Sub(at.runStart)
		if r.start != container.Warm {
			out.Setup = at.runStart.Sub(at.begun)
		}
	case r.start != container.Warm && !at.begun.IsZero():
		out.Setup = time.Since(at.begun)
	}
	return out
}

// over takes the end of a run's need for its token.
func (l *gpuLane) over(now time.Duration, e left) {
	e.run.grant.over = true
	l.take(now, l.ended(lane.Over, e))
}

// left takes a run's leaving of its container.
func (l *gpuLane) left(now time.Duration, e left) {
	l.take(now, l.ended(lane.Left, e))
	delete(l.runs, e.run.item)
	b := e.run.box
	b.gpu.runs = slices.DeleteFunc(b.gpu.runs, func(r *run) bool { return r == e.run })
}

// gone frees what a removed container held.
func (l *gpuLane) gone(now time.Duration, b *box) {
	delete(l.boxes, b.gpu.id)
	delete(l.named, b.name)
	l.d.shown.leave(b)
	l.d.pool.Unclaim(now, b.gpu.claimed)
	l.take(now, lane.Event{Kind: lane.Gone, Box: b.gpu.id})
	l.assume(b, 0)
	l.showResident(b.gpu.flow)
}

// moved takes the end of the mover's work on an order.
func (l *gpuLane) moved(now time.Duration, e moved) {
	b := e.box
	if l.boxes[b.gpu.id] != b {
		return
	}
	if e.err != nil {
		b.gpu.spill = 0 // whether it was resized is not known
	}
	l.d.metrics.moved(b.gpu.flow, e.order.Kind, min(e.bytes, b.gpu.device.MemoryBytes))
	if t := b.gpu.transfer; e.err == nil && t != nil && t.epoch == e.order.Epoch {
		t.took.CompareAndSwap(0, int64(max(now-t.began, 1)))
	}
	l.take(now, lane.Event{Kind: lane.Moved, Box: b.gpu.id, Epoch: e.order.Epoch, Bytes: e.bytes, OK: e.err == nil})
}

// observe takes what devices show.
func (l *gpuLane) observe(now time.Duration, readings []gpu.Reading) {
	if l == nil {
		return
	}
	for _, r := range readings {
		if r.Device < 0 || r.Device >= len(l.settings.Devices) {
			continue
		}
		if !(r.Utilization >= 0) { // no number, too
			r.Utilization = -1
		}
		l.take(now, lane.Event{Kind: lane.Observed, Device: r.Device, Utilization: min(r.Utilization, 1), Used: r.Used})
		if d := l.lane.Device(r.Device); d.Sampled && d.Lost == "" {
			l.d.metrics.gpuUtilization.WithLabelValues(DeviceValues(d.Device)...).Set(d.Utilization)
		}
	}
}

// lose ends what runs on a device, regain lets it be used again.
func (l *gpuLane) lose(now time.Duration, index int, of lane.Loss, why string) {
	if l == nil || index < 0 || index >= len(l.settings.Devices) {
		return
	}
	before := l.lane.Device(index).Lost
	l.take(now, lane.Event{Kind: lane.Lost, Device: index, Of: of, Why: cmp.Or(why, "no reason given")})
	d := l.lane.Device(index)
	if before != "" || d.Lost == "" {
		return
	}
	l.d.log.Error("device lost", keyDevice, d.Device.String(), "reason", d.Lost)
	l.d.metrics.lost(d.Device, true)
	for _, b := range l.boxes {
		if b.gpu.device.Index == index {
			b.die(errDeviceLost)
		}
	}
}

func (l *gpuLane) regain(now time.Duration, index int, of lane.Loss) {
	if l == nil || index < 0 || index >= len(l.settings.Devices) {
		return
	}
	before := l.lane.Device(index).Lost
	l.take(now, lane.Event{Kind: lane.Back, Device: index, Of: of})
	if d := l.lane.Device(index); before != "" && d.Lost == "" {
		l.d.log.Info("device is back", keyDevice, d.Device.String(), "was", before)
		l.d.metrics.lost(d.Device, false)
	}
}
