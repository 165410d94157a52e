// Package memoryqueue is one queue of OpenWhisk's scheduler: the activations that
// wait for containers of one action, the calls of containers that wait for
// activations, and the decision how many containers to order. It repeats what the
// original does, its faults included, so that tests and simulations of an invoker
// meet them.
//
// The package is pure: it takes the time and starts nothing. What it does not
// know is how containers are made; package fakescheduler does.
package memoryqueue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Settings are the times and sizes of a queue.
type Settings struct {
	Stale       time.Duration // what waits longer has containers ordered for it
	Poll        time.Duration // how long a call waits
	Retention   time.Duration // what waits longer fails
	Drop        time.Duration // how often that is looked at
	IdleGrace   time.Duration // without activations and containers it is idle then
	StopGrace   time.Duration // and removed after that
	FlushGrace  time.Duration // without a container it is removed after so long
	MaxSize     int           // activations that may wait
	Durations   int           // of which the mean is taken
	Concurrency int           // of the action
	Instances   int           // containers of the action; 0: as the namespace's
}

// Defaults are the original's. BlackboxRetention replaces Retention for images that
// are pulled.
func Defaults() Settings {
	return Settings{
		Stale: 100 * time.Millisecond, Poll: time.Second, Retention: time.Minute, Drop: 10 * time.Second,
		IdleGrace: 20 * time.Second, StopGrace: 20 * time.Second, FlushGrace: time.Minute,
		MaxSize: 10000, Durations: 10, Concurrency: 1,
	}
}

// BlackboxRetention is how long activations of kind blackbox may wait.
const BlackboxRetention = 5 * time.Minute

// State is what a queue does with activations.
type State uint8

// The states. A queue that is Removing serves what it has.
const (
	Running State = iota
	NamespaceThrottled
	ActionThrottled
	Flushing // it could make no container
	Idle
	Removing
	Removed
)

// String is the name in tests.
func (s State) String() string {
	return [...]string{"running", "namespace throttled", "action throttled", "flushing", "idle", "removing", "removed"}[s]
}

// Activation is one that waits.
type Activation struct {
	ID   activation.ID
	JSON []byte
	At   time.Time // of its arrival
}

// Call is a container that asks for an activation. Answer is called once, maybe
// at once, and must not block.
type Call struct {
	Action       activation.ActionRef
	Container    string
	Warmed       bool
	LastDuration *time.Duration
	Alive        bool
	Answer       func(activation.FetchAnswer)

	until time.Time
}

// rank orders waiting calls: the greatest text is served first.
func (c Call) rank() string {
	if c.Warmed {
		return "1" + c.Container
	}
	return "0" + c.Container
}

// Queue is one queue. Its owner locks.
type Queue struct {
	settings Settings
	action   activation.ActionRef
	// fail ends an activation with a status and a text.
	fail func(a Activation, status int, reason string)

	state       State
	waiting     []Activation
	calls       []Call
	containers  map[string]bool
	creations   map[activation.ID]bool
	durations   []time.Duration
	initialized bool
	reason      string                   // why it flushes
	cause       activation.CreationError // the same for programs
	refused     int                      // creations that failed for the action's limits
	idleSince   time.Time
	dropAt      time.Time
}

// New makes a queue of an action. fail is called for activations that it gives up.
func New(now time.Time, s Settings, action activation.ActionRef, fail func(Activation, int, string)) *Queue {
	return &Queue{
		settings: s, action: action, fail: fail, idleSince: now, dropAt: now.Add(s.Drop),
		containers: map[string]bool{}, creations: map[activation.ID]bool{},
	}
}

// State is what the queue does.
func (q *Queue) State() State { return q.state }

// Waiting is how many activations wait, and Calls how many calls do.
func (q *Queue) Waiting() int { return len(q.waiting) }

// Calls is how many calls wait.
func (q *Queue) Calls() int { return len(q.calls) }

// Containers is how many containers count as alive, ghosts included.
func (q *Queue) Containers() int { return len(q.containers) }

// Creations is how many creations are under way.
func (q *Queue) Creations() int { return len(q.creations) }

