package sim

import "sort"

// scarcity returns what places for containers cost at least: the least sum, over
// all calls, of the time from arrival to run that comes of starting containers
// and of waiting for them, with no more than so many containers at once.
//
// Cold starts alone bound nothing: a scheduler that lets calls wait for long
// enough starts each function once. So waits and starts count together. The
// problem is relaxed in three steps. A container takes any number of runs at
// once, and neither tokens nor memory matter. A place then costs a price for
// each second, and may be had without limit; all places together pay their
// price back: whatever the price, the optimum of that is at most the true one's,
// since a plan that keeps to the places pays for no more than is paid back
// (the Lagrangian dual). And with a price, functions no longer compete: each has
// a best plan of its own, which cost finds exactly. The best price is sought.
//
// Prices end at 1: below it nobody puts a start off, because the call that
// waits for it loses more than its place saves.
func (b *bounded) scarcity() float64 {
	if b.places == 0 {
		sum := 0.0
		for _, c := range b.calls {
			sum += b.fns[c.fn].start
		}
		return sum
	}
	paid := float64(b.places) * (b.horizon - b.begin)
	dual := func(price float64) float64 {
		sum := 0.0
		for i := range b.fns {
			sum += b.fns[i].cost(price, b.horizon)
		}
		return sum - price*paid
	}
	lo, hi := 0.0, 1.0
	best := max(dual(lo), dual(hi))
	for range priceSteps { // dual is concave in the price
		third := (hi - lo) / 3
		x, y := lo+third, hi-third
		a, c := dual(x), dual(y)
		best = max(best, a, c)
		if a < c {
			lo = x
		} else {
			hi = y
		}
	}
	return best
}

// priceSteps bring the price to within 1/1000 of the best.
const priceSteps = 17

// cost returns the least cost of serving a function's calls when a second of
// place costs price, at most 1, until the horizon and nothing after it. A plan
// is a row of lives: a container is started by a call and serves those that wait
// for it and any number of the next; then it goes, and the next call starts
// another. It is found from the last call to the first.
func (f *startable) cost(price, horizon float64) float64 {
	n := len(f.calls)
	if n == 0 {
		return 0
	}
	at := func(k int) float64 { return f.calls[k].at }
	rent := func(from, to float64) float64 { return price * (min(to, horizon) - min(from, horizon)) }
	sums := make([]float64, n+1) // of arrival times
	for k := range n {
		sums[k+1] = sums[k] + at(k)
	}
	fresh := make([]float64, n+1) // the cost from call k on, without a container
	kept := make([]float64, n)    // the same after call k, its container being there
	// after is the cost of what follows call k, which is served at a time.
	after := func(k int, served float64) float64 {
		least := rent(served, served+f.calls[k].work) + fresh[k+1]
		if k+1 < n {
			least = min(least, rent(served, at(k+1))+kept[k+1])
		}
		return least
	}
	for k := n - 1; k >= 0; k-- {
		kept[k] = after(k, at(k))
		ready := at(k) + f.start
		next := k + 1 + sort.Search(n-k-1, func(i int) bool { return at(k+1+i) > ready })
		waits := ready*float64(next-k) - (sums[next] - sums[k])
		fresh[k] = waits + rent(at(k), ready) + after(next-1, ready)
	}
	if f.before {
		return kept[0]
	}
	return fresh[0]
}
