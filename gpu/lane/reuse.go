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

// namesAtOnce is how many names of boxes are made together, as parts of one text.
const namesAtOnce = 64

// name is the next box's in pools and ledgers; names are in the order of the ids.
func (l *Lane) name() string {
	const digits = 12
	n := int(l.made) % namesAtOnce
	if n == 0 || l.names == "" {
		var text [namesAtOnce * digits]byte
		for i := range namesAtOnce {
			id := l.made - Box(n) + Box(i)
			for at := digits - 1; at >= 0; at, id = at-1, id/10 {
				text[i*digits+at] = '0' + byte(id%10)
			}
		}
		l.names = string(text[:])
	}
	return l.names[n*digits:][:digits]
}

// shelf lists the boxes of a revision on each device: none.
func (l *Lane) shelf() [][]*box {
	n := len(l.shelves)
	if n == 0 {
		s, one := make([][]*box, len(l.devices)), make([]*box, len(l.devices))
		for i := range s {
			s[i] = one[i : i : i+1] // more than one on a device are rare
		}
		return s
	}
	s := l.shelves[n-1]
	l.shelves = l.shelves[:n-1]
	return s
}
