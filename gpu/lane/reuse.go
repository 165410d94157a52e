package lane

// In the steady state no event allocates, also where containers come and go: what
// the lane knows of one that is gone is kept for the next. It keeps no more than
// there were at once.

// blank is a box of which nothing is known.
func (l *Lane) blank() *box {
	n := len(l.blanks)
	if n == 0 {
		return new(box)
	}
	b := l.blanks[n-1]
	l.blanks = l.blanks[:n-1]
	return b
}

// scrap keeps a box that is gone.
func (l *Lane) scrap(b *box) {
	*b = box{runs: b.runs[:0], waiting: b.waiting[:0], held: b.held[:0]}
	l.blanks = append(l.blanks, b)
}

// shelf lists the boxes of a revision on each device: none.
func (l *Lane) shelf() [][]*box {
	n := len(l.shelves)
	if n == 0 {
		return make([][]*box, len(l.devices))
	}
	s := l.shelves[n-1]
	l.shelves = l.shelves[:n-1]
	return s
}
