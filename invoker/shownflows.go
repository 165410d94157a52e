package invoker

import (
	"cmp"
	"slices"
	"strings"

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

// begin has the list be that of a lane's flows, and gives how many they are.
func (s *shownFlows) begin(l *lane.Lane) int {
	if s.stale || l.Known() != len(s.list) {
		s.renew(l.Flows())
	}
	return len(s.list)
}

// part appends the next flows of the list, from one on and at most so many, and
// gives the one to go on from. The list is the same until begin.
func (s *shownFlows) part(l *lane.Lane, out []*FlowStatus, from, most int) ([]*FlowStatus, int) {
	to := min(from+most, len(s.list))
	for _, f := range s.list[from:to] {
		if fs, ok := l.Flow(f.id); ok {
			out = append(out, f.show(fs, l.Explain(f.id)))
		}
	}
	return out, to
}

// renew lists other flows: those that stay in their order, then the new ones by
// their names.
func (s *shownFlows) renew(ids []sched.FlowID) {
	here := make(map[sched.FlowID]bool, len(ids))
	for _, id := range ids {
		here[id] = true
	}
	s.list = slices.DeleteFunc(s.list, func(f *shownFlow) bool { return !here[f.id] })
	for _, f := range s.list {
		delete(here, f.id)
	}
	known := len(s.list)
	for id := range here {
		s.list = append(s.list, &shownFlow{id: id, text: id.String()})
	}
	slices.SortFunc(s.list[known:], func(a, b *shownFlow) int {
		return cmp.Or(strings.Compare(a.id.Namespace, b.id.Namespace), strings.Compare(a.id.Function, b.id.Function))
	})
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
