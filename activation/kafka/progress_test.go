package kafka

import (
	"math/rand/v2"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// history is the plain account that a progress is held against.
type history struct {
	first int64
	begun []int64
	done  map[int64]bool
}

func (h *history) offset() int64 {
	for _, o := range h.begun {
		if !h.done[o] {
			return o
		}
	}
	if len(h.begun) == 0 {
		return h.first
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

// tracked is a progress with its history.
type tracked struct {
	progress
	history
	runs map[int64]*openOffset
}

func track(start int64) *tracked {
	return &tracked{progress: progress{next: start}, history: history{first: start, done: map[int64]bool{}}, runs: map[int64]*openOffset{}}
}

func (h *tracked) begin(o int64) {
	h.runs[o] = h.deliver(record{offset: o}).open
	h.begun = append(h.begun, o)
}

// finish completes an offset in both the progress and the model, and reports whether it was
// open in both.
func (h *tracked) finish(t *testing.T, o int64) {
	t.Helper()
	run := h.runs[o]
	if run == nil {
		run = &openOffset{offset: o} // of another process
	}
	got, want := h.end(run), h.runs[o] != nil && !h.done[o]
	check.Equal(check.Must(t), got, want, "the end of %d is news", o)
	if h.runs[o] != nil {
		h.done[o] = true
	}
}

func (h *tracked) check(t *testing.T) {
	t.Helper()
	check.Equal(check.Must(t), h.progress.offset(), h.history.offset())
	check.Equal(check.Must(t), len(h.progress.open), h.history.open())
}

// A commit is never past an open offset, and never behind the first:
// whatever the order of completions, with holes, repeats and strangers.
func TestProgressIsTheOffsetOfTheFirstOpen(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := track(r.Int64N(1000))
		next := h.first
		for range 400 {
			if r.IntN(2) == 0 {
				next += hole(r)
				h.begin(next)
				next++
			} else {
				h.finish(t, h.first-5+r.Int64N(next-h.first+10))
			}
			h.check(t)
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

func TestProgressForgetsWhatIsCompleted(t *testing.T) {
	var p progress
	var runs []*openOffset
	for o := range int64(1_000_000) {
		if runs = append(runs, p.deliver(record{offset: o}).open); o >= 100 {
			p.end(runs[0])
			runs = runs[1:]
		}
	}
	check.AtMost(t, len(p.open), 100, "100 open offsets take")
	check.AtMost(t, cap(p.open), 256, "100 open offsets take")
}

func TestProgressRefusesFallingOffsets(t *testing.T) {
	defer func() {
		check.That(t, recover() != nil, "an offset that was handed out already was taken")
	}()
	p := progress{next: 5}
	p.deliver(record{offset: 6})
	p.deliver(record{offset: 6})
}

func FuzzProgress(f *testing.F) {
	f.Add([]byte{0, 0, 0, 129, 128, 130})
	f.Add([]byte{0, 64, 0, 1, 128, 129, 192})
	f.Fuzz(func(t *testing.T, steps []byte) {
		h := track(0)
		next := int64(0)
		for _, s := range steps {
			if s < 128 {
				next += int64(s)
				h.begin(next)
				next++
			} else if i := int(s - 128); i < len(h.begun) {
				h.finish(t, h.begun[i])
			}
			h.check(t)
		}
	})
}

// The metadata carries the whole state to the next start.
func TestProgressIsResumedFromItsMetadata(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 13))
		h := track(10)
		next := int64(10)
		for range 300 {
			if r.IntN(2) == 0 {
				h.begin(next)
				next++
			} else if next > 10 {
				h.finish(t, 10+r.Int64N(next-10))
			}
		}
		if r.IntN(2) == 0 {
			next = 10 + r.Int64N(next-9)
			h.cut(next)
		}
		var resumed progress
		resumed.resume(h.progress.offset(), *h.metadata(metadataChars))
		for _, p := range []*progress{&h.progress, &resumed} {
			open := 0
			for o := int64(10); o < next; o++ {
				check.Equal(check.Must(t), p.finished(o), h.done[o], "seed %d: offset %d finished", seed, o)
				if !h.done[o] {
					open++
				}
			}
			if p == &h.progress && len(p.open) != open {
				t.Fatalf("seed %d: %d open, want %d", seed, len(p.open), open)
			}
			for o := next; o < next+200; o++ {
				check.That(check.Must(t), !p.finished(o), "seed %d: offset %d beyond the end is finished", seed, o)
			}
		}
	}
}
