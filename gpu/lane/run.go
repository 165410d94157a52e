package lane

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/start"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// run is an item that was granted a token, until it has left its box.
//
//	granted -> standing -> begun (Start) -> closing (Answered) -> over -> left
type run struct {
	id      uint64
	item    int32
	rev     *revision
	box     *box
	kind    start.Kind
	need    gpu.Need
	asked   int64         // bytes of data that were reserved
	granted time.Duration // when
	waited  time.Duration // before that
	charged time.Duration
	first   bool // nobody was at work in the box
	begun   bool
	closing bool // the answer is there and the box stays
	over    bool // the token is given back; the box is not, yet
	lent    bool // closing, and its place in the box is another run's

	launched time.Duration
	before   uint64 // epoch of the order that was carried out when it was granted
	transfer uint64 // epoch of the prefetch that served it, 0 for none
	// peak is the most that the box held since the grant, negative as long as it
	// has not said.
	peak int64
	// shared sums the time since the launch, times the runs on the device in it.
	shared time.Duration
}

// grantNext gives one token away; false when nothing may and can run.
func (l *Lane) grantNext() bool {
	c, ok := l.policy.Next(l.now)
	if !ok {
		return false
	}
	i := l.granted(c)
	rev, dev := l.queue.at(i).rev, l.devices[c.Device]
	b, kind, lent := l.take(dev, rev, c.Item)
	if b == nil {
		l.misjudged++
		l.policy.Undo(l.now, c.Item)
		return false
	}
	own := b
	if !kind.Warm() {
		own = nil
	}
	r := l.newRun()
	*r = run{
		id: c.Item, item: i, rev: rev, box: b, kind: kind, need: l.need(dev, rev, own),
		granted: l.now, waited: c.Waited, charged: c.Charged, first: b.rests(), peak: -1,
	}
	if lent != nil {
		lent.lent = true
	}
	if b.errand.arrived {
		r.before = b.errand.epoch
	}
	r.asked = r.need.Bytes
	if rev.unseen {
		r.asked = r.need.Context - l.cfg.Context
	}
	if b.heard {
		r.peak = l.footprint(b)
	}
	f := rev.flow
	l.dequeue(f, i)
	l.queue.at(i).run = r
	f.runs++
	dev.inFlight++
	b.runs = append(b.runs, r)
	l.stir(b)
	l.idle.remove(b)
	dev.ledger.Part(b.name)
	l.bring(f)
	l.reserve(r)
	return true
}

// granted is the place of the item that was granted: the oldest of its flow.
func (l *Lane) granted(c sched.Choice) int32 {
	if i := l.known(c.Flow).head; l.queue.at(i).id == c.Item {
		return i
	}
	return l.queue.byID[c.Item]
}

// take takes a box of a revision that takes another run, or a place that was
// promised, or makes a new box; nil when none of these can be had.
func (l *Lane) take(dev *device, rev *revision, item uint64) (*box, start.Kind, *run) {
	own, kind, promised := l.serving(dev, rev)
	switch {
	case own != nil && promised != nil:
		return own, kind, promised
	case own != nil:
		dev.pool.Take(l.now, rev)
		return own, kind, nil
	case !l.place(dev) || !l.affords(rev):
		return nil, kind, nil
	}
	if l.cfg.Pool.Size > 0 && dev.pool.Full() {
		if _, ok := l.sacrifice(dev); !ok {
			return nil, kind, nil
		}
	}
	return l.newBox(dev, rev, item), kind, nil
}

func (l *Lane) newRun() *run {
	if n := len(l.spare); n > 0 {
		r := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return r
	}
	return new(run)
}

// footprint is what a box's processes hold altogether, less contexts.
func (l *Lane) footprint(b *box) int64 {
	if b.rev.unseen {
		return max(0, b.dev.ledger.Overhead(b.name)-l.cfg.Context)
	}
	_, footprint := b.dev.ledger.Residency(b.name)
	return footprint
}

// memory is the most that a run's box held, or, of a box that has not said,
// what was set aside.
func (r *run) memory() int64 {
	if r.peak >= 0 {
		return r.peak
	}
	return r.asked
}

// reserve asks the ledger for the run's memory; the run starts when the
// reservation stands.
func (l *Lane) reserve(r *run) {
	b := r.box
	standing, err := b.dev.ledger.Reserve(l.now, b.name, r.need)
	if err != nil {
		l.refuseRun(r, err)
		return
	}
	l.crowd(r)
	if b.errand.open && !b.dev.ledger.Awaits(b.name, b.errand.epoch) {
		l.void(b)
	}
	if standing {
		l.starting = append(l.starting, r)
		return
	}
	b.waiting = append(b.waiting, r)
}

