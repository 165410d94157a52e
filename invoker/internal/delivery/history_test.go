package delivery

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestHistories runs random histories in which the process may die at every order. After
// each step nothing is lost, and nothing has run twice.
func TestHistories(t *testing.T) {
	const seeds = 1000
	var sum [4]int
	for seed := range uint64(seeds) {
		w := history(t, seed)
		for _, m := range w.messages {
			sum[0]++
			sum[1] += w.runs[m.id]
			sum[2] += w.elsewhere[m.id]
			sum[3] += w.kills[m.id]
		}
	}
	t.Logf("%d activations: %d runs, %d passed on, %d killed", sum[0], sum[1], sum[2], sum[3])
	for i, n := range sum {
		check.AtLeast(t, n, seeds/10, "sum %d: the histories reach too little", i)
	}
}

// history runs one history to its end.
func history(t *testing.T, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(Config{InFlight: 1 + r.IntN(4), BacklogBytes: int64(r.IntN(3)) * 100, Events: r.IntN(2) == 0}, seed%4 != 0)
	risk := []float64{0, 0.01, 0.1}[r.IntN(3)]
	w.dies = func() bool { return r.Float64() < risk }
	steps := 20 + r.IntN(200)
	for range steps {
		step(w, r)
		if w.dead {
			w.kill()
		}
		if err := w.check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	w.dies = func() bool { return false }
	settle(t, w, seed)
	return w
}

// step does something random.
func step(w *world, r *rand.Rand) {
	switch n := r.IntN(100); {
	case n < 8 && len(w.messages) < 12:
		m := &message{id: activation.ID(fmt.Sprintf("%c", 'a'+len(w.messages))), blocking: r.IntN(2) == 0, rerun: r.IntN(4) == 0}
		m.silent = r.IntN(10) == 0
		if m.fetched = w.disk && r.IntN(3) == 0; m.fetched {
			w.entry(m.id).message = true
		}
		w.messages = append(w.messages, m)
	case n < 30:
		deliverSome(w, r.IntN(12))
	case n < 50 && len(w.loose) > 0:
		w.land(landable(w, r))
	case n < 53:
		w.now += time.Duration(r.IntN(700)) * time.Millisecond
		w.carry(w.table.Tick(w.now))
	case n < 58:
		w.commit()
	case n < 60:
		w.kill()
	case n < 61:
		w.close()
	case n < 63:
		w.away = w.disk && !w.away
	default:
		if len(w.messages) > 0 {
			act(w, r, w.messages[r.IntN(len(w.messages))])
		}
	}
}

// landable picks something on its way. The acks of one activation arrive in order.
func landable(w *world, r *rand.Rand) int {
	i := r.IntN(len(w.loose))
	return slices.IndexFunc(w.loose, func(l loose) bool { return l.id == w.loose[i].id && l.record == w.loose[i].record })
}

// deliverSome delivers the first message from a place on that the process does not have.
func deliverSome(w *world, from int) {
	for i := range w.messages {
		m := w.messages[(from+i)%len(w.messages)]
		if w.live[m.id] != nil || w.local[m.id].completed || w.commits[m.id].completed || m.fetched && (w.log[m.id] == nil || w.log[m.id].completed) {
			continue
		}
		w.deliver(m)
		return
	}
}

// act does something with an activation, allowed or not.
func act(w *world, r *rand.Rand, m *message) {
	a := w.live[m.id]
	if a == nil {
		return
	}
	if m.fetched && !w.dead && w.table.Fetch(m.id) {
		panic("a second copy of a fetched activation is used")
	}
	end := End{Record: recordOf(m.id, fmt.Sprintf("run %d", w.runs[m.id])), Store: true}
	switch n := r.IntN(24); {
	case n < 4:
		w.run(m.id)
	case n < 6 && w.ran[m.id]:
		w.take(m.id, Event{Kind: Resulted, End: end})
	case n < 10 && w.ran[m.id]:
		w.take(m.id, Event{Kind: Answered, End: end})
	case n < 14 && w.ran[m.id]:
		w.take(m.id, Event{Kind: Filed, End: fileEnd(a, end)})
	case n < 15:
		w.take(m.id, Event{Kind: Ended, End: End{Record: recordOf(m.id, fmt.Sprintf("aborted %d", w.runs[m.id])), Combined: true, Store: true}})
	case n < 18 && w.disk:
		w.take(m.id, Event{Kind: Passing})
	case n < 22:
		w.passed(m.id, r.IntN(2) == 0)
	case n < 24:
		w.take(m.id, Event{Kind: SetApart, Bytes: 60})
	}
}

// fileEnd is the end of a complete record: the worker has the same end as at the answer.
func fileEnd(a *Activation, end End) End {
	if a.end.Record != nil {
		end.Record = a.end.Record
	}
	end.Document = end.Record.Response.Result
	return end
}

// settle brings everything to its end, without a kill.
func settle(t *testing.T, w *world, seed uint64) {
	for range 100 {
		for range len(w.messages) {
			deliverSome(w, 0)
		}
		for _, m := range w.messages {
			w.passed(m.id, true)
			w.run(m.id)
			end := End{Record: recordOf(m.id, fmt.Sprintf("run %d", w.runs[m.id])), Store: true}
			w.take(m.id, Event{Kind: Answered, End: end})
			if a := w.live[m.id]; a != nil {
				w.take(m.id, Event{Kind: Filed, End: fileEnd(a, end)})
			}
		}
		for len(w.loose) > 0 {
			w.land(0)
		}
	}
	w.commit()
	if err := w.check(); err != nil {
		t.Fatalf("seed %d, at the end: %v", seed, err)
	}
	for _, m := range w.messages {
		if w.elsewhere[m.id] == 0 && !w.done(m.id) {
			t.Fatalf("seed %d: activation %s never ended: %+v", seed, m.id, w.live[m.id])
		}
	}
	check.Equal(check.Must(t), w.table.Unfinished(), 0, "seed %d", seed)
	check.Equal(check.Must(t), len(w.live), 0, "seed %d", seed)
}
