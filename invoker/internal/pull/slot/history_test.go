package slot

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestRandomHistories plays schedulers, etcd and containers that answer late, in any
// order, and sometimes with failures.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(60) {
		history(t, seed, 1500)
	}
}

// outside carries out the table's orders and checks the invariants.
type outside struct {
	*fixture
	r       *rand.Rand
	keys    []Order // of Put and Delete, in order
	answers []func()
	there   map[ID][2]bool // keys in etcd
	fetches map[ID]int
	runs    map[ID]int // pulled, and not ended
	holds   map[ID]bool
	acked   map[activation.ID]int
}

func history(t *testing.T, seed uint64, steps int) {
	w := &outside{
		fixture: newFixture(t), r: rand.New(rand.NewPCG(seed, 1)), there: map[ID][2]bool{},
		fetches: map[ID]int{}, runs: map[ID]int{}, holds: map[ID]bool{}, acked: map[activation.ID]int{},
	}
	for range steps {
		w.now += time.Duration(w.r.IntN(1000)) * time.Millisecond
		w.step()
		w.carryOut()
		check.NoError(t, w.t.check(), "seed %d", seed)
	}
	w.t.Close(w.now)
	for range 5000 {
		w.carryOut()
		if w.t.Len() == 0 && len(w.answers) == 0 && len(w.keys) == 0 {
			w.ended(seed)
			return
		}
		w.now += time.Second
		w.t.Tick(w.now)
		w.answer()
	}
	t.Fatalf("seed %d: %d slots never ended", seed, w.t.Len())
}

// ended checks the invariants of a finished history.
func (w *outside) ended(seed uint64) {
	for i := range w.made {
		if n := w.acked[creation(i+1, "", "").ID]; n != 1 {
			w.Fatalf("seed %d: creation %d has %d acks", seed, i+1, n)
		}
	}
	for id, keys := range w.there {
		check.That(check.Must(w.T), !keys[Existing], "seed %d: slot %d leaves keys: %v", seed, id, keys)
		check.That(check.Must(w.T), !keys[Warmed], "seed %d: slot %d leaves keys: %v", seed, id, keys)
	}
	for id, n := range w.runs {
		if n != 0 {
			w.Fatalf("seed %d: slot %d left %d activations", seed, id, n)
		}
	}
	for id := range w.holds {
		w.Fatalf("seed %d: slot %d leaves its container", seed, id)
	}
}

func (w *outside) step() {
	switch w.r.IntN(13) {
	case 0, 1:
		w.create(fmt.Sprint("a", w.r.IntN(3)), func(c *Creation) {
			c.Concurrency = map[string]int{"a1": 3}[c.Queue.Action.Name] + 1
			c.GPU, c.Retry = c.Queue.Action.Name == "a2", w.r.IntN(6)
			c.Queue = activation.NewQueue("guest", c.Queue.Action, fmt.Sprintf("%d-x", 1+w.r.IntN(2)))
		})
	case 2:
		if w.r.IntN(20) == 0 {
			w.t.Retire(w.now, &activation.ContainerDeletion{Queue: creation(0, fmt.Sprint("a", w.r.IntN(3)), "1-x").Queue})
		}
	case 3:
		if w.r.IntN(40) == 0 {
			w.t.Close(w.now)
			w.t.Open()
		}
	case 4:
		w.t.Tick(w.now)
	case 5:
		w.lose()
	case 6:
		w.t.SetWarm(w.now, creation(0, "a2", fmt.Sprintf("%d-x", 1+w.r.IntN(2))).Queue, w.r.IntN(2) == 0, w.r.IntN(2) == 0)
	default:
		w.answer()
	}
}

// lose has a container die, or be evicted.
func (w *outside) lose() {
	for _, s := range w.t.slots {
		if w.holds[s.id] && s.state != acquiring && s.state != pausing && w.r.IntN(20) == 0 {
			delete(w.holds, s.id)
			w.t.Lost(w.now, s.id)
			return
		}
	}
}

// answer gives one answer: the next of the keys, or any other.
func (w *outside) answer() {
	if n := len(w.keys); n > 0 && w.r.IntN(2) == 0 {
		o := w.keys[0]
		w.keys = w.keys[1:]
		keys := w.there[o.Slot]
		if o.Do == Delete && o.Key == Existing && w.fetches[o.Slot] > 0 {
			w.Fatalf("slot %d fetches while its key is deleted", o.Slot)
		}
		keys[o.Key] = o.Do == Put
		w.there[o.Slot] = keys
		if o.Do == Put {
			w.t.Stored(w.now, o.Slot, o.Key)
		} else {
			w.t.Deleted(w.now, o.Slot, o.Key)
		}
		return
	}
	if n := len(w.answers); n > 0 {
		i := w.r.IntN(n)
		do := w.answers[i]
		w.answers = slices.Delete(w.answers, i, i+1)
		do()
	}
}

func (w *outside) later(do func()) { w.answers = append(w.answers, do) }

func (w *outside) carryOut() {
	for _, o := range w.t.Orders() {
		id := o.Slot
		switch o.Do {
		case Put, Delete:
			w.keys = append(w.keys, o)
		case Acquire:
			w.later(func() { w.acquire(id) })
		case Pause:
			w.later(func() {
				ok := w.r.IntN(8) > 0
				if !ok {
					delete(w.holds, id)
				}
				w.t.Paused(w.now, id, ok)
			})
		case Remove:
			if !w.holds[id] {
				w.Fatalf("slot %d has no container to remove", id)
			}
			delete(w.holds, id)
		case Fetch:
			if !w.there[id][Existing] {
				w.Fatalf("slot %d fetches without its key", id)
			}
			w.fetches[id]++
			w.later(func() { w.fetched(id) })
		case Find:
			w.later(func() { w.t.Found(w.now, id, activation.Endpoint{Host: "s", Port: 2}) })
		case Count:
			if o.Slot == 0 {
				w.later(func() { w.t.CountedOpen(w.now, o.Creation.ID, w.r.IntN(2), w.r.IntN(4) > 0) })
				continue
			}
			w.later(func() { w.t.Counted(w.now, id, w.r.IntN(3), w.r.IntN(4) > 0) })
		case Ack:
			w.acked[o.Creation.ID]++
			if o.Error == "" && !w.there[id][Existing] {
				w.Fatalf("creation %s is acked before its key is there", o.Creation.ID)
			}
		}
	}
}

func (w *outside) acquire(id ID) {
	if w.r.IntN(6) == 0 {
		delete(w.holds, id)
		w.t.Refused(w.now, id, activation.ResourceNotEnough, "")
		return
	}
	warmed := w.holds[id]
	w.holds[id] = true
	w.t.Acquired(w.now, id, warmed)
}

func (w *outside) fetched(id ID) {
	w.fetches[id]--
	switch w.r.IntN(8) {
	case 0, 1, 2:
		w.runs[id]++
		w.later(func() { w.run(id) })
		w.t.Pulled(w.now, id, time.Duration(w.r.IntN(30))*time.Second, Keep{Containers: w.r.IntN(2)})
	case 3:
		w.t.Missed(w.now, id, QueueGone)
	case 4:
		w.t.Missed(w.now, id, Mismatched)
	default:
		w.t.Missed(w.now, id, Empty)
	}
}

// run ends a run, which may take its container with it.
func (w *outside) run(id ID) {
	w.runs[id]--
	ok := w.r.IntN(10) > 0
	w.t.Ended(w.now, id, time.Second, ok, ok)
}
