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

// Stirred calls tell with the figures of each box that is new or of which they may
// have changed since the last time it was called. Those that are gone it leaves
// out. Who asks does so between a Ready and the next event.
func (l *Lane) Stirred(tell func(BoxStats)) {
	for i, b := range l.stirred {
		b.stirred, l.stirred[i] = 0, nil
		tell(b.stats())
	}
	l.stirred = l.stirred[:0]
}
