package invoker

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// grant is a token that a run holds. Its worker reads it; after the launch the
// dispatcher changes nothing but what is atomic, and its own accounts.
type grant struct {
	choice   sched.Choice
	device   *device
	kind     gpu.StartKind
	need     gpu.Need
	asked    int64         // bytes of data that were reserved
	at       time.Duration // when the token was granted
	begun    bool          // its worker was started
	over     bool          // the token is given back; the container is not, yet
	lent     bool          // closing, and its place in the container is another run's
	launched time.Duration // when
	transfer *transfer     // that served the run, nil for none

	// peak is the most that the container held since the grant, negative as
	// long as it has not said.
	peak atomic.Int64
	// closing is set when the response is there and the container stays: what
	// follows is the books and the logs.
	closing atomic.Bool
	// shared sums the time since the launch, times the runs on the device in
	// it. The dispatcher's.
	shared time.Duration
}

func (l *gpuLane) grant(now time.Duration, c sched.Choice, kind gpu.StartKind, b *box, need gpu.Need) *grant {
	g := &grant{choice: c, device: b.gpu.device, kind: kind, need: need, asked: need.Bytes, at: now}
	if b.gpu.unseen {
		g.asked = need.Context - l.settings.ContextMem
	}
	g.peak.Store(-1)
	if b.gpu.heard {
		g.peak.Store(l.footprint(b))
	}
	return g
}

// footprint is what a container's processes hold altogether, less contexts.
func (l *gpuLane) footprint(b *box) int64 {
	if b.gpu.unseen {
		return max(0, b.gpu.device.ledger.Overhead(b.name)-l.settings.ContextMem)
	}
	_, footprint := b.gpu.device.ledger.Residency(b.name)
	return footprint
}

// reserve asks the ledger for the run's memory; the run starts when the
// reservation stands.
func (l *gpuLane) reserve(now time.Duration, r *run) {
	g, b := r.grant, r.box
	standing, err := g.device.ledger.Reserve(now, b.name, g.need)
	if err != nil {
		l.refuse(now, r, err)
		return
	}
	b.gpu.errand.stopUnless(g.device.ledger.Awaits(b.name, b.gpu.errand.epoch))
	if standing {
		l.starting = append(l.starting, r)
		return
	}
	b.gpu.waiting = append(b.gpu.waiting, r)
}

// legible is a size in whole megabytes, less than one of them aside.
func legible(bytes int64) activation.Size {
	const megabyte = 1 << 20
	if bytes > megabyte {
		bytes -= bytes % megabyte
	}
	return activation.Size(bytes)
}

// refuse answers a run whose memory can never be had.
func (l *gpuLane) refuse(now time.Duration, r *run, err error) {
	l.policy.Abandon(now, r.item)
	l.retire(now, r, r.grant.kind.Warm())
	text := fmt.Sprintf("The action asks for %s of GPU memory (annotation gpu, key memory); "+
		"the device has %s, of which the context of a container takes %s.",
		activation.Size(r.grant.asked), legible(l.largest), legible(l.settings.ContextMem))
	if !errors.Is(err, gpu.ErrTooBig) {
		text = textAborted
	}
	l.d.fail(r.job, text)
}

// launch starts the worker, unless memory is still coming and nobody but us
// brings it: a real device faults pages in by itself, a simulated one cannot.
// Nor does a run begin while its place is another's, whose logs are being read.
func (l *gpuLane) launch(now time.Duration, r *run) {
	b, g := r.box, r.grant
	if (b.gpu.errand.brings() && !l.mover.Faults()) || b.gpu.inside() >= b.gpu.width {
		b.gpu.held = append(b.gpu.held, r)
		return
	}
	g.begun, g.launched, g.transfer = true, now, b.gpu.errand.transfer
	g.device.enter(now, g)
	l.d.metrics.gpuStarts.WithLabelValues(g.kind.String()).Inc()
	l.d.metrics.gpuQueue.Observe((g.at - r.queued).Seconds())
	l.d.run(r)
}

