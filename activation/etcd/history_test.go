package etcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestRandomHistory: containers come, pause and go while the lease is revoked and keys
// are deleted. In the end etcd has exactly the registered keys.
func TestRandomHistory(t *testing.T) {
	const containers, steps, revocations = 20, 60, 8
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	f := shared(t)
	c := f.run()
	var group sync.WaitGroup
	want := make([][2]bool, containers) // existing, warmed
	keys := make([][2]string, containers)
	for i := range containers {
		keys[i] = [2]string{f.key(i), f.cluster.Warmed(hello, us, fmt.Sprintf("c%04d", i))}
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		group.Go(func() {
			given, cancel := context.WithCancel(t.Context())
			cancel()
			for range steps {
				ctx := t.Context()
				if random.IntN(3) == 0 {
					ctx = given // an ended context: the call does not wait
				}
				var put, deleted []string
				for k := range 2 {
					if want[i][k] = random.IntN(2) == 0; want[i][k] {
						put = append(put, keys[i][k])
					} else {
						deleted = append(deleted, keys[i][k])
					}
				}
				if err := c.change(ctx, put, deleted); ctx == given {
					continue
				} else if err != nil {
					t.Error(err)
				}
				for _, key := range deleted {
					n, err := c.Count(ctx, key)
					check.ErrorIs(t, err, nil, "%s is confirmed to be gone", key)
					check.Equal(t, n, 0, "%s is confirmed to be gone", key)
				}
			}
		})
	}
	for i := range revocations {
		peertest.Until(t, "a lease", func() string {
			if s := c.State(); s.Leases <= i || s.Lease == "" {
				return fmt.Sprintf("%+v", s)
			}
			return ""
		})
		f.revoke(c)
		f.delete(f.key(i))
	}
	group.Wait()
	peertest.Until(t, "the registered keys", func() string {
		all, n := f.all(), 2
		for i := range containers {
			for k := range 2 {
				if got := all[keys[i][k]] != nil; got != want[i][k] {
					return fmt.Sprintf("%s is there: %v", keys[i][k], got)
				}
				if want[i][k] {
					n++
				}
			}
		}
		if len(all) != n {
			return fmt.Sprintf("%d keys, want %d", len(all), n)
		}
		return ""
	})
	peertest.Until(t, "the state", func() string {
		if s := c.State(); s.Pending != 0 || !s.OK() {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
}
