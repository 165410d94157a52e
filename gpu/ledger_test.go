package gpu

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// Containers by what they are in a test.
const (
	a Container = iota + 1
	b
	c
	run
	big
	small
	honest
	wrong
	stuck
	next
	stranger
	oldActive
	oldEvictable
	newEvictable
)

// fixture answers a ledger's moves as a shim would.
type fixture struct {
	t      *testing.T
	l      *Ledger
	now    time.Duration
	orders []Move
	ready  []Container
}

func newFixture(t *testing.T, cfg LedgerConfig) *fixture {
	t.Helper()
	l, err := NewLedger(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, l: l}
}

// tick moves time on, checks the invariants and collects what the ledger decided.
func (w *fixture) tick() {
	w.t.Helper()
	w.now += time.Second
	if err := w.l.Check(); err != nil {
		w.t.Fatal(err)
	}
	orders, standing := w.l.Ready()
	w.orders = append(w.orders, orders...)
	w.ready = append(w.ready, standing...)
}

// resident opens a container with its memory on the device, idle.
func (w *fixture) resident(id Container, bytes, context int64) {
	w.t.Helper()
	if ok, err := w.l.Reserve(w.now, id, Need{bytes, context}); !ok || err != nil {
		w.t.Fatalf("reserve %d: %v, %v", id, ok, err)
	}
	w.report(id, 1, bytes, bytes)
	w.l.Release(w.now, id)
	w.tick()
}

func (w *fixture) report(id Container, pid int, allocated, resident int64) {
	w.t.Helper()
	if err := w.l.Report(w.now, id, pid, Usage{Allocated: allocated, Resident: resident}); err != nil {
		w.t.Fatal(err)
	}
}

// only takes the single order that is expected.
func (w *fixture) only(kind OrderKind, id Container) Move {
	w.t.Helper()
	if len(w.orders) != 1 || w.orders[0].Kind != kind || w.orders[0].Container != id {
		w.t.Fatalf("orders %v, want one %v of %d", w.orders, kind, id)
	}
	o := w.orders[0]
	w.orders = nil
	return o
}

func TestLedgerEvictsLeastRecentlyUsedAmongEvictableFirst(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(oldActive, 30, 0)
	w.resident(oldEvictable, 30, 0)
	w.resident(newEvictable, 30, 0)
	w.l.SetEvictable(w.now, newEvictable, true)
	w.l.SetEvictable(w.now, oldEvictable, true)
	standing, err := w.l.Reserve(w.now, run, Need{Bytes: 30})
	if standing || err != nil {
		t.Fatalf("standing %v, %v before memory was free", standing, err)
	}
	w.tick()
	o := w.only(Evict, oldEvictable)
	w.report(oldEvictable, 1, 30, 0)
	w.l.Moved(w.now, oldEvictable, o.Epoch)
	w.tick()
	if !slices.Equal(w.ready, []Container{run}) {
		t.Fatalf("standing %v, want run", w.ready)
	}
}

func TestLedgerEvictsActiveMemoryOnlyForARun(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100, Headroom: 50})
	w.resident(a, 40, 0)
	w.resident(b, 40, 0)
	if len(w.orders) != 0 {
		t.Fatalf("orders %v: headroom took memory of active flows", w.orders)
	}
	w.l.SetEvictable(w.now, b, true)
	w.tick()
	w.only(Evict, b)
	if ok, _ := w.l.Reserve(w.now, c, Need{Bytes: 90}); ok {
		t.Fatal("granted 90 of 100 with 80 held")
	}
	w.tick()
	w.only(Evict, a)
}

func TestLedgerRunCancelsTheEvictionOfItsOwnContainer(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(a, 60, 0)
	w.l.Reserve(w.now, run, Need{Bytes: 20})
	w.l.Reserve(w.now, b, Need{Bytes: 60})
	w.tick()
	evict := w.only(Evict, a)
	w.l.Reserve(w.now, a, Need{Bytes: 60})
	if w.l.Moved(w.now, a, evict.Epoch) {
		t.Fatal("the acknowledgement of a cancelled eviction counted")
	}
	w.tick()
	if resident, _ := w.l.Residency(a); resident != 60 {
		t.Fatalf("resident %d after a stale acknowledgement, want 60", resident)
	}
	w.l.Cancel(w.now, b)
	w.tick()
	// How far the eviction had come is unknown, so all is moved in.
	w.only(Prefetch, a)
	if !slices.Equal(w.ready, []Container{a}) {
		t.Fatalf("standing %v, want a", w.ready)
	}
}

