package invoker

import (
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/invoker/explain"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// history is what the accounts of a lane's runs need beside the lane.
type history struct {
	lane    *lane.Lane
	granted int            // runs, ever
	fresh   []*job         // came since the lane settled
	touched []sched.FlowID // had a run started or charged since
	flows   map[sched.FlowID]*past
}

// past is what was seen of a flow.
type past struct {
	granted   int
	throttled *obstacle // when it was last
	held      *obstacle // when somebody last came
}

// mark is how many runs had been granted when a job came: of all functions, and
// of its own; and how many of its own were queued before it. There may be very
// many marks, so they are small; what counts are differences.
type mark struct{ all, own, ahead uint32 }

// obstacle is what holds a flow, and how many runs of the flow that goes before
// it had been granted then. It has no text of a message: many are kept for long,
// and a message's text is kept whole.
type obstacle struct {
	since         time.Duration
	rule          sched.Rule
	level         string
	lead, overrun time.Duration
	goes          sched.FlowID // before it
	behind        *past        // of that flow; nil: it is in nobody's way but its own
	by            int
}

func (h *history) flow(id sched.FlowID) *past {
	p := h.flows[id]
	if p == nil {
		p = &past{}
		h.flows[sched.FlowID{Namespace: strings.Clone(id.Namespace), Function: strings.Clone(id.Function)}] = p
	}
	return p
}

// forget drops what is known of a flow, and of its namespace with the last.
func (h *history) forget(id sched.FlowID) {
	delete(h.flows, id)
	for other := range h.flows {
		if other.Namespace == id.Namespace && other.Function != "" {
			return
		}
	}
	delete(h.flows, sched.FlowID{Namespace: id.Namespace})
}

// nameOf names a function, or a namespace.
func nameOf(id sched.FlowID) string {
	if id.Function == "" {
		return id.Namespace
	}
	return id.String()
}

func flowOf(j *job) sched.FlowID {
	return sched.FlowID{Namespace: j.User.Namespace.Name, Function: j.action.FQN()}
}

// obstacle asks what holds a flow. It is called when the lane has settled: then
// it disturbs no decision.
func (h *history) obstacle(now time.Duration, id sched.FlowID) *obstacle {
	why := h.lane.Explain(id)
	o := &obstacle{since: now, rule: why.Rule, level: why.Level, lead: why.Lead, overrun: why.Overrun, goes: why.Behind}
	if by := o.goes; by.Namespace != "" && by != id {
		o.behind = h.flow(by)
		o.by = o.behind.granted
	}
	return o
}

// alike is how long the same hold on a flow is one for all who come to it: a
// crowd may wait, and each keeps what held it.
const alike = time.Second

// hold is what holds a flow.
func (h *history) hold(now time.Duration, id sched.FlowID) *obstacle {
	p, o := h.flow(id), h.obstacle(now, id)
	if b := p.held; b == nil || now-b.since > alike || b.rule != o.rule || b.goes != o.goes {
		p.held = o
	}
	return p.held
}

// stands begins the GPU part of the account of a job that was submitted.
func (h *history) stands(j *job) {
	if j.account == nil {
		return
	}
	id := flowOf(j)
	j.came = mark{all: uint32(h.granted), own: uint32(h.flow(id).granted)}
	if f, ok := h.lane.Flow(id); ok {
		j.came.ahead = uint32(max(0, f.Queued-1))
	}
	j.account.GPU = &explain.GPU{Own: int(j.came.ahead)}
	h.fresh = append(h.fresh, j)
}

// note notes what holds those that came and must wait, and the flows that were
// throttled since, which a start or a charge brings about. Who went at once
// needs no reason.
func (h *history) note(now time.Duration, waits map[uint64]*job) {
	for _, j := range h.fresh {
		if waits[j.item] == j {
			j.obstacle = h.hold(now, flowOf(j))
		}
	}
	for _, id := range h.touched {
		if f, ok := h.lane.Flow(id); !ok || f.Queued == 0 || f.State != sched.Throttled {
			continue
		}
		if o := h.obstacle(now, id); o.rule == sched.RuleThrottle {
			h.flow(id).throttled = o
		}
	}
	clear(h.fresh)
	h.fresh, h.touched = h.fresh[:0], h.touched[:0]
}

// company notes what else runs on a run's device, by the function that has most
// of it. Who has given its token back only has its logs read.
func (r *run) company(runs map[uint64]*run, g *explain.GPU) {
	by := map[sched.FlowID]int{}
	for _, other := range runs {
		if !other.grant.over && other.box.gpu.device.Index == r.box.gpu.device.Index {
			g.Beside++
			by[flowOf(other.job)]++
		}
	}
	for id, n := range by {
		if name := id.String(); n > g.CompanyRuns || n == g.CompanyRuns && name < g.Company {
			g.Company, g.CompanyRuns = name, n
		}
	}
}

// started notes that a run begins on its device: what went before it, and in
// what company it is. Having been throttled tells more than what held it at
// first.
func (h *history) started(now time.Duration, r *run, o lane.Order, runs map[uint64]*run) {
	f := h.flow(o.Flow)
	if a := r.account; a != nil && a.GPU != nil {
		r.placed(r.queued+o.Waited, o.Start.String(), r.box.name)
		g := a.GPU
		a.Launched, g.Device, g.Simulated = r.desk.at(now), r.grant.device, r.box.gpu.device.Simulated
		r.company(runs, g)
		g.Passed = int(uint32(h.granted) - r.came.all - (uint32(f.granted) - r.came.own))
		held := r.obstacle
		if f.throttled != nil && f.throttled.since >= r.queued {
			held = f.throttled
		}
		if held != nil {
			g.Hold, g.Lead, g.Overrun, g.Level = held.rule.String(), held.lead, held.overrun, held.level
			if held.behind != nil {
				g.Behind, g.PassedBy = nameOf(held.goes), min(held.behind.granted-held.by, g.Passed)
			}
		}
	}
	f.granted++
	h.flow(sched.FlowID{Namespace: o.Flow.Namespace}).granted++
	h.granted++
	h.touched = append(h.touched, o.Flow)
}
