package invoker

import (
	"context"
	"path"
	"slices"
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
	runs     map[uint64]*run     // started, and not left
	heirs    map[uint64]*gpuHeir // to be given their boxes
	boxes    map[lane.Box]*box
	named    map[string]*box // the same by the containers' names
	shares   hostShares
	assumed  residents
	host     lane.HostMemory // as told last, less what was taken since
	told     bool
	past     history
	backlog  *backlog
	shown    shownFlows
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
		heirs: map[uint64]*gpuHeir{}, runs: map[uint64]*run{}, boxes: map[lane.Box]*box{}, named: map[string]*box{},
		shares: hostShares{d.settings.Pool.MemoryMB, mover.Faults()}, assumed: residents{},
		past: history{lane: core, flows: map[sched.FlowID]*past{}},
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
	l.past.note(now, l.backlog.jobs)
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
	l.backlog.jobs[j.item] = j
	park, far := l.backlog.parks(j, l.lane)
	j.settleMode(l.settings)
	due := time.Duration(0)
	if l.settings.Overdue > 0 {
		due = j.accepted + l.settings.Overdue
	}
	j.host = l.shares.of(j, func() int64 { return l.lane.Footprint(flowOf(j), j.key) })
	l.take(now, lane.Event{Kind: lane.Submitted, Item: j.item, Due: due, Parked: far, Function: &lane.Function{
		Flow: flowOf(j),
		Key:  j.key, HostMB: j.host, Memory: int64(j.gpu.Memory),
		Unseen: j.gpu.Shim == activation.ShimOff, Width: j.concurrency(), Weight: j.gpu.Weight,
	}})
	l.past.stands(j)
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
		l.backlog.bring(o.Item)
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
	if h := l.heirs[o.Item]; h != nil { // it is there
		h.box.gpu.id = o.Box
		l.enter(h.box)
		return
	}
	b := l.d.newBox(0, o.Flow.Namespace, path.Base(o.Flow.Function), func(name string) container.Spec {
		return container.Spec{Name: name, MemoryMB: o.HostMB}
	})
	b.gpu = &gpuBox{id: o.Box, device: l.settings.Devices[o.Device], flow: o.Flow}
	if j := l.backlog.jobs[o.Item]; j != nil {
		b.furnish(l.d.settings, j)
	}
	l.enter(b)
	if !l.d.pool.Claim(o.HostMB) {
		l.d.log.Error("host memory that was left is not there", keyContainer, b.name, "megabytes", o.HostMB)
		return
	}
	b.gpu.claimed = o.HostMB
	l.host.Free -= o.HostMB
}

func (l *gpuLane) enter(b *box) {
	l.boxes[b.gpu.id], l.named[b.name] = b, b
	l.d.shown.enter(b)
}

// start starts a run's worker, when its message is at hand.
func (l *gpuLane) start(now time.Duration, o lane.Order, b *box) {
	if l.backlog.await(o, b) {
		return
	}
	j := l.backlog.jobs[o.Item]
	delete(l.backlog.jobs, o.Item)
	b.furnish(l.d.settings, j)
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
	l.past.started(now, r, o, l.runs)
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
	size := b.outgrows(o)
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

// over takes the end of a run's need for its token.
func (l *gpuLane) over(now time.Duration, e left) {
	e.run.grant.over = true
	l.take(now, e.told(lane.Over))
}

// left takes a run's leaving of its container.
func (l *gpuLane) left(now time.Duration, e left) {
	l.take(now, e.told(lane.Left))
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
	l.assumed.assume(b, 0)
	l.resident(b.gpu.flow)
}

func (l *gpuLane) resident(id sched.FlowID) {
	all, known := l.lane.Resident(id)
	l.d.metrics.resident(id, l.assumed, all, known)
}

// refuse answers an activation that will never run here.
func (l *gpuLane) refuse(o lane.Order) {
	text := l.settings.refusal(o, l.lane)
	j := l.backlog.jobs[o.Item]
	if j == nil {
		l.backlog.refuse(o.Item, o.Reason, text)
		return
	}
	delete(l.backlog.jobs, o.Item)
	l.d.turnAway(j.ticket, j, refusal{response: appError(text), known: true})
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

// heard takes what a process of a container says it holds.
func (l *gpuLane) heard(now time.Duration, h gpu.Held) {
	b := l.named[h.Container]
	if b == nil {
		return
	}
	if u := h.Usage; !h.Exited && (u.Allocated < 0 || u.Resident < 0 || u.Context < 0) {
		l.d.log.Warn("gpu usage refused: a size is negative", keyContainer, b.name, "pid", h.PID)
		return
	}
	if h.Unfit != "" {
		if l.d.fallBack(b, h.Unfit) {
			for _, id := range unfit(l.boxes, b.gpu.action) {
				l.take(now, lane.Event{Kind: lane.Failed, Box: id})
			}
		}
		return
	}
	if h.Over != "" && b.life.Err() == nil {
		l.d.log.Warn("gpu container ended", keyContainer, b.name, "pid", h.PID, "reason", h.Over)
		b.die(&overLimit{h.Over})
		l.take(now, lane.Event{Kind: lane.Failed, Box: b.gpu.id})
	}
	b.gpu.learn(h)
	if more := l.shares.more(b, h, l.d.pool.Free()); more > 0 && l.d.pool.Claim(more) {
		b.gpu.claimed += more
		l.take(now, lane.Event{Kind: lane.Grown, Box: b.gpu.id, Bytes: int64(b.gpu.claimed)})
	}
	l.take(now, lane.Event{Kind: lane.Held, Box: b.gpu.id, PID: h.PID, Usage: h.Usage, Exited: h.Exited})
	if !h.Exited {
		b.gpu.measured = !h.Assumed
		l.assumed.assume(b, b.gpu.unseen())
	}
	for _, r := range b.gpu.runs {
		r.grant.measured.Store(b.gpu.measured)
		if n, ok := l.lane.Memory(r.item); ok {
			r.grant.memory.Store(n)
		}
	}
	l.resident(b.gpu.flow)
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

// comes takes that a device, or its daemon, is away or there again. What runs on
// one that is lost is ended.
func (l *gpuLane) comes(now time.Duration, e lane.Event) {
	if l == nil || e.Device < 0 || e.Device >= len(l.settings.Devices) {
		return
	}
	before := l.lane.Device(e.Device).Lost
	l.take(now, e)
	d := l.lane.Device(e.Device)
	if (before == "") == (d.Lost == "") {
		return
	}
	l.d.metrics.lost(d.Device, d.Lost != "")
	if d.Lost == "" {
		l.d.log.Info("device is back", keyDevice, d.Device.String(), "was", before)
		return
	}
	l.d.log.Error("device lost", keyDevice, d.Device.String(), "reason", d.Lost)
	for _, b := range l.boxes {
		if b.gpu.device.Index == e.Device {
			b.die(errDeviceLost)
		}
	}
}
