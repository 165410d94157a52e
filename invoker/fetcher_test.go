package invoker

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// A message that a run has come to wait for is read at once, whatever those before
// it wait for.
func TestFetcherHurries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun []activation.ID
		shelf, release := newShelf(), make(chan struct{})
		shelf.slow = func(id activation.ID) {
			mu.Lock()
			begun = append(begun, id)
			mu.Unlock()
			<-release
			runtime.Goexit()
		}
		f := &fetcher{
			iv:     &Invoker{ports: Ports{Shelf: shelf}},
			goWork: func(work func(context.Context)) { go work(t.Context()) },
		}
		of := func(item uint64) parked { return parked{id: [16]byte{byte(item)}} }
		const last = fetchTogether + 2
		for item := uint64(1); item <= last; item++ {
			f.add(fetch{item: item, parked: of(item)})
		}
		want := func(n int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(begun) != n {
				t.Errorf("%d are being read, want %d", len(begun), n)
			}
		}
		want(fetchTogether)
		f.hurry(last)
		want(fetchTogether + 1)
		if !slices.Contains(begun, of(last).activation()) {
			t.Error("another than the one that is waited for is being read")
		}
		f.hurry(last)
		f.hurry(1)
		want(fetchTogether + 1)
		close(release)
		synctest.Wait()
	})
}
