package sim

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
)

// timerKind is what a timer ends.
type timerKind uint8

const (
	containerStarted timerKind = iota // of a job's new container
	initialized                       // of a job's new container
	transferred                       // a container's memory has moved
	removed                           // a container is gone
	overlapped                        // a job need not wait longer for its transfer
	sampled                           // utilization is read
)

// timer is one event at a known time. seq makes the order of equal times that
// of their creation.
type timer struct {
	at    time.Duration
	seq   uint64
	kind  timerKind
	job   int32
	dev   int32
	box   lane.Box
	epoch uint64
	bytes int64
	evict bool
}

// timers is a binary heap by (at, seq).
type timers struct {
	heap []timer
	seq  uint64
}

func (t *timers) before(i, j int) bool {
	a, b := &t.heap[i], &t.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (t *timers) push(e timer) {
	t.seq++
	e.seq = t.seq
	t.heap = append(t.heap, e)
	for i := len(t.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !t.before(i, up) {
			return
		}
		t.heap[i], t.heap[up] = t.heap[up], t.heap[i]
		i = up
	}
}

func (t *timers) pop() timer {
	top := t.heap[0]
	last := len(t.heap) - 1
	t.heap[0] = t.heap[last]
	t.heap = t.heap[:last]
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < last && t.before(c, least) {
				least = c
			}
		}
		if least == i {
			return top
		}
		t.heap[i], t.heap[least] = t.heap[least], t.heap[i]
		i = least
	}
}

// next returns the time of the earliest timer.
func (t *timers) next() (time.Duration, bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].at, true
}
