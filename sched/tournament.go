package sched

import "math"

// tournament finds the least of many entries. Each has a place; of four neighbours
// the least goes a round on, and who wins the last round is the winner.
//
// It answers what a heap answers, for what is many. In a heap all members between
// an old place and a new one move, and where each is must be written down: with
// very many flows that is memory which nothing else needs just then. Here an entry
// stays in its place, and a change of one that wins nothing touches its place
// alone, and four neighbours lie in one line of memory.
type tournament struct {
	e    []entry // the rounds one after another, that of the places first
	wide int     // places, a multiple of four
	n    int     // of them, taken

	winner entry
}

// vacant is in a place that nobody has: it loses to all.
var vacant = entry{math.MaxInt64, math.MaxUint64}

// following is how wide the round after one is.
func following(wide int) int { return (wide/4 + 3) &^ 3 }

// set puts an entry into a place, vacant to empty it.
func (t *tournament) set(place int32, e entry) {
	for int(place) >= t.wide {
		t.grow()
	}
	was := t.e[place]
	t.e[place] = e
	if was == vacant {
		t.n++
	}
	if e == vacant {
		t.n--
	}
	round, wide, i := t.e, t.wide, int(place)
	for {
		up := &t.winner
		if wide > 4 {
			up = &round[wide+i/4]
		}
		switch {
		case e.before(*up):
		case was == *up:
			e = least((*[4]entry)(round[i&^3:]))
		default:
			return
		}
		was, *up = *up, e
		if wide == 4 {
			return
		}
		round, wide, i = round[wide:], following(wide), i/4
	}
}

func least(of *[4]entry) entry {
	a, b := of[0], of[2]
	if of[1].before(a) {
		a = of[1]
	}
	if of[3].before(b) {
		b = of[3]
	}
	if b.before(a) {
		return b
	}
	return a
}

// grow doubles the places and plays all rounds again.
func (t *tournament) grow() {
	places := t.e[:t.wide]
	t.wide, t.winner = max(4, 2*t.wide), vacant
	all := t.wide
	for wide := t.wide; wide > 4; {
		wide = following(wide)
		all += wide
	}
	t.e = make([]entry, all)
	for i := range t.e {
		t.e[i] = vacant
	}
	t.n = 0
	for i, e := range places {
		if e != vacant {
			t.set(int32(i), e)
		}
	}
}
