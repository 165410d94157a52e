package sched

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// oracle is every policy once more, slow and obvious: it goes through everything
// at every decision and keeps no index. With printed set it follows one of the
// paper's printed rules instead of ours, so that a script can show that it notices.
type oracle struct {
	policy  string
	cfg     Config
	view    View
	overrun int64
	printed string

	now, seq         int64
	flows            []*oracleFlow // in order of creation
	spaces           []*oracleSpace
	devices          []*oracleDevice // by index, leaving ones included
	root             oracleLevel
	weights          map[string]float64 // of namespaces
	iat              oracleMean         // of all flows together
	askAt, holdUntil int64
	overdueAt        int64
	all              string // set of the devices that there are, or were last
	sweptAt          int64
}

// oracleLevel is a level of fair queueing.
type oracleLevel struct{ gvt, placed int64 }

// oracleAccount is what a flow or a namespace was charged, in its level.
type oracleAccount struct {
	level          *oracleLevel
	vt, credit     int64
	position, used int64 // beyond the window: its place, and what it used of its turn
	aside          bool  // no device could serve it
	leftAt         int64 // global virtual time then
	weight         float64
}

type oracleSpace struct {
	name string
	oracleAccount
	flows oracleLevel
}

type oracleFlow struct {
	id    FlowID
	space *oracleSpace
	oracleAccount
	reach          string // devices that could serve it, "" for none
	met            bool   // its reach was computed
	competes       bool
	queue, flights []*oracleInvocation
	est, served    int64
	revised        bool // and no run has ended since
	seen           bool
	last           int64
	iat            oracleMean
	deadline       int64 // of the TTL, then of being forgotten
	expired        bool
	waiting        bool
	waitingSince   int64
	failures       int   // in a row
	pauseEnd       int64 // of the back-off, 0 for none
	excused        int64
	deficit        int64
	batch          int
}

type oracleInvocation struct {
	id                          uint64
	seq, arrival, cost          int64
	device                      *oracleDevice
	granted, setup, est         int64
	basis, charged, spaceCharge int64
	spare, spareAbove           bool
}

type oracleDevice struct {
	index, tokens int
	flights       []*oracleInvocation
	leaving       bool
}

// oracleMean is a moving average.
type oracleMean struct {
	value int64
	known bool
}

func (m *oracleMean) add(sample int64, smoothing float64) {
	if !m.known {
		m.value, m.known = sample, true
	}
	m.value += int64(smoothing * float64(sample-m.value))
}

func newOracle(policy string, cfg Config, view View) *oracle {
	w := &oracle{policy: policy, cfg: cfg, view: view, overrun: endless, holdUntil: never, askAt: never, weights: map[string]float64{}, all: "unknown"}
	switch policy {
	case "mqfq-sticky", "sticky-plus", "mqfq":
		w.overrun = int64(max(cfg.Overrun, cfg.Gap/2))
	case "sfq":
		w.overrun = 0
	}
	return w
}

// charge adds to what was charged, or takes back. Of what is backlogged, the part
// that a refund would take below global virtual time is credit.
func (a *oracleAccount) charge(by int64, backlogged bool) {
	gvt := a.level.gvt
	switch {
	case a.aside:
		gvt = a.leftAt
	case !backlogged:
		a.vt += by
		return
	}
	balance := max(a.vt, gvt) - a.credit + by
	a.vt = max(balance, gvt)
	a.credit = a.vt - balance
}

func (f *oracleFlow) backlogged() bool { return f.competes }

func (w *oracle) which(are func(*oracleFlow) bool) (list []*oracleFlow) {
	for _, f := range w.flows {
		if are(f) {
			list = append(list, f)
		}
	}
	return list
}

func (w *oracle) backlogged(s *oracleSpace) bool {
	return len(w.which(func(f *oracleFlow) bool { return f.space == s && f.backlogged() })) > 0
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
		w.forgetOne(never)
	}
	name := ""
	if w.cfg.Namespaces {
		name = id.Namespace
	}
	at := slices.IndexFunc(w.spaces, func(s *oracleSpace) bool { return s.name == name })
	if at < 0 {
		s := &oracleSpace{name: name, oracleAccount: oracleAccount{level: &w.root, weight: 1}}
		if weight, ok := w.weights[name]; ok {
			s.weight = weight
		}
		at, w.spaces = len(w.spaces), append(w.spaces, s)
	}
	s := w.spaces[at]
	f := &oracleFlow{id: id, space: s, oracleAccount: oracleAccount{level: &s.flows, weight: 1}}
	w.flows = append(w.flows, f)
	return f
}

