package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// gaps watches the service of every pair of flows (or namespaces) over every
// span in which both stay backlogged. The largest difference over any such
// span is the spread of S_i/w_i - S_j/w_j since both became backlogged.
type gaps struct {
	members []*contestant
	apart   func(i, j int) bool // pairs that nothing bounds
	pairs   [][]span
	worst   float64 // of the bound, over all pairs
}

type contestant struct {
	weight     float64
	service    float64 // really used, over the weight, in ns
	largest    time.Duration
	backlogged bool
}

type span struct{ least, most float64 }

func newGaps(weights []float64) *gaps {
	g := &gaps{}
	for _, w := range weights {
		g.members = append(g.members, &contestant{weight: w})
		g.pairs = append(g.pairs, make([]span, len(weights)))
	}
	return g
}

// sample takes one state into account.
func (g *gaps) sample(overrun time.Duration, tokens int) {
	for i, a := range g.members {
		for j, b := range g.members[:i] {
			p, d := &g.pairs[i][j], a.service-b.service
			if g.apart != nil && g.apart(i, j) {
				continue
			}
			if !a.backlogged || !b.backlogged {
				*p = span{d, d}
				continue
			}
			if d >= p.least && d <= p.most {
				continue // bounds only grow: the earlier gap stays the worst
			}
			p.least, p.most = min(p.least, d), max(p.most, d)
			if bound := GapBound(overrun, tokens, a.largest, a.weight, b.largest, b.weight); bound > 0 {
				g.worst = max(g.worst, (p.most-p.least)/float64(bound))
			}
		}
	}
}

