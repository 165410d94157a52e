package sched

// ranking is the members of a level of fair queueing that may run, by virtual
// time: a heap of namespaces, or a tournament of the flows of one. A member has a
// place, which a heap needs not.
type ranking interface {
	len() int
	// top is the least, of one member at least.
	top() entry
	// least is the first few in their order, valid until a member changes.
	least() []entry
	// put brings a member in or gives it its new key, drop takes it out.
	put(place int32, e entry)
	drop(place, slot int32)
	// lower takes so much off all keys.
	lower(by int64)
}

// ranks is a tournament with its first few.
type ranks struct {
	tournament
	firsts
}

func (r *ranks) len() int       { return r.n }
func (r *ranks) top() entry     { return r.winner }
func (r *ranks) least() []entry { return r.some(r.n, r.first) }

func (r *ranks) put(place int32, e entry) {
	if int(place) < r.wide && r.e[place] != vacant {
		if r.e[place] == e {
			return
		}
		r.goes(r.e[place])
		r.came(e, r.n-1)
	} else {
		r.came(e, r.n)
	}
	r.set(place, e)
}

func (r *ranks) drop(place, _ int32) {
	r.goes(r.e[place])
	r.set(place, vacant)
}

func (r *ranks) lower(by int64) {
	for i := range r.e {
		r.e[i] = r.e[i].lowered(by)
	}
	r.winner = r.winner.lowered(by)
	for i := range r.few[:r.known] {
		r.few[i] = r.few[i].lowered(by)
	}
}

func (e entry) lowered(by int64) entry {
	if e != vacant {
		e.k1 -= by
	}
	return e
}

// first copies the first entries in their order into a buffer, as many as there
// are places for, and says how many there were.
func (r *ranks) first(buf []entry) (n int) {
	var rounds [maxRounds][]entry
	last := 0
	for round, wide := r.e, r.wide; wide >= 4; round, wide, last = round[wide:], following(wide), last+1 {
		rounds[last] = round
		if wide == 4 {
			break
		}
	}
	// Who won in a round has beaten four in the one before. Of those who may be
	// next no more are kept than are still wanted.
	type won struct {
		e         entry
		round, at int32
	}
	var next [keptLeast]won
	open := 0
	enter := func(e entry, round, at int) {
		i := open
		for i > 0 && e.before(next[i-1].e) {
			i--
		}
		if e == vacant || i == len(buf)-n {
			return
		}
		open = min(open+1, len(buf)-n)
		copy(next[i+1:open], next[i:])
		next[i] = won{e, int32(round), int32(at)}
	}
	if r.n > 0 {
		enter(r.winner, last+1, 0)
	}
	for n < len(buf) && open > 0 {
		w := next[0]
		open--
		copy(next[:open], next[1:])
		if w.round == 0 {
			buf[n] = w.e
			n++
			open = min(open, len(buf)-n)
			continue
		}
		for i := range 4 {
			at := 4*int(w.at) + i
			enter(rounds[w.round-1][at], int(w.round)-1, at)
		}
	}
	return n
}

// maxRounds is enough for maxSlots places.
const maxRounds = slotBits/2 + 1
