package slab

import (
	"runtime"
	"testing"
)

// TestTableGivesBack: what a crowd took goes with the last of it.
func TestTableGivesBack(t *testing.T) {
	var tab Table[int, [64]byte]
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	const n = 10_000
	for i := range n {
		tab.Set(i, [64]byte{byte(i)})
	}
	if tab.Len() != n || tab.Get(7)[0] != 7 || len(tab.All()) != n {
		t.Fatalf("%d values, %d", tab.Len(), tab.Get(7)[0])
	}
	for i := range n {
		if tab.Delete(i) != (i == n-1) {
			t.Fatalf("at %d of %d", i, n)
		}
	}
	if took := heap() - before; took > n*8 {
		t.Errorf("an empty table takes %d bytes", took)
	}
	tab.Set(1, [64]byte{})
	if tab.Delete(1) || tab.Len() != 0 {
		t.Error("a few values need not give back anything")
	}
	runtime.KeepAlive(&tab)
}
