package assembly

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/activation/steps"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// recall adds what the journal knows of an activation to what Kafka does, and
// tells the journal that it is accepted. It tells whether the message is of any
// use: not if the journal's copy of it is being worked on.
func recall(j *journal.Journal, partition int, d *invoker.Delivery) bool {
	past := j.Delivered(d.Message.ActivationID, partition, d.Offset)
	if past.Taken && past.State != journal.Completed {
		return false
	}
	d.Unlisted = past.Other
	d.Completed = past.State == journal.Completed
	d.Begun = d.Begun || past.State == journal.Started
	d.Attempts = max(d.Attempts, past.Crashes)
	d.Ended = ended(j, d.Message.ActivationID, past)
	return true
}

// ended is what a former process had an activation end with and could not tell
// everybody, nil where it is not known.
func ended(j *journal.Journal, id activation.ID, past journal.Past) *activation.Record {
	if !past.Owed || past.State == journal.Completed {
		return nil
	}
	text, err := j.Owed(id)
	if err != nil {
		return nil // it counts as what was running
	}
	r, err := activation.DecodeRecord(text)
	if err != nil {
		return nil
	}
	return r
}

// resumed is what a former process left in the journal.
func resumed(j *journal.Journal, l journal.Left) (invoker.Delivery, error) {
	text, past, err := j.Take(l.ID)
	if err != nil {
		return invoker.Delivery{}, err
	}
	m, err := activation.DecodeMessage(text)
	if err != nil {
		return invoker.Delivery{}, err
	}
	return invoker.Delivery{
		Message: m, Offset: l.Offset, Done: func() {}, Begun: past.State == journal.Started, Attempts: past.Crashes,
		Ended: ended(j, l.ID, past),
	}, nil
}

// outbox sends to controllers and to whoever reads user events.
type outbox struct {
	producer *kafka.Producer
	prefix   string // of all topics but the events'
	events   string // topic of user events, empty when they are off
}

func (o outbox) Ack(ctx context.Context, controller string, ack activation.Ack, sent func(error)) error {
	return o.producer.SendAck(ctx, o.prefix+"completed"+controller, ack, owing(sent))
}

// owing has the invoker hear by its own word of what was not sent before the
// producer closed: that was not given up, it is owed.
func owing(sent func(error)) func(error) {
	return func(err error) {
		if errors.Is(err, kafka.ErrClosed) {
			err = fmt.Errorf("%w: %w", invoker.ErrUnsent, err)
		}
		sent(err)
	}
}

// Event never makes anybody wait: the original sends and forgets, too.
func (o outbox) Event(_ context.Context, e activation.Event) error {
	if o.events == "" {
		return nil
	}
	if !o.producer.TrySend(o.events, e.Encode()) {
		return errors.New("the queue of user events is full")
	}
	return nil
}

func (o outbox) Forward(ctx context.Context, topic, key string, message []byte, sent func(error)) error {
	return o.producer.SendKeyed(ctx, o.prefix+topic, key, message, owing(sent))
}

// readTries is how often an action is asked for while the database answers in
// between.
const readTries = 4

// actions translates the store's errors into the invoker's, and waits for a
// store that is away.
type actions struct{ *couchdb.Store }

func (a actions) Action(ctx context.Context, id, revision string) (*activation.Action, error) {
	found, err := a.Store.Action(ctx, id, revision)
	// A database that answers, but not for this action, is not away.
	for try := 1; try < readTries && errors.Is(err, couchdb.ErrAway); try++ {
		if gone := a.Store.AwaitReads(ctx); gone != nil {
			return nil, fmt.Errorf("%w (%w)", err, gone)
		}
		found, err = a.Store.Action(ctx, id, revision)
	}
	if errors.Is(err, couchdb.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", invoker.ErrNotFound, err)
	}
	return found, err
}

// sink writes records to a store.
type sink struct {
	to interface {
		PutDocument(ctx context.Context, doc records.Document) error
	}
	steps *invoker.Steps
	name  string
}

func (s sink) Put(ctx context.Context, id string, doc []byte, stored func(batch int, err error)) error {
	step, done := s.steps.Saves(s.name, id)
	ended := steps.Begin(ctx, s.steps, step)
	return s.to.PutDocument(ctx, records.Document{ID: id, Body: doc, Stored: func(batch int, err error) {
		ended(done, err)
		stored(batch, err)
	}})
}

// discard is the store of a deployment that wants no records.
type discard struct{}

func (discard) Put(_ context.Context, _ string, _ []byte, stored func(batch int, err error)) error {
	stored(0, nil)
	return nil
}

func dial(addr string, concurrency int) invoker.Talk { return proxy.New(addr, concurrency) }
