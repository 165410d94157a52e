package gpu

import "testing"

// TestLeavingContainerIsRoomThatComes: nothing is moved for what a container
// on its way out will free, and none of its own memory is moved any more.
func TestLeavingContainerIsRoomThatComes(t *testing.T) {
	w := newWorld(t, LedgerConfig{Capacity: 1000})
	w.resident("a", 400, 50)
	w.resident("b", 400, 50)
	w.l.Leave(w.now, "a")
	if ok, err := w.l.Reserve(w.now, "c", Need{Bytes: 450, Context: 50}); ok || err != nil {
		t.Fatalf("standing %t, %v", ok, err)
	}
	w.tick()
	if len(w.orders) != 0 || w.l.Shortfall() != 0 {
		t.Errorf("orders %v, %d short of what leaves", w.orders, w.l.Shortfall())
	}
	w.l.Gone(w.now, "a")
	w.tick()
	if len(w.ready) != 1 || w.ready[0] != "c" {
		t.Errorf("standing %v after the room was there", w.ready)
	}
	if got, want := w.l.Totals(), (Totals{Resident: 400, Held: 400, Reserved: 450, Context: 100}); got != want {
		t.Errorf("totals %+v, want %+v", got, want)
	}
}

// TestLeavingVoidsOrders: the acknowledgement of an order that was under way
// when its container began to leave changes nothing.
func TestLeavingVoidsOrders(t *testing.T) {
	w := newWorld(t, LedgerConfig{Capacity: 1000, AckTimeout: 1})
	w.resident("a", 600, 0)
	if _, err := w.l.Reserve(w.now, "b", Need{Bytes: 600}); err != nil {
		t.Fatal(err)
	}
	w.tick()
	o := w.only(Evict, "a")
	w.l.Leave(w.now, "a")
	if w.l.Moved(w.now, "a", o.Epoch) || w.l.Awaits("a", o.Epoch) {
		t.Error("the order is still awaited")
	}
	if _, ok := w.l.Deadline(); ok {
		t.Error("it would be asked again")
	}
	w.l.Gone(w.now, "a")
	w.tick()
	if !w.l.Resident("b") || w.l.Overhead("a") != 0 || w.l.Quiet() {
		t.Errorf("after all: %+v", w.l.Accounts())
	}
}
