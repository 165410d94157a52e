package sched

import "time"

// GapBound is the most by which the service of two flows, each over its
// weight, can differ in any span in which both stay backlogged:
//
//	2T + (D+1)(ci/wi + cj/wj)
//
// where c is the largest service charged for one item and D the tokens of all
// devices together, or the most there were if D changed. It takes the place of
// the paper's equation 1, which gives 0 for D = 1. With T = 0 it is the bound
// of start-time fair queueing on D servers. Namespaces keep it one level up.
func GapBound(overrun time.Duration, tokens int, ci time.Duration, wi float64, cj time.Duration, wj float64) time.Duration {
	per := float64(ci)/wi + float64(cj)/wj
	return 2*overrun + time.Duration(float64(tokens+1)*per)
}
