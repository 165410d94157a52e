package gpu

import "testing"

// TestPoolSharesContainers: an initialised container takes as many runs at
// once as it was allowed, and is idle when the last has left.
func TestPoolSharesContainers(t *testing.T) {
	p, err := NewPool[string](PoolConfig{Size: 4})
	if err != nil {
		t.Fatal(err)
	}
	take := func(want string) {
		t.Helper()
		id, _ := p.Take(1, "f")
		if id != want {
			t.Errorf("took %q, want %q", id, want)
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
	p.Add(0, "a", "f")
	take("")
	p.Limit("a", 3)
	take("a")
	take("a")
	take("")
	p.Add(0, "b", "f")
	p.Put(1, "b")
	take("b") // a is full
	p.Put(1, "b")
	p.Put(1, "a")
	take("a") // rather than waking b
	p.Limit("a", 0)
	p.Put(2, "a")
	take("b")
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