func TestLedgerGrantsInTheOrderOfAsking(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	if ok, _ := w.l.Reserve(w.now, a, Need{Bytes: 80}); !ok {
		t.Fatal("80 of 100 do not fit an empty device")
	}
	w.l.Reserve(w.now, big, Need{Bytes: 50})
	if ok, _ := w.l.Reserve(w.now, small, Need{Bytes: 10}); ok {
		t.Fatal("a small reservation overtook a large one")
	}
	w.l.Release(w.now, a)
	w.tick()
	if !slices.Equal(w.ready, []Container{big, small}) {
		t.Fatalf("standing %v, want big, small", w.ready)
	}
}

func TestLedgerSumsProcessesOfAContainer(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.l.Reserve(w.now, a, Need{Bytes: 10, Context: 5})
	w.report(a, 1, 10, 10)
	w.report(a, 2, 20, 15)
	if err := w.l.Report(w.now, a, 3, Usage{Context: 8}); err != nil {
		t.Fatal(err)
	}
	w.tick()
	if r, f := w.l.Residency(a); r != 25 || f != 30 {
		t.Fatalf("resident %d of %d, want 25 of 30", r, f)
	}
	if w.l.Used() != 25+8 {
		t.Fatalf("used %d, want 33: data 25 and the larger context 8", w.l.Used())
	}
	w.l.Exited(w.now, a, 2)
	w.tick()
	if r, f := w.l.Residency(a); r != 10 || f != 10 {
		t.Fatalf("resident %d of %d after a process ended, want 10 of 10", r, f)
	}
}

func TestLedgerCountsContextsAndWhatOnlyRemovalCanFree(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(a, 10, 40)
	w.resident(b, 10, 30)
	w.l.Reserve(w.now, c, Need{Bytes: 20, Context: 30})
	w.tick()
	if got := w.l.Shortfall(); got != 20 {
		t.Fatalf("shortfall %d, want 20: 70 of context and a need of 50 on 100", got)
	}
	w.l.Gone(w.now, b)
	w.tick()
	w.l.Gone(w.now, a)
	w.tick()
	if !slices.Contains(w.ready, c) {
		t.Fatal("the reservation does not stand on an empty device")
	}
}

// TestLedgerWaitersDoNotDelayTheFirst: the oldest reservation needs what the
// container of a younger one holds, and no run is left whose end could help.
func TestLedgerWaitersDoNotDelayTheFirst(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(b, 60, 0)
	w.l.Reserve(w.now, run, Need{Bytes: 40})
	w.l.Reserve(w.now, a, Need{Bytes: 70})
	if w.l.Possible(b, Need{Bytes: 60}) {
		t.Fatal("b is possible beside a's 70 of 100")
	}
	w.tick()
	w.only(Evict, b)
	w.l.Reserve(w.now, b, Need{Bytes: 60})
	w.tick()
	if len(w.orders) != 0 {
		t.Fatalf("orders %v while a run may still free memory", w.orders)
	}
	w.l.Release(w.now, run)
	w.l.Gone(w.now, run)
	w.tick()
	o := w.only(Evict, b)
	w.report(b, 1, 60, 0)
	w.l.Moved(w.now, b, o.Epoch)
	w.tick()
	if !slices.Equal(w.ready, []Container{a}) {
		t.Fatalf("standing %v, want a", w.ready)
	}
	w.l.Release(w.now, a)
	w.tick()
	w.only(Prefetch, b)
}

