package gpu

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Containers, named for their role in a test.
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
	check.NoError(t, err)
	return &fixture{t: t, l: l}
}

// tick advances time, checks the invariants and collects the ledger's decisions.
func (w *fixture) tick() {
	w.t.Helper()
	w.now += time.Second
	check.NoError(w.t, w.l.Check())
	orders, standing := w.l.Ready()
	w.orders = append(w.orders, orders...)
	w.ready = append(w.ready, standing...)
}

// resident opens a container with its memory on the device, idle.
func (w *fixture) resident(id Container, bytes, context int64) {
	w.t.Helper()
	ok, err := w.l.Reserve(w.now, id, MemoryRequest{bytes, context})
	check.That(check.Must(w.t), ok, "reserve %d: %v, %v", id, ok, err)
	check.NoError(w.t, err, "reserve %d", id)
	w.report(id, 1, bytes, bytes)
	w.l.Release(w.now, id)
	w.tick()
}

func (w *fixture) report(id Container, pid int, allocated, resident int64) {
	w.t.Helper()
	check.NoError(w.t, w.l.Report(w.now, id, pid, Usage{Allocated: allocated, Resident: resident}))
}

// only takes the single order that is expected.
func (w *fixture) only(kind OrderKind, id Container) Move {
	w.t.Helper()
	check.Equal(check.Must(w.t), len(w.orders), 1)
	check.Equal(check.Must(w.t), w.orders[0].Kind, kind)
	check.Equal(check.Must(w.t), w.orders[0].Container, id)
	o := w.orders[0]
	w.orders = nil
	return o
}

func TestLedgerEvictsLeastRecentlyUsedAmongEvictableFirst(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(oldActive, 30, 0)
	w.resident(oldEvictable, 30, 0)
	w.resident(newEvictable, 30, 0)
	w.l.SetHold(w.now, newEvictable, Unneeded)
	w.l.SetHold(w.now, oldEvictable, Unneeded)
	standing, err := w.l.Reserve(w.now, run, MemoryRequest{Bytes: 30})
	check.That(check.Must(t), !standing, "standing %v, %v before memory was free", standing, err)
	check.NoError(t, err)
	w.tick()
	o := w.only(Evict, oldEvictable)
	w.report(oldEvictable, 1, 30, 0)
	w.l.Moved(w.now, oldEvictable, o.Epoch)
	w.tick()
	check.EqualSlices(check.Must(t), w.ready, []Container{run})
}

func TestLedgerEvictsActiveMemoryOnlyForARun(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100, Headroom: 50})
	w.resident(a, 40, 0)
	w.resident(b, 40, 0)
	check.Equal(check.Must(t), len(w.orders), 0)
	w.l.SetHold(w.now, b, Unneeded)
	w.tick()
	w.only(Evict, b)
	ok, _ := w.l.Reserve(w.now, c, MemoryRequest{Bytes: 90})
	check.That(check.Must(t), !ok, "granted 90 of 100 with 80 held")
	w.tick()
	w.only(Evict, a)
}

func TestLedgerRunCancelsTheEvictionOfItsOwnContainer(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(a, 60, 0)
	w.l.Reserve(w.now, run, MemoryRequest{Bytes: 20})
	w.l.Reserve(w.now, b, MemoryRequest{Bytes: 60})
	w.tick()
	evict := w.only(Evict, a)
	w.l.Reserve(w.now, a, MemoryRequest{Bytes: 60})
	check.That(check.Must(t), !w.l.Moved(w.now, a, evict.Epoch), "the acknowledgement of a cancelled eviction counted")
	w.tick()
	resident, _ := w.l.Residency(a)
	check.Equal(check.Must(t), resident, 60)
	w.l.Cancel(w.now, b, 0)
	w.tick()
	// How far the eviction had come is unknown, so all is moved in.
	w.only(Prefetch, a)
	check.EqualSlices(check.Must(t), w.ready, []Container{a})
}

func TestLedgerGrantsInTheOrderOfAsking(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	ok, _ := w.l.Reserve(w.now, a, MemoryRequest{Bytes: 80})
	check.That(check.Must(t), ok, "80 of 100 do not fit an empty device")
	w.l.Reserve(w.now, big, MemoryRequest{Bytes: 50})
	ok, _ = w.l.Reserve(w.now, small, MemoryRequest{Bytes: 10})
	check.That(check.Must(t), !ok, "a small reservation overtook a large one")
	w.l.Release(w.now, a)
	w.tick()
	check.EqualSlices(check.Must(t), w.ready, []Container{big, small})
}

func TestLedgerSumsProcessesOfAContainer(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.l.Reserve(w.now, a, MemoryRequest{Bytes: 10, Context: 5})
	w.report(a, 1, 10, 10)
	w.report(a, 2, 20, 15)
	check.NoError(t, w.l.Report(w.now, a, 3, Usage{Context: 8}))
	w.tick()
	r, f := w.l.Residency(a)
	check.Equal(check.Must(t), r, 25)
	check.Equal(check.Must(t), f, 30)
	check.Equal(check.Must(t), w.l.Used(), 25+8)
	w.l.Exited(w.now, a, 2)
	w.tick()
	r, f = w.l.Residency(a)
	check.Equal(check.Must(t), r, 10)
	check.Equal(check.Must(t), f, 10)
}