// forgetOne drops the flow that has been inactive for longest, if its time to
// be forgotten is at most now.
func (w *oracle) forgetOne(now int64) bool {
	var oldest *oracleFlow
	for _, f := range w.flows {
		if f.expired && f.deadline <= now && (oldest == nil || f.deadline < oldest.deadline) {
			oldest = f
		}
	}
	w.flows = slices.DeleteFunc(w.flows, func(f *oracleFlow) bool { return f == oldest })
	w.spaces = slices.DeleteFunc(w.spaces, func(s *oracleSpace) bool {
		return !slices.ContainsFunc(w.flows, func(f *oracleFlow) bool { return f.space == s })
	})
	return oldest != nil
}

// update computes every global virtual time.
func (w *oracle) update() {
	least := map[*oracleLevel]int64{}
	count := func(a *oracleAccount) {
		if vt, ok := least[a.level]; !ok || a.vt < vt {
			least[a.level] = a.vt
		}
	}
	for _, f := range w.flows {
		if f.backlogged() || w.printed == "min over all" {
			count(&f.oracleAccount)
		}
		if f.backlogged() {
			count(&f.space.oracleAccount)
		}
	}
	for level, vt := range least {
		level.gvt = vt
	}
}

// within reports whether an account is inside the window.
func (w *oracle) within(a *oracleAccount) bool {
	lead := a.vt - a.level.gvt
	switch w.printed {
	case "throttle when VT+T >= GVT":
		return lead < -w.overrun
	case "throttle when VT-GVT < T":
		return lead >= w.overrun
	case "candidate when VT < GVT+T":
		return lead < w.overrun
	}
	return lead <= w.overrun
}

func (w *oracle) eligible(f *oracleFlow) bool {
	return f.backlogged() && w.within(&f.oracleAccount) && w.within(&f.space.oracleAccount)
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
		f.iat.add(w.now-f.last, w.cfg.Smoothing)
		w.iat.add(w.now-f.last, w.cfg.Smoothing)
	}
	f.seen, f.last = true, w.now
	w.seq++
	w.queue(f, &oracleInvocation{id: it.ID, seq: w.seq, arrival: w.now, cost: int64(min(max(it.Cost, 0), limit))})
}

// queue puts an invocation where its age belongs, lifting a flow that was empty.
func (w *oracle) queue(f *oracleFlow, it *oracleInvocation) {
	f.expired = false
	f.queue = append(f.queue, it)
	if !f.met {
		f.reach = w.all
	}
	w.compete(f)
	slices.SortFunc(f.queue, func(a, b *oracleInvocation) int { return int(a.seq - b.seq) })
	w.update()
}

func (w *oracle) Cancel(now time.Duration, id uint64) bool {
	w.clock(now)
	for _, f := range w.flows {
		i := slices.IndexFunc(f.queue, func(it *oracleInvocation) bool { return it.id == id })
		if i < 0 {
			continue
		}
		f.waiting = f.waiting && i > 0
		f.queue = slices.Delete(f.queue, i, i+1)
		f.batch = min(f.batch, len(f.queue))
		w.emptied(f)
		w.rest(f)
		w.update()
		return true
	}
	return false
}

// emptied ends the backlog of a flow with nothing queued.
func (w *oracle) emptied(f *oracleFlow) {
	if len(f.queue) > 0 {
		return
	}
	was := f.competes
	f.competes = false
	f.leave()
	if s := f.space; was && !w.backlogged(s) {
		s.leave()
	}
}

func (f *oracleFlow) idle() bool { return len(f.queue) == 0 && len(f.flights) == 0 }

// rest starts the TTL of a flow that became idle.
func (w *oracle) rest(f *oracleFlow) {
	if !f.idle() {
		return
	}
	iat := f.iat
	if w.cfg.TTLGlobal {
		iat = w.iat
	}
	ttl := float64(max(w.cfg.Overrun, w.cfg.Gap/2))
	if iat.known {
		ttl = w.cfg.TTLAlpha * float64(iat.value)
	}
	ttl = min(max(ttl, float64(w.cfg.TTLMin)), float64(w.cfg.TTLMax))
	f.expired, f.deadline = false, w.now+int64(ttl)
}

func (w *oracle) Tick(now time.Duration) {
	w.clock(now)
	for _, f := range w.flows {
		if f.idle() && !f.expired && f.deadline <= w.now {
			f.expired, f.excused, f.deadline = true, 0, f.deadline+int64(w.cfg.KeepInactive)
		}
	}
	w.resumePaused()
	for w.forgetOne(w.now) {
	}
	if w.partial() && w.sweptAt+int64(5*time.Second) <= w.now {
		w.sweptAt = w.now
	}
	for _, at := range []*int64{&w.holdUntil, &w.askAt} {
		if *at <= w.now {
			*at = never
		}
	}
}

