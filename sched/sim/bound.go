package sim

import (
	"container/heap"
	"time"
)

// LowerBound returns a mean latency in milliseconds that no scheduler can beat
// on this server. It knows the future, finds everything warm and may preempt:
// shortest remaining work first on one server as fast as the devices together
// at their best concurrency, which is the optimum of that relaxed problem; and
// since no run goes faster than it does alone, the mean work if that is more.
// Arrivals within the warm-up are served and not counted.
func LowerBound(w *Workload, p Params) float64 {
	speed := Capacity(p)
	var (
		queue     shortest
		now       float64 // seconds
		sum, work float64
		n         int
	)
	serve := func(until float64) {
		for len(queue) > 0 && now < until {
			top := &queue[0]
			need := top.remaining / speed
			if now+need > until {
				top.remaining -= (until - now) * speed
				break
			}
			now += need
			if top.at >= p.Warmup.Seconds() {
				sum += now - top.at
			}
			heap.Pop(&queue)
		}
		now = until
	}
	for _, a := range w.Arrivals {
		serve(a.At.Seconds())
		size := w.Work(a).Seconds()
		heap.Push(&queue, remaining{at: a.At.Seconds(), remaining: size})
		if a.At >= p.Warmup {
			work += size
			n++
		}
	}
	serve(w.Horizon.Seconds() + (maxTime + time.Hour).Seconds())
	return 1000 * share(max(sum, work), n)
}

// remaining is one activation of the bound's server.
type remaining struct{ at, remaining float64 }

type shortest []remaining

func (s shortest) Len() int           { return len(s) }
func (s shortest) Less(i, j int) bool { return s[i].remaining < s[j].remaining }
func (s shortest) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *shortest) Push(x any)        { *s = append(*s, x.(remaining)) }

func (s *shortest) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
