package docker

import "time"

// place is how far a container's log has been read, in each of its streams.
// The API can only be asked for the lines from a time on, and gives them in the
// order in which the daemon wrote them. Within a stream that is the order of
// their times; across the two it is not, because the daemon reads each by
// itself: a line can be written before an older one of the other stream. So
// lines are asked for from the older of the two streams' last lines on.
type place struct{ out, err newest }

// newest is the last line of a stream, and how many have its time: the pieces
// of one line do.
type newest struct {
	at    time.Time
	lines int
}

// maxLate is how much older than the newest line one may be that is still to be
// written. It bounds what is asked for again where one stream is silent.
const maxLate = 5 * time.Second

func (p *place) of(stream string) *newest {
	if stream == stderr {
		return &p.err
	}
	return &p.out
}

// pass moves the place behind a line.
func (p *place) pass(e entry) {
	l := p.of(e.stream)
	if !e.at.Equal(l.at) {
		*l = newest{at: e.at}
	}
	l.lines++
}

// since is the time from which lines may be missing: zero at the beginning.
func (p *place) since() time.Time {
	older, newer := p.out.at, p.err.at
	if older.After(newer) {
		older, newer = newer, older
	}
	if newer.IsZero() {
		return newer
	}
	if bound := newer.Add(-maxLate); older.Before(bound) {
		return bound
	}
	return older
}

// again tells which lines of a response were read before. They come first.
type again struct {
	place place
	over  bool
}

func (a *again) has(e entry) bool {
	l := a.place.of(e.stream)
	switch {
	case a.over || e.at.After(l.at) || e.at.Equal(l.at) && l.lines == 0:
		a.over = true
	case e.at.Equal(l.at):
		l.lines--
	}
	return !a.over
}
