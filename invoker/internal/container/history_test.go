package container

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestRandomHistories plays an outside that answers late, in any order, and
// sometimes with failures. Whatever happens the invariants hold, and in the end
// everything that was asked for has been placed.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(60) {
		history(t, seed, 3000)
	}
}

func history(t *testing.T, seed uint64, steps int) {
	r := rand.New(rand.NewPCG(seed, 1))
	b := newFixture(t, Config{
		MemoryMB: 1024, Overtake: 500 * time.Millisecond, PauseGrace: time.Second, IdleTimeout: 5 * time.Second,
		StemCells: []StemCell{{Kind: "k", MemoryMB: 128, Count: 2}, {Kind: "k", MemoryMB: 128, Count: 1}},
	})
	w := &outside{r: r, b: b, asked: map[uint64]bool{}, pins: map[uint64]bool{}}
	for range steps {
		w.step()
		check.NoError(t, b.p.check(), "seed %d", seed)
	}
	for range 10_000 {
		if len(w.asked) == 0 {
			return
		}
		w.settle()
	}
	t.Fatalf("seed %d: %d activations were never placed", seed, len(w.asked))
}

type outside struct {
	r       *rand.Rand
	b       *fixture
	asked   map[uint64]bool
	pins    map[uint64]bool // the demands that pin
	running []Placement
	orders  []Order
}

func (w *outside) step() {
	w.b.now += time.Duration(w.r.IntN(200)) * time.Millisecond
	if w.r.IntN(3) == 0 {
		sizes := []int{128, 256, 512, 1024}
		key := w.r.IntN(8)
		if key == 7 {
			w.pin(fmt.Sprint("pin", w.r.IntN(3)))
		} else {
			w.asked[w.b.ask(fmt.Sprint("key", key), sizes[key%4], 1+key%3)] = true
		}
	}
	w.round(w.r.IntN(2) == 0)
}

// pin asks for a pinned container, and for an activation that runs in it.
func (w *outside) pin(key string) {
	id := w.b.ask(key, 256, 1)
	w.b.p.Cancel(id)
	w.b.p.Enqueue(w.b.now, Demand{Invocation: id, Key: key, Kind: "k", MemoryMB: 256, Concurrency: 1, Pin: true})
	w.asked[id], w.pins[id] = true, true
	w.asked[w.b.ask(key, 256, 1)] = true
}

func (w *outside) settle() {
	w.b.now += 100 * time.Millisecond
	w.round(true)
}

func (w *outside) round(finish bool) {
	w.b.p.Tick(w.b.now)
	for {
		pl, ok := w.b.p.Next(w.b.now)
		if !ok {
			break
		}
		delete(w.asked, pl.Invocation)
		w.running = append(w.running, pl)
	}
	w.orders = append(w.orders, w.b.p.Orders()...)
	if finish {
		w.finish()
		w.answer()
	}
}

func (w *outside) finish() {
	if len(w.running) == 0 {
		return
	}
	i := w.r.IntN(len(w.running))
	pl := w.running[i]
	w.running = append(w.running[:i], w.running[i+1:]...)
	if w.r.IntN(20) == 0 {
		w.b.p.Failed(pl.Slot)
	} else if pl.Start != Warm {
		w.b.p.Warmed(w.b.now, pl.Slot)
	}
	if w.pins[pl.Invocation] {
		w.b.p.Unpin(w.b.now, pl.Slot, w.r.IntN(10) > 0)
		w.b.p.PauseNow(pl.Slot)
		return
	}
	w.b.p.Done(w.b.now, pl.Slot, w.r.IntN(10) > 0)
}

func (w *outside) answer() {
	if len(w.orders) == 0 {
		return
	}
	i := w.r.IntN(len(w.orders))
	o := w.orders[i]
	w.orders = append(w.orders[:i], w.orders[i+1:]...)
	switch o.Do {
	case CreatePrewarm:
		if w.r.IntN(5) == 0 {
			w.b.p.Gone(w.b.now, o.Slot)
		} else {
			w.b.p.Started(w.b.now, o.Slot)
		}
	case Pause:
		w.b.p.Paused(w.b.now, o.Slot, w.r.IntN(10) > 0)
	case Remove:
		w.b.p.Gone(w.b.now, o.Slot)
	}
}
