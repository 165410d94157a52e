// Package memoryqueue is one queue of OpenWhisk's scheduler. A queue holds the
// activations of one action that wait for a container, and the calls of containers
// that wait for an activation. It decides how many containers to order. It behaves
// like the original, including the original's faults, so that tests and simulations
// of an invoker meet these faults.
//
// The package is pure: the caller passes the time. Package fakescheduler creates the
// containers.
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
	Stale       time.Duration // waiting time after which a container is ordered
	Poll        time.Duration // waiting time of a call
	Retention   time.Duration // waiting time after which an activation fails
	Drop        time.Duration // interval of the checks for Retention
	IdleGrace   time.Duration // time without activations and containers until the queue is idle
	StopGrace   time.Duration // time from idle to removed
	FlushGrace  time.Duration // time until a flushing queue is removed
	MaxSize     int           // most waiting activations
	Durations   int           // number of latest durations in the mean
	Concurrency int           // concurrency limit of the action
	Instances   int           // most containers of the action; 0 means the namespace's limit
}

// Defaults returns the original's settings. For images that are pulled,
// BlackboxRetention replaces Retention.
func Defaults() Settings {
	return Settings{
		Stale: 100 * time.Millisecond, Poll: time.Second, Retention: time.Minute, Drop: 10 * time.Second,
		IdleGrace: 20 * time.Second, StopGrace: 20 * time.Second, FlushGrace: time.Minute,
		MaxSize: 10000, Durations: 10, Concurrency: 1,
	}
}

// BlackboxRetention is how long activations of kind blackbox may wait.
const BlackboxRetention = 5 * time.Minute

// State says how a queue handles activations.
type State uint8

// The states. A queue in state Removing still serves its waiting activations.
const (
	Running State = iota
	NamespaceThrottled
	ActionThrottled
	Flushing // no container could be created
	Idle
	Removing
	Removed
)

// String is the name in tests.
func (s State) String() string {
	return [...]string{"running", "namespace throttled", "action throttled", "flushing", "idle", "removing", "removed"}[s]
}

// Activation is an activation that waits.
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
	reason      string                   // the reason for flushing
	cause       activation.CreationError // the same for programs
	refused     int                      // creations that failed for the action's limits
	idleSince   time.Time
	dropAt      time.Time
}

// New returns the queue of an action. The queue calls fail for each activation that
// it gives up.
func New(now time.Time, s Settings, action activation.ActionRef, fail func(Activation, int, string)) *Queue {
	return &Queue{
		settings: s, action: action, fail: fail, idleSince: now, dropAt: now.Add(s.Drop),
		containers: map[string]bool{}, creations: map[activation.ID]bool{},
	}
}

// State returns the state of the queue.
func (q *Queue) State() State { return q.state }

// Waiting returns the number of waiting activations.
func (q *Queue) Waiting() int { return len(q.waiting) }

// Calls returns the number of waiting calls.
func (q *Queue) Calls() int { return len(q.calls) }

// Containers returns the number of containers that count as alive, ghosts included.
func (q *Queue) Containers() int { return len(q.containers) }

// Creations returns the number of creations in progress.
func (q *Queue) Creations() int { return len(q.creations) }

// Add hands the activation to a waiting call, or enqueues it. A throttled or flushing
// queue may fail it instead.
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

// first returns the index of the waiting call that is served next.
func (q *Queue) first() int {
	best := 0
	for i, c := range q.calls {
		if cmp.Compare(c.rank(), q.calls[best].rank()) > 0 {
			best = i
		}
	}
	return best
}

// Fetch answers the call with the oldest activation. If none waits, the call waits
// for at most settings.Poll.
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
	// A container whose key was deleted before counts again: it is a ghost.
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

// drop fails the activations that have waited for settings.Retention.
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

// Take removes the waiting activations from the queue and returns them.
func (q *Queue) Take() []Activation {
	all := q.waiting
	q.waiting = nil
	return all
}
