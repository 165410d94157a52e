package invoker

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/invoker/explain"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// An activation's account (package explain) lies in its ticket, and whoever has
// the ticket writes to it. It is nil where none is kept.

// Explain gives the accounts of the last activations, nil when none are kept.
func (iv *Invoker) Explain() *explain.Log { return iv.desk.explain }

// open begins the account of an accepted activation.
func (d *desk) open(t *ticket) {
	if d.explain == nil && d.tracer == nil {
		return
	}
	t.account = &explain.Account{
		ID: string(t.ActivationID), Namespace: t.User.Namespace.Name, Action: t.Action.FQN(), Accepted: d.at(t.accepted),
	}
	if ms := t.TransID.StartMillis(); ms > 0 {
		t.account.Sent = time.UnixMilli(ms)
	}
}

// shut ends an account: everything that left the ticket is safe.
func (d *desk) shut(t *ticket) {
	if t.account != nil {
		t.account.Filed = d.wall()
		d.explain.Add(t.account)
		if d.tracer != nil {
			d.tracer.Ended(t.account, t.TraceContext)
		}
	}
}

// answered notes how a ticket was completed.
func (d *desk) answered(t *ticket, e ending) {
	a := t.account
	if a == nil {
		return
	}
	a.Answered, a.Status = d.wall(), e.record.Response.StatusCode
	a.Recorded = !e.silent && d.store.keeps(t.Message, e.record.Response)
}

// acked notes that the broker has the last ack of a ticket, stored that the store
// has its record, which is one of a batch, or refused it. Each is called once, before the ticket
// is settled.
func (d *desk) acked(t *ticket, kind activation.AckKind) {
	if t.account != nil && kind != activation.Result {
		t.account.Acked = d.wall()
	}
}

func (d *desk) stored(t *ticket, batch int, err error) {
	if a := t.account; a != nil {
		a.Stored, a.Batch = d.wall(), batch
		if err != nil {
			a.Batch = explain.NoBatch
		}
	}
}

// refused notes why an activation never reached a container.
func (t *ticket) refused(r activation.Response) {
	if t.account == nil {
		return
	}
	var text struct {
		Error string `json:"error"`
	}
	if t.account.Refused = "it was refused."; json.Unmarshal(r.Result, &text) == nil && text.Error != "" {
		t.account.Refused = text.Error
	}
}

// stood notes that a job stands in a queue, the first time.
func (j *job) stood(now time.Duration) {
	if a := j.account; a != nil && a.Queued.IsZero() {
		a.Queued, a.Kind = j.desk.at(now), j.action.Exec.Kind
	}
}

// placed notes that a job has its container, or its token.
func (j *job) placed(now time.Duration, start, container string) {
	if a := j.account; a != nil {
		a.Granted, a.Start, a.Container = j.desk.at(now), start, container
	}
}

// ran notes what a worker saw of a run.
func (r *run) ran(now time.Duration) {
	a := r.account
	if a == nil {
		return
	}
	a.InitStart, a.InitEnd = r.at.initStart, r.at.initEnd
	a.RunStart, a.RunEnd = r.at.runStart, r.at.runEnd
	a.TimedOut = timedOut(r.action, r.at)
	if g := r.grant; g != nil && a.GPU != nil {
		a.GPU.Moved, a.GPU.Memory = g.transfer.time(now), g.memory.Load()
		if g.transfer != nil {
			a.GPU.MoveStart = r.desk.at(g.transfer.began)
		}
	}
}

// history is what the accounts of a lane's runs need beside the lane.
type history struct {
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
func (l *gpuLane) obstacle(now time.Duration, id sched.FlowID) *obstacle {
	why := l.lane.Explain(id)
	o := &obstacle{since: now, rule: why.Rule, level: why.Level, lead: why.Lead, overrun: why.Overrun, goes: why.Behind}
	if by := o.goes; by.Namespace != "" && by != id {
		o.behind = l.past.flow(by)
		o.by = o.behind.granted
	}
	return o
}

// alike is how long the same hold on a flow is one for all who come to it: a
// crowd may wait, and each keeps what held it.
const alike = time.Second

// held is what holds a flow.
func (l *gpuLane) held(now time.Duration, id sched.FlowID) *obstacle {
	p, o := l.past.flow(id), l.obstacle(now, id)
	if h := p.held; h == nil || now-h.since > alike || h.rule != o.rule || h.goes != o.goes {
		p.held = o
	}
	return p.held
}

// stands begins the GPU part of the account of a job that was submitted.
func (l *gpuLane) stands(j *job) {
	if j.account == nil {
		return
	}
	id := flowOf(j)
	j.came = mark{all: uint32(l.past.granted), own: uint32(l.past.flow(id).granted)}
	if f, ok := l.lane.Flow(id); ok {
		j.came.ahead = uint32(max(0, f.Queued-1))
	}
	j.account.GPU = &explain.GPU{Own: int(j.came.ahead)}
	l.past.fresh = append(l.past.fresh, j)
}

// hold notes what holds those that came and must wait, and the flows that were
// throttled since, which a start or a charge brings about. Who went at once
// needs no reason.
func (l *gpuLane) hold(now time.Duration) {
	h := &l.past
	for _, j := range h.fresh {
		if l.jobs[j.item] == j {
			j.obstacle = l.held(now, flowOf(j))
		}
	}
	for _, id := range h.touched {
		if f, ok := l.lane.Flow(id); !ok || f.Queued == 0 || f.State != sched.Throttled {
			continue
		}
		if o := l.obstacle(now, id); o.rule == sched.RuleThrottle {
			h.flow(id).throttled = o
		}
	}
	clear(h.fresh)
	h.fresh, h.touched = h.fresh[:0], h.touched[:0]
}

// company notes what else runs on a run's device, by the function that has most
// of it. Who has given its token back only has its logs read.
func (l *gpuLane) company(r *run, g *explain.GPU) {
	by := map[sched.FlowID]int{}
	for _, other := range l.runs {
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
func (l *gpuLane) started(now time.Duration, r *run, o lane.Order) {
	h := &l.past
	f := h.flow(o.Flow)
	if a := r.account; a != nil && a.GPU != nil {
		r.placed(r.queued+o.Waited, o.Start.String(), r.box.name)
		g := a.GPU
		a.Launched, g.Device, g.Simulated = r.desk.at(now), r.grant.device, r.box.gpu.device.Simulated
		l.company(r, g)
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
