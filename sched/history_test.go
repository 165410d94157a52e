package sched

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

// history drives a policy through random events, with every invariant checked after each.
type history struct {
	rng     *rand.Rand
	s       *Scheduler
	fixture *fixture
	check   *checker
	now     time.Duration
	id      uint64

	queued  []uint64
	flying  map[uint64]Choice
	order   []uint64 // keys of flying, in order
	present map[int]bool
	failing map[FlowID]bool
	counts  map[string]int
	judged  bool // each choice is compared with the reference's
}

func newHistory(rng *rand.Rand, policy string, cfg Config) (*history, error) {
	fixture := newFixture(rng, 14, 3)
	s, err := testPolicy(policy).New(cfg, fixture)
	if err != nil {
		return nil, err
	}
	h := &history{
		rng: rng, s: s, fixture: fixture, check: newChecker(),
		flying: map[uint64]Choice{}, present: map[int]bool{},
		counts: map[string]int{}, failing: map[FlowID]bool{}, judged: slices.Contains(PolicyNames(), policy),
	}
	h.s.AddDevice(0, 0, 2)
	h.present[0] = true
	return h, nil
}

// event does one random thing and the owner's work after it.
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
		h.s.Revised(h.now, f)
		h.count("revised")
	case r < 790:
		h.device()
	case r < 850:
		h.fixture.meddle(h.rng)
		h.count("meddle")
	case r < 900:
		h.s.Tick(h.now)
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
		h.s.Enqueue(h.now, it)
		h.queued = append(h.queued, it.ID)
		h.count("enqueue")
	}
}

func (h *history) cancel() {
	id := h.id + 1 // not known
	if len(h.queued) > 0 && h.rng.IntN(10) > 0 {
		k := h.rng.IntN(len(h.queued))
		id = h.queued[k]
		h.unqueue(id)
	}
	h.s.Cancel(h.now, id)
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
		h.s.Undo(h.now, id)
		h.queued = append(h.queued, id)
		h.count("undo")
	case 1:
		h.s.Abandon(h.now, id)
		h.count("abandon")
	default:
		u := Usage{Service: time.Duration(h.rng.IntN(4000)) * time.Millisecond, Setup: c.Placement.Setup}
		u.Failed, u.Outdated = h.failing[c.Flow], h.rng.IntN(10) == 0
		if h.rng.IntN(8) == 0 {
			h.failing[c.Flow] = !h.failing[c.Flow]
		}
		h.s.Done(h.now, id, u)
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
	err := error(nil)
	if namespace {
		err = h.s.SetNamespaceWeight(h.now, f.Namespace, weight)
	} else {
		err = h.s.SetWeight(h.now, f, weight)
	}
	if err != nil {
		panic(err)
	}
	h.count("weight")
}

func (h *history) device() {
	d := h.rng.IntN(h.fixture.devices)
	tokens := h.rng.IntN(4)
	switch {
	case !h.present[d]:
		h.s.AddDevice(h.now, d, tokens)
		h.present[d] = true
		h.count("add device")
	case h.rng.IntN(3) == 0:
		h.s.RemoveDevice(h.now, d)
		h.present[d] = false
		h.count("remove device")
	default:
		h.s.SetTokens(h.now, d, tokens)
		h.count("tokens")
	}
}

// next takes the next choice. It must be the reference's for the policies that invokers offer, fit, be the oldest of its flow, and be of a flow inside
// the window unless the rule says otherwise.
func (h *history) next() (bool, error) {
	heads := map[FlowID]uint64{}
	for id, f := range h.s.flows {
		if len(f.queue) > 0 {
			heads[id] = f.head().id
		}
	}
	want, may := decision{}, false
	judged := h.judged && slices.ContainsFunc(h.s.devices, (*device).hasFree)
	if judged {
		want, may = decide(h.s, h.now)
	}
	got, ok := h.s.Next(h.now)
	if judged {
		if err := want.differs(may, got, ok); err != nil {
			return false, err
		}
	}
	if !ok {
		return false, h.compare()
	}
	f := h.s.flows[got.Flow]
	switch {
	case heads[got.Flow] != got.Invocation:
		return false, fmt.Errorf("next: %+v, the head of its flow is %d", got, heads[got.Flow])
	case !got.Placement.Fits:
		return false, fmt.Errorf("next: %+v, which does not fit", got)
	case h.s.windowed && f.inside == (got.Rule == RuleSpare):
		return false, fmt.Errorf("next: %+v, inside the window %t", got, f.inside)
	}
	h.unqueue(got.Invocation)
	h.flying[got.Invocation] = got
	h.order = append(h.order, got.Invocation)
	h.fixture.granted(got)
	h.count("next " + got.Rule.String())
	h.count("start " + got.Placement.Start.String())
	return true, h.compare()
}

func (h *history) compare() error {
	if err := h.check.check(h.s); err != nil {
		return err
	}
	if at, due := h.s.Deadline(); due && at < 0 {
		return fmt.Errorf("deadline %s", at)
	}
	return nil
}

// variants are the policies as they run by default, and with all other settings that change
// their course.
func variants() map[string]func(*Config) {
	return map[string]func(*Config){
		"": func(*Config) {},
		"/flat": func(c *Config) {
			c.Namespaces, c.Overrun = false, 3*time.Second
		},
		"/knobs": func(c *Config) {
			c.Correct, c.Wait, c.Locality, c.CountSetup, c.TTLGlobal = true, true, true, true, true
			c.MaxFlows, c.InitialCharge, c.Gap = 9, time.Second, time.Minute
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
	for _, p := range append(Policies(), simpleOrders()...) {
		for name, adjust := range variants() {
			t.Run(p.Name+name, func(t *testing.T) {
				t.Parallel()
				cfg := p.Defaults()
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
