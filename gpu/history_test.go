package gpu

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestLedgerRandomHistories drives a ledger with acknowledgements that come
// late, twice, never or out of order, and checks the invariant throughout.
func TestLedgerRandomHistories(t *testing.T) {
	for seed := range uint64(200) {
		history(t, seed, 1000)
	}
}

func FuzzLedger(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { history(t, seed, 300) })
}

func history(t *testing.T, seed uint64, steps int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	l, err := NewLedger(LedgerConfig{Capacity: 1000, Headroom: int64(r.IntN(200)), AckTimeout: 20})
	check.NoError(t, err)
	ids := []Container{1, 2, 3, 4, 5, 6, 7}
	runs := map[Container]int{}
	size := map[Container]int64{}
	var open []Move
	for step := range steps {
		now := time.Duration(step)
		id := ids[r.IntN(len(ids))]
		switch r.IntN(10) {
		case 0, 1:
			if a := l.byID[id]; a != nil && a.removing {
				continue // its container is on its way out
			}
			if size[id] == 0 {
				size[id] = int64(r.IntN(400) + 1)
			}
			standing, err := l.Reserve(now, id, MemoryRequest{Bytes: size[id], Context: 20})
			check.NoError(t, err)
			if standing {
				runs[id]++
			}
		case 2:
			if runs[id] > 0 {
				runs[id]--
				l.Release(now, id)
			}
		case 3:
			if runs[id] > 0 {
				check.NoError(t, l.Report(now, id, r.IntN(2), Usage{Allocated: size[id] / 2, Resident: size[id] / 2}))
			}
		case 4:
			l.SetHold(now, id, Hold(r.IntN(4)))
		case 5:
			l.Prefetch(now, id)
		case 6:
			if r.IntN(6) == 0 {
				l.Gone(now, id)
				delete(runs, id)
			} else if a := l.byID[id]; a != nil && a.idle() && r.IntN(6) == 0 {
				l.Leave(now, id)
			}
		case 7:
			l.Tick(now)
		case 8:
			if r.IntN(6) == 0 {
				l.SetForeign(now, int64(r.IntN(1200))-100)
			}
		case 9:
			if len(open) > 0 {
				o := open[r.IntN(len(open))]
				if l.Awaits(o.Container, o.Epoch) && r.IntN(4) > 0 {
					answer(t, l, now, o)
				}
				l.Moved(now, o.Container, o.Epoch)
			}
		}
		orders, standing := l.Ready()
		open = append(open, orders...)
		for _, id := range standing {
			runs[id]++
		}
		check.NoError(t, l.Check(), "seed %d step %d", seed, step)
	}
}

// answer reports a move as carried out, by the sizes that the ledger has.
func answer(t *testing.T, l *Ledger, now time.Duration, o Move) {
	t.Helper()
	_, footprint := l.Residency(o.Container)
	for pid := range 2 {
		u := Usage{Allocated: footprint / 2, Resident: footprint / 2}
		if o.Kind == Evict {
			u.Resident = 0
		}
		check.NoError(t, l.Report(now, o.Container, pid, u))
	}
}
