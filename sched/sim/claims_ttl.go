package sim

import "time"

func ttlClaims(c *cells) []claim {
	const section = "Keep-alive TTL, medium trace, swapped out as soon as inactive"
	// The TTL acts through what becomes of an idle flow's memory, so this part
	// takes the paper's words for it: out when inactive or throttled.
	eager := []mod{retain("flow-lru"), headroom(15 * gib)}
	at := func(m ...mod) int { return c.medium(mqfq, both(eager, m...)...) }
	const recency = "recency keeps what a TTL would; a TTL also holds the memory of flows whose next call is far, and moving that out stands in the way of the next run"
	none := at(ttlOf(0))
	alpha2, short := at(alpha(2), leastTTL(0)), at(ttlOf(100*time.Millisecond))
	global := at(alpha(2), leastTTL(0), globalTTL())
	return []claim{
		{section, "ttl-none", "alpha=0 over alpha=2", "1.5x", "x", func(at reader) float64 { return over(at(none), at(alpha2)) }, inRange(1.25, 2.25),
			recency},
		{section, "ttl-short", "one TTL of 0.1 s over none", "0.75x", "x", func(at reader) float64 { return over(at(short), at(none)) }, inRange(0.6, 0.9),
			"few gaps are that short, and backlogged flows need no TTL"},
		{section, "ttl-global", "one global inter-arrival time over each function's own", "1.15x", "x",
			func(at reader) float64 { return over(at(global), at(alpha2)) }, inRange(1.05, 1.35),
			"it shortens the TTL of the rare flows, and those are the ones not worth keeping"},
	}
}

// lightTTLClaims repeat the TTL's where all memory fits on the device and coming
// back is slow, as when pages come by faults: there a TTL decides whether
// memory is there when its function is called.
func lightTTLClaims(c *cells) []claim {
	const section = "Sensitivity: TTL with 500 MB for every function, 0.75 of the utilization warm work, a slow link"
	light := func(_ *Overrides, s *Spec) { s.Footprint, s.WarmShare = 500*mib, 0.75 }
	link := func(gbs float64) mod { return with(func(o *Overrides) { o.SwapBandwidth = &gbs }) }
	at := func(gbs float64, m ...mod) int {
		return c.medium(mqfq, both([]mod{retain("flow-lru"), headroom(15 * gib), light, link(gbs)}, m...)...)
	}
	none, alpha2 := at(1.5, ttlOf(0)), at(1.5, alpha(2), leastTTL(0))
	none2, alpha22 := at(2, ttlOf(0)), at(2, alpha(2), leastTTL(0))
	short, global := at(1.5, ttlOf(100*time.Millisecond)), at(1.5, alpha(2), leastTTL(0), globalTTL())
	return []claim{
		{section, "light-ttl-none-2", "alpha=0 over alpha=2, 2 GB/s", "1.5x", "x", func(at reader) float64 { return over(at(none2), at(alpha22)) }, inRange(1.25, 2.25),
			"everything fits, so what was moved out for nothing must come back; the slower that is, the more a TTL is worth"},
		{section, "light-ttl-none", "the same, 1.5 GB/s", "1.5x", "x", func(at reader) float64 { return over(at(none), at(alpha2)) }, inRange(1.25, 2.25),
			"the link saturates without a TTL"},
		{section, "light-ttl-short", "one TTL of 0.1 s over none, 1.5 GB/s", "0.75x", "x", func(at reader) float64 { return over(at(short), at(none)) }, inRange(0.6, 0.9),
			"bursts come back within it"},
		{section, "light-ttl-global", "one global inter-arrival time over each function's own, 1.5 GB/s", "1.15x", "x",
			func(at reader) float64 { return over(at(global), at(alpha2)) }, inRange(1.05, 1.35),
			"the popular functions, which make the mean, stay active either way"},
	}
}
