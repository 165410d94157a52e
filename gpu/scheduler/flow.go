package scheduler

import (
	"container/list"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// invocation is one that was submitted and has not left.
type invocation struct {
	id      uint64
	seq     uint64 // order of submission
	at      time.Duration
	rev     *revision
	run     *run          // nil while it is queued
	queued  *list.Element // in its flow's queue, nil while it runs
	spilled bool          // its body is not at hand
}

// flow is what the scheduler knows of a function, as one namespace invokes it.
type flow struct {
	id     sched.FlowID
	name   string // the id as text
	space  *namespace
	revs   []*revision // the newest last
	weight float64
	demand gpu.Demand

	queue      list.List     // of *invocation, by age
	backlogged *list.Element // in the backlog, nil while nothing is queued
	runs       int           // granted and not left
	containers int           // not gone
	resident   int64         // bytes that they have on devices
	evictFlag  gpu.EvictFlag // of its containers in which nothing runs
}

// head is the oldest queued invocation, nil for none.
func (f *flow) head() *invocation {
	if f.queue.Len() == 0 {
		return nil
	}
	return f.queue.Front().Value.(*invocation)
}

// revision is one revision of a function: what may share a container.
type revision struct {
	flow        *flow
	key         string
	hostMB      int
	width       int
	noShim      bool
	hint        int64 // the memory to reserve before a run was measured
	measured    gpu.Footprint
	containers  []*container // not gone, in the order of their creation
	invocations int          // queued and running
}

// addContainer enters a container of the revision.
func (rev *revision) addContainer(c *container) {
	rev.containers = append(rev.containers, c)
	f := rev.flow
	if f.containers++; f.containers == 1 {
		f.space.withContainers = append(f.space.withContainers, f)
	}
}

// dropContainer takes one out.
func (rev *revision) dropContainer(c *container) {
	rev.containers = without(rev.containers, c)
	f := rev.flow
	if f.containers--; f.containers == 0 {
		f.space.withContainers = without(f.space.withContainers, f)
	}
}

func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// namespace lists its flows.
type namespace struct {
	name           string
	flows          int           // all of them, counted
	withContainers []*flow       // those with containers, in the order in which they came to them
	evictFlag      gpu.EvictFlag // of those that have something queued
}

// submit queues an invocation of a function.
func (l *Scheduler) submit(e Event) {
	if l.invocations[e.Invocation] != nil || e.Function == nil {
		return
	}
	f := l.flow(e.Function.Flow)
	rev := l.revision(f, e.Function)
	l.weigh(f, e.Function.Weight)
	l.seq++
	in := &invocation{id: e.Invocation, seq: l.seq, at: l.now, rev: rev, spilled: e.Spilled}
	l.invocations[in.id] = in
	rev.invocations++
	l.enqueue(f, in)
	l.demand.Arrived(l.now, &f.demand)
	l.policy.Enqueue(l.now, sched.Invocation{ID: in.id, Flow: f.id})
	l.startTimeouts(in, e.Due)
	if f.queue.Len() <= l.cfg.Ahead {
		l.load(f)
	}
}

// flow finds or makes a flow.
func (l *Scheduler) flow(id sched.FlowID) *flow {
	if f := l.known(id); f != nil {
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
	f := &flow{id: id, name: id.String(), space: ns, weight: 1}
	l.flows[id] = f
	return f
}

// known finds a flow, nil for none. One is asked about several times in a row.
func (l *Scheduler) known(id sched.FlowID) *flow {
	if l.last == nil || l.last.id != id {
		l.last = l.flows[id]
	}
	return l.last
}

// revision finds or makes a revision of a flow, and makes it the newest.
func (l *Scheduler) revision(f *flow, fn *Function) *revision {
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
		rev = &revision{flow: f, key: fn.Key, noShim: fn.NoShim, hint: min(fn.Memory, maxBytes)}
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

// next is the revision of the invocation that would run next.
func (f *flow) next() *revision {
	if in := f.head(); in != nil {
		return in.rev
	}
	return f.newest()
}

// prune drops a revision of which nothing is left, if there is a newer one.
func (l *Scheduler) prune(rev *revision) {
	f := rev.flow
	if rev.invocations > 0 || len(rev.containers) > 0 || rev == f.newest() {
		return
	}
	f.revs = slices.DeleteFunc(f.revs, func(other *revision) bool { return other == rev })
}

// weigh sets a flow's weight: the operator's word counts over the function's,
// and the function's own counts inside its namespace alone. The policy forgets a
// weight with its flow, so it is set again each time.
func (l *Scheduler) weigh(f *flow, w float64) {
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

// enqueue puts an invocation into its flow's queue, where its age says. Only those
// that were granted and came back are not the youngest, and those are among the
// first.
func (l *Scheduler) enqueue(f *flow, in *invocation) {
	if f.queue.Len() == 0 {
		f.backlogged = l.backlog.PushBack(f)
		l.evictFlags.Join(&f.evictFlag, &f.space.evictFlag)
	}
	l.queued++
	if last := f.queue.Back(); last == nil || last.Value.(*invocation).seq < in.seq {
		in.queued = f.queue.PushBack(in)
		return
	}
	at := f.queue.Front()
	for at.Value.(*invocation).seq < in.seq {
		at = at.Next()
	}
	in.queued = f.queue.InsertBefore(in, at)
}

// dequeue takes an invocation out of its flow's queue.
func (l *Scheduler) dequeue(f *flow, in *invocation) {
	f.queue.Remove(in.queued)
	in.queued = nil
	l.queued--
	if f.queue.Len() == 0 {
		l.backlog.Remove(f.backlogged)
		f.backlogged = nil
		l.evictFlags.Leave(&f.evictFlag)
	}
}

// runOf is an invocation's run, nil when it is queued or not known.
func (l *Scheduler) runOf(id uint64) *run {
	if in := l.invocations[id]; in != nil {
		return in.run
	}
	return nil
}

// forgetInvocation drops one that has ended.
func (l *Scheduler) forgetInvocation(in *invocation) {
	delete(l.invocations, in.id)
	in.rev.invocations--
	l.prune(in.rev)
}

// refuseQueued ends an invocation that has not started, for a reason.
func (l *Scheduler) refuseQueued(id uint64, why Reason) {
	in := l.invocations[id]
	if in == nil {
		return
	}
	if in.run != nil {
		if in.run.begun {
			return
		}
		l.requeue(in.run)
	}
	f := in.rev.flow
	l.policy.Cancel(l.now, id)
	l.order(Order{Do: Refuse, Invocation: id, Flow: f.id, Reason: why, Memory: in.rev.hint, LargestDevice: l.largest, Waited: l.now - in.at})
	l.dequeue(f, in)
	l.forgetInvocation(in)
	l.touch(f)
	l.forget(f)
}

// load asks for the spilled bodies of the invocations that will run soon.
func (l *Scheduler) load(f *flow) {
	at := f.queue.Front()
	for n := 0; n < l.cfg.Ahead && at != nil; n++ {
		if in := at.Value.(*invocation); in.spilled {
			in.spilled = false
			l.order(Order{Do: Load, Invocation: in.id, Flow: f.id})
		}
		at = at.Next()
	}
}

// Spillable tells whether an invocation of a flow would run so late, if it were
// submitted now, that its body need not be at hand.
func (l *Scheduler) Spillable(id sched.FlowID) bool {
	f := l.flows[id]
	return f != nil && f.queue.Len() >= l.cfg.Ahead
}

// touch says that a flow's placement has changed.
func (l *Scheduler) touch(f *flow) { l.policy.Touch(l.now, f.id) }

// forget drops what is known of a flow that has neither work nor containers.
func (l *Scheduler) forget(f *flow) {
	if f.queue.Len() > 0 || f.runs > 0 || f.containers > 0 || l.flows[f.id] != f || l.policy.State(f.id) != sched.Inactive {
		return
	}
	for _, dev := range l.devices {
		dev.tokens.Forget(f.name)
	}
	if f.weight != 1 {
		_ = l.policy.SetWeight(l.now, f.id, 1) // 1 is a weight
	}
	delete(l.flows, f.id)
	l.last = nil
	if f.space.flows--; f.space.flows == 0 {
		delete(l.namespaces, f.id.Namespace)
	}
	l.order(Order{Do: Forget, Flow: f.id})
}
