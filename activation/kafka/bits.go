package kafka

import "math/bits"

// bitWriter appends bits, the highest first.
type bitWriter struct {
	buf  []byte
	free int // bits of the last byte that are not used
}

func (w *bitWriter) put(v uint64, n int) {
	for n > 0 {
		if w.free == 0 {
			w.buf, w.free = append(w.buf, 0), 8
		}
		take := min(n, w.free)
		part := v >> (n - take) & (1<<take - 1)
		w.buf[len(w.buf)-1] |= byte(part << (w.free - take))
		w.free -= take
		n -= take
	}
}

// gamma appends v >= 1 in Elias's gamma code: as many zeros as v has bits after
// its first, then v. Small numbers, which most are, take few bits.
func (w *bitWriter) gamma(v uint64) {
	n := bits.Len64(v)
	w.put(0, n-1)
	w.put(v, n)
}

// gammaBits is the length of v in the gamma code.
func gammaBits(v uint64) int { return 2*bits.Len64(v) - 1 }

// len is how many bits were put.
func (w *bitWriter) len() int { return 8*len(w.buf) - w.free }

// bitReader takes bits off again. Past the end it gives zeros and is short.
type bitReader struct {
	buf   []byte
	at    int
	short bool
}

func (r *bitReader) take(n int) (v uint64) {
	for n > 0 {
		if r.at/8 >= len(r.buf) {
			r.short = true
			return 0
		}
		left := 8 - r.at%8
		part := min(n, left)
		v = v<<part | uint64(r.buf[r.at/8])>>(left-part)&(1<<part-1)
		r.at += part
		n -= part
	}
	return v
}

// gamma takes a number that bitWriter.gamma put; 0 when there is none.
func (r *bitReader) gamma() uint64 {
	zeros := 0
	for !r.short && r.take(1) == 0 {
		zeros++
	}
	if r.short || zeros > 63 {
		r.short = true
		return 0
	}
	v := uint64(1)<<zeros | r.take(zeros)
	if r.short {
		return 0
	}
	return v
}
