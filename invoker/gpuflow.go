package invoker

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// flow is what the lane knows of a function.
type flow struct {
	id       sched.FlowID
	name     string // the id as text
	key      string // of the newest revision seen
	memoryMB int
	unseen   bool  // its memory is not seen: the annotation's shim is off
	hint     int64 // the memory to reserve before any run was measured
	measured gpu.Footprint
	weight   float64
	queued   int
}

// flow finds or makes the flow of a job: the function as the invoking
// namespace sees it. A new revision is measured anew.
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
		f.hint, f.measured = l.settings.DefaultMem, gpu.Footprint{}
		if j.gpu.Memory > 0 {
			f.hint = int64(j.gpu.Memory)
		}
		f.unseen = j.gpu.Shim == activation.ShimOff
		l.policy.Touch(now, id)
	}
	l.weigh(now, f, j)
	return f
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

// need is what a run of a flow asks of a device, in its container own or, when
// that is empty, in a new one. The author's hint counts until a run was
// measured. Memory that is not seen stays as long as its container lives, and
// nobody can move it: just like a context.
func (l *gpuLane) need(f *flow, dev *device, own string) gpu.Need {
	size, measured := f.measured.Bytes()
	if !measured {
		size = f.hint
	}
	n := gpu.Need{Bytes: size, Context: l.settings.ContextMem}
	if f.unseen {
		n = gpu.Need{Context: size + l.settings.ContextMem}
	}
	if own != "" {
		_, footprint := dev.ledger.Residency(own)
		measured = measured || footprint > n.Bytes
		n.Bytes, n.Context = max(n.Bytes, footprint), max(n.Context, dev.ledger.Overhead(own))
	}
	if measured {
		// Who held more than any device is served with all of the largest.
		n.Context = min(n.Context, l.largest)
		n.Bytes = min(n.Bytes, l.largest-n.Context)
	}
	return n
}

// forget drops what is known of a flow that has neither work nor containers.
func (l *gpuLane) forget(id sched.FlowID) {
	f := l.flows[id]
	if f == nil || f.queued > 0 || l.policy.State(id) != sched.Inactive {
		return
	}
	for _, b := range l.boxes {
		if b.gpu.flow == id {
			return
		}
	}
	l.demand.Forget(f.name)
	for _, dev := range l.devices {
		dev.tokens.Forget(f.name)
	}
	l.d.metrics.forget(id)
	delete(l.flows, id)
}

// showResident brings the gauge of what a flow's containers hold on devices up
// to date.
func (l *gpuLane) showResident(id sched.FlowID) {
	if l.flows[id] == nil {
		return
	}
	sum := int64(0)
	for _, b := range l.boxes {
		if b.gpu.flow == id {
			resident, _ := b.gpu.device.ledger.Residency(b.name)
			sum += resident
		}
	}
	l.d.metrics.gpuResident.WithLabelValues(id.Namespace, id.Function).Set(float64(sum))
}
