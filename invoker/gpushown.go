package invoker

import (
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// shown is what the GPU lane last showed of flows and containers. An open console
// asks once a second, and most of a thousand are as they were: what has not
// changed is given again.
type shown struct {
	flows []*shownFlow // in the order of their names
	stale bool         // a flow is no more
	boxes []*box       // in the order of their names
}

type shownFlow struct {
	id     sched.FlowID
	text   string
	reason sched.Reason
	status *FlowStatus
}

func byName(b *box, name string) int { return strings.Compare(b.name, name) }

func (s *shown) enter(b *box) {
	at, _ := slices.BinarySearchFunc(s.boxes, b.name, byName)
	s.boxes = slices.Insert(s.boxes, at, b)
}

func (s *shown) leave(b *box) {
	if at, ok := slices.BinarySearchFunc(s.boxes, b.name, byName); ok {
		s.boxes = slices.Delete(s.boxes, at, at+1)
	}
}

// flowList gives the flows of a lane that has n of them.
func (s *shown) flowList(l *lane.Lane, n int) []*FlowStatus {
	if s.stale || n != len(s.flows) {
		s.renew(l.Flows())
	}
	out := make([]*FlowStatus, 0, n)
	for _, f := range s.flows {
		if fs, ok := l.Flow(f.id); ok {
			out = append(out, f.show(fs, l.Explain(f.id)))
		}
	}
	return out
}

// renew lists other flows, which are in the order of their names as well.
func (s *shown) renew(ids []sched.FlowID) {
	old := make(map[sched.FlowID]*shownFlow, len(s.flows))
	for _, f := range s.flows {
		old[f.id] = f
	}
	s.flows, s.stale = make([]*shownFlow, len(ids)), false
	for i, id := range ids {
		if s.flows[i] = old[id]; s.flows[i] == nil {
			s.flows[i] = &shownFlow{id: id, text: id.String()}
		}
	}
}

func (f *shownFlow) show(fs sched.FlowStats, why sched.Reason) *FlowStatus {
	next := FlowStatus{
		Flow: f.text, State: fs.State.String(), Queued: fs.Queued, InFlight: fs.InFlight,
		Weight: fs.Weight, LeadMs: fs.Lead.Milliseconds(), OverrunMs: why.Overrun.Milliseconds(),
		VirtualMs: fs.VT.Milliseconds(),
	}
	if f.status != nil && f.reason == why {
		next.Why = f.status.Why
	} else {
		next.Why, f.reason = why.String(), why
	}
	if f.status == nil || *f.status != next {
		f.status = &next
	}
	return f.status
}

func (b *box) status(s lane.BoxStats) *ContainerStatus {
	next := ContainerStatus{
		Name: b.name, Kind: b.spec.Kind, MemoryMB: b.spec.MemoryMB, State: "ready",
		Resident: s.Resident, Coming: s.Coming, Context: s.Context,
	}
	switch {
	case s.Leaving:
		next.State = "removing"
	case s.Runs > 0:
		next.State, next.Active = "running", s.Runs
	}
	last := b.gpu.shown
	if last == nil {
		next.Device, next.Flow = b.gpu.device.String(), s.Flow.String()
	} else {
		next.Device, next.Flow = last.Device, last.Flow
	}
	if last == nil || *last != next {
		b.gpu.shown = &next
	}
	return b.gpu.shown
}
