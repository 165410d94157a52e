package lane

// An open console asks once a second how thousands of boxes are, and most of
// them are as they were. So each box that an event or an order is about is noted,
// until somebody asks.

// stir notes that a box's figures may differ from what Stirred last told.
func (l *Lane) stir(b *box) {
	if b.stirred == 0 {
		l.stirred = append(l.stirred, b)
		b.stirred = len(l.stirred)
	}
}

// calm forgets that note.
func (l *Lane) calm(b *box) {
	if b.stirred == 0 {
		return
	}
	n := len(l.stirred)
	last := l.stirred[n-1]
	l.stirred[b.stirred-1], last.stirred = last, b.stirred
	l.stirred[n-1] = nil
	l.stirred, b.stirred = l.stirred[:n-1], 0
}

// Stirring is of how many boxes Stirred would tell.
func (l *Lane) Stirring() int { return len(l.stirred) }

// Stirred calls tell with the figures of boxes that are new or of which they may have
// changed since it last told of them, those that are gone left out. Of the first n
// it tells at most so many, and gives how many of them are left: the others have
// stirred since. Who asks does so between a Ready and the next event.
func (l *Lane) Stirred(n, most int, tell func(BoxStats)) (left int) {
	for n = min(n, len(l.stirred)); n > 0 && most > 0; n, most = n-1, most-1 {
		b := l.stirred[n-1]
		l.calm(b)
		tell(b.stats())
	}
	return n
}
