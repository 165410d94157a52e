package fakescheduler

import (
	"context"
	"maps"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
)

// Seen holds the events so far.
type Seen struct {
	Creations   []Creation // each message, retries included
	Acks        []Ack
	Deletions   []Deletion
	Failures    []Failure // activations that the scheduler ended itself
	Fetches     map[activation.FetchKind]int
	Rescheduled int
	WarmUps     int
	// Unparsed counts acks and health records that a scheduler cannot read.
	Unparsed int
	// Lost counts activations that answered a call after its invoker had given up.
	Lost int
	// MostContainers is the largest number of containers' keys at one time.
	MostContainers int
}

// Creation is one message to an invoker.
type Creation struct {
	ID      activation.ID
	Queue   activation.Queue
	Invoker int
	Retry   int
	Claimed bool // the creation uses a paused container
}

// Ack is one answer of an invoker.
type Ack struct {
	Creation activation.ID
	Invoker  int
	Error    activation.CreationError
	Reason   string
}

// Deletion is one message to an invoker.
type Deletion struct {
	Queue   activation.Queue
	Invoker int
}

// Failure is an activation that the scheduler failed before any invoker ran it.
type Failure struct {
	Activation activation.ID
	Status     int
	Reason     string
}

// QueueState describes a queue.
type QueueState struct {
	State      memoryqueue.State
	Waiting    int // activations
	Calls      int
	Containers int
	Creations  int
}

// Seen returns a copy of the events so far, and a channel that is closed at the next
// event.
func (s *Scheduler) Seen() (Seen, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.seen
	all.Creations, all.Acks = slices.Clone(all.Creations), slices.Clone(all.Acks)
	all.Deletions, all.Failures = slices.Clone(all.Deletions), slices.Clone(all.Failures)
	all.Fetches = maps.Clone(all.Fetches)
	return all, s.changed
}

// Queue returns the state of a function's queue. ok is false if there is none.
func (s *Scheduler) Queue(q activation.Queue) (state QueueState, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.queues[Function{Queue: q}.id()]
	if of == nil {
		return QueueState{}, false
	}
	return QueueState{of.State(), of.Waiting(), of.Calls(), of.Containers(), of.Creations()}, true
}

// happened closes the channel that Seen returned. The caller must hold s.mu.
func (s *Scheduler) happened() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Disable hands over the queues, as POST /disable does: their leaders' keys are
// deleted at once, and waiting activations can still be fetched.
func (s *Scheduler) Disable(ctx context.Context) error {
	s.mu.Lock()
	var led []activation.Queue
	for _, q := range s.queues {
		q.Outdate()
		led = append(led, q.Function.Queue)
	}
	s.happened()
	s.mu.Unlock()
	for _, q := range led {
		if err := s.resign(ctx, q); err != nil {
			return err
		}
	}
	return nil
}