func TestLedgerWithdrawsOrdersOfAContainerThatIsGone(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(a, 60, 0)
	w.l.Reserve(w.now, b, Need{Bytes: 60})
	w.l.Gone(w.now, a) // before the order to evict it was read
	w.tick()
	if len(w.orders) != 0 || !slices.Equal(w.ready, []Container{b}) {
		t.Fatalf("orders %v, standing %v, want none and b", w.orders, w.ready)
	}
}

func TestLedgerRefusesWhatCanNeverStand(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	if _, err := w.l.Reserve(w.now, a, Need{Bytes: 80, Context: 21}); !errors.Is(err, ErrTooBig) {
		t.Fatalf("got %v, want ErrTooBig", err)
	}
	if _, err := w.l.Reserve(w.now, a, Need{Bytes: 1 << 62, Context: 1 << 62}); !errors.Is(err, ErrTooBig) {
		t.Fatalf("got %v, want ErrTooBig for sizes whose sum overflows", err)
	}
	if _, err := w.l.Reserve(w.now, a, Need{Bytes: -1}); err == nil {
		t.Fatal("a negative need was accepted")
	}
	if len(w.l.containers) != 0 {
		t.Fatal("a refused reservation opened an account")
	}
}

func TestLedgerBelievesNoProcessBeyondTheDevice(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(honest, 50, 0)
	w.resident(wrong, 10, 0)
	if err := w.l.Report(w.now, wrong, 1, Usage{Allocated: 1 << 60, Resident: 1 << 60}); err != nil {
		t.Fatal(err)
	}
	w.tick()
	if r, _ := w.l.Residency(wrong); r > 100 {
		t.Fatalf("believed %d resident on a device of 100", r)
	}
	if ok, _ := w.l.Reserve(w.now, next, Need{Bytes: 10}); ok {
		t.Fatal("granted while the device is over-full")
	}
	if err := w.l.Report(w.now, wrong, 1, Usage{Resident: -5}); err == nil {
		t.Fatal("a negative size was accepted")
	}
	if err := w.l.Report(w.now, stranger, 1, Usage{}); err == nil {
		t.Fatal("a report of an unknown container was accepted")
	}
}

func TestLedgerChargesForeignMemory(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.l.SetForeign(w.now, 70)
	if ok, _ := w.l.Reserve(w.now, a, Need{Bytes: 40}); ok {
		t.Fatal("granted memory that another user holds")
	}
	w.l.SetForeign(w.now, 50)
	w.tick()
	if !slices.Equal(w.ready, []Container{a}) {
		t.Fatalf("standing %v, want a", w.ready)
	}
}

func TestLedgerAsksAgainForALostAcknowledgement(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100, AckTimeout: 5 * time.Second})
	w.resident(a, 60, 0)
	w.l.Reserve(w.now, b, Need{Bytes: 60})
	w.tick()
	first := w.only(Evict, a)
	at, ok := w.l.Deadline()
	if !ok {
		t.Fatal("no deadline while an acknowledgement is awaited")
	}
	w.l.Tick(at)
	w.tick()
	again := w.only(Evict, a)
	if !again.Again || again.Epoch != first.Epoch {
		t.Fatalf("asked %+v after %+v, want the same order again", again, first)
	}
	if r, _ := w.l.Residency(a); r != 60 {
		t.Fatalf("resident %d, want 60: nothing may be assumed", r)
	}
}

func TestLedgerDoesNotOrderOutWhatDidNotMove(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(stuck, 60, 0)
	w.l.Reserve(w.now, b, Need{Bytes: 60})
	w.tick()
	o := w.only(Evict, stuck)
	w.l.Moved(w.now, stuck, o.Epoch) // and no report of less
	w.tick()
	if len(w.orders) != 0 {
		t.Fatalf("orders %v: tried in vain again at once", w.orders)
	}
}

func TestLedgerPrefetchYieldsToReservations(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(a, 60, 0)
	w.l.Reserve(w.now, b, Need{Bytes: 60})
	w.tick()
	o := w.only(Evict, a)
	w.report(a, 1, 60, 0)
	w.l.Moved(w.now, a, o.Epoch)
	w.tick()
	if w.l.Prefetch(w.now, a, false) {
		t.Fatal("prefetched into memory that is promised to a run")
	}
	w.l.Release(w.now, b)
	w.tick()
	if !w.l.Prefetch(w.now, a, false) {
		t.Fatal("did not prefetch into free memory")
	}
	w.tick()
	w.only(Prefetch, a)
}

