package sched

import (
	"fmt"
	"math"
	"time"
)

// Scheduler is the one engine under every policy: flows, virtual time, tokens
// and TTL. What differs between policies is its rules.
type Scheduler struct {
	name  string
	cfg   Config
	view  View
	alone Setups // the view, nil where it has none
	rules rules
	// overrun is T, or endless for the policies without a window.
	overrun int64
	// maxTokens caps each device's D: start-time fair queueing has one.
	maxTokens int

	now   int64
	seq   int64
	items items

	flows  flowPlaces
	spare  []*flow // forgotten ones, for reuse
	byID   flowIDs
	vtAt   []int32 // of flows, in their group's level
	idleAt []int32 // of flows, in expiry or in inactive

	groups     []*group // by slot, nil when free
	spareGroup []int32
	groupAt    []int32 // of groups, in root
	byName     map[string]*group
	root       level
	eligible   heap // groups, of root
	order      order

	passedHead int32 // flows that fit nowhere and are out of the order, by slot
	passedTail int32
	passedN    int
	toAsk      int      // of them not asked since something changed for all
	probed     int      // namespaces looked at since then
	reached    []*group // scratch
	askAt      int64    // when Next goes on with those it did not come to

	expiry   heap // idle flows by the end of their TTL
	inactive heap // inactive flows by when they are forgotten
	stale    []*flow
	iat      int64 // smoothed over all flows, for TTLGlobal
	iatSeen  bool

	devices    []*device // by index
	keys       []*device // by position key, nil when free
	open       []*device // of them, with a free token
	here       int       // of them, not leaving
	tokens     int       // sum of D of the devices present
	free       int       // tokens to grant
	near       []int     // scratch of nearby
	looked     int       // questions to View in this call of Next
	backlogged int       // flows
	queued     int
	inFlight   int
	lagging    *flow // whom the last look for overdue ones found
	settled    bool  // in this call nobody is overdue any more who was not passed by
	holdUntil  int64 // earliest end of a wait seen by Next
	rebaseAt   int64

	touched   int64 // by ahead; says nothing
	nsWeights map[string]float64
	serial    int64

	tracking  bool
	changed   []*flow
	changedNS []*group
	gone      []Change // of flows forgotten while marked as changed

	chosen    [Rules]uint64
	held      uint64
	forgotten uint64
}

var _ Policy = (*Scheduler)(nil)

// endless is an overrun that no virtual time reaches.
const endless = math.MaxInt64 / 4

// rebaseAt keeps virtual time far from overflow: past it all of a level is
// moved down together, which changes no difference.
const rebaseAt = math.MaxInt64 / 4

// New returns MQFQ-Sticky, or with cfg.Shortest its variant that
// takes the shortest first. A nil
// view means that every item fits everywhere and starts at once.
func New(cfg Config, view View) (*Scheduler, error) {
	return NewPolicy("mqfq-sticky", cfg, view)
}

// NewPolicy returns the named policy under cfg; Defaults gives one to start
// from.
func NewPolicy(name string, cfg Config, view View) (*Scheduler, error) {
	r, err := rulesOf(name, cfg)
	if err != nil {
		return nil, err
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Scheduler{
		name: name, cfg: cfg, view: view, rules: r,
		overrun: endless, maxTokens: math.MaxInt32, rebaseAt: rebaseAt, holdUntil: never, askAt: never,
		passedHead: none, passedTail: none,
		byName: map[string]*group{}, nsWeights: map[string]float64{},
	}
	s.byID = newFlowIDs(&s.flows)
	s.alone, _ = view.(Setups)
	if r.window() {
		s.overrun = int64(cfg.MaxOverrun())
	}
	if name == "sfq" {
		s.overrun, s.maxTokens = 0, 1
	}
	s.root.eligible, s.eligible.at, s.root.throttled.at = &s.eligible, &s.groupAt, &s.groupAt
	s.expiry.at, s.inactive.at = &s.idleAt, &s.idleAt
	s.order.init(r.classes(), r.nested())
	return s, nil
}

func rulesOf(name string, cfg Config) (rules, error) {
	family := name == "mqfq-sticky" || name == "sticky-plus"
	if cfg.Shortest && !family {
		return nil, fmt.Errorf("sched config Shortest=true: policy %s has an order of its own", name)
	}
	switch name {
	case "mqfq-sticky", "sticky-plus":
		if cfg.Shortest {
			return shortest{}, nil
		}
		return sticky{}, nil
	case "mqfq", "sfq":
		return mqfq{}, nil
	case "fcfs", "naive":
		return fcfs{}, nil
	case "batch":
		return batch{}, nil
	case "paella":
		return newPaella(cfg.DeficitLimit), nil
	case "sjf":
		return sjf{}, nil
	case "eevdf":
		return eevdf{}, nil
	}
	return nil, unknown(name)
}

// clock takes the time of an event; it never goes back.
func (s *Scheduler) clock(now time.Duration) int64 {
	s.now = max(s.now, int64(now))
	return s.now
}

// Enqueue adds an item at the end of its flow.
func (s *Scheduler) Enqueue(now time.Duration, it Item) {
	s.clock(now)
	s.ahead()
	f := s.flowOf(it.Flow)
	s.touch(f)
	s.arrival(f)
	s.seq++
	i := s.items.add(it, s.seq, s.now, f.slot)
	s.items.append(&f.queue, i)
	if f.queue.n == 1 {
		f.headSeq, f.when = s.seq, s.now
	}
	s.queued++
	s.gained(f)
}

// gained brings a flow that has one more queued item to its place.
func (s *Scheduler) gained(f *flow) {
	if f.standing == out {
		s.wake(f)
		s.enter(f)
		s.rules.queued(s, f)
		s.markStale(f)
	}
	s.settle(f)
}

// Cancel takes a queued item out; false if it is not queued.
func (s *Scheduler) Cancel(now time.Duration, id uint64) bool {
	s.clock(now)
	i, ok := s.items.find(id)
	if !ok || s.items.all[i].flight != none {
		return false
	}
	f := s.flows.at(s.items.all[i].flow)
	if f.queue.head == i {
		f.holding = false
	}
	s.items.unlink(&f.queue, i)
	s.items.release(i)
	s.queued--
	s.rules.dropped(s, f)
	s.lost(f)
	return true
}

// lost brings a flow that has one queued item less to its place.
func (s *Scheduler) lost(f *flow) {
	if f.queue.n == 0 {
		s.rules.drained(s, f)
		s.leave(f)
		s.lay(f)
	} else {
		s.headed(f)
	}
	s.settle(f)
}

// headed notes what is asked most of the oldest queued item of a backlogged flow.
func (s *Scheduler) headed(f *flow) {
	head := &s.items.all[f.queue.head]
	f.headSeq, f.when = head.seq, head.arrival
}

// expected is the service that the flow's next item is expected to use.
func (s *Scheduler) expected(f *flow) int64 {
	if f.queue.n > 0 && len(s.items.costs) > 0 {
		if cost := s.items.costs[f.queue.head]; cost > 0 {
			return cost
		}
	}
	return s.usual(f)
}

// usual is the service expected of an item of which the caller says nothing.
func (s *Scheduler) usual(f *flow) int64 {
	if f.estimate > 0 {
		return f.estimate
	}
	return s.initial()
}

// leastInitial is the least estimate of a function never seen to finish.
const leastInitial = int64(time.Millisecond)

func (s *Scheduler) initial() int64 {
	if s.cfg.InitialCharge > 0 {
		return max(int64(s.cfg.InitialCharge), leastInitial)
	}
	return max(int64(s.cfg.MaxOverrun())/10, leastInitial)
}
