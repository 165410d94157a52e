package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// memories is a View of devices with memory: a flow fits where enough memory is free and its
// namespace's limit leaves so much, and is unfit where somebody else leaves too little.
type memories struct {
	capacity, foreign, used []int
	needs                   map[FlowID]int
	limits                  map[string]int   // of a namespace on a device
	of                      []map[string]int // used, by device and namespace
}

func newMemories(capacity ...int) *memories {
	n := len(capacity)
	return &memories{capacity: capacity, foreign: make([]int, n), used: make([]int, n), of: make([]map[string]int, n), needs: map[FlowID]int{}}
}

func (m *memories) Work(f FlowID) Work {
	_, limited := m.limits[f.Namespace]
	return testWork{plain: !limited, limited: limited, devices: len(m.capacity), at: func(d int) Placement {
		need, left := m.needs[f], m.capacity[d]-m.foreign[d]
		p := Placement{Need: int64(need), Room: int64(left)}
		if limit, limited := m.limits[f.Namespace]; limited && m.of[d][f.Namespace]+need > limit {
			p.Lacks |= LacksLimit
		}
		switch {
		case need > left:
			p.Lacks = LacksDevice
		case need > left-m.used[d]:
			p.Lacks |= LacksMemory
		}
		p.Fits = p.Lacks == 0
		return p
	}}
}

// use takes memory for a run of a flow, or gives it back.
func (m *memories) use(t *testing.T, f FlowID, d, by int) {
	m.used[d] += by
	if m.of[d] == nil {
		m.of[d] = map[string]int{}
	}
	m.of[d][f.Namespace] += by
	if m.used[d] > m.capacity[d] {
		t.Fatalf("%s does not fit on device %d: %d of %d used", f, d, m.used[d], m.capacity[d])
	}
	if limit, ok := m.limits[f.Namespace]; ok && m.of[d][f.Namespace] > limit {
		t.Fatalf("%s does not fit on device %d: its namespace uses %d, limit %d", f, d, m.of[d][f.Namespace], limit)
	}
}

// randomMemory draws devices of several sizes, functions of some sizes, at least two of
// each, and whether others take memory and give it back.
func randomMemory(seed uint64) contest {
	rng := rand.New(rand.NewPCG(seed, 23))
	c := contest{policy: bounded()[seed%4], span: 2 * time.Hour, whole: true}
	tokens := 1 + rng.IntN(3)
	for range 1 + rng.IntN(4) {
		c.capacity, c.tokens = append(c.capacity, []int{10, 20, 40, 80}[rng.IntN(4)]), append(c.tokens, tokens)
	}
	for k := range 1 + rng.IntN(3) {
		size := 1 + rng.IntN(c.capacity[rng.IntN(len(c.capacity))])
		for range 2 + rng.IntN(3) {
			draw := rand.New(rand.NewPCG(rng.Uint64(), 1))
			least, most := 1+rng.IntN(500), 1+rng.IntN(20_000)
			p := pattern{weight: 1, run: func(int) time.Duration { return ms(least + draw.IntN(most)*draw.IntN(2)) }}
			if rng.IntN(3) == 0 {
				p = onOff(p, ms(1+rng.IntN(60_000)), ms(1+rng.IntN(20_000)))
			}
			c.patterns, c.sizes = append(c.patterns, p), append(c.sizes, size)
			c.spaces = append(c.spaces, k*int(seed%2))
		}
	}
	if seed%3 == 0 {
		c.shake = func(m *memories) bool {
			if rng.IntN(50) > 0 {
				return false
			}
			d := rng.IntN(len(m.capacity))
			m.foreign[d] = rng.IntN(2) * rng.IntN(m.capacity[d]-m.used[d]+1)
			return true
		}
	}
	return c
}

// withLimit spreads the functions over namespaces, two of each size, and adds one whose
// limit is less than its functions need at once.
func (c contest) withLimit(seed uint64) contest {
	rng := rand.New(rand.NewPCG(seed, 29))
	for i, size := range c.sizes {
		c.spaces[i] = 2*slices.Index(c.sizes, size) + rng.IntN(2)
	}
	limited, size := slices.Max(c.spaces)+1, 1+rng.IntN(slices.Max(c.capacity))
	for range 2 + rng.IntN(3) {
		c.patterns = append(c.patterns, steady(ms(1+rng.IntN(20_000))))
		c.sizes, c.spaces = append(c.sizes, size), append(c.spaces, limited)
	}
	c.limits = map[string]int{fmt.Sprint("ns", limited): size + rng.IntN(size)}
	return c
}

// TestServiceBoundBesideALimit: the functions of a namespace whose memory is limited keep the
// bound among each other, functions without a limit do, and so do namespaces.
func TestServiceBoundBesideALimit(t *testing.T) {
	worst := result{}
	for seed := range contests() / 5 {
		c := randomMemory(seed).withLimit(seed)
		r := c.play(t)
		worst.flows, worst.spaces = max(worst.flows, r.flows), max(worst.spaces, r.spaces)
		check.AtMost(t, r.flows, 1, "seed %d, %s, service %.0f s", seed, c.policy, r.service)
		check.AtMost(t, r.spaces, 1, "seed %d, %s, service %.0f s", seed, c.policy, r.service)
	}
	t.Logf("largest gap: %.3f of the bound, %.3f between namespaces", worst.flows, worst.spaces)
}

// contests is how many are drawn.
func contests() uint64 {
	switch {
	case raced || testing.Short():
		return 10
	case events() > 100_000:
		return 3000
	}
	return 200
}

// TestServiceBoundWithMemory: two functions of one size keep the bound, whatever others
// of other sizes do, on devices of several sizes and beside others that take memory and
// give it back.
func TestServiceBoundWithMemory(t *testing.T) {
	worst := 0.0
	for seed := range contests() {
		c := randomMemory(seed)
		r := c.play(t)
		if worst = max(worst, r.flows); r.flows > 1 {
			t.Errorf("seed %d, %s: the gap is %.3f of the bound; service %.0f s", seed, c.policy, r.flows, r.service)
		}
	}
	t.Logf("largest gap: %.3f of the bound", worst)
}

// unequal is a large and a small device, and functions that fit both beside others that
// can use the large one alone: those are many, so that the small ones are beyond the
// window.
func unequal() contest {
	return contest{
		policy: "mqfq-sticky", capacity: []int{40, 10}, tokens: []int{1, 1}, sizes: []int{30, 5, 5, 30, 30}, span: 12 * time.Hour, whole: true,
		patterns: []pattern{steady(10 * time.Second), steady(20 * time.Second), steady(time.Second), steady(time.Second), steady(3 * time.Second)},
	}
}

// TestServiceBoundBeyondTheWindow: time for which a device would idle is shared as well.
func TestServiceBoundBeyondTheWindow(t *testing.T) {
	r := unequal().play(t)
	if r.flows > 1 {
		t.Errorf("the gap is %.3f of the bound; service %.0f s", r.flows, r.service)
	}
	if total := r.service[1] + r.service[2]; total < 0.95*unequal().span.Seconds() {
		t.Errorf("the small device served %.0f s of %.0f", total, unequal().span.Seconds())
	}
}
