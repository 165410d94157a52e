package controller

import (
	"cmp"
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
	recent   []outcome // the newest last, at most memory
}

// fleet are the invokers that ever pinged.
type fleet struct {
	mu      sync.Mutex
	members map[int]*member
	changed chan struct{} // closed and replaced whenever a state changes
}

func newFleet() *fleet {
	return &fleet{members: map[int]*member{}, changed: make(chan struct{})}
}

// ping records a sign of life and reports whether the invoker is to be tested.
func (f *fleet) ping(p activation.Ping, at time.Time) (test bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := p.Instance.ID
	m := f.members[id]
	if m == nil {
		m = &member{state: Offline}
		f.members[id] = m
	}
	m.instance, m.seen = p.Instance, at
	switch {
	case !p.Enabled:
		f.become(m, Offline)
	case m.state == Offline:
		m.recent = nil
		f.become(m, Unhealthy)
		m.tested = at
		return true
	}
	return false
}

func (f *fleet) become(m *member, s State) {
	if m.state != s {
		m.state = s
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// ended records how an activation on an invoker ended and reports whether the
// invoker is to be tested now.
func (f *fleet) ended(id int, how outcome, at time.Time) (test bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[id]
	if m == nil || m.state == Offline {
		return false
	}
	m.recent = append(m.recent, how)
	if len(m.recent) > memory {
		m.recent = slices.Clone(m.recent[1:])
	}
	before := m.state
	f.become(m, m.judge(how))
	// An unhealthy invoker that succeeds is tried again at once, to be sure;
	// one that has just become so is tried for the first time.
	test = m.state != Healthy && (before == Healthy || how == succeeded)
	if test {
		m.tested = at
	}
	return test
}

func (m *member) judge(last outcome) State {
	errors, timeouts := 0, 0
	for _, o := range m.recent {
		switch o {
		case systemError:
			errors++
		case timedOut:
			timeouts++
		}
	}
	switch {
	case errors > tolerance:
		return Unhealthy
	case timeouts > tolerance:
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
func (f *fleet) tick(at time.Time) (test []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, m := range f.members {
		switch {
		case m.state == Offline:
		case at.Sub(m.seen) > silence:
			f.become(m, Offline)
		case m.state != Healthy && at.Sub(m.tested) >= retest:
			m.tested = at
			test = append(test, id)
		}
	}
	slices.Sort(test)
	return test
}

// pick chooses a healthy invoker for a key: the same one as long as the same
// ones are up, since it has warm containers.
func (f *fleet) pick(key string) (id int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var up []int
	for id, m := range f.members {
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

// Standing is one invoker in the list of invokers.
type Standing struct {
	Name  string
	State State
}

func (f *fleet) standings() []Standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]Standing, 0, len(f.members))
	for _, m := range f.members {
		all = append(all, Standing{m.instance.String(), m.state})
	}
	slices.SortFunc(all, func(a, b Standing) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// changes gives a channel that is closed at the next change of a state.
func (f *fleet) changes() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}
