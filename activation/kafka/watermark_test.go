package kafka

import (
	"math/rand/v2"
	"testing"
)

// history is the plain account that a Watermark is held against.
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
		w := NewWatermark(h.start)
		next := h.start
		for range 400 {
			if r.IntN(2) == 0 {
				next += hole(r)
				w.Begin(next)
				h.begun = append(h.begun, next)
				next++
			} else {
				o := h.start - 5 + r.Int64N(next-h.start+10)
				_, begun := h.done[o]
				for _, b := range h.begun {
					begun = begun || b == o
				}
				want := begun && !h.done[o]
				if got := w.Finish(o); got != want {
					t.Fatalf("seed %d: Finish(%d) = %v, want %v", seed, o, got, want)
				}
				if want {
					h.done[o] = true
				}
			}
			if w.Offset() != h.position() || w.Open() != h.open() {
				t.Fatalf("seed %d: position %d open %d, want %d and %d",
					seed, w.Offset(), w.Open(), h.position(), h.open())
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
	w := NewWatermark(0)
	for o := range int64(1_000_000) {
		w.Begin(o)
		if o >= 100 {
			w.Finish(o - 100)
		}
	}
	if len(w.done) > 8 || cap(w.done) > 64 {
		t.Errorf("100 open offsets take %d words of %d", len(w.done), cap(w.done))
	}
}

func TestWatermarkRefusesFallingOffsets(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an offset that began already was taken")
		}
	}()
	w := NewWatermark(5)
	w.Begin(6)
	w.Begin(6)
}

func FuzzWatermark(f *testing.F) {
	f.Add([]byte{0, 0, 0, 129, 128, 130})
	f.Add([]byte{0, 64, 0, 1, 128, 129, 192})
	f.Fuzz(func(t *testing.T, steps []byte) {
		w := NewWatermark(0)
		h := &history{done: map[int64]bool{}}
		next := int64(0)
		for _, s := range steps {
			if s < 128 {
				next += int64(s)
				w.Begin(next)
				h.begun = append(h.begun, next)
				next++
			} else if i := int(s - 128); i < len(h.begun) {
				w.Finish(h.begun[i])
				h.done[h.begun[i]] = true
			}
			if w.Offset() != h.position() || w.Open() != h.open() {
				t.Fatalf("position %d open %d, want %d and %d", w.Offset(), w.Open(), h.position(), h.open())
			}
		}
	})
}

func BenchmarkWatermark(b *testing.B) {
	b.ReportAllocs()
	w := NewWatermark(0)
	for o := range int64(b.N) {
		w.Begin(o)
		if o >= 64 {
			w.Finish(o - 64 ^ 1) // out of order, pair by pair
		}
	}
}

func TestWatermarkHasWhatIsDoneAboveTheOffset(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 13))
		w, done := NewWatermark(10), map[int64]bool{}
		next := int64(10)
		for range 300 {
			if r.IntN(2) == 0 {
				w.Begin(next)
				next++
			} else if next > 10 {
				o := 10 + r.Int64N(next-10)
				w.Finish(o)
				done[o] = true
			}
		}
		if r.IntN(2) == 0 {
			next = 10 + r.Int64N(next-9)
			w.Cut(next)
		}
		// What a note brings to the next start is what this one knows.
		copied := NewWatermark(w.Offset())
		copied.Restore(w.Done())
		for _, m := range []*Watermark{w, copied} {
			open := 0
			for o := int64(10); o < next; o++ {
				if m.Finished(o) != done[o] {
					t.Fatalf("seed %d: offset %d finished %v", seed, o, m.Finished(o))
				}
				if !done[o] {
					open++
				}
			}
			if m == w && w.Open() != open {
				t.Fatalf("seed %d: %d open, want %d", seed, w.Open(), open)
			}
			for o := next; o < next+200; o++ {
				if m.Finished(o) {
					t.Fatalf("seed %d: offset %d beyond the end is finished", seed, o)
				}
			}
		}
	}
}
