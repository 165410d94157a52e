package sim

import (
	"reflect"
	"sync"
	"testing"
	"time"
)

// Workloads that are asked for at once are those of their own seeds.
func TestSourceBuildsEachSeedOnItsOwn(t *testing.T) {
	spec := DefaultSpec()
	spec.Duration = time.Minute
	source := spec.Source()
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		for range 2 {
			wg.Go(func() {
				got, err := source.Workload(seed)
				if err != nil {
					t.Error(err)
					return
				}
				alone := spec
				alone.Seed = seed
				if want, err := alone.Build(); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("seed %d: not its own workload (%v)", seed, err)
				}
			})
		}
	}
	wg.Wait()
}
