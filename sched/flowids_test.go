package sched

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestFlowIDs compares the table of flows with a map, of flows that come and go.
func TestFlowIDs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var all flowPlaces
	table, want := newFlowIDs(&all), map[FlowID]*flow{}
	for step := range 50_000 {
		id := FlowID{fmt.Sprint("n", rng.IntN(5)), strings.Repeat("f", rng.IntN(60))}
		f := table.find(id)
		if f != want[id] {
			t.Fatalf("step %d: %v is %p, want %p", step, id, f, want[id])
		}
		if f != nil {
			table.drop(f)
			delete(want, id)
		} else {
			f = all.add()
			f.id, want[id] = id, f
			table.put(f)
		}
		if table.n != len(want) {
			t.Fatalf("step %d: %d flows, want %d", step, table.n, len(want))
		}
	}
}