func (w *oracle) Deadline() (time.Duration, bool) {
	at := min(w.holdUntil, w.askAt)
	for _, f := range w.flows {
		if f.pauseEnd > 0 {
			at = min(at, f.pauseEnd)
		}
	}
	if w.partial() {
		at = min(at, w.sweptAt+int64(5*time.Second))
	}
	for _, f := range w.flows {
		if f.idle() {
			at = min(at, f.deadline)
		}
	}
	return time.Duration(at), at != never
}

// end takes an invocation out of flight.
func (w *oracle) end(now time.Duration, id uint64) (*oracleFlow, *oracleInvocation) {
	w.clock(now)
	is := func(it *oracleInvocation) bool { return it.id == id }
	for _, f := range w.flows {
		i := slices.IndexFunc(f.flights, is)
		if i < 0 {
			continue
		}
		it := f.flights[i]
		f.flights = slices.Delete(f.flights, i, i+1)
		it.device.flights = slices.DeleteFunc(it.device.flights, is)
		w.dropGone()
		return f, it
	}
	panic("oracle: not in flight")
}

func (w *oracle) Done(now time.Duration, id uint64, used Usage) {
	f, it := w.end(now, id)
	service := int64(used.Service)
	if service > 0 || !used.Failed {
		f.served++
		weight := w.cfg.Smoothing
		if f.served == 1 || f.revised {
			weight = 1
		}
		f.revised = false
		f.est += int64(weight * float64(service-f.est))
		f.est = max(f.est, int64(time.Microsecond))
	}
	if w.cfg.Correct && w.cfg.FixedCharge == 0 {
		w.settleCharge(f, it, service+int64(used.Setup))
		w.excuse(f, it, used)
	}
	if !used.Outdated {
		w.backOff(f, used.Failed)
	}
	w.rest(f)
	w.update()
}

// amend charges the accounts on which a run was granted.
func (w *oracle) amend(f *oracleFlow, it *oracleInvocation, own, above int64) {
	if it.spare {
		f.used += own
		own = 0
	}
	if it.spareAbove {
		f.space.used += above
		above = 0
	}
	f.charge(own, f.backlogged())
	f.space.charge(above, w.backlogged(f.space))
}

// settleCharge charges for what was used instead of what was expected.
func (w *oracle) settleCharge(f *oracleFlow, it *oracleInvocation, used int64) {
	ratio := float64(used) / float64(it.basis)
	settled := func(charge int64) int64 { return int64(math.Round(float64(charge)*ratio)) - charge }
	w.amend(f, it, settled(it.charged), settled(it.spaceCharge))
}

func (w *oracle) unrun(f *oracleFlow, it *oracleInvocation) {
	w.settleCharge(f, it, w.now-it.granted)
	if w.policy == "paella" {
		f.deficit += credit
	}
	if f.batch > 0 {
		f.batch++
	}
}

func (w *oracle) Undo(now time.Duration, id uint64) {
	f, it := w.end(now, id)
	w.unrun(f, it)
	w.queue(f, it)
}

func (w *oracle) Abandon(now time.Duration, id uint64) {
	f, it := w.end(now, id)
	w.unrun(f, it)
	w.rest(f)
	w.update()
}

func (w *oracle) Touch(time.Duration, FlowID) {}

func (w *oracle) AddDevice(now time.Duration, index, tokens int) {
	w.clock(now)
	if w.device(index) == nil {
		w.devices = append(w.devices, &oracleDevice{index: index})
		slices.SortFunc(w.devices, func(a, b *oracleDevice) int { return a.index - b.index })
	}
	w.device(index).leaving = false
	w.all = w.present()
	w.SetTokens(now, index, tokens)
}

func (w *oracle) RemoveDevice(now time.Duration, index int) {
	w.clock(now)
	w.device(index).leaving = true
	w.dropGone()
	w.all = cmp.Or(w.present(), w.all)
}

// dropGone drops the devices that left and on which nothing is in flight.
func (w *oracle) dropGone() {
	w.devices = slices.DeleteFunc(w.devices, func(d *oracleDevice) bool { return d.leaving && len(d.flights) == 0 })
}

func (w *oracle) SetTokens(now time.Duration, index, tokens int) {
	w.clock(now)
	if w.policy == "sfq" {
		tokens = min(tokens, 1)
	}
	w.device(index).tokens = tokens
}

func (w *oracle) device(index int) *oracleDevice {
	for _, d := range w.devices {
		if d.index == index {
			return d
		}
	}
	return nil
}
