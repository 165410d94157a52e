package controller

import (
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// State is the health of an invoker, as the controller's list of invokers names
// it.
type State string

// States of an invoker (InvokerSupervision.scala). Only one that is up gets
// activations.
const (
	Offline      State = "down"
	Unhealthy    State = "unhealthy"
	Unresponsive State = "unresponsive"
	Healthy      State = "up"
)

// outcome is how an activation ended, as far as its invoker's health goes.
type outcome int8

const (
	succeeded outcome = iota
	systemError
	timedOut
)

const (
	memory    = 10               // outcomes that are remembered
	tolerance = 3                // errors among them that are forgiven
	silence   = 10 * time.Second // without a ping: offline
	retest    = time.Minute      // between tests of an unhealthy invoker
)

// member is one invoker.
type member struct {
	instance activation.Instance
	state    State
	seen     time.Time // last ping
	tested   time.Time
	testing  bool      // the last test is under way
	recent   []outcome // the newest last, at most memory
}

// invokerPool are the invokers that ever pinged.
type invokerPool struct {
	mu      sync.Mutex
	members map[int]*member
	healthy bool          // one was up at some time
	changed chan struct{} // closed and replaced whenever a state changes
}

func newInvokerPool() *invokerPool {
	return &invokerPool{members: map[int]*member{}, changed: make(chan struct{})}
}

// ping records a sign of life and reports whether the invoker is to be tested.
func (p *invokerPool) ping(ping activation.Ping, at time.Time) (test bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := ping.Instance.ID
	m := p.members[id]
	if m == nil {
		m = &member{state: Offline}
		p.members[id] = m
	}
	m.instance, m.seen = ping.Instance, at
	switch {
	case !ping.Enabled:
		p.become(m, Offline)
	case m.state == Offline:
		m.recent = nil
		p.become(m, Unhealthy)
		m.test(at)
		return true
	}
	return false
}

func (m *member) test(at time.Time) { m.tested, m.testing = at, true }

// tested records that the test of an invoker is over.
func (p *invokerPool) tested(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.members[id]; m != nil {
		m.testing = false
	}
}

func (p *invokerPool) become(m *member, s State) {
	if m.state != s {
		m.state, p.healthy = s, p.healthy || s == Healthy
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// ended records how an activation on an invoker ended and reports whether the
// invoker is to be tested now.
func (p *invokerPool) ended(id int, how outcome, at time.Time) (test bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[id]
	if m == nil || m.state == Offline {
		return false
	}
	m.recent = append(m.recent, how)
	if len(m.recent) > memory {
		m.recent = slices.Clone(m.recent[1:])
	}
	before := m.state
	p.become(m, m.judge(how))
	// An unhealthy invoker that succeeds is tried again at once, to be sure;
	// one that has just become so is tried for the first time. Of the activations
	// that were under way many may succeed: one test at a time is enough.
	test = m.state != Healthy && !m.testing && (before == Healthy || how == succeeded)
	if test {
		m.test(at)
	}
	return test
}

func (m *member) judge(last outcome) State {
	count := map[outcome]int{}
	for _, o := range m.recent {
		count[o]++
	}
	switch {
	case count[systemError] > tolerance:
		return Unhealthy
	case count[timedOut] > tolerance:
		return Unresponsive
	case last == succeeded:
		return Healthy
	case m.state == Healthy:
		return Healthy // forgiven
	case last == timedOut:
		return Unresponsive
	}
	return Unhealthy
}

// tick takes what the time changes and returns the invokers to be tested again.
func (p *invokerPool) tick(at time.Time) (test []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, m := range p.members {
		switch {
		case m.state == Offline:
		case at.Sub(m.seen) > silence:
			p.become(m, Offline)
		case m.state != Healthy && at.Sub(m.tested) >= retest:
			m.test(at) // the last may be lost
			test = append(test, id)
		}
	}
	slices.Sort(test)
	return test
}

// pick chooses a healthy invoker for a key: the same one as long as the same
// ones are up, since it has warm containers.
func (p *invokerPool) pick(key string) (id int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var up []int
	for id, m := range p.members {
		if m.state == Healthy {
			up = append(up, id)
		}
	}
	if len(up) == 0 {
		return 0, false
	}
	slices.Sort(up)
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return up[int(h.Sum32())%len(up)], true
}

// states are the invokers' by their names.
func (p *invokerPool) states() map[string]State {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]State{}
	for _, m := range p.members {
		all[m.instance.String()] = m.state
	}
	return all
}

// changes gives a channel that is closed at the next change of a state.
func (p *invokerPool) changes() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

func (p *invokerPool) wasHealthy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.healthy
}
