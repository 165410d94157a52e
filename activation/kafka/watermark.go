package kafka

import "slices"

// watermark holds which offsets of a partition are finished: they begin in order
// and finish in any order. A commit holds below which offset all are finished and
// which above it are, so that a start repeats neither. It is a value of its
// owner, without a lock.
//
// Invariant: open rises and is below next; ahead rises, begins above next and has
// gaps between its ranges. Each offset below next that is not open is finished.
type watermark struct {
	open  []int64       // begun and not finished
	next  int64         // no offset from here on has begun
	ahead []offsetRange // finished by an earlier process, and not come to again
}

// offsetRange is a run of offsets, from the first to the one before end.
type offsetRange struct{ from, end int64 }

// newWatermark starts at the offset that is read first. The offsets of done, a
// rising list of ranges above it, were finished before.
func newWatermark(offset int64, done []offsetRange) *watermark {
	return &watermark{next: offset, ahead: slices.Clone(done)}
}

// begin records that an offset was handed out. Offsets must rise; those left out
// hold no message, as a log may have holes, or are finished: they count as
// finished.
func (w *watermark) begin(offset int64) {
	if offset < w.next {
		panic("kafka: offsets begin out of order")
	}
	w.open = append(w.open, offset)
	w.skipTo(offset + 1)
}

// skipTo counts all offsets below one as begun: those that did not begin are
// finished.
func (w *watermark) skipTo(offset int64) {
	w.next = max(w.next, offset)
	for len(w.ahead) > 0 && w.ahead[0].from <= w.next {
		w.next = max(w.next, w.ahead[0].end)
		w.ahead = w.ahead[1:]
	}
}

// finish records that an offset is finished and reports whether it was open.
func (w *watermark) finish(offset int64) bool {
	i, open := slices.BinarySearch(w.open, offset)
	if open {
		w.open = slices.Delete(w.open, i, i+1)
	}
	return open
}

// cut forgets everything from an offset on: the log has become another one
// there.
func (w *watermark) cut(offset int64) {
	i, _ := slices.BinarySearch(w.open, offset)
	w.open = w.open[:i]
	w.next = min(w.next, offset)
	w.ahead = slices.DeleteFunc(w.ahead, func(r offsetRange) bool { return r.from >= offset })
	if n := len(w.ahead); n > 0 {
		w.ahead[n-1].end = min(w.ahead[n-1].end, offset)
	}
}

// offset is the one to commit: the first that must be read again after a crash.
func (w *watermark) offset() int64 {
	if len(w.open) > 0 {
		return w.open[0]
	}
	return w.next
}

// window is how many offsets lie between the one to commit and the last one
// that has begun or is known to be finished.
func (w *watermark) window() int64 {
	if n := len(w.ahead); n > 0 {
		return w.ahead[n-1].end - w.offset()
	}
	return w.next - w.offset()
}

// finished reports whether an offset is finished.
func (w *watermark) finished(offset int64) bool {
	if offset < w.next {
		_, open := slices.BinarySearch(w.open, offset)
		return !open
	}
	return slices.ContainsFunc(w.ahead, func(r offsetRange) bool { return r.from <= offset && offset < r.end })
}

// done are the runs of finished offsets above the one to commit, rising.
func (w *watermark) done() (all []offsetRange) {
	at := w.offset()
	for _, open := range append(slices.Clone(w.open), w.next) {
		if at < open {
			all = append(all, offsetRange{at, open})
		}
		at = open + 1
	}
	return append(all, w.ahead...)
}
