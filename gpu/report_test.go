package gpu

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestLedgerWrongReports: whatever containers report, the ledger's promises to others hold,
// and its free memory is never negative.
func TestLedgerWrongReports(t *testing.T) {
	for seed := range uint64(500) {
		wrongReports(t, seed, 200)
	}
}

func FuzzLedgerWrongReports(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { wrongReports(t, seed, 200) })
}

// wrongReports reports anything of any container, and now and then grants and ends runs.
func wrongReports(t *testing.T, seed uint64, steps int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	const capacity = 1000
	l, err := NewLedger(LedgerConfig{Capacity: capacity, Headroom: int64(r.IntN(100))})
	check.NoError(t, err)
	ids := []Container{1, 2, 3, 4, 5}
	runs := map[Container]int{}
	anything := func() int64 {
		return []int64{0, r.Int64N(100), r.Int64N(2 * capacity), math.MaxInt64, 1 << 47, capacity}[r.IntN(6)]
	}
	for step := range steps {
		now, id := time.Duration(step), ids[r.IntN(len(ids))]
		switch r.IntN(8) {
		case 0, 1:
			if standing, err := l.Reserve(now, id, MemoryRequest{Bytes: r.Int64N(300), Context: 20}); err != nil {
				t.Fatal(err)
			} else if standing {
				runs[id]++
			}
		case 2:
			if runs[id] > 0 {
				runs[id]--
				l.Release(now, id)
			}
		case 3:
			l.Exited(now, id, r.IntN(80))
		case 4:
			if r.IntN(8) == 0 {
				l.Gone(now, id)
				delete(runs, id)
			}
		default: // negative sizes are refused, and unknown containers
			_ = l.Report(now, id, r.IntN(80), Usage{Allocated: anything(), Resident: anything(), Context: anything(), Pinned: anything()})
		}
		orders, standing := l.Ready()
		for _, s := range standing {
			runs[s]++
		}
		for _, o := range orders {
			l.Moved(now, o.Container, o.Epoch)
		}
		check.NoError(t, l.Check(), "seed %d, step %d", seed, step)
		// Idle memory can be evicted. All other memory fits, promises included.
		stays, idle := int64(0), int64(0)
		for _, a := range l.containers {
			if stays += a.immovable(); a.runs == 0 {
				idle += a.charge() - a.immovable()
			}
		}
		check.AtMost(check.Must(t), stays, capacity, "seed %d, step %d", seed, step)
		check.AtLeast(check.Must(t), l.Free()+idle, 0, "seed %d, step %d", seed, step)
	}
}