func TestLedgerCountsContextsAndWhatOnlyRemovalCanFree(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(a, 10, 40)
	w.resident(b, 10, 30)
	w.l.Reserve(w.now, c, MemoryRequest{Bytes: 20, Context: 30})
	w.tick()
	check.Equal(check.Must(t), w.l.Shortfall(), 20)
	w.l.Gone(w.now, b)
	w.tick()
	w.l.Gone(w.now, a)
	w.tick()
	check.Includes(check.Must(t), w.ready, c, "the reservation does not stand on an empty device")
}

// TestLedgerWaitersDoNotDelayTheFirst: the oldest reservation needs memory held by the
// container of a younger one, and no run is left whose end could help.
func TestLedgerWaitersDoNotDelayTheFirst(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(b, 60, 0)
	w.l.Reserve(w.now, run, MemoryRequest{Bytes: 40})
	w.l.Reserve(w.now, a, MemoryRequest{Bytes: 70})
	check.That(check.Must(t), !w.l.Possible(b, MemoryRequest{Bytes: 60}), "b is possible beside a's 70 of 100")
	w.tick()
	w.only(Evict, b)
	w.l.Reserve(w.now, b, MemoryRequest{Bytes: 60})
	w.tick()
	check.Equal(check.Must(t), len(w.orders), 0)
	w.l.Release(w.now, run)
	w.l.Gone(w.now, run)
	w.tick()
	o := w.only(Evict, b)
	w.report(b, 1, 60, 0)
	w.l.Moved(w.now, b, o.Epoch)
	w.tick()
	check.EqualSlices(check.Must(t), w.ready, []Container{a})
	w.l.Release(w.now, a)
	w.tick()
	w.only(Prefetch, b)
}

func TestLedgerWithdrawsOrdersOfAContainerThatIsGone(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(a, 60, 0)
	w.l.Reserve(w.now, b, MemoryRequest{Bytes: 60})
	w.l.Gone(w.now, a) // before the order to evict it was read
	w.tick()
	check.Equal(check.Must(t), len(w.orders), 0)
	check.EqualSlices(check.Must(t), w.ready, []Container{b})
}

func TestLedgerRefusesWhatCanNeverStand(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	_, err := w.l.Reserve(w.now, a, MemoryRequest{Bytes: 80, Context: 21})
	check.ErrorIs(check.Must(t), err, ErrTooBig)
	_, err = w.l.Reserve(w.now, a, MemoryRequest{Bytes: 1 << 62, Context: 1 << 62})
	check.ErrorIs(check.Must(t), err, ErrTooBig)
	_, err = w.l.Reserve(w.now, a, MemoryRequest{Bytes: -1})
	check.That(check.Must(t), err != nil, "a negative need was accepted")
	check.Equal(check.Must(t), len(w.l.containers), 0, "a refused reservation opened an account")
}

func TestLedgerBelievesNoProcessBeyondTheDevice(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(honest, 50, 0)
	w.resident(wrong, 10, 0)
	check.NoError(t, w.l.Report(w.now, wrong, 1, Usage{Allocated: 1 << 60, Resident: 1 << 60}))
	w.tick()
	r, _ := w.l.Residency(wrong)
	check.AtMost(check.Must(t), r, 100)
	ok, _ := w.l.Reserve(w.now, next, MemoryRequest{Bytes: 10})
	check.That(check.Must(t), !ok, "granted while the device is over-full")
	check.That(check.Must(t), w.l.Report(w.now, wrong, 1, Usage{Resident: -5}) != nil, "a negative size was accepted")
	check.That(check.Must(t), w.l.Report(w.now, stranger, 1, Usage{}) != nil, "a report of an unknown container was accepted")
}

func TestLedgerChargesForeignMemory(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.l.SetForeign(w.now, 70)
	ok, _ := w.l.Reserve(w.now, a, MemoryRequest{Bytes: 40})
	check.That(check.Must(t), !ok, "granted memory that another user holds")
	w.l.SetForeign(w.now, 50)
	w.tick()
	check.EqualSlices(check.Must(t), w.ready, []Container{a})
}

func TestLedgerAsksAgainForALostAcknowledgement(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100, AckTimeout: 5 * time.Second})
	w.resident(a, 60, 0)
	w.l.Reserve(w.now, b, MemoryRequest{Bytes: 60})
	w.tick()
	first := w.only(Evict, a)
	at, ok := w.l.Deadline()
	check.That(check.Must(t), ok, "no deadline while an acknowledgement is awaited")
	w.l.Tick(at)
	w.tick()
	again := w.only(Evict, a)
	check.That(check.Must(t), again.Again, "asked %+v after %+v, want the same order again", again, first)
	check.Equal(check.Must(t), again.Epoch, first.Epoch, "asked %+v after %+v, want the same order again", again, first)
	r, _ := w.l.Residency(a)
	check.Equal(check.Must(t), r, 60)
}

