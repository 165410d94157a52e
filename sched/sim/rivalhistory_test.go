package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// queuedCall is an invocation that waits in a model of the scheduler's queues.
type queuedCall struct {
	id      uint64
	arrived time.Duration
	cost    time.Duration
}

// rivalHistory drives a policy through random events beside a model of its queues.
type rivalHistory struct {
	*contest
	rng     *rand.Rand
	queues  map[string][]queuedCall // by age
	running map[uint64]queuedCall
	flying  []sched.Choice
	batches map[string]uint64 // the newest invocation of each flow's last batch
}

// TestRivalsUnderRandomEvents: invocations arrive, are cancelled, end, come back and are given
// up at random. Each grant is the head of its flow. With sjf, eevdf, batch and naive it is the
// head that the policy's rule names.
func TestRivalsUnderRandomEvents(t *testing.T) {
	firsts := map[string]func(*rivalHistory, string) int64{
		"sjf":   func(h *rivalHistory, f string) int64 { return int64(h.queues[f][0].cost) },
		"eevdf": func(h *rivalHistory, f string) int64 { return int64(h.queues[f][0].arrived + h.queues[f][0].cost) },
		"naive": func(*rivalHistory, string) int64 { return 0 },
		"batch": func(h *rivalHistory, f string) int64 {
			if h.queues[f][0].id <= h.batches[f] {
				return 0
			}
			return 1
		},
	}
	for _, p := range Policies() {
		h := &rivalHistory{
			contest: newContest(t, p.Name, 2, nil), rng: rand.New(rand.NewPCG(1, 2)),
			queues: map[string][]queuedCall{}, running: map[uint64]queuedCall{}, batches: map[string]uint64{},
		}
		granted := 0
		for range 3000 {
			h.event()
			for first := h.first(firsts[p.Name]); ; first = h.first(firsts[p.Name]) {
				g, ok := h.Next(h.now)
				if !ok {
					break
				}
				name := g.Flow.Function
				if first != "" {
					check.Equal(check.Must(t), name, first, "%s, grant %d", p.Name, granted)
				}
				head := h.queues[name][0]
				check.Equal(check.Must(t), g.Invocation, head.id, "%s, grant %d: the head of %s", p.Name, granted, name)
				if head.id > h.batches[name] {
					h.batches[name] = h.queues[name][len(h.queues[name])-1].id
				}
				h.queues[name] = h.queues[name][1:]
				h.running[head.id] = head
				h.flying = append(h.flying, g)
				granted++
			}
		}
		check.AtLeast(t, granted, 500, "%s", p.Name)
	}
}

// first is the flow whose head has the least key, the older head among equals; none without
// a rule or without work.
func (h *rivalHistory) first(key func(*rivalHistory, string) int64) (first string) {
	if key == nil {
		return ""
	}
	for name, queue := range h.queues {
		if len(queue) == 0 {
			continue
		}
		if first == "" || key(h, name) < key(h, first) || key(h, name) == key(h, first) && queue[0].id < h.queues[first][0].id {
			first = name
		}
	}
	return first
}

// event does one random thing.
func (h *rivalHistory) event() {
	h.now += time.Duration(h.rng.IntN(1000)) * time.Millisecond
	name := string(rune('a' + h.rng.IntN(5)))
	switch r := h.rng.IntN(20); {
	case r < 9:
		n, cost := 1+h.rng.IntN(2), time.Duration(1+h.rng.IntN(5))*time.Second
		h.enqueue(name, n, cost)
		for k := range n {
			h.queues[name] = append(h.queues[name], queuedCall{h.id - uint64(n-1-k), h.now, cost})
		}
	case r < 11:
		if queue := h.queues[name]; len(queue) > 0 {
			k := h.rng.IntN(len(queue))
			check.That(h.t, h.Cancel(h.now, queue[k].id), "%d is queued", queue[k].id)
			h.queues[name] = slices.Delete(queue, k, k+1)
		}
	case len(h.flying) == 0:
	default:
		k := h.rng.IntN(len(h.flying))
		g := h.flying[k]
		h.flying = slices.Delete(h.flying, k, k+1)
		switch r {
		case 11:
			h.Abandon(h.now, g.Invocation)
		case 12:
			h.Undo(h.now, g.Invocation)
			queue := append(h.queues[g.Flow.Function], h.running[g.Invocation])
			slices.SortFunc(queue, func(a, b queuedCall) int { return int(a.id) - int(b.id) })
			h.queues[g.Flow.Function] = queue
		default:
			h.end(g)
		}
	}
}
