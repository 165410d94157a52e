package sched

import (
	"math"
	"slices"
	"time"
)

// oracle is the oracle: every policy once more, slow and obvious. It looks at
// everything on every decision and keeps no index. Its printed field makes it
// follow one of the paper's printed rules instead of ours, so that a script
// can show that it notices.
type oracle struct {
	policy  string
	cfg     Config
	view    View
	overrun int64
	printed string

	now, seq  int64
	flows     []*oracleFlow // in order of creation
	spaces    []*oracleNamespace
	devices   []*oracleDevice // by index, leaving ones included
	rootGVT   int64
	rootFloor int64
	askAt     int64 // when Next is to be called again
	iat       int64
	iatSeen   bool
	holdUntil int64
	nsWeights map[string]float64
}

type oracleInvocation struct {
	id                        uint64
	seq, arrival, cost        int64
	device                    int
	granted, setup, est       int64
	basis, charge, aboveSpace int64
}

type oracleFlow struct {
	id           FlowID
	space        *oracleNamespace
	vt           int64
	credit       int64
	weight       float64
	queue        []*oracleInvocation
	flight       []*oracleInvocation
	est          int64
	served       int64
	seen         bool
	last, iat    int64
	deadline     int64 // of the TTL, then of being forgotten
	expired      bool
	waiting      bool
	waitingSince int64
	deficit      int64
	batch        int
}

type oracleNamespace struct {
	name   string
	vt     int64
	credit int64
	gvt    int64
	floor  int64
	weight float64
}

type oracleDevice struct {
	index, tokens, reserved, flying int
	leaving                         bool
	openUntil                       int64
}

func newOracle(policy string, cfg Config, view View) *oracle {
	w := &oracle{
		policy: policy, cfg: cfg, view: view, overrun: math.MaxInt64 / 4, holdUntil: math.MaxInt64, askAt: math.MaxInt64,
		nsWeights: map[string]float64{},
	}
	switch policy {
	case "mqfq-sticky", "sticky-plus", "mqfq":
		w.overrun = int64(max(cfg.Overrun, cfg.Gap/2))
	case "sfq":
		w.overrun = 0
	}
	return w
}

func (d *oracleDevice) free() int {
	if d.leaving {
		return 0
	}
	return max(0, d.tokens-d.reserved-d.flying)
}

func (w *oracle) tokens() (n int) {
	for _, d := range w.devices {
		if !d.leaving {
			n += d.tokens
		}
	}
	return n
}

func (w *oracle) find(id FlowID) *oracleFlow {
	for _, f := range w.flows {
		if f.id == id {
			return f
		}
	}
	return nil
}

func (w *oracle) flow(id FlowID) *oracleFlow {
	if f := w.find(id); f != nil {
		return f
	}
	if len(w.flows) >= w.cfg.MaxFlows {
		w.forgetOne(math.MaxInt64)
	}
	name := ""
	if w.cfg.Namespaces {
		name = id.Namespace
	}
	f := &oracleFlow{id: id, weight: 1, iat: -1}
	for _, s := range w.spaces {
		if s.name == name {
			f.space = s
		}
	}
	if f.space == nil {
		f.space = &oracleNamespace{name: name, weight: 1}
		if x, ok := w.nsWeights[name]; ok {
			f.space.weight = x
		}
		w.spaces = append(w.spaces, f.space)
	}
	w.flows = append(w.flows, f)
	return f
}

// forgetOne drops the flow that has been inactive for longest, if its time to
// be forgotten is at most now.
func (w *oracle) forgetOne(now int64) bool {
	at := -1
	for i, f := range w.flows {
		if f.expired && f.deadline <= now && (at < 0 || f.deadline < w.flows[at].deadline) {
			at = i
		}
	}
	if at < 0 {
		return false
	}
	space := w.flows[at].space
	w.flows = slices.Delete(w.flows, at, at+1)
	if !slices.ContainsFunc(w.flows, func(f *oracleFlow) bool { return f.space == space }) {
		w.spaces = slices.DeleteFunc(w.spaces, func(s *oracleNamespace) bool { return s == space })
	}
	return true
}

func (w *oracle) backlogged(s *oracleNamespace) bool {
	return slices.ContainsFunc(w.flows, func(f *oracleFlow) bool { return f.space == s && len(f.queue) > 0 })
}

// update recomputes every global virtual time.
func (w *oracle) update() {
	root := int64(math.MaxInt64)
	for _, s := range w.spaces {
		least := int64(math.MaxInt64)
		for _, f := range w.flows {
			if f.space == s && (len(f.queue) > 0 || w.printed == "min over all") {
				least = min(least, f.vt)
			}
		}
		if least != math.MaxInt64 {
			s.gvt = max(s.floor, least)
		}
		if w.backlogged(s) {
			root = min(root, s.vt)
		}
	}
	if root != math.MaxInt64 {
		w.rootGVT = max(w.rootFloor, root)
	}
}

// within says whether a virtual time is inside the window.
func (w *oracle) within(vt, gvt int64) bool {
	switch w.printed {
	case "throttle when VT+T >= GVT":
		return vt+w.overrun < gvt
	case "throttle when VT-GVT < T":
		return vt-gvt >= w.overrun
	case "candidate when VT < GVT+T":
		return vt < gvt+w.overrun
	}
	return vt-gvt <= w.overrun
}

