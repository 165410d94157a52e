package gpu

import (
	"fmt"
	"time"
)

// PoolConfig bounds the containers of one device.
type PoolConfig struct {
	// Size is how many containers may exist at once, busy ones included: each
	// holds a context in device memory that nobody can move (paper, 4.3).
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

// Pool keeps the books of one device's containers: which are idle, which are
// busy, which is given up. It creates and removes nothing.
type Pool struct {
	cfg    PoolConfig
	byID   map[string]*pooled
	byFlow map[string]*shelf
	list   []*pooled // in order of creation
	idle   int
	cand   []Candidate // scratch of Victim
}

type pooled struct {
	id, flow string
	runs     int // in it now
	limit    int // that it takes at once
	lastUsed time.Duration
}

// shelf is the containers of one flow. The last of each list is used first.
//
//	idle:   runs == 0 < limit
//	shared: 0 < runs < limit
type shelf struct {
	idle   []*pooled
	shared []*pooled
	total  int
}

// FlowView is what a pool must know of a flow to judge its idle containers.
type FlowView struct {
	State   FlowState
	Rate    float64
	Restart float64
}

// NewPool returns the empty pool of one device.
func NewPool(cfg PoolConfig) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Pool{cfg: cfg, byID: make(map[string]*pooled), byFlow: make(map[string]*shelf)}, nil
}

// Take gives a container of a flow to a run: one that runs already and takes
// more at once, else an idle one, of either the most recently used: its memory
// is the likeliest to lie on the device. Without one, kind tells which cold
// start the caller is about to make.
func (p *Pool) Take(now time.Duration, flow string) (id string, kind StartKind, ok bool) {
	if id, kind, ok = p.Peek(flow); !ok {
		return id, kind, ok
	}
	c := p.byID[id]
	p.unshelve(c)
	c.runs++
	c.lastUsed = now
	p.shelve(c)
	return id, kind, true
}

// Peek tells what Take would answer, and changes nothing.
func (p *Pool) Peek(flow string) (id string, kind StartKind, ok bool) {
	s := p.byFlow[flow]
	switch {
	case s == nil || s.total == 0:
		return "", Cold, false
	case len(s.shared) > 0:
		return s.shared[len(s.shared)-1].id, GPUWarm, true
	case len(s.idle) > 0:
		return s.idle[len(s.idle)-1].id, GPUWarm, true
	}
	return "", BusyCold, false
}

// Add enters a new container, busy with its first run. It takes one run at a
// time until Limit says otherwise.
func (p *Pool) Add(now time.Duration, id, flow string) {
	if _, ok := p.byID[id]; ok {
		panic("gpu: container " + id + " added twice")
	}
	c := &pooled{id: id, flow: flow, runs: 1, limit: 1, lastUsed: now}
	p.byID[id] = c
	p.list = append(p.list, c)
	s := p.byFlow[flow]
	if s == nil {
		s = new(shelf)
		p.byFlow[flow] = s
	}
	s.total++
}

// Limit sets how many runs a container takes at once; with 0 it takes no more.
func (p *Pool) Limit(id string, runs int) {
	c := p.must(id)
	p.unshelve(c)
	c.limit = max(runs, 0)
	p.shelve(c)
}

// Put takes a container back from one run. keep is false when the pool holds
// more than its size: the caller removes the container then, once it is idle.
func (p *Pool) Put(now time.Duration, id string) (keep bool) {
	c := p.must(id)
	if c.runs == 0 {
		panic("gpu: container " + id + " put back twice")
	}
	p.unshelve(c)
	c.runs--
	c.lastUsed = now
	p.shelve(c)
	return len(p.list) <= p.cfg.Size
}

// shelve puts a container where Take finds it, unless it is full.
func (p *Pool) shelve(c *pooled) {
	s := p.byFlow[c.flow]
	switch {
	case c.limit == 0:
	case c.runs == 0:
		s.idle = append(s.idle, c)
		p.idle++
	case c.runs < c.limit:
		s.shared = append(s.shared, c)
	}
}

// unshelve takes a container from where shelve put it.
func (p *Pool) unshelve(c *pooled) {
	s := p.byFlow[c.flow]
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
func (p *Pool) Remove(id string) {
	c := p.must(id)
	delete(p.byID, id)
	p.list = without(p.list, c)
	p.unshelve(c)
	s := p.byFlow[c.flow]
	s.total--
	if s.total == 0 {
		delete(p.byFlow, c.flow)
	}
}

// Victim returns the idle container to give up for a new one, by the rule.
// view tells about the flows of idle containers. ok is false when all are
// busy or there are none.
func (p *Pool) Victim(view func(flow string) FlowView) (id string, ok bool) {
	p.cand = p.cand[:0]
	for _, c := range p.list {
		if c.runs > 0 {
			continue
		}
		v := view(c.flow)
		p.cand = append(p.cand, Candidate{
			Container: c.id, Flow: c.flow, LastUsed: c.lastUsed, State: v.State,
			Rate: v.Rate, Restart: v.Restart, Siblings: p.byFlow[c.flow].total,
		})
	}
	i := p.cfg.Rule.Victim(p.cand)
	if i < 0 {
		return "", false
	}
	return p.cand[i].Container, true
}

// Full reports whether a new container needs an old one to go.
func (p *Pool) Full() bool { return len(p.list) >= p.cfg.Size }

// Len returns how many containers exist, and how many of them are idle.
func (p *Pool) Len() (all, idle int) { return len(p.list), p.idle }

// Count returns a flow's containers, and how many of them are idle.
func (p *Pool) Count(flow string) (all, idle int) {
	if s := p.byFlow[flow]; s != nil {
		return s.total, len(s.idle)
	}
	return 0, 0
}

// Idle calls yield with each idle container of a flow, the most recently used
// first, until it returns false.
func (p *Pool) Idle(flow string, yield func(id string) bool) {
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
func (p *Pool) Check() error {
	idle := 0
	for _, s := range p.byFlow {
		idle += len(s.idle)
		if len(s.idle)+len(s.shared) > s.total {
			return fmt.Errorf("%d idle and %d shared of %d containers of a flow", len(s.idle), len(s.shared), s.total)
		}
	}
	if idle != p.idle || len(p.list) != len(p.byID) {
		return fmt.Errorf("%d idle on shelves, %d counted; %d listed, %d known", idle, p.idle, len(p.list), len(p.byID))
	}
	return nil
}

func (p *Pool) must(id string) *pooled {
	c, ok := p.byID[id]
	if !ok {
		panic("gpu: unknown container " + id)
	}
	return c
}

func without(list []*pooled, c *pooled) []*pooled {
	for i := range list {
		if list[i] == c {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}
