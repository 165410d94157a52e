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
	busy     bool
	lastUsed time.Duration
}

// shelf is the containers of one flow. Idle ones are used last in first out.
type shelf struct {
	idle  []*pooled
	total int
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

// Take gives an idle container of a flow to a run, the most recently used
// first: its memory is the likeliest to lie on the device. Without one, kind
// tells which cold start the caller is about to make.
func (p *Pool) Take(now time.Duration, flow string) (id string, kind StartKind, ok bool) {
	if id, kind, ok = p.Peek(flow); !ok {
		return id, kind, ok
	}
	s := p.byFlow[flow]
	c := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	c.busy, c.lastUsed = true, now
	p.idle--
	return id, kind, true
}

// Peek tells what Take would answer, and changes nothing.
func (p *Pool) Peek(flow string) (id string, kind StartKind, ok bool) {
	s := p.byFlow[flow]
	switch {
	case s == nil || s.total == 0:
		return "", Cold, false
	case len(s.idle) == 0:
		return "", BusyCold, false
	}
	return s.idle[len(s.idle)-1].id, GPUWarm, true
}

// Add enters a new container, busy with its first run.
func (p *Pool) Add(now time.Duration, id, flow string) {
	if _, ok := p.byID[id]; ok {
		panic("gpu: container " + id + " added twice")
	}
	c := &pooled{id: id, flow: flow, busy: true, lastUsed: now}
	p.byID[id] = c
	p.list = append(p.list, c)
	s := p.byFlow[flow]
	if s == nil {
		s = new(shelf)
		p.byFlow[flow] = s
	}
	s.total++
}

// Put takes a container back after a run. keep is false when the pool holds
// more than its size: the caller removes the container then.
func (p *Pool) Put(now time.Duration, id string) (keep bool) {
	c := p.must(id)
	if !c.busy {
		panic("gpu: container " + id + " put back twice")
	}
	c.busy, c.lastUsed = false, now
	s := p.byFlow[c.flow]
	s.idle = append(s.idle, c)
	p.idle++
	return len(p.list) <= p.cfg.Size
}

// Remove strikes a container, busy or idle, whose life has ended.
func (p *Pool) Remove(id string) {
	c := p.must(id)
	delete(p.byID, id)
	p.list = without(p.list, c)
	s := p.byFlow[c.flow]
	s.total--
	if !c.busy {
		s.idle = without(s.idle, c)
		p.idle--
	}
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
		if c.busy {
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
		if len(s.idle) > s.total {
			return fmt.Errorf("%d idle of %d containers of a flow", len(s.idle), s.total)
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
