package invoker

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/operate/explain"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// tracer keeps the trace of each pending activation in it, and hands it to the
// log and to OpenTelemetry when the activation is settled. What holds a GPU
// activation in its queue is added by history.
type tracer struct {
	log      *explain.Log
	exporter Tracer                        // nil: nothing is exported
	at       func(time.Duration) time.Time // an instant of the dispatcher's clock
}

// Explain gives the traces of the last activations, nil when none are kept.
func (iv *Invoker) Explain() *explain.Log { return iv.traces }

// observe implements an observer.
func (t *tracer) observe(o observation) {
	switch o := o.(type) {
	case onAccepted:
		t.open(o.p)
	case onLoaded:
		t.open(o.p)
	case onInterrupted:
		if o.how == "told" {
			o.p.trace.Refused = "it had ended in an earlier process, which could not tell everybody; that was told now."
		}
	case onRefused:
		o.p.trace.Refused = refusalText(o.response)
	case onQueued:
		if a := o.act.trace; a.Queued.IsZero() { // else it was queued before
			a.Queued, a.Kind = t.at(o.at), o.act.action.Exec.Kind
		}
	case onPlaced:
		a := o.act.trace
		a.Granted, a.Start, a.Container = t.at(o.at), o.start, o.container
	case onCreated:
		o.r.trace.CreateStart, o.r.trace.Create = o.began, o.took
	case onLogsRead:
		o.r.trace.LogsStart, o.r.trace.Logs = o.began, o.took
	case onRescheduled:
		o.r.trace.Again++
	case onRunEnded:
		t.ran(o.r, o.at)
	case onAnswered:
		a := o.p.trace
		a.Answered, a.Status, a.Recorded = time.Now(), o.status, o.recorded
	case onAcked:
		if o.kind != activation.Result {
			o.p.trace.Acked = time.Now()
		}
	case onStored:
		a := o.p.trace
		if a.Stored, a.Batch = time.Now(), o.batch; o.err != nil {
			a.Batch = explain.NoBatch
		}
	case onSettled:
		t.close(o.p)
	}
}

func (t *tracer) open(p *pending) {
	p.trace = &explain.Trace{
		ID: string(p.ActivationID), Namespace: p.User.Namespace.Name, Action: p.Action.FQN(), Accepted: t.at(p.accepted),
	}
	if ms := p.TransID.StartMillis(); ms > 0 {
		p.trace.Sent = time.UnixMilli(ms)
	}
}

func (t *tracer) close(p *pending) {
	p.trace.Filed = time.Now()
	t.log.Add(p.trace)
	if t.exporter != nil {
		t.exporter.Ended(p.trace, p.TraceContext)
	}
}

// ran adds what a worker saw of a run.
func (t *tracer) ran(r *run, now time.Duration) {
	a := r.trace
	a.InitStart, a.InitEnd = r.at.initStart, r.at.initEnd
	a.RunStart, a.RunEnd = r.at.runStart, r.at.runEnd
	a.TimedOut = timedOut(r.action, r.at)
	if l := r.lease; l != nil && a.GPU != nil {
		a.GPU.Moved, a.GPU.Memory = l.transfer.time(now), l.memory.Load()
		if l.transfer != nil {
			a.GPU.MoveStart = t.at(l.transfer.began)
		}
	}
}

// refusalText is the error in a response's result.
func refusalText(r activation.Response) string {
	var text struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(r.Result, &text) != nil || text.Error == "" {
		return "it was refused."
	}
	return text.Error
}

// history is what the traces of a GPU scheduler's runs need beside the GPU scheduler.
type history struct {
	core    *scheduler.Scheduler
	granted int            // runs, ever
	fresh   []*routed      // came since the GPU scheduler settled
	touched []sched.FlowID // had a run started or charged since
	flows   map[sched.FlowID]*flowHistory
}

// flowHistory is what was seen of a flow.
type flowHistory struct {
	granted   int
	throttled *obstacle // when it was last
	latest    *obstacle // when an activation last came
}

// arrivalCounts is how many runs had been granted when a job came: of all functions, and
// of its own; and how many of its own were queued before it. There may be very
// many marks, so they are small; what counts are differences.
type arrivalCounts struct{ all, own, ahead uint32 }

// obstacle is what holds a flow, and how many runs of the flow that goes before
// it had been granted then. It has no text of a message: many are kept for long,
// and a message's text is kept whole.
type obstacle struct {
	since         time.Duration
	rule          sched.Rule
	level         string
	lead, overrun time.Duration
	goes          sched.FlowID // before it
	behind        *flowHistory // of that flow; nil: it is in nobody's way but its own
	by            int
}

