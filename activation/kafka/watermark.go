package kafka

import "math/bits"

// Watermark knows how far a partition is finished without a hole: offsets begin
// in order and finish in any order, and a commit may say no more than what a
// crash need not repeat. It is a value of its owner, without a lock; a bit per
// offset between the oldest unfinished one and the newest is all it keeps.
//
// Invariant: low <= next, every offset below low is finished, and low itself
// is not, unless low == next.
type Watermark struct {
	low  int64    // the position to commit
	next int64    // no offset from here on has begun
	open int      // begun and not finished
	base int64    // the offset of the first bit, a multiple of 64
	done []uint64 // bit i is set when offset base+i is finished
}

// NewWatermark starts at the offset that is read first.
func NewWatermark(offset int64) *Watermark {
	return &Watermark{low: offset, next: offset, base: offset &^ 63}
}

// Begin notes that an offset was handed out. Offsets must rise; those left out
// hold no message, as a log may have holes, and count as finished.
func (w *Watermark) Begin(offset int64) {
	if offset < w.next {
		panic("kafka: offsets begin out of order")
	}
	if w.open == 0 {
		w.low, w.base, w.done = offset, offset&^63, w.done[:0]
	}
	for skipped := max(w.next, w.low); skipped < offset; skipped++ {
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

// Position is the offset to commit: the first that must be read again after a
// crash.
func (w *Watermark) Position() int64 { return w.low }

// Open is how many offsets have begun and not finished.
func (w *Watermark) Open() int { return w.open }

func (w *Watermark) isSet(offset int64) bool {
	i := offset - w.base
	return i/64 < int64(len(w.done)) && w.done[i/64]>>(i%64)&1 == 1
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
	for w.low < w.next {
		i := w.low - w.base
		if i/64 >= int64(len(w.done)) {
			break
		}
		run := int64(bits.TrailingZeros64(^(w.done[i/64] >> (i % 64))))
		run = min(run, 64-i%64, w.next-w.low)
		if run == 0 {
			break
		}
		w.low += run
	}
	words := min((w.low-w.base)/64, int64(len(w.done)))
	w.done = w.done[words:]
	w.base += 64 * words
}
