package sim

import (
	"math"
	"slices"
)

// queueing returns what the calls of this workload cost at least, in sums of
// latencies, when they compete for devices and for places at once: that a cold
// start delays everybody who waits, that a place that is held for one function
// is not there for another, and that putting calls off saves starts.
//
// It is a Lagrangian dual (Held and Karp 1971; Fisher 1981). Time is cut into
// steps. In each, a second of device work has a price and so has a second of a
// place; all that there is of both is paid back at these prices. A plan that
// keeps within what there is pays no more than is paid back, so whatever the
// prices, the least cost with them, less what is paid back, is at most the
// least sum of latencies. And with prices functions no longer compete: each has
// a best plan of its own (pricedFunction.plan), relaxed but found exactly.
//
// What there is: devices together do speed seconds of work a second. A start
// that does not load the device still holds a token, which keeps work from it:
// see idle. There are places containers at a time.
//
// Prices are sought by the volume algorithm (Barahona and Anbil 2000): they
// rise where the plans of late, averaged, ask for more than there is. Any price
// gives a valid bound, so the search may end whenever it likes.
func (b *bounded) queueing() float64 {
	m := newMarket(b)
	if m == nil {
		return 0
	}
	m.open()
	best, bestAt := m.try(m.prices), slices.Clone(m.prices)
	mean := slices.Clone(m.asked)
	step, fails := firstStep, 0
	trial := make([]float64, len(m.prices))
	for range m.rounds {
		norm := 0.0
		for i, asked := range mean {
			if d := asked - m.there[i]; d > 0 || bestAt[i] > 0 {
				norm += d * d
			}
		}
		if norm < 1e-12 {
			break
		}
		// The target lies a little above what is reached: nobody knows the optimum.
		by := step * hope * best / norm
		for i := range trial {
			trial[i] = max(0, bestAt[i]+by*(mean[i]-m.there[i]))
		}
		got := m.try(trial)
		for i, asked := range m.asked {
			mean[i] += blend * (asked - mean[i])
		}
		if got > best {
			best, fails = got, 0
			copy(bestAt, trial)
			step = min(2, step*1.1)
		} else if fails++; fails%5 == 0 {
			step *= 0.7
		}
	}
	return best
}

const (
	firstStep = 1.0
	hope      = 0.1 // how much more than it has the search reaches for
	blend     = 0.2 // weight of the newest plans

	// priceSlots is how many steps time is cut into, and fewer for few calls:
	// four times as many bring the bound no higher, for the search has more
	// prices to find.
	priceSlots   = 240
	slotsForCall = 6
	// mostRounds of prices come within some hundredths of what ten times as many do.
	mostRounds = 60
	// priceWork bounds what one bound may cost: calls that could begin in each
	// step, over all rounds. It is some tenths of a second.
	priceWork = 30_000_000
	// leastRounds are worth an attempt.
	leastRounds = 4
)

// market is time cut into steps, and the prices in each.
type market struct {
	*bounded
	from, step float64
	slots      int
	fns        []*pricedFunction
	rounds     int

	prices []float64 // of work, then of places, for each step
	there  []float64 // what there is of both
	asked  []float64 // what the plans of the last prices ask for
}

// newMarket cuts the time until all could have been served. It returns nil
// where there is too much to plan, or no place to plan with.
func newMarket(b *bounded) *market {
	if b.places == 0 || len(b.calls) == 0 {
		return nil
	}
	last := b.drain.last
	// Beyond the end all is free; that it is late keeps that from being a way out.
	end := last + 0.25*(last-b.begin) + 10
	m := &market{bounded: b, from: b.begin, slots: min(priceSlots, 16+slotsForCall*len(b.calls))}
	m.step = (end - m.from) / float64(m.slots)
	for i := range b.fns {
		if len(b.fns[i].calls) > 0 {
			m.fns = append(m.fns, newPricedFunction(m, &b.fns[i]))
		}
	}
	size := 0
	for _, f := range m.fns {
		size += f.size
	}
	if m.rounds = min(mostRounds, priceWork/max(size, 1)); m.rounds < leastRounds {
		return nil
	}
	m.prices, m.there, m.asked = make([]float64, 2*m.slots), make([]float64, 2*m.slots), make([]float64, 2*m.slots)
	for i := range m.slots {
		m.there[i], m.there[m.slots+i] = b.speed*m.step, float64(b.places)*m.step
	}
	return m
}

// at returns when a step begins.
func (m *market) at(slot int) float64 { return m.from + float64(slot)*m.step }

// slot returns the step that a time lies in, the last one's successor for all
// that comes later.
func (m *market) slot(at float64) int {
	return max(0, min(m.slots, int((at-m.from)/m.step)))
}

// open sets the first prices: what a second of work at that time delays in the
// server of the bound by sharing, which is everybody who ends before it is idle
// again. Of several shares of these the best is taken.
func (m *market) open() {
	delayed := make([]float64, m.slots)
	for _, period := range m.drain.periods {
		for i := m.slot(period.from); i < m.slots && m.at(i) < period.to; i++ {
			after, _ := slices.BinarySearch(period.ends, m.at(i))
			delayed[i] = float64(len(period.ends)-after) / m.speed
		}
	}
	best, at := math.Inf(-1), 0.0
	for _, part := range []float64{0, 0.1, 0.25, 0.5, 0.75, 1} {
		for i, d := range delayed {
			m.prices[i] = part * d
		}
		if got := m.try(m.prices); got > best {
			best, at = got, part
		}
	}
	for i, d := range delayed {
		m.prices[i] = at * d
	}
}

// try returns the bound that prices give, and leaves in asked what the plans
// ask for.
func (m *market) try(prices []float64) float64 {
	sum := 0.0
	clear(m.asked)
	for _, f := range m.fns {
		sum += f.plan(prices[:m.slots], prices[m.slots:], m.asked[:m.slots], m.asked[m.slots:])
	}
	for i, price := range prices {
		sum -= price * m.there[i]
	}
	return sum
}

// idle returns how much work a second of a token that loads no device keeps
// from being done. On a device with D tokens r runs do r/s(r) seconds of work a
// second, so r runs and y such tokens keep to work + idle y <= most for every
// r + y <= D, with the largest idle for which that is so.
func idle(p Params) float64 {
	most := Capacity(p) / float64(p.Devices)
	least := math.Inf(1)
	for r := range p.Tokens.Max {
		work := 0.0
		if r > 0 {
			work = p.Interference.Throughput(r)
		}
		least = min(least, (most-work)/float64(p.Tokens.Max-r))
	}
	return max(0, least)
}