func TestLedgerDoesNotOrderOutWhatDidNotMove(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(stuck, 60, 0)
	w.l.Reserve(w.now, b, MemoryRequest{Bytes: 60})
	w.tick()
	o := w.only(Evict, stuck)
	w.l.Moved(w.now, stuck, o.Epoch) // and no report of less
	w.tick()
	check.Equal(check.Must(t), len(w.orders), 0)
}

func TestLedgerPrefetchYieldsToReservations(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	w.resident(a, 60, 0)
	w.l.Reserve(w.now, b, MemoryRequest{Bytes: 60})
	w.tick()
	o := w.only(Evict, a)
	w.report(a, 1, 60, 0)
	w.l.Moved(w.now, a, o.Epoch)
	w.tick()
	check.That(check.Must(t), !w.l.Prefetch(w.now, a), "prefetched into memory that is promised to a run")
	w.l.Release(w.now, b)
	w.tick()
	check.That(check.Must(t), w.l.Prefetch(w.now, a), "did not prefetch into free memory")
	w.tick()
	w.only(Prefetch, a)
}

// TestLedgerNoReportTakesPromises: a container's report reduces no promise to others, whatever
// number of contexts and bytes it has.
func TestLedgerNoReportTakesPromises(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 100})
	ok, err := w.l.Reserve(w.now, honest, MemoryRequest{Bytes: 30, Context: 10})
	check.That(check.Must(t), ok, "%v %v", ok, err)
	check.NoError(t, err)
	w.resident(wrong, 5, 1)
	for pid := range 80 {
		check.NoError(t, w.l.Report(w.now, wrong, pid, Usage{Allocated: 100, Resident: 100, Context: 1}))
		free := w.l.Free()
		check.AtLeast(check.Must(t), free, 0, "%d bytes free after %d reports: others' promises are taken", free, pid+1)
	}
	w.report(honest, 1, 30, 10)
	check.AtLeast(check.Must(t), w.l.Free(), 0, "bytes free after the honest container holds its promised memory")
	for pid := range 80 {
		w.l.Exited(w.now, wrong, pid)
	}
	w.l.Exited(w.now, wrong, 1)
	resident, _ := w.l.Residency(wrong)
	check.Equal(t, resident, 0, "bytes resident after the end of all processes")
}

// TestLeavingContainerIsMemoryThatComes: nothing is evicted where a container that is
// being removed will free the memory, and none of its own is moved any more.
func TestLeavingContainerIsMemoryThatComes(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 1000})
	w.resident(a, 400, 50)
	w.resident(b, 400, 50)
	w.l.Leave(w.now, a)
	ok, err := w.l.Reserve(w.now, c, MemoryRequest{Bytes: 450, Context: 50})
	check.That(check.Must(t), !ok, "standing %t, %v", ok, err)
	check.NoError(t, err)
	w.tick()
	check.Equal(t, len(w.orders), 0)
	check.Equal(t, w.l.Shortfall(), 0)
	w.l.Gone(w.now, a)
	w.tick()
	check.Equal(check.Must(t), len(w.ready), 1)
	check.Equal(t, w.ready[0], c)
	got, want := w.l.Totals(), (Totals{Resident: 400, Allocated: 400, Reserved: 450, Context: 100})
	check.Equal(t, got, want)
}

// TestLeavingVoidsOrders: the acknowledgement of an order that was under way
// when its container began to leave changes nothing.
func TestLeavingVoidsOrders(t *testing.T) {
	w := newFixture(t, LedgerConfig{Capacity: 1000, AckTimeout: 1})
	w.resident(a, 600, 0)
	_, err := w.l.Reserve(w.now, b, MemoryRequest{Bytes: 600})
	check.NoError(t, err)
	w.tick()
	o := w.only(Evict, a)
	w.l.Leave(w.now, a)
	check.That(t, !w.l.Moved(w.now, a, o.Epoch), "an old order's answer counts")
	check.That(t, !w.l.Awaits(a, o.Epoch), "the order is still awaited")
	w.now++
	w.l.Tick(w.now)
	moves, _ := w.l.Ready()
	check.Equal(t, len(moves), 0, "a removal without an answer: moves")
	check.That(t, w.l.Shortfall() != 0, "a removal without an answer: moves %v, %d short", moves, w.l.Shortfall())
	check.That(t, w.l.Overdue(a), "a removal without an answer: moves %v, %d short", moves, w.l.Shortfall())
	_, ok := w.l.Deadline()
	check.That(t, !ok, "it would be asked again")
	w.l.Gone(w.now, a)
	w.tick()
	resident, footprint := w.l.Residency(b)
	check.AtLeast(t, resident, footprint)
	n := w.l.Overhead(a)
	check.Equal(t, n, 0, "%d bytes of contexts are left, quiet %t; totals %+v", n, w.l.Quiet(), w.l.Totals())
	check.That(t, !w.l.Quiet(), "%d bytes of contexts are left, quiet %t; totals %+v", n, w.l.Quiet(), w.l.Totals())
}
