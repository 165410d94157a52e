package handover

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
)

// Loader sends activations to an invoker past all controllers, and hears their
// acks on a topic of its own. Calls may be made from many goroutines.
type Loader struct {
	topic      string
	controller string
	content    json.RawMessage
	talk       *kafka.Conversation

	mu      sync.Mutex
	waiting map[activation.ID]chan activation.Ack
}

// Ended is how an activation ended, as its ack tells.
type Ended struct {
	ID     string
	Start  string // gpu-warm, host-warm, cold, busy-cold; warm, cold; empty where the ack does not tell
	Status int    // OpenWhisk's status code
}

// Load opens a loader; parameters are those of each call, an object or nothing.
func (i Invoker) Load(ctx context.Context, parameters []byte) (*Loader, error) {
	s, err := i.Cluster.Survey(ctx)
	if err != nil {
		return nil, err
	}
	l := &Loader{
		topic: i.Prefix + activation.Instance{ID: i.ID}.Topic(), controller: "load-" + random()[:8], content: json.RawMessage("{}"),
		waiting: map[activation.ID]chan activation.Ack{},
	}
	if _, ok := s.Topics[l.topic]; !ok {
		return nil, fmt.Errorf("no topic %s: no invoker with this id ever ran, or CONFIG_whisk_kafka_topics_prefix is another", l.topic)
	}
	if len(parameters) > 0 {
		if l.content, err = activation.Canonical(parameters); err != nil || l.content[0] != '{' {
			return nil, fmt.Errorf("parameters: want one JSON object")
		}
	}
	l.talk, err = i.Cluster.Converse(ctx, kafka.TopicSpec{Name: i.Prefix + "completed" + l.controller, Config: map[string]string{
		"retention.ms": "300000", "max.message.bytes": strconv.Itoa(kafka.MaxMessageBytes),
	}}, l.hear)
	return l, err
}

// Close takes the topic of the acks away.
func (l *Loader) Close(ctx context.Context) error { return l.talk.Close(ctx) }

// hear gives an ack to the call that waits for it: the first that tells how it
// ended.
func (l *Loader) hear(value []byte) {
	ack, err := activation.DecodeAck(value)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if call := l.waiting[ack.ActivationID]; call != nil {
		delete(l.waiting, ack.ActivationID)
		call <- ack
	}
}

// SplitAction divides NAMESPACE/[PACKAGE/]NAME, with or without a slash before
// it.
func SplitAction(action string) (path, name string, err error) {
	full := strings.TrimPrefix(action, "/")
	cut := strings.LastIndexByte(full, '/')
	if cut < 1 || cut == len(full)-1 || strings.Count(full, "/") > 2 {
		return "", "", fmt.Errorf("action %q: want NAMESPACE/[PACKAGE/]NAME, since no controller is asked whose it is", action)
	}
	return full[:cut], full[cut+1:], nil
}

// Call runs an action and returns when its result is there.
func (l *Loader) Call(ctx context.Context, action string) (Ended, error) {
	path, name, err := SplitAction(action)
	if err != nil {
		return Ended{}, err
	}
	namespace, _, _ := strings.Cut(path, "/")
	id := random()
	m := activation.Message{
		TransID:      activation.NewTransID(id, time.Now().UnixMilli(), false),
		Action:       activation.ActionRef{Path: path, Name: name, Version: activation.DefaultVersion},
		ActivationID: activation.ID(id), Controller: l.controller, Blocking: true, Content: l.content,
		User: activation.Identity{Subject: namespace, Namespace: activation.Namespace{Name: namespace, UUID: id}, Rights: []string{}},
	}
	answer := make(chan activation.Ack, 1)
	l.mu.Lock()
	l.waiting[m.ActivationID] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, m.ActivationID)
	}()
	if err := l.talk.Send(ctx, l.topic, m.Encode()); err != nil {
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
	e.Status, e.Start = ack.Record.Response.StatusCode, "warm"
	if _, cold := ack.Record.Annotations.Get("initTime"); cold {
		e.Start = "cold"
	}
	var run struct{ Start string }
	if note, ok := ack.Record.Annotations.Get(activation.GPUAnnotation); ok && json.Unmarshal(note, &run) == nil && run.Start != "" {
		e.Start = run.Start
	}
	return e
}
