package gpu

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// PoolConfig bounds the containers of one device.
type PoolConfig struct {
	// Size is how many containers may exist at once, busy ones included: each
	// holds a context in device memory that cannot be moved (paper, 4.3).
	// 0 keeps none: every run is a cold start.
	Size int
	// Rule chooses which idle container is given up for a new one.
	Rule Rule
}

// Validate names the field and the value that cannot be.
func (c PoolConfig) Validate() error {
	if c.Size < 0 {
		return fmt.Errorf("pool size %d: must not be negative", c.Size)
	}
	if int(c.Rule) >= len(ruleWords) {
		return fmt.Errorf("pool retention %v: unknown rule", c.Rule)
	}
	return nil
}

// Pool knows one device's containers: which are idle, which are
// busy, which is given up. It creates and removes nothing. F is what the owner
// knows a flow by.
type Pool[F comparable] struct {
	cfg    PoolConfig
	byID   map[string]*pooled[F]
	byFlow map[F]*flowContainers[F]
	list   []*pooled[F] // in order of creation
	idle   int
}

type pooled[F comparable] struct {
	id       string
	flow     F
	siblings *flowContainers[F]
	lastUsed time.Duration
	runs     int32 // in it now
	limit    int32 // that it takes at once
}

// flowContainers is the containers of one flow. The last of each list is used first.
//
//	idle:   runs == 0 < limit
//	shared: 0 < runs < limit
type flowContainers[F comparable] struct {
	idle   []*pooled[F]
	shared []*pooled[F]
	total  int
}

// Flows tells a pool about the flows of idle containers, as far as its rule asks.
type Flows[F comparable] interface {
	// Standing says what the scheduler has of a flow.
	Standing(flow F) FlowState
	// Waits says whether that is a state in which work waits.
	Waits(flow F) bool
	// Demand is arrivals a second, times the seconds of a cold start.
	Demand(flow F) float64
}

// NewPool returns the empty pool of one device.
func NewPool[F comparable](cfg PoolConfig) (*Pool[F], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Pool[F]{cfg: cfg, byID: make(map[string]*pooled[F]), byFlow: make(map[F]*flowContainers[F])}, nil
}

// Take gives a container of a flow to a run: one that runs already and takes
// more at once, else an idle one, of either the most recently used: its memory
// is the likeliest to lie on the device. Without one a new one must be created.
func (p *Pool[F]) Take(now time.Duration, flow F) (id string, ok bool) {
	c := p.peek(flow)
	if c == nil {
		return "", false
	}
	p.makeUnavailable(c)
	c.runs++
	c.lastUsed = now
	p.makeAvailable(c)
	return c.id, true
}

// Peek tells what Take would answer, and changes nothing.
func (p *Pool[F]) Peek(flow F) (id string, ok bool) {
	if c := p.peek(flow); c != nil {
		return c.id, true
	}
	return "", false
}

func (p *Pool[F]) peek(flow F) *pooled[F] {
	s := p.byFlow[flow]
	switch {
	case s == nil:
		return nil
	case len(s.shared) > 0:
		return s.shared[len(s.shared)-1]
	case len(s.idle) > 0:
		return s.idle[len(s.idle)-1]
	}
	return nil
}

// Add enters a new container, busy with its first run. It takes one run at a
// time until Limit says otherwise.
func (p *Pool[F]) Add(now time.Duration, id string, flow F) {
	if _, ok := p.byID[id]; ok {
		panic("gpu: container " + id + " added twice")
	}
	s := p.byFlow[flow]
	if s == nil {
		s = &flowContainers[F]{}
		p.byFlow[flow] = s
	}
	s.total++
	c := &pooled[F]{id: id, flow: flow, siblings: s, runs: 1, limit: 1, lastUsed: now}
	p.byID[id] = c
	p.list = append(p.list, c)
}

// Limit sets how many runs a container takes at once; with 0 it takes no more.
func (p *Pool[F]) Limit(id string, runs int) {
	c := p.must(id)
	p.makeUnavailable(c)
	c.limit = int32(min(max(runs, 0), math.MaxInt32))
	p.makeAvailable(c)
}

