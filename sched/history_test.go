package sched

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// history drives a policy and its oracle through the same events and compares
// them after each, with every invariant checked.
type history struct {
	rng     *rand.Rand
	s       *Scheduler
	oracle  *oracle
	fixture *fixture
	check   *checker
	now     time.Duration
	id      uint64

	queued   []uint64
	flying   map[uint64]Choice
	order    []uint64 // keys of flying, in order
	present  map[int]bool
	reported map[FlowID]State
	failing  map[FlowID]bool
	counts   map[string]int
}

func newHistory(rng *rand.Rand, policy string, cfg Config) (*history, error) {
	fixture := newFixture(rng, 14, 3)
	s, err := New(policy, cfg, fixture)
	if err != nil {
		return nil, err
	}
	h := &history{
		rng: rng, s: s, oracle: newOracle(policy, cfg, fixture), fixture: fixture, check: newChecker(),
		flying: map[uint64]Choice{}, present: map[int]bool{}, reported: map[FlowID]State{},
		counts: map[string]int{}, failing: map[FlowID]bool{},
	}
	h.both(func(s subject) { s.AddDevice(0, 0, 2) })
	h.present[0] = true
	return h, nil
}

// event does one random thing and what an owner does after it.
func (h *history) event() error {
	h.pass()
	switch r := h.rng.IntN(1000); {
	case r < 340:
		h.enqueue()
	case r < 360:
		h.cancel()
	case r < 740:
		h.finish()
	case r < 760:
		h.weigh()
	case r < 765:
		f := h.fixture.flows[h.rng.IntN(len(h.fixture.flows))]
		h.both(func(s subject) { s.Revised(h.now, f) })
		h.count("revised")
	case r < 790:
		h.device()
	case r < 850:
		f := h.fixture.meddle(h.rng)
		h.s.Touch(h.now, f)
		h.count("touch")
	case r < 900:
		h.both(func(s subject) { s.Tick(h.now) })
		h.count("tick")
	}
	if err := h.compare(); err != nil {
		return err
	}
	for h.rng.IntN(20) > 0 {
		more, err := h.next()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// both does the same to the policy and to its oracle.
func (h *history) both(do func(subject)) {
	do(h.s)
	do(h.oracle)
}

func (h *history) count(what string) { h.counts[what]++ }

// pass lets time go by: mostly little, now and then past a TTL or the time
// after which flows are forgotten.
func (h *history) pass() {
	switch r := h.rng.IntN(1000); {
	case r < 700:
		h.now += time.Duration(h.rng.IntN(600)) * time.Millisecond
	case r < 710:
		h.now += time.Duration(h.rng.IntN(60)) * time.Second
	case r < 712:
		h.now += 2 * time.Hour
	}
}

func (h *history) enqueue() {
	if len(h.queued) > 60 {
		return
	}
	n := len(h.fixture.flows)
	flow := h.fixture.flows[min(h.rng.IntN(n), h.rng.IntN(n))] // the first ones are popular
	for k := 1 + h.rng.IntN(3)*h.rng.IntN(3); k > 0; k-- {
		h.id++
		it := Invocation{ID: h.id, Flow: flow}
		if h.rng.IntN(3) == 0 {
			it.Cost = time.Duration(h.rng.IntN(3000)) * time.Millisecond
		}
		h.both(func(s subject) { s.Enqueue(h.now, it) })
		h.queued = append(h.queued, it.ID)
		h.count("enqueue")
	}
}

func (h *history) cancel() {
	id := h.id + 1 // one that is not known
	if len(h.queued) > 0 && h.rng.IntN(10) > 0 {
		k := h.rng.IntN(len(h.queued))
		id = h.queued[k]
		h.unqueue(id)
	}
	if h.s.Cancel(h.now, id) != h.oracle.Cancel(h.now, id) {
		panic("cancel differs")
	}
	h.count("cancel")
}

func (h *history) unqueue(id uint64) {
	for k, q := range h.queued {
		if q == id {
			h.queued[k] = h.queued[len(h.queued)-1]
			h.queued = h.queued[:len(h.queued)-1]
			return
		}
	}
}

func (h *history) finish() {
	if len(h.order) == 0 {
		return
	}
	k := h.rng.IntN(len(h.order))
	id := h.order[k]
	h.order[k] = h.order[len(h.order)-1]
	h.order = h.order[:len(h.order)-1]
	c := h.flying[id]
	delete(h.flying, id)
	h.fixture.ended(c)
	switch h.rng.IntN(20) {
	case 0:
		h.both(func(s subject) { s.Undo(h.now, id) })
		h.queued = append(h.queued, id)
		h.count("undo")
	case 1:
		h.both(func(s subject) { s.Abandon(h.now, id) })
		h.count("abandon")
	default:
		u := Usage{Service: time.Duration(h.rng.IntN(4000)) * time.Millisecond, Setup: c.Placement.Setup}
		u.Failed, u.Replaces, u.Outdated = h.failing[c.Flow], h.rng.IntN(3) == 0, h.rng.IntN(10) == 0
		if h.rng.IntN(8) == 0 {
			h.failing[c.Flow] = !h.failing[c.Flow]
		}
		h.both(func(s subject) { s.Done(h.now, id, u) })
		h.count("done")
		if u.Failed {
			h.count("failed")
		}
	}
}

func (h *history) weigh() {
	weight := []float64{0.1, 0.5, 1, 1, 2, 3.7, 10}[h.rng.IntN(7)]
	f := h.fixture.flows[h.rng.IntN(len(h.fixture.flows))]
	namespace := h.s.cfg.Namespaces && h.rng.IntN(2) == 0
	h.both(func(s subject) {
		err := error(nil)
		if namespace {
			err = s.SetNamespaceWeight(h.now, f.Namespace, weight)
		} else {
			err = s.SetWeight(h.now, f, weight)
		}
		if err != nil {
			panic(err)
		}
	})
	h.count("weight")
}

// touchAll follows a device that came or went: setups differ from device to device.
func (h *history) touchAll() {
	for _, f := range h.fixture.flows {
		h.s.Touch(h.now, f)
	}
}

func (h *history) device() {
	d := h.rng.IntN(h.fixture.devices)
	tokens := h.rng.IntN(4)
	switch {
	case !h.present[d]:
		h.both(func(s subject) { s.AddDevice(h.now, d, tokens) })
		h.touchAll()
		h.present[d] = true
		h.count("add device")
	case h.rng.IntN(3) == 0:
		h.both(func(s subject) { s.RemoveDevice(h.now, d) })
		h.touchAll()
		h.present[d] = false
		h.count("remove device")
	default:
		h.both(func(s subject) { s.SetTokens(h.now, d, tokens) })
		h.count("tokens")
	}
}

// next compares the next choice of both. A flow that is more than T ahead must not be
// chosen, whatever the policy of those with a window.
func (h *history) next() (bool, error) {
	got, ok := h.s.Next(h.now)
	want, wantOK := h.oracle.Next(h.now)
	if ok != wantOK {
		return false, fmt.Errorf("next: got %+v %t, want %+v %t", got, ok, want, wantOK)
	}
	if got != want {
		return false, fmt.Errorf("next: got %+v, want %+v", got, want)
	}
	if ok {
		h.unqueue(got.Invocation)
		h.flying[got.Invocation] = got
		h.order = append(h.order, got.Invocation)
		h.fixture.granted(got)
		h.count("next " + got.Rule.String())
		h.count("start " + got.Placement.Start.String())
	}
	return ok, h.compare()
}

func (h *history) compare() error {
	if err := h.check.check(h.s); err != nil {
		return err
	}
	if h.s.root.gvt != h.oracle.root.gvt {
		return fmt.Errorf("root gvt %d, want %d", h.s.root.gvt, h.oracle.root.gvt)
	}
	if len(h.s.flows) != len(h.oracle.flows) {
		return fmt.Errorf("%d flows, want %d", len(h.s.flows), len(h.oracle.flows))
	}
	for _, want := range h.oracle.flows {
		f := h.s.flows[want.id]
		if f == nil {
			return fmt.Errorf("flow %s: not known", want.id)
		}
		if err := compareAccounts(f.member, want.oracleAccount); err != nil {
			return fmt.Errorf("flow %s: %w", want.id, err)
		}
		if err := compareAccounts(f.group.member, want.space.oracleAccount); err != nil {
			return fmt.Errorf("namespace %s: %w", want.space.name, err)
		}
		if f.group.level.gvt != want.level.gvt {
			return fmt.Errorf("flow %s: gvt %d, want %d", want.id, f.group.level.gvt, want.level.gvt)
		}
		if got, want := h.s.State(want.id), h.oracle.State(want.id); got != want {
			return fmt.Errorf("flow %s: state %s, want %s", f.id, got, want)
		}
	}
	got, ok := h.s.Deadline()
	want, wantOK := h.oracle.Deadline()
	if ok != wantOK {
		return fmt.Errorf("a deadline: %t, want %t", ok, wantOK)
	}
	if got != want {
		return fmt.Errorf("deadline %s, want %s", got, want)
	}
	if h.rng.IntN(4) == 0 {
		return h.follow()
	}
	return nil
}

// compareAccounts compares what a flow or a namespace was charged, and its place
// beyond the window, with the oracle's.
func compareAccounts[T any](got member[T], want oracleAccount) error {
	switch {
	case got.vt != want.vt:
		return fmt.Errorf("VT %d, want %d", got.vt, want.vt)
	case got.credit != want.credit:
		return fmt.Errorf("credit %d, want %d", got.credit, want.credit)
	case got.roundRobin != roundRobin{want.position, want.used}:
		return fmt.Errorf("position and use beyond the window %+v, want %d and %d", got.roundRobin, want.position, want.used)
	}
	return nil
}

// follow keeps the states as an owner would that only reads Changes.
func (h *history) follow() error {
	for _, c := range h.s.Changes() {
		was, ok := h.reported[c.Flow]
		if !ok && c.Flow.Function == "" {
			was = Active // a namespace is active until a change is reported
		}
		if was != c.From {
			return fmt.Errorf("change %+v, but it was %s", c, was)
		}
		if c.From == c.To && !c.Forgotten {
			return fmt.Errorf("change %+v, which changes nothing", c)
		}
		h.reported[c.Flow] = c.To
		if c.To == Inactive {
			delete(h.reported, c.Flow)
		}
	}
	for _, id := range h.fixture.flows {
		got := h.reported[id]
		ns := h.reported[FlowID{Namespace: id.Namespace}]
		if f := h.s.flows[id]; f != nil && f.standing != out && h.s.cfg.Namespaces && ns == Throttled {
			got = Throttled
		}
		if want := h.s.State(id); got != want {
			return fmt.Errorf("flow %s: by its changes %s, is %s", id, got, want)
		}
	}
	return nil
}

// variants are the policies as they run by default and with what else changes
// their course switched on.
func variants() map[string]func(*Config) {
	return map[string]func(*Config){
		"": func(*Config) {},
		"/flat": func(c *Config) {
			c.Namespaces, c.Overrun = false, 3*time.Second
		},
		"/knobs": func(c *Config) {
			c.Correct, c.Wait, c.Locality, c.CountSetup, c.TTLGlobal = true, true, true, true, true
			c.MaxFlows, c.InitialCharge, c.Gap, c.Slowdown = 9, time.Second, time.Minute, 2
		},
	}
}

// events is how many random events a history has: GPUWHISK_LONG=1 asks for the
// proof, over 10^6 for each policy with its variants, a plain run for 10^5.
func events() int {
	switch {
	case os.Getenv("GPUWHISK_LONG") == "1":
		return 350_000
	case testing.Short():
		return 3_000
	case raced:
		return 2_000
	}
	return 35_000
}

func TestHistories(t *testing.T) {
	for _, p := range Policies() {
		for name, adjust := range variants() {
			t.Run(p.Name+name, func(t *testing.T) {
				t.Parallel()
				cfg, _ := Defaults(p.Name)
				adjust(&cfg)
				const seed = 1
				h, err := newHistory(rand.New(rand.NewPCG(seed, 0)), p.Name, cfg)
				if err != nil {
					t.Fatal(err)
				}
				n := events()
				for i := range n {
					if err := h.event(); err != nil {
						t.Fatalf("seed %d, event %d at %s: %v", seed, i, h.now, err)
					}
				}
				t.Logf("%d events: %v", n, h.counts)
			})
		}
	}
}
