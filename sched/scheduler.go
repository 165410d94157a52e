package sched

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Scheduler is the one engine under every policy: flows, virtual time, tokens
// and TTL. Policies differ by their order and by whether they have a window.
//
// Times are durations since an epoch that the owner picks, and never go back. The
// owner calls Next after every other event, again and again until it returns false.
// Misuse (an unknown or repeated id) panics.
type Scheduler struct {
	cfg   Config
	view  View
	order Order
	// windowed means that the policy has a window. overrun is T, or endless without one.
	windowed bool
	overrun  int64
	rebaseAt int64

	now         int64
	seq         int64 // invocations counted
	serial      int64 // flows and groups counted
	invocations map[uint64]*invocation
	queued      int

	flows     map[FlowID]*flow
	backlog   []*flow // those with something queued, in no order
	groups    map[string]*group
	spaces    []*group // those with something queued, in no order
	nsWeights map[string]float64
	root      level
	charged   bool  // virtual times have changed since the clocks were brought up to date
	expiry    heap  // idle flows by the end of their TTL
	inactive  heap  // inactive flows by when they are forgotten
	pausing   heap  // those in back-off by its end
	iat       int64 // smoothed over all flows, for TTLGlobal
	iatSeen   bool

	devices   []*device   // by index
	free      []*device   // those with a free token, in this call of Next
	misfits   []misfit    // buffer
	unfit     unfit       // flows inside the window, in this call of Next
	waiters   []candidate // that could start and wait, in this call of Next
	waitUntil int64       // earliest end of a wait seen by Next

	changed []*flow  // dirty ones
	gone    []Change // of forgotten flows
}

// endless is an overrun that no virtual time reaches.
const endless = math.MaxInt64 / 4

// New returns the named policy under cfg; Defaults gives one to start from.
func New(name string, cfg Config, view View) (*Scheduler, error) {
	p, ok := PolicyNamed(name)
	if !ok {
		return nil, fmt.Errorf("sched policy %q: must be one of %s", name, strings.Join(PolicyNames(), ", "))
	}
	return p.New(cfg, view)
}

// New is like the function New, for a policy that need not be listed.
func (p Policy) New(cfg Config, view View) (*Scheduler, error) {
	order, err := p.order(cfg)
	if err != nil {
		return nil, err
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Scheduler{
		cfg: cfg, view: view, order: order, windowed: p.Window != nil,
		overrun: endless, rebaseAt: rebaseAt, waitUntil: never,
		invocations: map[uint64]*invocation{}, flows: map[FlowID]*flow{},
		groups: map[string]*group{}, nsWeights: map[string]float64{},
	}
	s.root.reset()
	if s.windowed {
		s.overrun = int64(p.Window(cfg))
	}
	return s, nil
}

// clock takes the time of an event; it never goes back.
func (s *Scheduler) clock(now time.Duration) { s.now = max(s.now, int64(now)) }

// Enqueue adds an invocation at the end of its flow.
func (s *Scheduler) Enqueue(now time.Duration, in Invocation) {
	s.clock(now)
	if _, ok := s.invocations[in.ID]; ok {
		panic("sched: invocation enqueued twice")
	}
	f := s.flowOf(in.Flow)
	s.arrival(f)
	s.seq++
	it := &invocation{id: in.ID, seq: s.seq, arrival: s.now, cost: clamped(in.Cost), flow: f}
	s.invocations[in.ID] = it
	f.push(it)
	s.queued++
	s.queueGrew(f)
}

// clamped is a duration within the accepted range.
func clamped(d time.Duration) int64 { return int64(min(max(d, 0), limit)) }

// queueGrew follows a flow that has one more queued invocation.
func (s *Scheduler) queueGrew(f *flow) {
	if len(f.queue) == 1 {
		s.stopTTL(f)
		f.queuedSince = s.now
		f.at = len(s.backlog)
		s.backlog = append(s.backlog, f)
		s.refresh()
		g := f.group
		if g.queued++; g.queued == 1 {
			g.at = len(s.spaces)
			s.spaces = append(s.spaces, g)
			g.level.reset()
			g.virtualTime.enter(&s.root)
			s.root.add(&g.virtualTime)
		}
		if !f.backoff.pausing() {
			s.enter(f)
			g.level.add(&f.virtualTime)
		}
	}
	s.setDirty(f)
}

// Cancel takes a queued invocation out; false if it is not queued.
func (s *Scheduler) Cancel(now time.Duration, id uint64) bool {
	s.clock(now)
	it := s.invocations[id]
	if it == nil || it.run != nil {
		return false
	}
	f := it.flow
	if f.head() == it {
		f.waiting = false
	}
	f.unqueue(it)
	delete(s.invocations, id)
	s.queued--
	s.queueShrank(f)
	return true
}

// queueShrank follows a flow that has one queued invocation less.
func (s *Scheduler) queueShrank(f *flow) {
	if len(f.queue) == 0 {
		s.backlog = dropAt(s.backlog, f.at, func(f *flow, at int) { f.at = at })
		g := f.group
		f.stepBack(&g.level)
		f.competes = false
		if g.queued--; g.queued == 0 {
			s.spaces = dropAt(s.spaces, g.at, func(g *group, at int) { g.at = at })
			g.stepBack(&s.root)
			g.competes = false
		}
		s.charged = true
		s.startTTL(f)
	}
	s.setDirty(f)
}

// dropAt takes an element out of a list without order; moved hears where the last one is now.
func dropAt[T any](list []T, at int, moved func(T, int)) []T {
	last := len(list) - 1
	list[at] = list[last]
	moved(list[at], at)
	clear(list[last:])
	return list[:last]
}

// expected is the service that the flow's next invocation is expected to use.
func (s *Scheduler) expected(f *flow) int64 {
	if len(f.queue) > 0 && f.head().cost > 0 {
		return f.head().cost
	}
	return s.usual(f)
}

// leastInitial is the least estimate of a function never seen to finish.
const leastInitial = int64(time.Millisecond)

// usual is the service expected of an invocation whose caller has no estimate.
func (s *Scheduler) usual(f *flow) int64 {
	switch {
	case f.estimate > 0:
		return f.estimate
	case s.cfg.InitialCharge > 0:
		return max(int64(s.cfg.InitialCharge), leastInitial)
	}
	return max(int64(s.cfg.MaxOverrun())/10, leastInitial)
}