func (w *oracle) eligible(f *oracleFlow) bool {
	return len(f.queue) > 0 && w.within(f.vt, f.space.gvt) && w.within(f.space.vt, w.rootGVT)
}

func (w *oracle) State(id FlowID) State {
	f := w.find(id)
	switch {
	case f == nil:
		return Inactive
	case len(f.queue) > 0 && !w.eligible(f):
		return Throttled
	case f.expired:
		return Inactive
	}
	return Active
}

func (w *oracle) clock(now time.Duration) { w.now = max(w.now, int64(now)) }

func (w *oracle) Enqueue(now time.Duration, it Invocation) {
	w.clock(now)
	f := w.flow(it.Flow)
	if f.seen {
		gap := w.now - f.last
		f.iat = w.average(f.iat, gap, f.iat < 0)
		w.iat = w.average(w.iat, gap, !w.iatSeen)
		w.iatSeen = true
	}
	f.seen, f.last = true, w.now
	w.seq++
	w.back(f, &oracleInvocation{id: it.ID, seq: w.seq, arrival: w.now, cost: int64(min(max(it.Cost, 0), limit))})
}

// back puts an item where its age says, lifting a flow that was empty.
func (w *oracle) back(f *oracleFlow, it *oracleInvocation) {
	f.expired = false
	if w.printed != "no lift" {
		if !w.backlogged(f.space) {
			f.space.vt = max(f.space.vt, w.rootGVT)
		}
		if len(f.queue) == 0 {
			f.vt = max(f.vt, f.space.gvt)
		}
	}
	f.queue = append(f.queue, it)
	slices.SortFunc(f.queue, func(a, b *oracleInvocation) int { return int(a.seq - b.seq) })
	w.update()
}

func (w *oracle) average(avg, sample int64, first bool) int64 {
	if first {
		return sample
	}
	return avg + int64(w.cfg.Smoothing*float64(sample-avg))
}

func (w *oracle) Cancel(now time.Duration, id uint64) bool {
	w.clock(now)
	for _, f := range w.flows {
		for i, it := range f.queue {
			if it.id != id {
				continue
			}
			if i == 0 {
				f.waiting = false
			}
			f.queue = slices.Delete(f.queue, i, i+1)
			f.batch = min(f.batch, len(f.queue))
			w.emptied(f)
			w.rest(f)
			w.update()
			return true
		}
	}
	return false
}

// emptied drops the credit of who is backlogged no more.
func (w *oracle) emptied(f *oracleFlow) {
	if len(f.queue) > 0 {
		return
	}
	f.vt, f.credit = f.vt-f.credit, 0
	if s := f.space; !w.backlogged(s) {
		s.vt, s.credit = s.vt-s.credit, 0
	}
}

// rest starts the TTL of a flow that became idle.
func (w *oracle) rest(f *oracleFlow) {
	if len(f.queue) > 0 || len(f.flight) > 0 {
		return
	}
	iat, known := f.iat, f.iat >= 0
	if w.cfg.TTLGlobal {
		iat, known = w.iat, w.iatSeen
	}
	ttl := float64(max(w.cfg.Overrun, w.cfg.Gap/2))
	if known {
		ttl = w.cfg.TTLAlpha * float64(iat)
	}
	ttl = min(max(ttl, float64(w.cfg.TTLMin)), float64(w.cfg.TTLMax))
	f.expired, f.deadline = false, w.now+int64(ttl)
}

func (w *oracle) Tick(now time.Duration) {
	w.clock(now)
	for _, f := range w.flows {
		idle := len(f.queue) == 0 && len(f.flight) == 0
		if idle && !f.expired && f.deadline <= w.now {
			f.expired, f.deadline = true, f.deadline+int64(w.cfg.KeepInactive)
		}
	}
	for w.forgetOne(w.now) {
	}
	if w.holdUntil <= w.now {
		w.holdUntil = math.MaxInt64
	}
	if w.askAt <= w.now {
		w.askAt = math.MaxInt64
	}
}

func (w *oracle) Deadline() (time.Duration, bool) {
	at := min(w.holdUntil, w.askAt)
	for _, f := range w.flows {
		if len(f.queue) == 0 && len(f.flight) == 0 {
			at = min(at, f.deadline)
		}
	}
	return time.Duration(at), at != math.MaxInt64
}

func (w *oracle) usual(f *oracleFlow) int64 {
	switch {
	case f.served > 0:
		return f.est
	case w.cfg.InitialCharge > 0:
		return max(int64(w.cfg.InitialCharge), int64(time.Millisecond))
	}
	return max(int64(max(w.cfg.Overrun, w.cfg.Gap/2))/10, int64(time.Millisecond))
}

func (w *oracle) expected(f *oracleFlow) int64 {
	if f.queue[0].cost > 0 {
		return f.queue[0].cost
	}
	return w.usual(f)
}

// leastSetup is what the flow's start costs at least, on any device.
func (w *oracle) leastSetup(f *oracleFlow) int64 {
	least := limit
	for _, d := range w.devices {
		if !d.leaving {
			least = min(least, w.ask(f, d).Setup)
		}
	}
	return int64(least)
}

func (w *oracle) ask(f *oracleFlow, d *oracleDevice) Placement {
	if w.view == nil {
		return Placement{Fits: true}
	}
	return w.view.Placement(f.id, d.index)
}
