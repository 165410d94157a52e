package lane

import (
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// flow is what the lane knows of a function, as one namespace invokes it. What
// is asked of all whose boxes could be given up comes first, in one cache line.
type flow struct {
	queued int
	demand gpu.Demand
	head   int32 // of its queue
	tail   int32
	runs   int // granted and not left

	id       sched.FlowID
	name     string // the id as text
	space    *namespace
	revs     []*revision // the newest last
	weight   float64
	boxes    int   // not gone
	resident int64 // bytes that they hold on devices

	mark   gpu.Mark // of its boxes in which nothing runs
	before *flow    // in the backlog
	after  *flow
}

// revision is one revision of a function: what may share a box.
type revision struct {
	flow     *flow
	key      string
	hostMB   int
	width    int
	unseen   bool
	hint     int64 // the memory to reserve before a run was measured
	measured gpu.Footprint
	boxes    []*box   // not gone, in the order of their making
	by       [][]*box // the same by device; nil without any
	only     [1]*box  // room for boxes as long as there is one
	items    int      // queued and running
}

// enrol enters a box of the revision.
func (l *Lane) enrol(rev *revision, b *box) {
	if rev.by == nil {
		rev.by = l.shelf()
	}
	if rev.boxes == nil {
		rev.boxes = rev.only[:0]
	}
	rev.boxes, rev.by[b.dev.Index] = append(rev.boxes, b), append(rev.by[b.dev.Index], b)
	f := rev.flow
	if f.boxes++; f.boxes == 1 {
		f.space.boxed = append(f.space.boxed, f)
	}
}

// strike takes one out.
func (l *Lane) strike(rev *revision, b *box) {
	other := func(of *box) bool { return of == b }
	rev.boxes = slices.DeleteFunc(rev.boxes, other)
	rev.by[b.dev.Index] = slices.DeleteFunc(rev.by[b.dev.Index], other)
	if len(rev.boxes) == 0 {
		l.shelves, rev.by = append(l.shelves, rev.by), nil
	}
	f := rev.flow
	if f.boxes--; f.boxes == 0 {
		f.space.boxed = slices.DeleteFunc(f.space.boxed, func(of *flow) bool { return of == f })
	}
}

// on is what the revision has on a device.
func (rev *revision) on(dev *device) []*box {
	if rev.by == nil {
		return nil
	}
	return rev.by[dev.Index]
}

// named finds one of them by its name.
func (rev *revision) named(dev *device, name string) *box {
	for _, b := range rev.on(dev) {
		if b.name == name {
			return b
		}
	}
	return nil
}

// namespace lists its flows.
type namespace struct {
	name  string
	flows int      // all of them, counted
	boxed []*flow  // those with boxes, in the order in which they came to them
	mark  gpu.Mark // of those that have something queued
}

// backlog lists the flows that have something queued, in the order in which
// that began.
type backlog struct{ first, last *flow }

func (g *backlog) push(f *flow) {
	f.before, f.after = g.last, nil
	if g.last != nil {
		g.last.after = f
	} else {
		g.first = f
	}
	g.last = f
}

func (g *backlog) remove(f *flow) {
	if f.before != nil {
		f.before.after = f.after
	} else {
		g.first = f.after
	}
	if f.after != nil {
		f.after.before = f.before
	} else {
		g.last = f.before
	}
	f.before, f.after = nil, nil
}

// submit puts an item into its flow.
func (l *Lane) submit(e Event) {
	if _, known := l.queue.byID[e.Item]; known || e.Function == nil {
		return
	}
	f := l.flow(e.Function.Flow)
	rev := l.revision(f, e.Function)
	l.weigh(f, e.Function.Weight)
	i := l.queue.add(item{id: e.Item, at: l.now, rev: rev})
	if e.Parked {
		l.queue.park(i)
	}
	rev.items++
	l.enqueue(f, i)
	l.demand.Arrived(l.now, &f.demand)
	l.policy.Enqueue(l.now, sched.Item{ID: e.Item, Flow: f.id})
	l.awaitDue(i, e.Due)
	if f.queued <= l.cfg.Ahead {
		l.bring(f)
	}
}

// flow finds or makes a flow.
func (l *Lane) flow(id sched.FlowID) *flow {
	if f := l.flows[id]; f != nil {
		return f
	}
	// The id may be a part of a message, which would stay as long as the flow.
	ns := l.namespaces[id.Namespace]
	if ns == nil {
		ns = &namespace{name: strings.Clone(id.Namespace)}
		l.namespaces[ns.name] = ns
	}
	id = sched.FlowID{Namespace: ns.name, Function: strings.Clone(id.Function)}
	ns.flows++
	f := &flow{id: id, name: id.String(), space: ns, weight: 1, head: none, tail: none}
	l.flows[id] = f
	return f
}

// revision finds or makes a revision of a flow, and makes it the newest.
func (l *Lane) revision(f *flow, fn *Function) *revision {
	n := len(f.revs)
	at := n - 1
	for at >= 0 && f.revs[at].key != fn.Key {
		at--
	}
	var rev *revision
	switch {
	case at >= 0 && at == n-1:
		rev = f.revs[at]
	case at >= 0:
		rev = f.revs[at]
		f.revs = append(slices.Delete(f.revs, at, at+1), rev)
	default:
		rev = &revision{flow: f, key: fn.Key, unseen: fn.Unseen, hint: min(fn.Memory, maxBytes)}
		if rev.hint <= 0 {
			rev.hint = l.cfg.Memory
		}
		f.revs = append(f.revs, rev)
		if n > 0 {
			l.prune(f.revs[n-1])
		}
	}
	rev.hostMB, rev.width = max(fn.HostMB, 0), max(fn.Width, 1)
	l.largestHost = max(l.largestHost, rev.hostMB)
	return rev
}

// newest is the revision seen last.
func (f *flow) newest() *revision { return f.revs[len(f.revs)-1] }

// next is the revision of the item that would run next.
func (l *Lane) next(f *flow) *revision {
	if f.head != none {
		return l.queue.at(f.head).rev
	}
	return f.newest()
}

// prune drops a revision of which nothing is left, if there is a newer one.
func (l *Lane) prune(rev *revision) {
	f := rev.flow
	if rev.items > 0 || len(rev.boxes) > 0 || rev == f.newest() {
		return
	}
	f.revs = slices.DeleteFunc(f.revs, func(other *revision) bool { return other == rev })
}

// weigh sets a flow's weight: the operator's word counts over the function's,
// and the function's own counts inside its namespace alone. The policy forgets a
// weight with its flow, so it is told again each time.
func (l *Lane) weigh(f *flow, w float64) {
	set, ok := l.cfg.Weights[f.name]
	switch {
	case ok:
		w = set
	case w <= 0 || !l.cfg.Sched.Namespaces:
		w = 1
	}
	if w == 1 && f.weight == 1 || l.policy.SetWeight(l.now, f.id, w) != nil {
		return
	}
	f.weight = w
}

// enqueue puts an item into its flow's queue.
func (l *Lane) enqueue(f *flow, i int32) {
	if f.queued == 0 {
		l.backlog.push(f)
		l.marks.Join(&f.mark, &f.space.mark)
	}
	l.queue.line(f, i)
}

// dequeue takes an item out of its flow's queue.
func (l *Lane) dequeue(f *flow, i int32) {
	l.queue.unline(f, i)
	if f.queued == 0 {
		l.backlog.remove(f)
		l.marks.Leave(&f.mark)
	}
}

// settled drops an item that has ended.
func (l *Lane) settled(i int32) {
	rev := l.queue.at(i).rev
	rev.items--
	l.queue.drop(i)
	l.prune(rev)
}

// withdraw ends an item that has not started.
func (l *Lane) withdraw(id uint64) { l.refuseItem(id, WasWithdrawn) }

// refuseItem ends an item that has not started, for a reason.
func (l *Lane) refuseItem(id uint64, why Reason) {
	i, ok := l.queue.byID[id]
	if !ok {
		return
	}
	if r := l.queue.at(i).run; r != nil {
		if r.begun {
			return
		}
		l.takeBack(r)
	}
	it := l.queue.at(i)
	f := it.rev.flow
	l.policy.Cancel(l.now, id)
	l.order(Order{Do: Refuse, Item: id, Flow: f.id, Reason: why, Memory: it.rev.hint, Most: l.largest, Waited: l.now - it.at})
	l.dequeue(f, i)
	l.settled(i)
	l.touch(f)
	l.forget(f)
}

// bring asks for the bodies of the items whose turn is near.
func (l *Lane) bring(f *flow) {
	i := f.head
	for n := 0; n < l.cfg.Ahead && i != none; n++ {
		it := l.queue.at(i)
		if l.queue.fetch(i) {
			l.order(Order{Do: Bring, Item: it.id, Flow: f.id})
		}
		i = it.next
	}
}

// Far tells whether an item of a flow would be far from its turn if it were
// submitted now, so that its body need not be at hand.
func (l *Lane) Far(id sched.FlowID) bool {
	f := l.flows[id]
	return f != nil && f.queued >= l.cfg.Ahead
}

// touch says that a flow's facts have changed.
func (l *Lane) touch(f *flow) { l.policy.Touch(l.now, f.id) }

// forget drops what is known of a flow that has neither work nor boxes.
func (l *Lane) forget(f *flow) {
	if f.queued > 0 || f.runs > 0 || f.boxes > 0 || l.flows[f.id] != f || l.policy.State(f.id) != sched.Inactive {
		return
	}
	for _, dev := range l.devices {
		dev.tokens.Forget(f.name)
	}
	if f.weight != 1 {
		_ = l.policy.SetWeight(l.now, f.id, 1) // 1 is a weight
	}
	delete(l.flows, f.id)
	*l.seen(f.id) = nil
	if f.space.flows--; f.space.flows == 0 {
		delete(l.namespaces, f.id.Namespace)
	}
	l.order(Order{Do: Forget, Flow: f.id})
}