// pattern is how long the runs of a function really take, one after another, and
// whether its callers call at a time.
type pattern struct {
	name   string
	weight float64
	run    func(k int) time.Duration
	on     func(now time.Duration) bool
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func steady(d time.Duration) pattern {
	return pattern{d.String(), 1, func(int) time.Duration { return d }, nil}
}

// uneven is n short runs and one long, over and over: no estimate is ever right.
func uneven(n int, short, long time.Duration) pattern {
	return pattern{fmt.Sprintf("%dx%s+1x%s", n, short, long), 1, func(k int) time.Duration {
		if k%(n+1) == n {
			return long
		}
		return short
	}, nil}
}

// growing takes longer with each run, up to a hundred times, and starts again.
func growing(d time.Duration) pattern {
	return pattern{"growing " + d.String(), 1, func(k int) time.Duration { return d * time.Duration(1+k%100) }, nil}
}

// onOff calls for a while, then not.
func onOff(p pattern, on, off time.Duration) pattern {
	p.name = fmt.Sprintf("%s on %s off %s", p.name, on, off)
	p.on = func(now time.Duration) bool { return now%(on+off) < on }
	return p
}

func weighing(p pattern, w float64) pattern {
	p.weight, p.name = w, fmt.Sprintf("%s weight %g", p.name, w)
	return p
}

// contest is one policy with the settings that ship, under functions that always have
// invocations queued, on devices that really take the time and may lack memory for all.
// Functions of one size want the same devices.
type contest struct {
	policy   string
	patterns []pattern
	spaces   []int // of each pattern; nil for one of all
	tokens   []int // of each device
	slow     []int // a device takes so many times as long
	capacity []int // memory of each device; nil for enough
	sizes    []int // memory of each pattern
	limits   map[string]int
	adjust   func(*Config)
	span     time.Duration
	whole    bool // play the span to its end however many runs that takes
	// shake changes the memory that others have on the devices, now and then.
	shake func(m *memories) (changed bool)
	// spoil breaks the scheduler on purpose: at the start, and after a run of
	// a flow has ended.
	spoil func(s *Scheduler, ended *flow)
}

// result is the largest gap as a share of the bound: between functions of one
// namespace, and between namespaces.
type result struct {
	flows, spaces float64
	service       []float64
}

type flightOf struct {
	Choice
	from, to time.Duration
	pattern  int
}

// space and size are a pattern's.
func (c contest) space(i int) int {
	if c.spaces == nil {
		return 0
	}
	return c.spaces[i]
}

func (c contest) size(i int) int {
	if c.sizes == nil {
		return 0
	}
	return c.sizes[i]
}

// apart reports whether nothing bounds the gap between two namespaces: they want different
// sizes at times, or a limit holds one back.
func (c contest) apart(a, b int) bool {
	size := 0
	for i := range c.patterns {
		n := c.space(i)
		if n != a && n != b {
			continue
		}
		if _, limited := c.limits[fmt.Sprint("ns", n)]; limited || size > 0 && size != c.size(i) {
			return true
		}
		size = c.size(i)
	}
	return false
}

func (c contest) play(t *testing.T) result {
	t.Helper()
	cfg := testPolicy(c.policy).Defaults()
	if c.adjust != nil {
		c.adjust(&cfg)
	}
	var view View = everywhere{}
	m := newMemories(c.capacity...)
	m.limits = c.limits
	if c.capacity != nil {
		view = m
	}
	s, err := testPolicy(c.policy).New(cfg, view)
	if err != nil {
		t.Fatal(err)
	}
	if c.spoil != nil {
		c.spoil(s, nil)
	}
	tokens := 0
	for d, n := range c.tokens {
		if c.policy == "least-time-strict" {
			n = 1
		}
		s.AddDevice(0, d, n)
		tokens += n
	}
	ids, index, weights, ones := []FlowID{}, map[FlowID]int{}, []float64{}, []float64{}
	for i, p := range c.patterns {
		id := FlowID{fmt.Sprint("ns", c.space(i)), fmt.Sprint("f", i)}
		ids, weights, index[id], m.needs[id] = append(ids, id), append(weights, p.weight), i, c.size(i)
		for len(ones) <= c.space(i) {
			ones = append(ones, 1)
		}
		if err := s.SetWeight(0, id, p.weight); err != nil {
			t.Fatal(err)
		}
	}
	flows, spaces := newGaps(weights), newGaps(ones)
	flows.apart = func(i, j int) bool { return c.space(i) != c.space(j) || c.size(i) != c.size(j) }
	spaces.apart = c.apart
	var (
		flying  []flightOf
		started = make([]int, len(ids))
		queued  = make([]int, len(ids))
		id      uint64
		now     time.Duration
		check   = newChecker()
	)
	for now < c.span && (c.whole || id < runsOf()) {
		for i, p := range c.patterns {
			for queued[i] < tokens+1 && (p.on == nil || p.on(now)) {
				id++
				queued[i]++
				s.Enqueue(now, Invocation{ID: id, Flow: ids[i]})
			}
		}
		if c.shake != nil {
			c.shake(m)
		}
		for g, ok := s.Next(now); ok; g, ok = s.Next(now) {
			i := index[g.Flow]
			run := c.patterns[i].run(started[i])
			if c.slow != nil {
				run *= time.Duration(c.slow[g.Device])
			}
			started[i]++
			queued[i]--
			flying = append(flying, flightOf{g, now, now + run, i})
			if c.capacity != nil {
				m.use(t, g.Flow, g.Device, c.size(i))
			}
			for _, member := range []*contestant{flows.members[i], spaces.members[c.space(i)]} {
				member.largest = max(member.largest, run, time.Duration(float64(g.Charged)*weights[i]))
			}
		}
		for _, n := range spaces.members {
			n.backlogged = false
		}
		for i := range ids {
			flows.members[i].backlogged = queued[i] > 0
			n := spaces.members[c.space(i)]
			n.backlogged = n.backlogged || queued[i] > 0
		}
		flows.sample(cfg.MaxOverrun(), tokens)
		spaces.sample(cfg.MaxOverrun(), tokens)
		// Time passes to the next end, or on in steps where nothing runs.
		next, first := now+time.Second, -1
		for k := range flying {
			if flying[k].to <= next && (first < 0 || flying[k].to < flying[first].to) {
				next, first = flying[k].to, k
			}
		}
		for _, f := range flying {
			used := float64(next - now)
			flows.members[f.pattern].service += used / weights[f.pattern]
			spaces.members[c.space(f.pattern)].service += used
		}
		now = next
		if at, due := s.Deadline(); due && at <= now {
			s.Tick(now)
		}
		if first >= 0 {
			f := flying[first]
			flying = append(flying[:first], flying[first+1:]...)
			if c.capacity != nil {
				m.use(t, f.Flow, f.Device, -c.size(f.pattern))
			}
			took := f.to - f.from
			setup := min(took, time.Duration(id%20)*time.Second)
			s.Done(now, f.Invocation, Usage{Service: took - setup, Setup: setup})
			if c.spoil != nil {
				c.spoil(s, s.flows[f.Flow])
			}
		}
		if c.capacity != nil {
			if err := check.check(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := result{flows: flows.worst, spaces: spaces.worst}
	for _, n := range flows.members {
		r.service = append(r.service, n.service/1e9)
	}
	return r
}

// bounded are the policies that claim a bound.
func bounded() []string {
	return []string{"mqfq-sticky", "sticky-plus", "least-time", "least-time-strict"}
}

// irregular are the mixes of functions that exceed a bound on charges alone.
func irregular() map[string][]pattern {
	return map[string][]pattern{
		"nine and one":       {uneven(9, ms(100), time.Minute), steady(2 * time.Second)},
		"forty-nine and one": {uneven(49, ms(100), 5*time.Minute), steady(2 * time.Second)},
		"growing":            {growing(ms(200)), steady(time.Second), steady(ms(50))},
		"on and off": {
			onOff(uneven(20, ms(50), 90*time.Second), 10*time.Second, 7*time.Second),
			onOff(steady(3*time.Second), time.Minute, 20*time.Second), steady(time.Second),
		},
		"weights": {weighing(uneven(9, ms(100), time.Minute), 4), weighing(steady(2*time.Second), 0.5), steady(time.Second)},
	}
}

// spanOf is how long a contest lasts: the whole span where there is time.
func spanOf(most time.Duration) time.Duration {
	switch {
	case events() > 100_000:
		return most
	case raced || testing.Short():
		return most / 100
	}
	return most / 10
}

// runsOf is after how many runs a contest ends before its time.
func runsOf() uint64 {
	switch {
	case events() > 100_000:
		return 1 << 40
	case raced || testing.Short():
		return 2_000
	}
	return 30_000
}

// TestServiceBound: whatever runs really take, and over spans as long as you
// like, two functions that wait get service by their weights, up to the bound.
func TestServiceBound(t *testing.T) {
	for _, policy := range bounded() {
		for name, patterns := range irregular() {
			t.Run(policy+"/"+name, func(t *testing.T) {
				t.Parallel()
				for _, tokens := range [][]int{{1}, {2}, {1, 1}, {2, 2, 2, 2}, {2, 2, 2, 2, 2, 2, 2, 2}, {4, 1, 2}} {
					c := contest{policy: policy, patterns: patterns, tokens: tokens, span: spanOf(1_000_000 * time.Second)}
					r := c.play(t)
					check.AtMost(t, r.flows, 1, "D %v, service %.0f s", tokens, r.service)
					check.Greater(check.Must(t), len(r.service), 0, "D %v", tokens)
					check.AtLeast(t, r.service[0], 10, "D %v, service in s", tokens)
				}
				// One device takes three times as long for everything.
				c := contest{policy: policy, patterns: patterns, tokens: []int{2, 1}, slow: []int{1, 3}, span: spanOf(1_000_000 * time.Second)}
				r := c.play(t)
				check.AtMost(t, r.flows, 1, "unequal devices, service %.0f s", r.service)
			})
		}
	}
}

// TestServiceBoundNamespaces: the same holds between namespaces, whatever their
// functions' own weights are, and inside each.
func TestServiceBoundNamespaces(t *testing.T) {
	patterns := []pattern{
		uneven(49, ms(100), 5*time.Minute), weighing(steady(time.Second), 100), growing(ms(100)),
		steady(2 * time.Second), weighing(uneven(9, ms(100), time.Minute), 0.1),
	}
	for _, policy := range bounded() {
		for _, tokens := range [][]int{{1}, {2, 2, 2}} {
			c := contest{policy: policy, patterns: patterns, spaces: []int{0, 0, 0, 1, 1}, tokens: tokens, span: spanOf(1_000_000 * time.Second)}
			r := c.play(t)
			check.AtMost(t, r.flows, 1, "%s D %v, gap of the bound", policy, tokens)
			check.AtMost(t, r.spaces, 1, "%s D %v, gap of the bound", policy, tokens)
			check.That(t, r.spaces != 0, "%s D %v", policy, tokens)
		}
	}
}

// TestServiceBoundRandom draws the functions, their weights, T and the devices.
func TestServiceBoundRandom(t *testing.T) {
	worst := 0.0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		c := contest{policy: bounded()[seed%4], span: spanOf(500_000 * time.Second)}
		overrun := time.Duration(rng.IntN(4)) * 2500 * time.Millisecond
		c.adjust = func(c *Config) { c.Overrun = overrun }
		for range 2 + rng.IntN(6) {
			draw := rand.New(rand.NewPCG(rng.Uint64(), 1))
			least, most := 1+rng.IntN(500), 1+rng.IntN(20_000)
			p := pattern{weight: []float64{0.25, 0.5, 1, 1, 2, 4}[rng.IntN(6)], run: func(int) time.Duration {
				return ms(least + draw.IntN(most)*draw.IntN(2)*draw.IntN(2))
			}}
			if rng.IntN(3) == 0 {
				p = onOff(p, ms(1+rng.IntN(60_000)), ms(1+rng.IntN(20_000)))
			}
			c.patterns = append(c.patterns, p)
		}
		for range 1 + rng.IntN(8) {
			c.tokens = append(c.tokens, 1+rng.IntN(3))
			c.slow = append(c.slow, 1+rng.IntN(3))
		}
		r := c.play(t)
		if worst = max(worst, r.flows); r.flows > 1 {
			t.Errorf("seed %d, %s: the gap is %.3f of the bound", seed, c.policy, r.flows)
		}
	}
	t.Logf("largest gap: %.3f of the bound", worst)
}

// TestServiceBoundCanBreak leaves out one rule at a time: each is needed.
func TestServiceBoundCanBreak(t *testing.T) {
	nine, fortyNine := irregular()["nine and one"], irregular()["forty-nine and one"]
	after := func(f func(*Scheduler, *flow)) func(*Scheduler, *flow) {
		return func(s *Scheduler, ended *flow) {
			if ended != nil {
				f(s, ended)
				s.charge(ended, 0, 0)
			}
		}
	}
	for name, c := range map[string]contest{
		"no window":     {patterns: []pattern{steady(time.Second), steady(2 * time.Second)}, spoil: func(s *Scheduler, _ *flow) { s.order.Key, s.windowed, s.overrun = byService, false, endless }},
		"not settled":   {patterns: fortyNine, tokens: []int{2}, span: 200_000 * time.Second, adjust: func(c *Config) { c.Correct = false }},
		"half settled":  {patterns: nine, spoil: after(func(_ *Scheduler, f *flow) { f.vt -= max(0, f.vt-f.group.level.clock) / 2 })},
		"debt forgiven": {patterns: nine, spoil: after(func(s *Scheduler, f *flow) { f.vt = min(f.vt, f.group.level.clock+s.overrun) })},
	} {
		t.Run(name, func(t *testing.T) {
			c.policy, c.whole = "mqfq-sticky", true
			if c.tokens == nil {
				c.tokens, c.span = []int{1}, 20_000*time.Second
			}
			r := c.play(t)
			t.Logf("the gap is %.3f of the bound; service %.0f s", r.flows, r.service)
			if r.flows <= 1 {
				t.Errorf("broken on purpose, and the gap stays within the bound")
			}
		})
	}
}
