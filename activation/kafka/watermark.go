package kafka

import (
	"slices"
	"sort"
)

// Watermark knows what of a partition is finished: offsets begin in order and
// finish in any order. A commit says how far there is no hole, and which
// offsets above that are finished, so that a start repeats neither. It is a
// value of its owner, without a lock.
//
// Invariant: low <= next, every offset below low is finished, and low itself
// is not, unless low == next. Ranges at or above next are offsets that an earlier
// process finished and this one has not come to.
type Watermark struct {
	low  int64         // the offset to commit
	next int64         // no offset from here on has begun
	open int           // begun and not finished
	done []offsetRange // finished, above low; rising, with gaps between them
}

// offsetRange is a run of offsets, from the first to the one before end.
type offsetRange struct{ from, end int64 }

// NewWatermark starts at the offset that is read first.
func NewWatermark(offset int64) *Watermark { return &Watermark{low: offset, next: offset} }

// Restore notes offsets that were finished before: Finished reports them, and
// they need not begin. It is called before the first Begin.
func (w *Watermark) Restore(done []offsetRange) {
	for _, r := range done {
		w.add(r)
	}
	w.advance()
}

// Begin notes that an offset was handed out. Offsets must rise; those left out
// hold no message, as a log may have holes, or are finished: they count as
// finished.
func (w *Watermark) Begin(offset int64) {
	if offset < w.next {
		panic("kafka: offsets begin out of order")
	}
	if w.open == 0 {
		w.skipTo(offset)
	}
	w.add(offsetRange{w.next, offset})
	w.next = offset + 1
	w.open++
}

// Finish notes that an offset is finished and reports whether it was open.
func (w *Watermark) Finish(offset int64) bool {
	if offset >= w.next || w.Finished(offset) {
		return false
	}
	w.add(offsetRange{offset, offset + 1})
	w.open--
	w.advance()
	return true
}

// Cut forgets everything from an offset on: the log has become another one
// there.
func (w *Watermark) Cut(offset int64) {
	if offset <= w.low {
		*w = *NewWatermark(offset)
		return
	}
	w.done = w.done[:w.after(offset-1)]
	if n := len(w.done); n > 0 {
		w.done[n-1].end = min(w.done[n-1].end, offset)
	}
	w.next = min(w.next, offset)
	w.open = int(w.next - w.low)
	for _, r := range w.done {
		w.open -= int(max(0, min(r.end, w.next)-r.from))
	}
	w.advance()
}

// Offset is the one to commit: the first that must be read again after a crash.
func (w *Watermark) Offset() int64 { return w.low }

// Open is how many offsets have begun and not finished.
func (w *Watermark) Open() int { return w.open }

// Window is how many offsets lie between the one to commit and the last one
// that has begun or is known to be finished.
func (w *Watermark) Window() int64 {
	if n := len(w.done); n > 0 {
		return max(w.next, w.done[n-1].end) - w.low
	}
	return w.next - w.low
}

// Finished reports whether an offset is finished.
func (w *Watermark) Finished(offset int64) bool {
	i := w.after(offset)
	return offset < w.low || i > 0 && offset < w.done[i-1].end
}

// Done are the runs of finished offsets above the one to commit, rising.
func (w *Watermark) Done() []offsetRange { return slices.Clone(w.done) }

// after is the index of the first range that begins above an offset.
func (w *Watermark) after(offset int64) int {
	return sort.Search(len(w.done), func(i int) bool { return w.done[i].from > offset })
}

// add makes a range one of those that are finished, and joins it with those
// that it touches.
func (w *Watermark) add(r offsetRange) {
	r.from = max(r.from, w.low)
	if r.from >= r.end {
		return
	}
	first, last := w.after(r.from), w.after(r.end)
	if first > 0 && w.done[first-1].end >= r.from {
		first--
	}
	if first < last {
		r.from = min(r.from, w.done[first].from)
		r.end = max(r.end, w.done[last-1].end)
	}
	w.done = slices.Replace(w.done, first, last, r)
}

// advance moves low over what is finished.
func (w *Watermark) advance() {
	if len(w.done) > 0 && w.done[0].from <= w.low {
		w.low = w.done[0].end
		w.done = slices.Delete(w.done, 0, 1)
	}
	w.next = max(w.next, w.low)
}

// skipTo moves low, below which nothing is open, up to an offset.
func (w *Watermark) skipTo(offset int64) {
	w.low, w.next = offset, max(w.next, offset)
	w.done = slices.DeleteFunc(w.done, func(r offsetRange) bool { return r.end <= offset })
	if len(w.done) > 0 {
		w.done[0].from = max(w.done[0].from, offset)
	}
	w.advance()
}
