package sched

import "time"

// GapBound is the most by which the service of two flows, each over its
// weight, can differ in any span in which both stay backlogged and both could
// run:
//
//	2T + 2D(ci/wi + cj/wj)
//
// Service is device time really used, that of runs under way included; c is the
// longest run of a flow, or the most that was charged for one before it was
// known, and D the tokens of all devices together, or the most there were if D
// changed. T is Config.MaxOverrun. It takes the place of the paper's equation 1,
// which gives 0 for D = 1. Namespaces keep it one level up, with the longest run
// of any of their flows.
//
// Why: let G be global virtual time and S what a flow has used, over its weight
// and from where it was lifted last. At its last grant the flow led by at most T
// with all that was charged for; since then at most its D runs in flight can
// turn out longer, so S <= G + T + D*c/w. And G is at most the flow's virtual
// time, which is ahead of what it used by charges in flight alone, so
// S >= G - D*c/w. Charges are settled in full, so nothing adds up over time.
func GapBound(overrun time.Duration, tokens int, ci time.Duration, wi float64, cj time.Duration, wj float64) time.Duration {
	per := float64(ci)/wi + float64(cj)/wj
	return 2*overrun + time.Duration(float64(2*tokens)*per)
}
