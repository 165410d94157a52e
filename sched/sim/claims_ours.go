package sim

import "fmt"

// gridPools, gridLoads and gridTokens are where sticky-plus is held against
// the paper's policy.
func gridPools() []int     { return []int{8, 16, 24, 32} }
func gridLoads() []float64 { return []float64{0.3, 0.5, 0.7, 0.85, 0.95} }
func gridTokens() []int    { return []int{1, 2, 3} }

// ourClaims are about sticky-plus, which the paper does not have.
func ourClaims(c *cells) []claim {
	const section = "Beyond the paper: sticky-plus over MQFQ-Sticky with an LRU pool (Zipf)"
	a, b := c.zipf(plus, pool(16)), c.zipf(mqfq, pool(16))
	am, bm := c.medium(plus), c.medium(mqfq)
	out := []claim{
		{section, "plus-mean", "mean latency, load 0.7, 16 containers for 24 functions", "goal <= 0.35x", "x",
			func(at reader) float64 { return over(at(a), at(b)) }, goal(0.35),
			"the shortest goes first inside the window, demand decides which containers stay, none starts where one is about to be free"},
		{section, "plus-p99", "p99 of the same", "goal <= 1x", "x",
			func(at reader) float64 { return ratio(at(a).Latency.P99, at(b).Latency.P99) }, goal(1),
			"fewer cold starts shorten the worst waits as well"},
		{section, "plus-medium", "mean latency, medium trace, defaults", "goal <= 1x", "x",
			func(at reader) float64 { return over(at(am), at(bm)) }, goal(1),
			"what remains where the pool holds every function: the order, and swaps hidden behind runs"},
	}
	for _, p := range gridPools() {
		for _, l := range gridLoads() {
			for _, d := range gridTokens() {
				out = append(out, gridClaim(c, section, p, l, d))
			}
		}
	}
	out = append(out, gridBound(c, section))
	return append(out, dynamicClaims(c)...)
}

// dynamicClaims are about a D that follows utilization and learned slowdown.
func dynamicClaims(c *cells) []claim {
	const section = "Beyond the paper: dynamic D of at most 4, MQFQ-Sticky, medium trace"
	moving := with(func(o *Overrides) { yes := true; o.Dynamic = &yes })
	dynamic, four, two := c.medium(mqfq, tokens(4), moving), c.medium(mqfq, tokens(4)), c.medium(mqfq)
	return []claim{
		{section, "dynamic-4", "over a fixed D=4", "goal <= 1x", "x",
			func(at reader) float64 { return over(at(dynamic), at(four)) }, goal(1),
			"the slowdown of four at once shows in every run, and D comes down"},
		{section, "dynamic-2", "over the best fixed D, 2", "goal <= 1.5x", "x",
			func(at reader) float64 { return over(at(dynamic), at(two)) }, goal(1.5),
			"a reading of utilization is full with one busy kernel and alone would hold D at 1; what was seen to add throughput outranks it, at the price of learning it first"},
	}
}

// gridPrefix begins the names of the grid's claims.
const gridPrefix = "grid-"

// gridGoal is the ratio that no cell of the grid should exceed.
const gridGoal = 1.05

func gridName(p int, l float64, d int) string {
	return fmt.Sprintf("%s%d-%.2f-%d", gridPrefix, p, l, d)
}

func gridClaim(c *cells, section string, p int, l float64, d int) claim {
	a, b := c.zipf(plus, pool(p), load(l), tokens(d)), c.zipf(mqfq, pool(p), load(l), tokens(d))
	return claim{section, gridName(p, l, d),
		fmt.Sprintf("pool %d, load %.2f, D=%d", p, l, d), fmt.Sprintf("goal <= %.2fx", gridGoal), "x",
		func(at reader) float64 { return over(at(a), at(b)) }, goal(gridGoal), ""}
}

func gridBound(c *cells, section string) claim {
	var all []int
	for _, p := range gridPools() {
		for _, l := range gridLoads() {
			for _, d := range gridTokens() {
				all = append(all, c.zipf(plus, pool(p), load(l), tokens(d)))
			}
		}
	}
	return claim{section, "plus-bound", "largest gap over the derived bound, all of the grid", "goal <= 1 in every run", " of it",
		func(at reader) float64 {
			worst := 0.0
			for _, i := range all {
				worst = max(worst, ratio(at(i).GapBacklogged.Max, at(i).GapBound))
			}
			return worst
		}, alwaysMet(1), "every choice is made inside the window, so the bound stands"}
}