// Add takes an activation.
func (q *Queue) Add(now time.Time, a Activation) {
	a.At = now
	q.idleSince = now
	switch {
	case q.state == ActionThrottled:
		q.fail(a, activation.StatusDeveloperError, tooManyRequests)
		return
	case q.state == Flushing && !q.cause.Retried():
		q.fail(a, activation.StatusDeveloperError, q.reason)
		return
	case q.state == Idle:
		q.state = Running
	}
	if len(q.calls) > 0 {
		i := q.first()
		call := q.calls[i]
		q.calls = slices.Delete(q.calls, i, i+1)
		call.Answer(activation.NewFetchAnswer(a.JSON))
		return
	}
	q.waiting = append(q.waiting, a)
	if len(q.waiting) >= q.settings.MaxSize && q.state == Running {
		q.state = ActionThrottled
	}
}

const tooManyRequests = "Too many requests in the last minute (count: 0, allowed: 0)."

// first is the call that is served before all others.
func (q *Queue) first() int {
	best := 0
	for i, c := range q.calls {
		if cmp.Compare(c.rank(), q.calls[best].rank()) > 0 {
			best = i
		}
	}
	return best
}

// Fetch takes a call.
func (q *Queue) Fetch(now time.Time, c Call) {
	nothing := activation.FetchAnswer{Kind: activation.NoActivation}
	switch {
	case q.state == Removed:
		c.Answer(activation.FetchAnswer{Kind: activation.NoQueue})
		return
	case c.Action != q.action:
		c.Answer(activation.FetchAnswer{Kind: activation.ActionMismatch})
		return
	case q.state == Idle:
		c.Answer(nothing)
		return
	case !c.Alive:
		delete(q.containers, c.Container)
		q.release(func(open Call) bool { return open.Container == c.Container }, nothing)
		c.Answer(nothing)
		return
	}
	// Also one whose key was deleted before: a ghost.
	q.containers[c.Container] = true
	if c.LastDuration != nil {
		q.durations = append(q.durations, *c.LastDuration)
		q.durations = q.durations[max(0, len(q.durations)-q.settings.Durations):]
	}
	if len(q.waiting) > 0 {
		a := q.waiting[0]
		q.waiting = q.waiting[1:]
		if q.state == ActionThrottled && len(q.waiting)*10 < q.settings.MaxSize*9 {
			q.state = Running
		}
		c.Answer(activation.NewFetchAnswer(a.JSON))
		return
	}
	c.until = now.Add(q.settings.Poll)
	q.calls = append(q.calls, c)
}

// release answers the waiting calls that match.
func (q *Queue) release(match func(Call) bool, answer activation.FetchAnswer) {
	q.calls = slices.DeleteFunc(q.calls, func(c Call) bool {
		if match(c) {
			c.Answer(answer)
			return true
		}
		return false
	})
}

// Tick answers calls and ends activations whose time is over, and removes a queue
// that nothing uses.
func (q *Queue) Tick(now time.Time) {
	q.release(func(c Call) bool { return !c.until.After(now) }, activation.FetchAnswer{Kind: activation.NoActivation})
	if !q.dropAt.After(now) {
		q.dropAt = now.Add(q.settings.Drop)
		q.drop(now)
	}
	idle := len(q.waiting) == 0 && len(q.containers)+len(q.creations) == 0
	switch waited := now.Sub(q.idleSince); {
	case !idle && q.state != Idle && q.state != Flushing:
		q.idleSince = now
	case q.state == Running && waited >= q.settings.IdleGrace:
		q.state, q.idleSince = Idle, now
	case q.state == Idle && waited >= q.settings.StopGrace:
		q.Remove()
	case q.state == Flushing && len(q.waiting) == 0 && waited >= q.settings.FlushGrace:
		q.Remove()
	}
}

// drop fails what has waited too long.
func (q *Queue) drop(now time.Time) {
	reason := q.reason
	if q.state != Flushing {
		reason = fmt.Sprintf("Activation processing is not initiated for %d ms", q.settings.Retention.Milliseconds())
	}
	for len(q.waiting) > 0 && now.Sub(q.waiting[0].At) >= q.settings.Retention {
		q.fail(q.waiting[0], activation.StatusWhiskError, reason)
		q.waiting = q.waiting[1:]
	}
}

// Outdate retires the queue: its action has a newer revision.
func (q *Queue) Outdate() { q.state = Removing }

// Remove ends the queue. Calls are sent elsewhere.
func (q *Queue) Remove() {
	q.state = Removed
	q.release(func(Call) bool { return true }, activation.FetchAnswer{Kind: activation.NoQueue})
}

// Take takes what waits out of the queue.
func (q *Queue) Take() []Activation {
	all := q.waiting
	q.waiting = nil
	return all
}
