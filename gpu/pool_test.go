package gpu

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu/start"
)

// TestPoolSharesContainers: an initialised container takes as many runs at
// once as it was allowed, and is idle when the last has left.
func TestPoolSharesContainers(t *testing.T) {
	p, err := NewPool[string](PoolConfig{Size: 4})
	if err != nil {
		t.Fatal(err)
	}
	take := func(want string, kind start.Kind) {
		t.Helper()
		id, got, _ := p.Take(1, "f")
		if id != want || got != kind {
			t.Errorf("took %q, %v; want %q, %v", id, got, want, kind)
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
	p.Add(0, "a", "f")
	take("", start.BusyCold)
	p.Limit("a", 3)
	take("a", start.GPUWarm)
	take("a", start.GPUWarm)
	take("", start.BusyCold)
	p.Add(0, "b", "f")
	p.Put(1, "b")
	take("b", start.GPUWarm) // a is full
	p.Put(1, "b")
	p.Put(1, "a")
	take("a", start.GPUWarm) // rather than waking b
	p.Limit("a", 0)
	p.Put(2, "a")
	take("b", start.GPUWarm)
	if all, idle := p.Count("f"); all != 2 || idle != 0 {
		t.Errorf("%d containers, %d idle", all, idle)
	}
	p.Put(2, "a")
	p.Put(2, "a")
	if all, idle := p.Count("f"); all != 2 || idle != 0 {
		t.Errorf("%d containers, %d idle: one that takes no more is not idle", all, idle)
	}
	p.Remove("a")
	p.Put(3, "b")
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if id, ok := p.Victim(nil); id != "b" || !ok {
		t.Errorf("victim %q, %t", id, ok)
	}
}
