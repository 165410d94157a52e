package gpu

import (
	"fmt"
	"slices"
	"time"
)

// PoolConfig bounds the containers of one device.
type PoolConfig struct {
	// Size is how many containers may exist at once, busy ones included: each
	// holds a context in device memory that cannot be moved (paper, 4.3).
	// 0 keeps none: every run is a cold start.
	Size int `key:"whisk.gpu.pool-size" default:"32" range:"0..100000" doc:"GPU containers per device, busy ones included; 0 makes every run a cold start"`
	// Rule chooses which idle container is removed for a new one.
	Rule RetentionPolicy `key:"whisk.gpu.retention,policy" doc:"which idle container is removed when the pool is full. lru: the least recently used. flow-lru: first of inactive, then of throttled functions. protect-lru: lru, functions with queued work last. demand: least arrival rate x restart cost, functions with queued work last"`
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

// FlowState is the state of a function's flow, as far as it matters for its idle
// containers.
type FlowState uint8

const (
	// Inactive is empty for longer than its TTL.
	Inactive FlowState = iota
	// Throttled is backlogged, and too far ahead to be dispatched.
	Throttled
	// Active is empty but expected back within its TTL, or in flight.
	Active
	// Backlogged has work waiting that may be dispatched next.
	Backlogged
)

// Candidate is one idle container that could be removed.
type Candidate struct {
	Container Container
	State     FlowState
	LastUsed  time.Duration
	Siblings  int     // containers of the flow on the device, this one included
	Demand    float64 // arrivals per second x seconds that a cold start adds to a run
}

// RetentionPolicy orders idle containers by how readily they are removed. Without its
// container the next run has a cold start, without its memory only a transfer, so
// this is a decision of its own beside the ledger's.
type RetentionPolicy uint8

const (
	// LRU removes the least recently used.
	LRU RetentionPolicy = iota
	// FlowLRU removes those of inactive flows, then those of throttled ones,
	// then the rest, each least recently used first (paper, section 4.2).
	FlowLRU
	// ProtectLRU is LRU that keeps those of flows with waiting work while it can.
	ProtectLRU
	// DemandAware keeps those of flows with waiting work while it can and removes the
	// least arrival rate x restart cost / siblings^2 (after GreedyDual: value
	// of keeping over cost of keeping, where each further container of a flow
	// is worth less than the one before).
	DemandAware
)

var ruleWords = [...]string{"lru", "flow-lru", "protect-lru", "demand"}

// String returns the rule's name on the command line and in configuration.
func (r RetentionPolicy) String() string { return word(uint8(r), "rule", ruleWords[:]...) }

// ParseRetentionPolicy is the inverse of String.
func ParseRetentionPolicy(word string) (RetentionPolicy, error) {
	if i := slices.Index(ruleWords[:], word); i >= 0 {
		return RetentionPolicy(i), nil
	}
	return 0, fmt.Errorf("retention %q: not one of lru, flow-lru, protect-lru, demand", word)
}

// Before reports whether a is removed before b. Ties go to the earlier used, then
// to the smaller container id, so the result does not depend on the order of
// candidates.
func (r RetentionPolicy) Before(a, b *Candidate) bool {
	if ca, cb := r.class(a), r.class(b); ca != cb {
		return ca < cb
	}
	if r == DemandAware {
		if va, vb := a.value(), b.value(); va != vb {
			return va < vb
		}
	}
	if a.LastUsed != b.LastUsed {
		return a.LastUsed < b.LastUsed
	}
	return a.Container < b.Container
}

// class groups candidates; the lower class is removed first, whatever else differs.
func (r RetentionPolicy) class(c *Candidate) int {
	switch r {
	case FlowLRU:
		return min(int(c.State), int(Active))
	case ProtectLRU, DemandAware:
		if c.State == Throttled || c.State == Backlogged {
			return 1
		}
	}
	return 0
}

func (c *Candidate) value() float64 {
	n := float64(max(c.Siblings, 1))
	return c.Demand / (n * n)
}
