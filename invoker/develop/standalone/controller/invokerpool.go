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

// The states of an invoker (InvokerSupervision.scala): without pings, not tested yet,
// and tested. Only an invoker that is up gets activations. Unlike in the original, failed
// activations do not change the state, because a developer has only one invoker.
const (
	Offline   State = "down"
	Unhealthy State = "unhealthy"
	Healthy   State = "up"
)

const (
	silence = 10 * time.Second // without a ping: offline
	retest  = time.Minute      // between tests of an unhealthy invoker
)

// member is one invoker.
type member struct {
	instance activation.Instance
	state    State
	lastPing time.Time // last ping
	tested   time.Time
}

// stateAt is the state at a time, which may be long after the last ping.
func (m *member) stateAt(at time.Time) State {
	if at.Sub(m.lastPing) > silence {
		return Offline
	}
	return m.state
}

// invokerPool are the invokers that ever pinged.
type invokerPool struct {
	mu      sync.Mutex
	members map[int]*member
	started bool          // one was healthy
	passes  chan struct{} // closed and made anew when one becomes healthy
}

func newInvokerPool() *invokerPool {
	return &invokerPool{members: map[int]*member{}, passes: make(chan struct{})}
}

// ping records a sign of life and reports whether the invoker is to be tested.
func (p *invokerPool) ping(ping activation.Ping, at time.Time) (test bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[ping.Instance.ID]
	if m == nil {
		m = &member{state: Offline}
		p.members[ping.Instance.ID] = m
	}
	before := m.stateAt(at)
	m.instance, m.lastPing = ping.Instance, at
	switch {
	case !ping.Enabled:
		m.state = Offline
	case before == Offline, before == Unhealthy && at.Sub(m.tested) >= retest: // the last test may be lost
		m.state, m.tested = Unhealthy, at
		return true
	}
	return false
}

// passed records that an invoker has carried out its test.
func (p *invokerPool) passed(id int, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[id]
	if m == nil || m.stateAt(at) == Offline {
		return
	}
	m.state, p.started = Healthy, true
	close(p.passes)
	p.passes = make(chan struct{})
}

// next gives a channel that is closed when an invoker becomes healthy, and reports
// whether one was before.
func (p *invokerPool) next() (passes <-chan struct{}, started bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passes, p.started
}

// pick chooses a healthy invoker for a key: the same one as long as the same
// ones are up, since it has warm containers.
func (p *invokerPool) pick(key string, at time.Time) (id int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var up []int
	for id, m := range p.members {
		if m.stateAt(at) == Healthy {
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
func (p *invokerPool) states(at time.Time) map[string]State {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]State{}
	for _, m := range p.members {
		all[m.instance.String()] = m.stateAt(at)
	}
	return all
}
