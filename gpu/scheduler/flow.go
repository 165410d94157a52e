package scheduler

import (
	"container/list"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// invocation is a submitted invocation that has not left.
type invocation struct {
	id      uint64
	seq     uint64 // order of submission
	at      time.Duration
	rev     *revision
	run     *run          // nil while it is queued
	queued  *list.Element // in its flow's queue, nil while it runs
	expects time.Duration // service, while it is queued

	since         time.Duration // it waits for a device that could serve it
	before, after *invocation   // in Scheduler.waits
}

// flow is one function as one namespace invokes it, with its queue and its revisions.
type flow struct {
	space  *namespace
	revs   []*revision // the newest last
	id     sched.FlowID
	weight float64
	demand gpu.Demand

	queue      list.List     // of *invocation, by age
	backlogged *list.Element // in the backlog, nil while nothing is queued
	containers int           // not gone
	rests      bool          // it is inactive, without container, and a Forget order said so
	service    time.Duration // mean of its last runs
	services   int           // how many the mean is of, up to a bound
}

// namespace lists its flows.
type namespace struct {
	s              *Scheduler
	name           string
	limit          int64   // of its device memory, 0 for none
	flows          int     // with and without containers
	withContainers []*flow // those with containers, in the order of their first one
}

// submit queues an invocation of a function.
func (s *Scheduler) submit(e Event) {
	if s.invocations[e.Invocation] != nil || e.Function == nil {
		return
	}
	f := s.flow(e.Function.Flow)
	rev := s.revision(f, e.Function)
	s.weigh(f, e.Function.Weight)
	s.seq++
	in := &invocation{id: e.Invocation, seq: s.seq, at: s.now, rev: rev}
	s.invocations[in.id] = in
	rev.invocations++
	s.enqueue(f, in)
	f.demand.Arrived(s.now)
	s.policy.Enqueue(s.now, sched.Invocation{ID: in.id, Flow: f.id})
	s.startTimeouts(in, e.Due)
	if s.holdsBack(rev) {
		s.refuseQueued(in.id, Unstartable)
	}
}

// flow finds or makes a flow.
func (s *Scheduler) flow(id sched.FlowID) *flow {
	if f := s.flows[id]; f != nil {
		return f
	}
	// The id may be a part of a message, which would stay as long as the flow.
	ns := s.namespaces[id.Namespace]
	if ns == nil {
		ns = &namespace{s: s, name: strings.Clone(id.Namespace)}
		ns.limit = s.namespaceLimit(ns.name)
		s.namespaces[ns.name] = ns
	}
	id = sched.FlowID{Namespace: ns.name, Function: strings.Clone(id.Function)}
	ns.flows++
	f := &flow{id: id, space: ns, weight: 1}
	s.flows[id] = f
	return f
}

// weigh sets a flow's weight: the operator's counts over the function's, and the
// function's own counts inside its namespace alone. The policy forgets a weight with
// its flow, so it is set again each time.
func (s *Scheduler) weigh(f *flow, w float64) {
	set, ok := s.cfg.Weights[f.id.String()]
	switch {
	case ok:
		w = set
	case w <= 0 || !s.cfg.Sched.Namespaces:
		w = 1
	}
	if w == 1 && f.weight == 1 || s.policy.SetWeight(s.now, f.id, w) != nil {
		return
	}
	f.weight = w
}

// enqueue inserts an invocation into its flow's queue by age. Only requeued invocations are
// not the youngest, and those belong near the front.
func (s *Scheduler) enqueue(f *flow, in *invocation) {
	in.expects = s.expected(f)
	s.waitingWork += in.expects
	if f.queue.Len() == 0 {
		f.backlogged = s.backlog.PushBack(f)
		f.rests = false
		defer s.hold(f)
	}
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
func (s *Scheduler) dequeue(f *flow, in *invocation) {
	s.waitingWork -= in.expects
	f.queue.Remove(in.queued)
	in.queued = nil
	if f.queue.Len() == 0 {
		s.search.skip(f.backlogged)
		s.backlog.Remove(f.backlogged)
		f.backlogged = nil
		s.hold(f)
	}
}

// runOf is an invocation's run, nil when it is queued or not known.
func (s *Scheduler) runOf(id uint64) *run {
	if in := s.invocations[id]; in != nil {
		return in.run
	}
	return nil
}

// forgetInvocation removes an invocation that has ended.
func (s *Scheduler) forgetInvocation(in *invocation) {
	delete(s.invocations, in.id)
	s.waits.drop(in)
	in.rev.invocations--
	in.rev.flow.prune()
}

// refuseQueued ends an invocation that has not started, for a reason.
func (s *Scheduler) refuseQueued(id uint64, why Reason) {
	in := s.invocations[id]
	if in == nil {
		return
	}
	if in.run != nil {
		if in.run.begun {
			return
		}
		s.requeue(in.run)
	}
	f := in.rev.flow
	s.policy.Cancel(s.now, id)
	s.order(Order{Do: Refuse, Invocation: id, Flow: f.id, Reason: why, Memory: in.rev.hint, LargestDevice: s.largest, Waited: s.now - in.at})
	s.dequeue(f, in)
	s.forgetInvocation(in)
	s.forget(f)
}

// forget drops the figures of an inactive flow without work and containers. Measurements of
// the flow stay until the policy forgets it.
func (s *Scheduler) forget(f *flow) {
	if f.queue.Len() > 0 || f.containers > 0 || s.flows[f.id] != f || s.policy.State(f.id) != sched.Inactive {
		return
	}
	_, known := s.policy.Flow(f.id)
	if known && f.newest().unstartable {
		return // the owner keeps why, and says so when the flow is invoked again
	}
	if !f.rests {
		f.rests = true
		for _, dev := range s.devices {
			dev.tokens.Forget(f.id.String())
		}
		s.order(Order{Do: Forget, Flow: f.id})
	}
	if known {
		return
	}
	delete(s.flows, f.id)
	if f.space.flows--; f.space.flows == 0 {
		delete(s.namespaces, f.id.Namespace)
	}
}