// refuseRun ends a run whose memory can never be had.
func (l *Lane) refuseRun(r *run, err error) {
	why := TooBig
	if !errors.Is(err, gpu.ErrTooBig) {
		why = Broken
	}
	l.order(Order{
		Do: Refuse, Item: r.id, Box: r.box.id, Device: r.box.dev.Index, Flow: r.rev.flow.id,
		Reason: why, Memory: r.asked, Most: l.largest, Waited: r.waited,
	})
	l.policy.Abandon(l.now, r.id)
	r.box.dev.inFlight--
	l.retire(r, r.kind.Warm())
	l.end(r)
}

// end forgets a run that has left its box, and its item.
func (l *Lane) end(r *run) {
	f := r.rev.flow
	f.runs--
	l.settled(r.item)
	*r = run{}
	l.spare = append(l.spare, r)
	l.forget(f)
}

// launch starts a run, unless memory is still coming and nobody but us brings
// it: a real device faults pages in by itself, a simulated one cannot. Nor does
// a run begin while its place is another's, whose logs are being read.
func (l *Lane) launch(r *run) {
	b := r.box
	if b.errand.brings() && !l.cfg.Faults || b.inside >= b.width {
		b.held = append(b.held, r)
		return
	}
	r.begun, r.launched, r.transfer = true, l.now, b.errand.serves
	r.kind = r.found()
	b.out = false // what is out comes in with it
	b.inside++
	b.dev.enter(l.now, r)
	l.order(Order{
		Do: Start, Item: r.id, Box: b.id, Device: b.dev.Index, Flow: r.rev.flow.id,
		Start: r.kind, Rested: r.first, Need: r.need, Memory: r.memory(),
		Waited: r.waited, Charged: r.charged, Transfer: r.transfer,
	})
}

// release has those who wait in a box for memory or for a place try again.
func (l *Lane) release(b *box) {
	l.starting = append(l.starting, b.held...)
	b.held = b.held[:0]
}

// takeBack returns a run that was granted and not launched to the head of its
// queue, as if it had never been granted.
func (l *Lane) takeBack(r *run) {
	b, f := r.box, r.rev.flow
	l.hear(b.dev)
	if slices.Contains(b.waiting, r) {
		b.waiting = without(b.waiting, r)
		b.dev.ledger.Cancel(l.now, b.name)
	} else {
		b.held, l.starting = without(b.held, r), without(l.starting, r)
		b.dev.ledger.Release(l.now, b.name)
	}
	l.policy.Undo(l.now, r.id)
	l.queue.at(r.item).run = nil
	l.enqueue(f, r.item)
	l.awaitDevice(r.item)
	b.dev.inFlight--
	f.runs--
	l.retire(r, r.kind.Warm())
	*r = run{}
	l.spare = append(l.spare, r)
}

// takeAllBack does so with several runs, the youngest first.
func (l *Lane) takeAllBack(runs []*run) {
	slices.SortFunc(runs, func(a, b *run) int {
		return cmp.Compare(l.queue.at(b.item).seq, l.queue.at(a.item).seq)
	})
	for _, r := range runs {
		l.takeBack(r)
	}
}

// over takes a run's token back. Its box stays busy with it.
func (l *Lane) over(r *run, e Event) {
	if r.over {
		return
	}
	r.over = true
	b := r.box
	b.dev.leave(l.now, r)
	b.dev.inFlight--
	if e.Unused {
		l.policy.Abandon(l.now, r.id)
	} else {
		l.serve(r, e)
	}
	if b.errand.serves != 0 && b.errand.arrived {
		b.errand.serves = 0 // it served this run, and not those after it
	}
	b.dev.ledger.Release(l.now, b.name)
	if !e.Keep {
		l.shut(b)
	}
}

// serve charges a run for what it used, and learns from it. Its service is the
// time in which the token was held less the making of its box.
func (l *Lane) serve(r *run, e Event) {
	held := l.now - r.granted
	setup := min(max(e.Setup, 0), held)
	f, b := r.rev.flow, r.box
	if !r.kind.Warm() && setup > 0 {
		f.demand.Started(setup)
	}
	l.policy.Done(l.now, r.id, sched.Usage{Service: held - setup, Setup: setup})
	l.order(Order{
		Do: Served, Item: r.id, Box: b.id, Device: b.dev.Index, Flow: f.id,
		Service: held - setup, Setup: setup, Memory: r.memory(),
	})
	if r.peak >= 0 && r.rev == f.newest() {
		r.rev.measured.Add(r.peak)
	}
	if e.Keep && r.kind == start.GPUWarm && r.transfer == 0 && e.Ran > 0 {
		if k, ok := r.company(l.now); ok {
			b.dev.tokens.Learn(f.name, k, e.Ran)
			l.adopt(b.dev)
		}
	}
}

// left takes a run out of its box, and its token back if that is not done. Who
// waits for its place may begin.
func (l *Lane) left(r *run, e Event) {
	l.over(r, e)
	b := r.box
	l.retire(r, e.Keep)
	l.end(r)
	l.release(b)
}
