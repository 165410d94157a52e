package invoker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// reserve asks the ledger for the run's memory; the run starts when the
// reservation stands.
func (l *gpuLane) reserve(now time.Duration, r *run) {
	g := r.grant
	standing, err := g.device.ledger.Reserve(now, r.box.name, g.need)
	if err != nil {
		l.refuse(now, r, err)
		return
	}
	g.device.busy++
	if standing {
		l.starting = append(l.starting, r)
		return
	}
	r.box.gpu.waiting = r
}

// refuse answers a run whose memory can never be had.
func (l *gpuLane) refuse(now time.Duration, r *run, err error) {
	l.policy.Abandon(now, r.item)
	l.retire(now, r.box, false)
	text := fmt.Sprintf("The action asks for %s of GPU memory (annotation gpu, key memory); "+
		"the device has %s, of which the context of a container takes %s.",
		activation.Size(r.grant.need.Bytes), activation.Size(r.grant.device.MemoryBytes), activation.Size(r.grant.need.Context))
	if !errors.Is(err, gpu.ErrTooBig) {
		text = textAborted
	}
	l.d.fail(r.job, text)
}

// obey hands out a ledger's orders and takes what stands.
func (l *gpuLane) obey(dev *device) {
	orders, standing := dev.ledger.Ready()
	for _, o := range orders {
		l.move(dev, o)
	}
	for _, name := range standing {
		b := l.boxes[name]
		if r := b.gpu.waiting; r != nil {
			b.gpu.waiting = nil
			l.starting = append(l.starting, r)
		}
	}
}

func (l *gpuLane) move(dev *device, o gpu.Order) {
	b := l.boxes[o.Container]
	b.gpu.moving = o.Kind == gpu.Prefetch
	l.d.metrics.gpuMoved.WithLabelValues(o.Kind.String()).Add(float64(o.Bytes))
	_, footprint := dev.ledger.Residency(b.name)
	if b.gpu.replace != nil {
		b.gpu.replace()
	}
	current, replace := context.WithCancel(l.d.work)
	b.gpu.replace = replace
	l.d.goWork(func(context.Context) {
		defer replace()
		began := l.d.clock()
		// Without an answer the order stays open: the ledger gives it again.
		if _, err := l.mover.Move(current, o, footprint); err == nil {
			l.d.post(moved{b, o.Epoch, l.d.clock() - began})
		}
	})
}

// launch starts the worker, unless memory is still coming and nobody but us
// brings it: a real device faults pages in by itself, a simulated one cannot.
func (l *gpuLane) launch(now time.Duration, r *run) {
	b := r.box
	if b.gpu.moving && !l.mover.Faults() {
		b.gpu.held = r
		return
	}
	r.grant.launched = now
	l.d.metrics.gpuStarts.WithLabelValues(r.grant.kind.String()).Inc()
	l.d.metrics.gpuQueue.Observe((r.grant.at - r.queued).Seconds())
	l.d.run(r)
}