// takeBack returns a run that was granted and not launched to the head of its
// queue, as if it had never been granted.
func (l *gpuLane) takeBack(now time.Duration, r *run) {
	b, g := r.box, r.grant
	l.hear(g.device)
	if slices.Contains(b.gpu.waiting, r) {
		b.gpu.waiting = without(b.gpu.waiting, r)
		g.device.ledger.Cancel(now, b.name)
	} else {
		b.gpu.held, l.starting = without(b.gpu.held, r), without(l.starting, r)
		g.device.ledger.Release(now, b.name)
	}
	l.policy.Undo(now, r.item)
	l.queued[r.item] = r.job
	l.flows[g.choice.Flow].queued++
	l.retire(now, r, g.kind.Warm())
}

// takeAllBack does so with several runs. The oldest comes last, so that it is
// at the head of its queue in the end.
func (l *gpuLane) takeAllBack(now time.Duration, runs []*run) {
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(b.item, a.item) })
	for _, r := range runs {
		l.takeBack(now, r)
	}
}

// unlaunched lists a container's runs that have not begun.
func (b *gpuBox) unlaunched() (out []*run) {
	for _, r := range b.runs {
		if !r.grant.begun {
			out = append(out, r)
		}
	}
	return out
}

// over takes a run's token back. Its container stays busy with it.
func (l *gpuLane) over(now time.Duration, e left) {
	r, g := e.run, e.run.grant
	g.over = true
	g.device.leave(now, g)
	if e.unused {
		l.policy.Abandon(now, r.item)
	} else {
		l.policy.Done(now, r.item, l.usage(now, r))
		l.learn(now, r, e.keep)
	}
	r.box.gpu.errand.served()
	g.device.ledger.Release(now, r.box.name)
	if !e.keep {
		l.shut(r.box)
	}
}

// left takes a run out of its container, and its token back if that is not
// done. Who waits for its place may begin.
func (l *gpuLane) left(now time.Duration, e left) {
	if !e.run.grant.over {
		l.over(now, e)
	}
	l.retire(now, e.run, e.keep)
	l.policy.Touch(now, e.run.box.gpu.flow)
	l.starting = append(l.starting, e.run.box.gpu.held...)
	e.run.box.gpu.held = nil
}

// usage is what a run took of its token: service is the time in which the
// token was held less the making of its container.
func (l *gpuLane) usage(now time.Duration, r *run) sched.Usage {
	held := now - r.grant.at
	setup := time.Duration(0)
	if !r.at.runStart.IsZero() {
		setup = max(0, held-r.at.runEnd.Sub(r.at.runStart))
	}
	f := l.flows[r.grant.choice.Flow]
	if f != nil && !r.grant.kind.Warm() && setup > 0 {
		l.demand.Started(f.name, setup)
	}
	l.d.metrics.served(r.grant.choice.Flow, held-setup)
	return sched.Usage{Service: held - setup, Setup: setup}
}

// learn lets the estimates know what a finished run was like: its memory, and,
// when nothing had to be brought to it, what the company on the device cost it.
func (l *gpuLane) learn(now time.Duration, r *run, well bool) {
	f, g := l.flows[r.grant.choice.Flow], r.grant
	if f == nil {
		return
	}
	if peak := g.peak.Load(); peak >= 0 && f.key == r.key {
		f.measured.Add(peak)
	}
	if well && g.kind == gpu.GPUWarm && g.transfer == nil && !r.at.runStart.IsZero() {
		if k, ok := g.company(now); ok {
			g.device.tokens.Learn(f.name, k, r.at.runEnd.Sub(r.at.runStart))
			l.adopt(now, g.device)
		}
	}
}

// memory is what the run's record says that it needed: the most that its
// container held, or, of a container that has not said, what was set aside.
func (g *grant) memory() int64 {
	if peak := g.peak.Load(); peak >= 0 {
		return peak
	}
	return g.asked
}

// annotation tells the activation's record what the GPU did for it. Workers
// call it.
func (g *grant) annotation(at times, now time.Duration) activation.Annotation {
	run := activation.GPURun{
		Device: g.device.String(), Start: g.kind.String(),
		QueueTime:    g.choice.Waited.Milliseconds(),
		PrefetchTime: g.transfer.time(now).Milliseconds(),
		Memory:       g.memory(),
	}
	if !at.runStart.IsZero() {
		run.GPUTime = at.runEnd.Sub(at.runStart).Milliseconds()
	}
	return run.Annotation()
}