// TestLedgerNoReportTakesPromises: what one container reports takes nothing from what
// others were promised, whatever number of contexts and bytes it is.
func TestLedgerNoReportTakesPromises(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	if ok, err := w.l.Reserve(w.now, honest, Need{Bytes: 30, Context: 10}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	w.resident(wrong, 5, 1)
	for pid := range 80 {
		if err := w.l.Report(w.now, wrong, pid, Usage{Allocated: 100, Resident: 100, Context: 1}); err != nil {
			t.Fatal(err)
		}
		if free := w.l.Free(); free < 0 {
			t.Fatalf("%d bytes free after %d reports: others' promises are taken", free, pid+1)
		}
	}
	w.report(honest, 1, 30, 10)
	if free := w.l.Free(); free < 0 {
		t.Fatalf("%d bytes free once the honest one holds what it was promised", free)
	}
	for pid := range 80 {
		w.l.Exited(w.now, wrong, pid)
	}
	w.l.Exited(w.now, wrong, 1)
	if resident, _ := w.l.Residency(wrong); resident != 0 {
		t.Errorf("%d bytes resident after the end of all processes", resident)
	}
}

// TestLeavingContainerIsMemoryThatComes: nothing is evicted where a container that is
// being removed will free the memory, and none of its own is moved any more.
func TestLeavingContainerIsMemoryThatComes(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 1000})
	w.resident(a, 400, 50)
	w.resident(b, 400, 50)
	w.l.Leave(w.now, a)
	if ok, err := w.l.Reserve(w.now, c, Need{Bytes: 450, Context: 50}); ok || err != nil {
		t.Fatalf("standing %t, %v", ok, err)
	}
	w.tick()
	if len(w.orders) != 0 || w.l.Shortfall() != 0 {
		t.Errorf("orders %v, %d short of what leaves", w.orders, w.l.Shortfall())
	}
	w.l.Gone(w.now, a)
	w.tick()
	if len(w.ready) != 1 || w.ready[0] != c {
		t.Errorf("standing %v after the memory was free", w.ready)
	}
	if got, want := w.l.Totals(), (Totals{Resident: 400, Allocated: 400, Reserved: 450, Context: 100}); got != want {
		t.Errorf("totals %+v, want %+v", got, want)
	}
}

// TestLeavingVoidsOrders: the acknowledgement of an order that was under way
// when its container began to leave changes nothing.
func TestLeavingVoidsOrders(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 1000, AckTimeout: 1})
	w.resident(a, 600, 0)
	if _, err := w.l.Reserve(w.now, b, Need{Bytes: 600}); err != nil {
		t.Fatal(err)
	}
	w.tick()
	o := w.only(Evict, a)
	w.l.Leave(w.now, a)
	if w.l.Moved(w.now, a, o.Epoch) {
		t.Error("an old order's answer counts")
	}
	if w.l.Awaits(a, o.Epoch) {
		t.Error("the order is still awaited")
	}
	w.now++
	w.l.Tick(w.now)
	if moves, _ := w.l.Ready(); len(moves) > 0 || w.l.Shortfall() == 0 || !w.l.Overdue(a) {
		t.Errorf("a removal without an answer: moves %v, %d short", moves, w.l.Shortfall())
	}
	if _, ok := w.l.Deadline(); ok {
		t.Error("it would be asked again")
	}
	w.l.Gone(w.now, a)
	w.tick()
	if resident, footprint := w.l.Residency(b); resident < footprint {
		t.Errorf("%d of %d bytes of b are on the device", resident, footprint)
	}
	if n := w.l.Overhead(a); n != 0 || w.l.Quiet() {
		t.Errorf("%d bytes of contexts are left, quiet %t; totals %+v", n, w.l.Quiet(), w.l.Totals())
	}
}
