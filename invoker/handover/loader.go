package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
)

// Loader sends activations directly to an invoker and receives their acks on its own
// topic. It is safe for concurrent use.
type Loader struct {
	topic      string
	controller string
	content    json.RawMessage
	requester  *kafka.Requester

	mu      sync.Mutex
	waiting map[activation.ID]chan activation.Ack
}

// Ended is the end of an activation, as in its ack.
type Ended struct {
	ID     string
	Start  string // gpu-warm, host-warm, cold, busy-cold; warm, cold; empty if the ack does not say
	Status int    // OpenWhisk's status code
}

// Load opens a loader. parameters, an object or nil, are sent with each call.
func (i Invoker) Load(ctx context.Context, parameters []byte) (*Loader, error) {
	if i.Scheduled != nil {
		return nil, fmt.Errorf("%w; call actions through the API host", ErrScheduled)
	}
	d, err := i.Cluster.Describe(ctx)
	if err != nil {
		return nil, err
	}
	l := &Loader{
		topic: i.topic(), controller: "load-" + random()[:8], content: json.RawMessage("{}"),
		waiting: map[activation.ID]chan activation.Ack{},
	}
	if _, ok := d.Topics[l.topic]; !ok {
		return nil, fmt.Errorf("no topic %s: no invoker with this id ever ran, or CONFIG_whisk_kafka_topics_prefix is another", l.topic)
	}
	if len(parameters) > 0 {
		if l.content, err = activation.Canonical(parameters); err != nil || l.content[0] != '{' {
			return nil, errors.New("parameters: want one JSON object")
		}
	}
	l.requester, err = i.requester(ctx, l.controller, l.receive)
	return l, err
}

// Close deletes the topic of the acks.
func (l *Loader) Close(ctx context.Context) error { return l.requester.Close(ctx) }

// receive passes an ack to the waiting call. The first ack with the activation's end
// counts.
func (l *Loader) receive(ack activation.Ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if call := l.waiting[ack.ActivationID]; call != nil {
		delete(l.waiting, ack.ActivationID)
		call <- ack
	}
}

// Call runs an action and blocks until its result arrives.
func (l *Loader) Call(ctx context.Context, action string) (Ended, error) {
	m, err := message(action, l.controller)
	if err != nil {
		return Ended{}, err
	}
	m.Blocking, m.Content = true, l.content
	answer := make(chan activation.Ack, 1)
	l.mu.Lock()
	l.waiting[m.ActivationID] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, m.ActivationID)
	}()
	id := string(m.ActivationID)
	if err := l.requester.Send(ctx, l.topic, m.Encode()); err != nil {
		return Ended{ID: id}, err
	}
	select {
	case ack := <-answer:
		return ended(id, ack), nil
	case <-ctx.Done():
		return Ended{ID: id}, context.Cause(ctx)
	}
}

func ended(id string, ack activation.Ack) Ended {
	e := Ended{ID: id}
	if ack.SystemError {
		e.Status = activation.StatusWhiskError
	}
	if ack.Record == nil {
		return e
	}
	e.Status, e.Start = ack.Record.Response.StatusCode, ack.Record.Annotations.Start()
	return e
}
