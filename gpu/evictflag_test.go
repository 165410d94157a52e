package gpu

import (
	"math/rand/v2"
	"testing"
)

// TestEvictFlagCountsOnce holds the tree of marks to a word told to each: three
// namespaces, nine flows, 27 containers that join and leave as they like.
func TestEvictFlagCountsOnce(t *testing.T) {
	var flags EvictFlags
	var top [3]EvictFlag
	var mid [9]EvictFlag
	var low [27]EvictFlag
	var want [27]bool // each container's mark, as if every word were said to it
	var away [27]int
	r := rand.New(rand.NewPCG(1, 2))
	follows := func(i int) (flow, namespace bool) {
		return low[i].of != nil, low[i].of != nil && mid[i/3].of != nil
	}
	for step := range 50_000 {
		i := r.IntN(27)
		switch on := r.IntN(2) == 0; r.IntN(7) {
		case 0:
			flags.Set(&low[i], on)
			want[i] = on
		case 1:
			flags.Set(&mid[i/3], on)
			for k := range want {
				if flow, _ := follows(k); flow && k/3 == i/3 {
					want[k] = on
				}
			}
		case 2:
			flags.Set(&top[i/9], on)
			for k := range want {
				if _, namespace := follows(k); namespace && k/9 == i/9 {
					want[k] = on
				}
			}
		case 3:
			flags.Join(&low[i], &mid[i/3])
		case 4:
			flags.Leave(&low[i])
		case 5:
			flags.Join(&mid[i/3], &top[i/9])
		case 6:
			flags.Leave(&mid[i/3])
		}
		if k := r.IntN(27); away[k] == 0 {
			away[k] = 1
			low[k].count(1)
		} else {
			away[k] = 0
			low[k].count(-1)
		}
		n := [3]int{}
		for k := range low {
			if low[k].On() != want[k] {
				t.Fatalf("step %d: container %d is marked %t, was told %t", step, k, low[k].On(), want[k])
			}
			if _, namespace := follows(k); namespace {
				n[k/9] += away[k]
			}
		}
		for k := range top {
			if top[k].Away() != n[k] {
				t.Fatalf("step %d: %d away under %d, are %d", step, top[k].Away(), k, n[k])
			}
		}
	}
}
