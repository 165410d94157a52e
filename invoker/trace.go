package invoker

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Explain returns the traces of the last activations, nil if none are kept.
func (iv *Invoker) Explain() *explain.Log { return iv.observe.traces }

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

// history has the facts that the traces of GPU runs need beyond the GPU scheduler's own.
type history struct {
	core      *scheduler.Scheduler
	granted   int            // runs, ever
	fresh     []*pending     // submitted since the GPU scheduler decided
	touched   []sched.FlowID // had a run started or charged since
	flows     map[sched.FlowID]*flowHistory
	functions map[string]int // functions in flows, by namespace
}

// flowHistory is the observed history of a flow.
type flowHistory struct {
	granted   int
	throttled *obstacle // when it was last
	latest    *obstacle // when an activation last came
}

// arrivalCounts is how many runs had been granted when an activation came: of all
// functions, and of its own; and how many of its own were queued before it. There
// may be very many, so they are small; only differences are used.
type arrivalCounts struct{ all, own, ahead uint32 }

// obstacle is the reason for which a flow waits, and the number of runs that the blocking flow
// had been granted by then. It refers to no text of a message. Many obstacles are kept for
// long, and a part of a message's text would keep the whole text in memory.
type obstacle struct {
	since         time.Duration
	rule          sched.Rule
	level         string
	lead, overrun time.Duration
	goes          sched.FlowID // before it
	behind        *flowHistory // history of the blocking flow; nil if there is none
	by            int
}

func (h *history) flow(id sched.FlowID) *flowHistory {
	f := h.flows[id]
	if f == nil {
		f = &flowHistory{}
		id = sched.FlowID{Namespace: strings.Clone(id.Namespace), Function: strings.Clone(id.Function)}
		h.flows[id] = f
		if id.Function != "" {
			h.functions[id.Namespace]++
		}
	}
	return f
}

// forget drops the history of a flow, and the history of its namespace with the namespace's
// last flow.
func (h *history) forget(id sched.FlowID) {
	if h.flows[id] == nil {
		return
	}
	delete(h.flows, id)
	if h.functions[id.Namespace]--; h.functions[id.Namespace] == 0 {
		delete(h.functions, id.Namespace)
		delete(h.flows, sched.FlowID{Namespace: id.Namespace})
	}
}

// nameOf names a function, or a namespace.
func nameOf(id sched.FlowID) string {
	if id.Function == "" {
		return id.Namespace
	}
	return id.String()
}

func flowOf(p *pending) sched.FlowID {
	return sched.FlowID{Namespace: p.User.Namespace.Name, Function: p.action.FQN()}
}

// obstacle returns the reason for which a flow waits now. Call it after the GPU scheduler has
// decided, so that it changes no decision.
func (h *history) obstacle(now time.Duration, id sched.FlowID) *obstacle {
	why := h.core.Explain(id)
	o := &obstacle{since: now, rule: why.Rule, level: why.Level, lead: why.Lead, overrun: why.Overrun, goes: why.Behind}
	if by := o.goes; by.Namespace != "" && by != id {
		o.behind = h.flow(by)
		o.by = o.behind.granted
	}
	return o
}

// alike is for how long the activations of a flow share an obstacle that stays the
// same: many may wait, and each keeps its own.
const alike = time.Second

// shared returns the obstacle of a flow. Activations that wait for the same reason share one
// obstacle.
func (h *history) shared(now time.Duration, id sched.FlowID) *obstacle {
	f, o := h.flow(id), h.obstacle(now, id)
	if was := f.latest; was == nil || now-was.since > alike || was.rule != o.rule || was.goes != o.goes {
		f.latest = o
	}
	return f.latest
}

// submitted begins the GPU part of the trace of an activation.
func (h *history) submitted(p *pending) {
	id := flowOf(p)
	p.arrivals = arrivalCounts{all: uint32(h.granted), own: uint32(h.flow(id).granted)}
	if f, ok := h.core.Flow(id); ok {
		p.arrivals.ahead = uint32(max(0, f.Queued-1))
	}
	p.trace.GPU = &explain.GPU{Own: int(p.arrivals.ahead)}
	h.fresh = append(h.fresh, p)
}

// observe records the obstacles of the activations that came and must wait, and the
// flows that were throttled since, which a start or a charge causes.
func (h *history) observe(now time.Duration, waits map[uint64]*pending) {
	for _, p := range h.fresh {
		if waits[p.invocation] == p {
			p.obstacle = h.shared(now, flowOf(p))
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

// company records the other runs on a run's device, and the function with most of them. A run
// that has returned its token does not count, because only its logs are still read.
func (r *run) company(runs map[uint64]*run, g *explain.GPU) {
	by := map[sched.FlowID]int{}
	for _, other := range runs {
		if !other.lease.tokenFree && other.ctr.gpu.device.Index == r.ctr.gpu.device.Index {
			g.Beside++
			by[flowOf(other.pending)]++
		}
	}
	for id, n := range by {
		if name := id.String(); n > g.CompanyRuns || n == g.CompanyRuns && name < g.Company {
			g.Company, g.CompanyRuns = name, n
		}
	}
}

// started records that a run begins on its device: the runs before it, and the runs beside it.
// If the flow was throttled, that explains more than the first obstacle.
func (h *history) started(now time.Duration, r *run, o scheduler.Order, runs map[uint64]*run) {
	f := h.flow(o.Flow)
	observe, g := r.completer.observe, r.trace.GPU
	observe.placed(r.pending, r.queued+o.Waited, o.Start.String(), r.ctr.name)
	r.trace.Launched, g.Device, g.Simulated = observe.instant(now), r.lease.device, r.ctr.gpu.device.Simulated
	r.company(runs, g)
	g.Passed = int(uint32(h.granted) - r.arrivals.all - (uint32(f.granted) - r.arrivals.own))
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
	f.granted++
	h.flow(sched.FlowID{Namespace: o.Flow.Namespace}).granted++
	h.granted++
	h.touched = append(h.touched, o.Flow)
}

// recorder writes the GPU scheduler's log. A nil one writes nothing.
type recorder struct {
	file io.Writer // nil after an error
	buf  []byte
}

func newRecorder(out io.Writer, cfg scheduler.Config) (*recorder, error) {
	if out == nil {
		return nil, nil
	}
	r := &recorder{file: out}
	line, err := scheduler.AppendConfig(nil, cfg)
	if err != nil {
		return nil, err
	}
	r.write(line, nil)
	return r, nil
}

func (r *recorder) event(e scheduler.Event) {
	if r != nil && r.file != nil {
		r.write(scheduler.AppendEvent(r.buf[:0], e))
	}
}

func (r *recorder) orders(orders []scheduler.Order) {
	if r != nil && r.file != nil {
		r.write(scheduler.AppendOrders(r.buf[:0], orders))
	}
}

// write writes one line. After an error nothing follows: a log with a gap is of
// no use.
func (r *recorder) write(line []byte, err error) {
	r.buf = line
	if err == nil {
		_, err = r.file.Write(line)
	}
	if err != nil {
		r.file = nil
	}
}
