package invoker

import (
	"slices"

	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// shownFlows is what was last shown of a lane's flows, as shown is of containers.
type shownFlows struct {
	list  []*shownFlow // in the order in which they came
	stale bool         // a flow is no more
}

type shownFlow struct {
	id     sched.FlowID
	text   string
	reason sched.Reason
	status *FlowStatus
}

// all gives the flows of a lane that has n of them.
func (s *shownFlows) all(l *lane.Lane, n int) []*FlowStatus {
	if s.stale || n != len(s.list) {
		s.renew(l.Flows())
	}
	out := make([]*FlowStatus, 0, n)
	for _, f := range s.list {
		if fs, ok := l.Flow(f.id); ok {
			out = append(out, f.show(fs, l.Explain(f.id)))
		}
	}
	return out
}

// renew lists other flows: those that stay in their order, then the new ones.
func (s *shownFlows) renew(ids []sched.FlowID) {
	here := make(map[sched.FlowID]bool, len(ids))
	for _, id := range ids {
		here[id] = true
	}
	s.list = slices.DeleteFunc(s.list, func(f *shownFlow) bool { return !here[f.id] })
	for _, f := range s.list {
		delete(here, f.id)
	}
	for _, id := range ids {
		if here[id] {
			s.list = append(s.list, &shownFlow{id: id, text: id.String()})
		}
	}
	s.stale = false
}

func (f *shownFlow) show(fs sched.FlowStats, why sched.Reason) *FlowStatus {
	next := FlowStatus{
		Flow: f.text, State: fs.State.String(), Queued: fs.Queued, InFlight: fs.InFlight,
		Weight: fs.Weight, LeadMs: fs.Lead.Milliseconds(), OverrunMs: why.Overrun.Milliseconds(),
		VirtualMs: fs.VT.Milliseconds(),
	}
	if why = why.Still(); f.status != nil && f.reason == why {
		next.Why = f.status.Why
	} else {
		next.Why, f.reason = why.Held(), why
	}
	if f.status == nil || *f.status != next {
		f.status = &next
	}
	return f.status
}
