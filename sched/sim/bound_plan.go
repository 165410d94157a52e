package sim

import (
	"math"
	"slices"
	"sort"
)

// pricedFunction is one function with its calls, as a market sees it.
//
// A plan is a row of lives. A life begins with a start, which a call asks for
// that has come and is served in it; after it the calls that wait, and others
// that come, begin their runs one after another in order of arrival; then it
// ends, and a later call needs another start. Several containers of the function
// at once count as one life from the first's begin to the last's end, which costs
// no more. A container takes any number of runs at once.
//
// A run that begins at x ends at C >= x + work and does its work between. Let u
// be the instant of it at which work is cheapest: it costs at least
// max(x + work, u) - arrival + work price(u). A run is never interrupted, and no
// slower than all tokens make it, so u <= x + work slowest. Among calls that cost
// the same, whoever begins first may be taken for who came first: the sum is the
// same. Calls that do not cost the same count with the least work in the price
// and the most in how long u may be put off, so that this stays true.
//
// Times are rounded to the steps of the market always to the plan's gain: a run
// that begins in a step begins when that does or the call comes; of a life's place
// the step in which it is ready is free, and so is the one in which its last run
// begins, up to then.
type pricedFunction struct {
	m      *market
	n      int
	at     []float64 // when its calls come
	slot   []int     // and in which step
	ready  []int     // in which step a start that the call asks for is over at the earliest
	before bool
	length float64 // of a start
	load   float64 // device work that it takes or keeps from being done
	slack  float64 // how much longer than length it may take
	least  float64 // work of a call
	most   float64
	spare  float64 // how much longer than its work a run may take
	base   float64 // work of all its calls
	come   []int   // calls that have come by the end of each step
	size   int     // of a plan, in steps

	wait    []float64 // price of a run that begins in each step, without what it waited
	waitAt  []int     // where its work is done
	own     []float64 // the same for each call in the step in which it comes
	ownAt   []int
	hold    span // a start's place
	leave   span // the place from the last run's begin to its end
	startOf []float64
	workAt  []int
	now     layer
	next    layer
	choice  []byte // of the three states of each step and number of calls
}

// layer is the least cost to go from one step on, by calls begun: without a
// container, with one, and with one that became ready in this very step.
type layer struct{ none, kept, fresh []float64 }

func newLayer(n int) layer {
	return layer{make([]float64, n+1), make([]float64, n+1), make([]float64, n+1)}
}

// What a plan does in a state.
const (
	goOn  byte = iota // to the next step
	serve             // the next call begins
	end               // of the life
	begin             // of one: its start is over
)

func newPricedFunction(m *market, f *startable) *pricedFunction {
	p := &pricedFunction{
		m: m, n: len(f.calls), before: f.before,
		length: f.start, load: f.load, slack: f.init * (m.slowest - 1),
		least: math.Inf(1), come: make([]int, m.slots),
	}
	for _, c := range f.calls {
		p.at = append(p.at, c.at)
		p.slot = append(p.slot, m.slot(c.at))
		p.ready = append(p.ready, m.slot(c.at+f.start))
		p.least, p.most = min(p.least, c.work), max(p.most, c.work)
		p.base += c.work
	}
	p.size = priceSteps * m.slots
	p.spare = p.most * (m.slowest - 1)
	for i := range p.come {
		p.come[i] = sort.SearchInts(p.slot, i+1)
		p.size += 3 * (p.come[i] + 1)
	}
	p.wait, p.waitAt = make([]float64, m.slots), make([]int, m.slots)
	p.own, p.ownAt = make([]float64, p.n), make([]int, p.n)
	p.startOf, p.workAt = make([]float64, m.slots), make([]int, m.slots)
	p.hold, p.leave = newSpan(m, p.length), newSpan(m, p.least)
	p.now, p.next = newLayer(p.n), newLayer(p.n)
	p.choice = make([]byte, m.slots*(p.n+1))
	return p
}

// plan returns the least cost of the function's calls at these prices, and adds
// what its plan asks for.
func (p *pricedFunction) plan(work, place, askedWork, askedPlace []float64) float64 {
	p.price(work, place)
	last := p.m.at(p.m.slots)
	p.next.none[p.n] = 0
	for k := p.n - 1; k >= 0; k-- { // what is left at the end is served then
		p.next.none[k] = p.next.none[k+1] + last - p.at[k]
	}
	copy(p.next.kept, p.next.none)
	copy(p.next.fresh, p.next.none)
	first, firstIn := math.Inf(1), 0
	for c := p.m.slots - 1; c >= 0; c-- {
		p.layer(c, place[c])
		if p.before && p.now.fresh[0] < first {
			first, firstIn = p.now.fresh[0], c
		}
		p.now, p.next = p.next, p.now
	}
	cost, in, state := p.next.none[0], 0, stateNone
	if first < cost { // there was a container before anything was measured
		cost, in, state = first, firstIn, stateFresh
	}
	p.follow(in, state, askedWork, askedPlace)
	return p.base + cost
}

const (
	stateNone = iota
	stateKept
	stateFresh
)

