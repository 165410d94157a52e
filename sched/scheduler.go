package sched

import (
	"container/list"
	"math"
	"time"
)

// Scheduler is the one engine under every policy: flows, virtual time, tokens
// and TTL. What differs between policies is its rules.
//
// Times are durations since an epoch that the owner picks, and never go back. The
// owner calls Next after every other event, again and again until it returns false.
// Misuse (an unknown or repeated id) panics.
type Scheduler struct {
	cfg   Config
	view  View
	rules rules
	// overrun is T, or endless for the policies without a window.
	overrun int64
	// maxTokens caps each device's D: start-time fair queueing has one.
	maxTokens int
	rebaseAt  int64

	now         int64
	seq         int64 // invocations counted
	serial      int64 // flows and groups counted
	invocations map[uint64]*invocation
	queued      int
	inFlight    int

	flows      map[FlowID]*flow
	groups     map[string]*group
	nsWeights  map[string]float64
	root       level[*group]
	backlogged int         // flows
	expiry     heap[*flow] // idle flows by the end of their TTL
	inactive   heap[*flow] // inactive flows by when they are forgotten
	iat        int64       // smoothed over all flows, for TTLGlobal
	iatSeen    bool
	pausing    heap[*flow] // those in back-off by its end
	waiting    list.List   // of *flow: those with something queued, the one last swept at the end
	stale      heap[*flow] // whose reach and setup are to be computed again, by when that began
	staled     int64       // how often that began
	moved      []move      // buffer
	flowsOf    []*flow     // buffer
	sweep      uint64      // counts the changes that concern all flows
	sweptAt    int64       // when that was last without a reason

	devices []*device // by index
	tokens  int       // sum of D of the devices present

	classes         map[deviceSet]*class
	active          []*class // those with flows that compete
	all             *class   // of all devices there are, or were last
	set, free, open []byte   // buffers for sets
	crowded         []byte   // where the flow tried last did not fit beside what runs

	retryAt   int64 // when Next goes on with those that it did not come to
	waitUntil int64 // earliest end of a wait seen by Next
	calls     int   // counts the calls of Next
	tried     int   // flows in this call of Next
	asked     int   // placements
	overdueAt int64 // when the next overdue head may go first

	changed       []*flow // dirty ones
	changedGroups []*group
	gone          []Change // of forgotten flows
}

// endless is an overrun that no virtual time reaches.
const endless = math.MaxInt64 / 4

// New returns the named policy under cfg; Defaults gives one to start from. A nil
// view means that every invocation fits everywhere and starts at once.
func New(name string, cfg Config, view View) (*Scheduler, error) {
	r, err := rulesOf(name, cfg)
	if err != nil {
		return nil, err
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Scheduler{
		cfg: cfg, view: view, rules: r,
		overrun: endless, maxTokens: math.MaxInt32, rebaseAt: rebaseAt, waitUntil: never, retryAt: never,
		invocations: map[uint64]*invocation{}, flows: map[FlowID]*flow{},
		groups: map[string]*group{}, nsWeights: map[string]float64{}, classes: map[deviceSet]*class{},
	}
	s.all = s.classOf(unknownDevices)
	if r.window {
		s.overrun = int64(cfg.MaxOverrun())
	}
	if r.strict {
		s.overrun, s.maxTokens = 0, 1
	}
	return s, nil
}

// clock takes the time of an event; it never goes back.
func (s *Scheduler) clock(now time.Duration) int64 {
	s.now = max(s.now, int64(now))
	return s.now
}

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
	it.queued = f.queue.PushBack(it)
	s.queued++
	s.queueGrew(f)
}

// admit makes a flow with queued invocations compete, unless it is in back-off or no
// device could serve it.
func (s *Scheduler) admit(f *flow) {
	if f.standing != out || f.queue.Len() == 0 || f.backoff.pausing() {
		return
	}
	s.setStale(f)
	if f.class == nil {
		f.class = s.all
	}
	if f.class.devices == "" {
		return
	}
	s.enter(f)
	s.rules.hooks.queued(s, f)
}

// withhold has a flow compete no longer.
func (s *Scheduler) withhold(f *flow) {
	if f.standing == out {
		f.member.leave(f.group.level.gvt)
		return
	}
	s.rules.hooks.drained(s, f)
	s.leave(f)
}

// clamped is a duration within what is accepted.
func clamped(d time.Duration) int64 { return int64(min(max(d, 0), limit)) }

// queueGrew brings a flow that has one more queued invocation to its position.
func (s *Scheduler) queueGrew(f *flow) {
	if f.queue.Len() == 1 {
		s.stopTTL(f)
		f.swept = s.sweep
		f.waits = s.waiting.PushBack(f)
		s.setStale(f)
		s.admit(f)
	}
	s.settle(f)
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
	f.queue.Remove(it.queued)
	delete(s.invocations, id)
	s.queued--
	s.rules.hooks.dropped(s, f)
	s.setStale(f)
	s.queueShrank(f)
	return true
}

// queueShrank brings a flow that has one queued invocation less to its position.
func (s *Scheduler) queueShrank(f *flow) {
	if f.queue.Len() == 0 {
		s.withhold(f)
		s.waiting.Remove(f.waits)
		s.stale.remove(&f.byStale)
		s.startTTL(f)
	}
	s.settle(f)
}

// expected is the service that the flow's next invocation is expected to use.
func (s *Scheduler) expected(f *flow) int64 {
	if f.queue.Len() > 0 && f.head().cost > 0 {
		return f.head().cost
	}
	return s.usual(f)
}

// takes is what the next invocation of a flow is expected to take, setup included.
func (s *Scheduler) takes(f *flow) int64 { return f.setup + s.expected(f) }

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
