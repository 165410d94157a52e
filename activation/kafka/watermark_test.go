package kafka

import (
	"math/rand/v2"
	"testing"
)

// history is the plain account that a watermark is held against.
type history struct {
	start int64
	begun []int64
	done  map[int64]bool
}

func (h *history) position() int64 {
	for _, o := range h.begun {
		if !h.done[o] {
			return o
		}
	}
	if len(h.begun) == 0 {
		return h.start
	}
	return h.begun[len(h.begun)-1] + 1
}

func (h *history) open() (n int) {
	for _, o := range h.begun {
		if !h.done[o] {
			n++
		}
	}
	return n
}

// A commit is never past an unfinished offset, and never behind the first:
// whatever the order of completions, with holes, repeats and strangers.
func TestWatermarkIsTheOffsetOfTheFirstUnfinished(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := &history{start: r.Int64N(1000), done: map[int64]bool{}}
		w := newWatermark(h.start, nil)
		next := h.start
		for range 400 {
			if r.IntN(2) == 0 {
				next += hole(r)
				w.begin(next)
				h.begun = append(h.begun, next)
				next++
			} else {
				o := h.start - 5 + r.Int64N(next-h.start+10)
				_, begun := h.done[o]
				for _, b := range h.begun {
					begun = begun || b == o
				}
				want := begun && !h.done[o]
				if got := w.finish(o); got != want {
					t.Fatalf("seed %d: Finish(%d) = %v, want %v", seed, o, got, want)
				}
				if want {
					h.done[o] = true
				}
			}
			if w.offset() != h.position() || len(w.open) != h.open() {
				t.Fatalf("seed %d: position %d open %d, want %d and %d",
					seed, w.offset(), len(w.open), h.position(), h.open())
			}
		}
	}
}

func hole(r *rand.Rand) int64 {
	switch r.IntN(20) {
	case 0:
		return r.Int64N(300)
	case 1:
		return 1
	}
	return 0
}

func TestWatermarkForgetsWhatIsFinished(t *testing.T) {
	w := newWatermark(0, nil)
	for o := range int64(1_000_000) {
		w.begin(o)
		if o >= 100 {
			w.finish(o - 100)
		}
	}
	if len(w.open) > 100 || cap(w.open) > 256 {
		t.Errorf("100 open offsets take %d words of %d", len(w.open), cap(w.open))
	}
}

func TestWatermarkRefusesFallingOffsets(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an offset that began already was taken")
		}
	}()
	w := newWatermark(5, nil)
	w.begin(6)
	w.begin(6)
}

func FuzzWatermark(f *testing.F) {
	f.Add([]byte{0, 0, 0, 129, 128, 130})
	f.Add([]byte{0, 64, 0, 1, 128, 129, 192})
	f.Fuzz(func(t *testing.T, steps []byte) {
		w := newWatermark(0, nil)
		h := &history{done: map[int64]bool{}}
		next := int64(0)
		for _, s := range steps {
			if s < 128 {
				next += int64(s)
				w.begin(next)
				h.begun = append(h.begun, next)
				next++
			} else if i := int(s - 128); i < len(h.begun) {
				w.finish(h.begun[i])
				h.done[h.begun[i]] = true
			}
			if w.offset() != h.position() || len(w.open) != h.open() {
				t.Fatalf("position %d open %d, want %d and %d", w.offset(), len(w.open), h.position(), h.open())
			}
		}
	})
}

func BenchmarkWatermark(b *testing.B) {
	b.ReportAllocs()
	w := newWatermark(0, nil)
	for o := range int64(b.N) {
		w.begin(o)
		if o >= 64 {
			w.finish(o - 64 ^ 1) // out of order, pair by pair
		}
	}
}

func TestWatermarkHasWhatIsDoneAboveTheOffset(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 13))
		w, done := newWatermark(10, nil), map[int64]bool{}
		next := int64(10)
		for range 300 {
			if r.IntN(2) == 0 {
				w.begin(next)
				next++
			} else if next > 10 {
				o := 10 + r.Int64N(next-10)
				w.finish(o)
				done[o] = true
			}
		}
		if r.IntN(2) == 0 {
			next = 10 + r.Int64N(next-9)
			w.cut(next)
		}
		// What the metadata brings to the next start is what this one has.
		copied := newWatermark(w.offset(), w.done())
		for _, m := range []*watermark{w, copied} {
			open := 0
			for o := int64(10); o < next; o++ {
				if m.finished(o) != done[o] {
					t.Fatalf("seed %d: offset %d finished %v", seed, o, m.finished(o))
				}
				if !done[o] {
					open++
				}
			}
			if m == w && len(w.open) != open {
				t.Fatalf("seed %d: %d open, want %d", seed, len(w.open), open)
			}
			for o := next; o < next+200; o++ {
				if m.finished(o) {
					t.Fatalf("seed %d: offset %d beyond the end is finished", seed, o)
				}
			}
		}
	}
}