// layer finds the least costs from one step on.
func (p *pricedFunction) layer(c int, place float64) {
	come := p.come[c]
	row := p.choice[c*(p.n+1) : (c+1)*(p.n+1)]
	leave, stay := p.leave.cost[c], place*p.m.step
	for k := come; k >= 0; k-- {
		none, kept, fresh := p.next.none[k], p.next.kept[k]+stay, p.next.kept[k]
		var didNone, didKept, didFresh byte
		if k < come {
			served := p.serve(c, k)
			if v := p.now.kept[k+1] + served; v < kept {
				kept, didKept = v, serve
			}
			if v := p.now.fresh[k+1] + served; v < fresh {
				fresh, didFresh = v, serve
			}
		}
		if k < come && p.ready[k] <= c {
			if v := fresh + p.startOf[c]; v < none {
				none, didNone = v, begin
			}
		}
		if v := none + leave; v < kept {
			kept, didKept = v, end
		}
		if v := none + leave; v < fresh {
			fresh, didFresh = v, end
		}
		p.now.none[k], p.now.kept[k], p.now.fresh[k] = none, kept, fresh
		row[k] = didNone | didKept<<2 | didFresh<<4
	}
}

// serve returns what call k costs when it begins in step c, beside its work.
func (p *pricedFunction) serve(c, k int) float64 {
	if p.slot[k] == c {
		return p.own[k]
	}
	return p.m.at(c) - p.at[k] + p.wait[c]
}

// price prepares what a run, a start and an end cost in each step.
func (p *pricedFunction) price(work, place []float64) {
	m := p.m
	for c := range m.slots {
		p.wait[c], p.waitAt[c] = p.cheapRun(work, c, m.at(c))
	}
	for k, at := range p.at {
		p.own[k], p.ownAt[k] = p.cheapRun(work, p.slot[k], at)
	}
	p.hold.price(place, -1)
	p.leave.price(place, 1)
	for c := range m.slots {
		// A start that is over in this step may have been slow, and so begun before.
		from := m.slot(m.at(c) - p.length - p.slack)
		at := from
		for i := from + 1; i <= c; i++ {
			if work[i] < work[at] {
				at = i
			}
		}
		p.startOf[c], p.workAt[c] = p.hold.cost[c]+p.load*work[at], at
	}
}

// cheapRun returns the price of the work of a run that begins in a step, not
// before a time, and what it is put off for a better one.
func (p *pricedFunction) cheapRun(work []float64, c int, from float64) (float64, int) {
	m := p.m
	best, at := math.Inf(1), c
	free := from + p.most // until then putting off costs nothing
	limit := m.at(c+1) + p.most + p.spare
	for i := c; i <= m.slots && (i == c || m.at(i) < limit); i++ {
		if i == m.slots {
			if v := max(0, m.at(i)-free); v < best {
				best, at = v, i
			}
			break
		}
		if late := m.at(i) - free; late >= best {
			break
		}
		if v := p.least*work[i] + max(0, m.at(i)-free); v < best {
			best, at = v, i
		}
	}
	return best, at
}

// follow walks the plan and adds what it asks for.
func (p *pricedFunction) follow(c, state int, work, place []float64) {
	k := 0
	for c < p.m.slots {
		switch p.choice[c*(p.n+1)+k] >> (2 * state) & 3 {
		case goOn:
			switch state {
			case stateKept:
				place[c] += p.m.step
			case stateFresh:
				state = stateKept
			}
			c++
		case serve:
			at := p.waitAt[c]
			if p.slot[k] == c {
				at = p.ownAt[k]
			}
			if at < p.m.slots {
				work[at] += p.least
			}
			k++
		case end:
			p.leave.ask(c, place)
			state = stateNone
		case begin:
			p.hold.ask(c, place)
			work[p.workAt[c]] += p.load
			state = stateFresh
		}
	}
}

// span is what a place costs for a fixed time that begins, or ends, somewhere in a step.
type span struct {
	m      *market
	length float64
	cost   []float64
	from   []float64 // where it is cheapest
	paid   []float64 // for places from the first step to each
	free   bool      // places cost nothing: where a span is cheapest does not matter
}

func newSpan(m *market, length float64) span {
	return span{m: m, length: length, cost: make([]float64, m.slots), from: make([]float64, m.slots), paid: make([]float64, m.slots+1)}
}

// price finds the cheapest span that begins (way 1) or ends (way -1) in each
// step. Its cost is piecewise linear in when it begins, so the least is where
// either end meets a border between steps.
func (s *span) price(place []float64, way int) {
	m := s.m
	if s.free = slices.Max(place) == 0; s.free {
		clear(s.cost)
		return
	}
	for i, price := range place {
		s.paid[i+1] = s.paid[i] + price*m.step
	}
	for c := range m.slots {
		low, high := m.at(c), m.at(c+1)
		if way < 0 {
			low, high = low-s.length, high-s.length
		}
		s.cost[c] = math.Inf(1)
		try := func(from float64) {
			if from < low || from > high {
				return
			}
			if v := s.until(from+s.length) - s.until(from); v < s.cost[c] {
				s.cost[c], s.from[c] = v, from
			}
		}
		try(low)
		try(high)
		for _, moved := range [2]float64{0, s.length} {
			first := int(math.Floor((low + moved - m.from) / m.step))
			for i := first; i <= first+2; i++ {
				try(m.at(i) - moved)
			}
		}
	}
}

// until returns what a place costs from the first step to a time.
func (s *span) until(at float64) float64 {
	x := (at - s.m.from) / s.m.step
	if x <= 0 {
		return 0
	}
	if x >= float64(s.m.slots) {
		return s.paid[s.m.slots]
	}
	i := int(x)
	return s.paid[i] + (x-float64(i))*(s.paid[i+1]-s.paid[i])
}

// ask adds the cheapest span of a step to what is asked for.
func (s *span) ask(c int, place []float64) {
	from := s.from[c]
	if s.free {
		from = s.m.at(c)
	}
	to := from + s.length
	for i := s.m.slot(from); i < s.m.slots && s.m.at(i) < to; i++ {
		if both := min(to, s.m.at(i+1)) - max(from, s.m.at(i)); both > 0 {
			place[i] += both
		}
	}
}
