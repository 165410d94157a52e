package kafka

import "math/bits"

// Watermark knows what of a partition is finished: offsets begin in order and
// finish in any order. A commit says how far there is no hole, and which
// offsets above that are finished, so that a start repeats neither. It is a
// value of its owner, without a lock; a bit per offset between the oldest
// unfinished one and the newest is all it keeps.
//
// Invariant: low <= next, every offset below low is finished, and low itself
// is not, unless low == next. Bits at or above next are offsets that an earlier
// process finished and this one has not come to.
type Watermark struct {
	low  int64    // the position to commit
	next int64    // no offset from here on has begun
	open int      // begun and not finished
	base int64    // the offset of the first bit, a multiple of 64
	done []uint64 // bit i is set when offset base+i is finished
}

// span is a run of offsets, from the first to the one before end.
type span struct{ from, end int64 }

// NewWatermark starts at the offset that is read first.
func NewWatermark(offset int64) *Watermark {
	return &Watermark{low: offset, next: offset, base: offset &^ 63}
}

// Restore notes offsets that were finished before: Finished tells of them, and
// they need not begin. It is called before the first Begin.
func (w *Watermark) Restore(done []span) {
	for _, s := range done {
		for o := max(s.from, w.low); o < s.end; o++ {
			w.set(o)
		}
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
		w.forget(offset)
	}
	for skipped := w.next; skipped < offset; skipped++ {
		w.set(skipped)
	}
	w.next = offset + 1
	w.open++
}

// Finish notes that an offset is finished and tells whether it was open.
func (w *Watermark) Finish(offset int64) bool {
	if offset < w.low || offset >= w.next || w.isSet(offset) {
		return false
	}
	w.set(offset)
	w.open--
	if offset == w.low {
		w.advance()
	}
	return true
}

// Cut forgets everything from an offset on: the log has become another one
// there.
func (w *Watermark) Cut(offset int64) {
	if offset <= w.low {
		*w = *NewWatermark(offset)
		return
	}
	words := (offset - w.base + 63) / 64
	if words < int64(len(w.done)) {
		w.done = w.done[:words]
	}
	if n := (offset - w.base) % 64; n > 0 && words == int64(len(w.done)) {
		w.done[words-1] &= 1<<n - 1
	}
	w.next = min(w.next, offset)
	w.open = 0
	for o := w.low; o < w.next; o++ {
		if !w.isSet(o) {
			w.open++
		}
	}
	w.advance()
}

// Position is the offset to commit: the first that must be read again after a
// crash.
func (w *Watermark) Position() int64 { return w.low }

// Open is how many offsets have begun and not finished.
func (w *Watermark) Open() int { return w.open }

// Window is how many offsets lie between the position and the last one that
// has begun or is known to be finished.
func (w *Watermark) Window() int64 {
	return max(w.next, w.base+64*int64(len(w.done))) - w.low
}

// Finished tells whether an offset is finished.
func (w *Watermark) Finished(offset int64) bool { return offset < w.low || w.isSet(offset) }

// Done calls yield with each run of finished offsets above the position, in
// order, until it returns false.
func (w *Watermark) Done(yield func(span) bool) {
	at := w.low
	for {
		from, ok := w.seek(at, true)
		if !ok {
			return
		}
		end, ok := w.seek(from, false)
		if !ok {
			end = w.base + 64*int64(len(w.done))
		}
		if !yield(span{from, end}) || !ok {
			return
		}
		at = end
	}
}

// seek finds the first offset from at on that is finished, or is not.
func (w *Watermark) seek(at int64, finished bool) (int64, bool) {
	for {
		i := at - w.base
		if i/64 >= int64(len(w.done)) {
			return 0, false
		}
		word := w.done[i/64]
		if !finished {
			word = ^word
		}
		if word >>= i % 64; word != 0 {
			return at + int64(bits.TrailingZeros64(word)), true
		}
		at += 64 - i%64
	}
}

func (w *Watermark) isSet(offset int64) bool {
	i := offset - w.base
	return i >= 0 && i/64 < int64(len(w.done)) && w.done[i/64]>>(i%64)&1 == 1
}

func (w *Watermark) set(offset int64) {
	i := offset - w.base
	for int64(len(w.done)) <= i/64 {
		w.done = append(w.done, 0)
	}
	w.done[i/64] |= 1 << (i % 64)
}

// advance moves low over what is finished and drops the words below it.
func (w *Watermark) advance() {
	end, ok := w.seek(w.low, false)
	if !ok {
		end = max(w.low, w.base+64*int64(len(w.done)))
	}
	w.low = end
	w.next = max(w.next, w.low)
	w.trim()
}

// forget moves low, below which nothing is open, up to an offset.
func (w *Watermark) forget(offset int64) {
	w.low, w.next = offset, max(w.next, offset)
	w.trim()
}

// trim drops the words below low.
func (w *Watermark) trim() {
	words := (w.low - w.base) / 64
	if words < int64(len(w.done)) {
		w.done = w.done[words:]
	} else {
		w.done = w.done[:0]
	}
	w.base += 64 * words
}