func (h *history) flow(id sched.FlowID) *flowHistory {
	p := h.flows[id]
	if p == nil {
		p = &flowHistory{}
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

func flowOf(act *routed) sched.FlowID {
	return sched.FlowID{Namespace: act.User.Namespace.Name, Function: act.action.FQN()}
}

// obstacle asks what holds a flow. It is called when the GPU scheduler has settled: then
// it disturbs no decision.
func (h *history) obstacle(now time.Duration, id sched.FlowID) *obstacle {
	why := h.core.Explain(id)
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
	if b := p.latest; b == nil || now-b.since > alike || b.rule != o.rule || b.goes != o.goes {
		p.latest = o
	}
	return p.latest
}

// stands begins the GPU part of the trace of a job that was submitted.
func (h *history) stands(act *routed) {
	if act.trace == nil {
		return
	}
	id := flowOf(act)
	act.came = arrivalCounts{all: uint32(h.granted), own: uint32(h.flow(id).granted)}
	if f, ok := h.core.Flow(id); ok {
		act.came.ahead = uint32(max(0, f.Queued-1))
	}
	act.trace.GPU = &explain.GPU{Own: int(act.came.ahead)}
	h.fresh = append(h.fresh, act)
}

// observe records what holds those that came and must wait, and the flows that were
// throttled since, which a start or a charge brings about. Who went at once
// needs no reason.
func (h *history) observe(now time.Duration, waits map[uint64]*routed) {
	for _, act := range h.fresh {
		if waits[act.invocation] == act {
			act.obstacle = h.hold(now, flowOf(act))
		}
	}
	for _, id := range h.touched {
		if f, ok := h.core.Flow(id); !ok || f.Queued == 0 || f.State != sched.Throttled {
			continue
		}
		if o := h.obstacle(now, id); o.rule == sched.RuleThrottle {
			h.flow(id).throttled = o
		}
	}
	clear(h.fresh)
	h.fresh, h.touched = h.fresh[:0], h.touched[:0]
}

// company records what else runs on a run's device, by the function that has most
// of it. Who has given its token back only has its logs read.
func (r *run) company(runs map[uint64]*run, g *explain.GPU) {
	by := map[sched.FlowID]int{}
	for _, other := range runs {
		if !other.lease.over && other.ctr.gpu.device.Index == r.ctr.gpu.device.Index {
			g.Beside++
			by[flowOf(other.routed)]++
		}
	}
	for id, n := range by {
		if name := id.String(); n > g.CompanyRuns || n == g.CompanyRuns && name < g.Company {
			g.Company, g.CompanyRuns = name, n
		}
	}
}

// started records that a run begins on its device: what went before it, and in
// what company it is. Having been throttled explains more than what held it at
// first.
func (h *history) started(now time.Duration, r *run, o scheduler.Order, runs map[uint64]*run) {
	f := h.flow(o.Flow)
	if a := r.trace; a != nil && a.GPU != nil {
		r.completer.observers.notify(onPlaced{r.routed, r.queued + o.Waited, o.Start.String(), r.ctr.name})
		g := a.GPU
		a.Launched, g.Device, g.Simulated = r.completer.at(now), r.lease.device, r.ctr.gpu.device.Simulated
		r.company(runs, g)
		g.Passed = int(uint32(h.granted) - r.came.all - (uint32(f.granted) - r.came.own))
		obstacle := r.obstacle
		if f.throttled != nil && f.throttled.since >= r.queued {
			obstacle = f.throttled
		}
		if obstacle != nil {
			g.WaitReason, g.Lead, g.Overrun, g.Level = obstacle.rule.String(), obstacle.lead, obstacle.overrun, obstacle.level
			if obstacle.behind != nil {
				g.Behind, g.PassedBy = nameOf(obstacle.goes), min(obstacle.behind.granted-obstacle.by, g.Passed)
			}
		}
	}
	f.granted++
	h.flow(sched.FlowID{Namespace: o.Flow.Namespace}).granted++
	h.granted++
	h.touched = append(h.touched, o.Flow)
}

// recorder writes the GPU scheduler's log. A nil one writes nothing.
type recorder struct {
	out io.Writer // nil after an error
	buf []byte
}

func newRecorder(out io.Writer, cfg scheduler.Config) (*recorder, error) {
	if out == nil {
		return nil, nil
	}
	r := &recorder{out: out}
	line, err := scheduler.AppendConfig(nil, cfg)
	if err != nil {
		return nil, err
	}
	r.write(line, nil)
	return r, nil
}

func (r *recorder) event(e scheduler.Event) {
	if r != nil && r.out != nil {
		r.write(scheduler.AppendEvent(r.buf[:0], e))
	}
}

func (r *recorder) orders(orders []scheduler.Order) {
	if r != nil && r.out != nil {
		r.write(scheduler.AppendOrders(r.buf[:0], orders))
	}
}

// write writes one line. After an error nothing follows: a log with a gap is of
// no use.
func (r *recorder) write(line []byte, err error) {
	r.buf = line
	if err == nil {
		_, err = r.out.Write(line)
	}
	if err != nil {
		r.out = nil
	}
}