// Put takes a container back from one run. keep is false when the pool holds
// more than its size: the caller removes the container then, once it is idle.
func (p *Pool[F]) Put(now time.Duration, id string) (keep bool) {
	c := p.must(id)
	if c.runs == 0 {
		panic("gpu: container " + id + " put back twice")
	}
	p.makeUnavailable(c)
	c.runs--
	c.lastUsed = now
	p.makeAvailable(c)
	return len(p.list) <= p.cfg.Size
}

// makeAvailable puts a container where Take finds it, unless it is full.
func (p *Pool[F]) makeAvailable(c *pooled[F]) {
	s := c.siblings
	switch {
	case c.limit == 0:
	case c.runs == 0:
		s.idle = append(s.idle, c)
		p.idle++
	case c.runs < c.limit:
		s.shared = append(s.shared, c)
	}
}

// makeUnavailable takes a container from where shelve put it.
func (p *Pool[F]) makeUnavailable(c *pooled[F]) {
	s := c.siblings
	switch {
	case c.limit == 0:
	case c.runs == 0:
		s.idle = without(s.idle, c)
		p.idle--
	case c.runs < c.limit:
		s.shared = without(s.shared, c)
	}
}

// Remove strikes a container, busy or idle, whose life has ended.
func (p *Pool[F]) Remove(id string) {
	c := p.must(id)
	delete(p.byID, id)
	p.list = without(p.list, c)
	p.makeUnavailable(c)
	s := c.siblings
	s.total--
	if s.total == 0 {
		delete(p.byFlow, c.flow)
	}
}

// Victim returns the idle container to give up for a new one, by the rule. ok is
// false when all are busy or there are none.
func (p *Pool[F]) Victim(flows Flows[F]) (id string, ok bool) {
	var best *pooled[F]
	var least Candidate
	for _, c := range p.list {
		if c.runs > 0 {
			continue
		}
		if worth := p.judge(c, flows); best == nil || p.cfg.Rule.sooner(&worth, &least) {
			best, least = c, worth
		}
	}
	if best == nil {
		return "", false
	}
	return best.id, true
}

// judge asks about a container what the rule orders by, and no more.
func (p *Pool[F]) judge(c *pooled[F], flows Flows[F]) Candidate {
	worth := Candidate{Container: c.id, LastUsed: c.lastUsed}
	switch p.cfg.Rule {
	case FlowLRU:
		worth.State = flows.Standing(c.flow)
	case ProtectLRU, DemandAware:
		if flows.Waits(c.flow) {
			worth.State = Backlogged
		}
	}
	if p.cfg.Rule == DemandAware {
		worth.Siblings, worth.Demand = c.siblings.total, flows.Demand(c.flow)
	}
	return worth
}

// Full reports whether a new container needs an old one to go.
func (p *Pool[F]) Full() bool { return len(p.list) >= p.cfg.Size }

// Len returns how many containers exist, and how many of them are idle.
func (p *Pool[F]) Len() (all, idle int) { return len(p.list), p.idle }

// Count returns a flow's containers, and how many of them are idle.
func (p *Pool[F]) Count(flow F) (all, idle int) {
	if s := p.byFlow[flow]; s != nil {
		return s.total, len(s.idle)
	}
	return 0, 0
}

// Idle calls yield with each idle container of a flow, the most recently used
// first, until it returns false.
func (p *Pool[F]) Idle(flow F, yield func(id string) bool) {
	s := p.byFlow[flow]
	if s == nil {
		return
	}
	for i := len(s.idle) - 1; i >= 0; i-- {
		if !yield(s.idle[i].id) {
			return
		}
	}
}

// Check returns an error that names the first broken invariant.
func (p *Pool[F]) Check() error {
	idle := 0
	for _, s := range p.byFlow {
		idle += len(s.idle)
		if len(s.idle)+len(s.shared) > s.total {
			return fmt.Errorf("%d idle and %d shared of %d containers of a flow", len(s.idle), len(s.shared), s.total)
		}
	}
	if idle != p.idle || len(p.list) != len(p.byID) {
		return fmt.Errorf("%d idle by flow, %d counted; %d listed, %d known", idle, p.idle, len(p.list), len(p.byID))
	}
	return nil
}

func (p *Pool[F]) must(id string) *pooled[F] {
	c, ok := p.byID[id]
	if !ok {
		panic("gpu: unknown container " + id)
	}
	return c
}

func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
