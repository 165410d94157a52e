// Package handover answers the two questions of replacing an invoker: has the old
// invoker answered all of its activations, and does the new invoker answer? It uses
// only the protocol of controllers and schedulers, so it works with every invoker of
// OpenWhisk. A probe creates topics and deletes them at its end; nothing else is
// changed. The package starts no goroutines.
package handover

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
)

// Invoker is the invoker under examination.
type Invoker struct {
	Cluster *kafka.Cluster
	Prefix  string // of the deployment's topics
	ID      int
	// Hold, if not nil, is called by a probe when it is ready to send. The probe waits
	// until Hold returns. A caller can thus prepare the probe before it stops the old
	// invoker, which shortens the time without an invoker.
	Hold func(context.Context) error
	// Scheduled is nil in classic mode.
	Scheduled *Scheduled
}

// errNoController means that no controller has ever run in the deployment.
var errNoController = errors.New("no topic completed0, completed1, ...: no controller of this deployment ever ran; check CONFIG_whisk_kafka_topics_prefix")

// completed returns the topics on which controllers receive acks, and the number of one
// controller.
func (i Invoker) completed(ctx context.Context) (topics []string, controller string, err error) {
	s, err := i.Cluster.Describe(ctx)
	if err != nil {
		return nil, "", err
	}
	for name := range s.Topics {
		id, ok := strings.CutPrefix(name, i.Prefix+"completed")
		if !ok {
			continue
		}
		topics = append(topics, name)
		if _, err := strconv.Atoi(id); err == nil && (controller == "" || id < controller) {
			controller = id
		}
	}
	if controller == "" {
		return nil, "", errNoController
	}
	slices.Sort(topics)
	return topics, controller, nil
}

// Drained blocks until every activation of the invoker is answered. It calls progress
// with each count. longest is the longest time of an activation: Drained does not wait
// for older activations without an answer, because they are lost.
func (i Invoker) Drained(ctx context.Context, longest time.Duration, progress func(waiting, running int)) error {
	if i.Scheduled != nil {
		return fmt.Errorf("%w; after POST /disable, GET /pool/count shows 0 when all has ended", ErrScheduled)
	}
	p := i.Cluster.NewUnanswered(i.Prefix, activation.Instance{ID: i.ID}.Topic(), longest)
	defer p.Close()
	const every = 250 * time.Millisecond
	for {
		topics, _, err := i.completed(ctx)
		if err != nil {
			return err
		}
		waiting, running, err := p.Poll(ctx, topics)
		if err != nil {
			return err
		}
		progress(waiting, running)
		if waiting+running == 0 {
			return nil
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return fmt.Errorf("%d wait and %d run: %w", waiting, running, context.Cause(ctx))
		}
	}
}

// Probe sends an activation to the invoker, as a controller does, or as a scheduler in
// scheduler mode. It returns when the ack has come that frees the activation's slot. An
// empty name means the action by which controllers test invokers.
func (i Invoker) Probe(ctx context.Context, action string) (took time.Duration, err error) {
	if i.Scheduled != nil {
		return i.probeScheduled(ctx, action)
	}
	if action == "" {
		_, controller, err := i.completed(ctx)
		if err != nil {
			return 0, err
		}
		action = "whisk.system/invokerHealthTestAction" + controller
	}
	m, err := message(action, "probe-"+random()[:8])
	if err != nil {
		return 0, err
	}
	acks := make(chan activation.Ack, 1)
	requester, err := i.requester(ctx, m.Controller, func(ack activation.Ack) {
		if ack.ActivationID == m.ActivationID && ack.FreesSlot() {
			offer(acks, ack)
		}
	})
	if err != nil {
		return 0, err
	}
	defer func() {
		if closed := requester.Close(context.WithoutCancel(ctx)); err == nil {
			err = closed
		}
	}()
	if i.Hold != nil {
		if err := i.Hold(ctx); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	if err := requester.Send(ctx, i.topic(), m.Encode()); err != nil {
		return 0, err
	}
	select {
	case ack := <-acks:
		return time.Since(began), judge(action, m, ack)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// judge returns an error if a probe's activation did not succeed.
func judge(action string, m activation.Message, ack activation.Ack) error {
	if !ack.SystemError {
		return nil
	}
	return fmt.Errorf("%s ended in a system error (activation %s in namespace %s has the reason)", action, m.ActivationID, m.User.Namespace.Name)
}

// topic returns the topic from which the invoker reads activations.
func (i Invoker) topic() string { return i.Prefix + activation.Instance{ID: i.ID}.Topic() }

// requester creates a topic of acks for a controller of the given name and passes the
// acks to receive.
func (i Invoker) requester(ctx context.Context, controller string, receive func(activation.Ack)) (*kafka.Requester, error) {
	reply := kafka.TopicSpec{Name: i.Prefix + "completed" + controller, Config: replyConfig()}
	return i.Cluster.NewRequester(ctx, reply, func(value []byte) {
		if ack, err := activation.DecodeAck(value); err == nil {
			receive(ack)
		}
	})
}

// replyConfig returns the configuration of a topic for answers.
func replyConfig() map[string]string {
	return map[string]string{"retention.ms": "300000", "max.message.bytes": strconv.Itoa(kafka.MaxMessageBytes)}
}

// message returns an activation of an action in the form that the named controller
// sends.
func message(action, controller string) (activation.Message, error) {
	path, name, err := splitAction(action)
	if err != nil {
		return activation.Message{}, err
	}
	namespace, _, _ := strings.Cut(path, "/")
	id := random()
	return activation.Message{
		TransID:      activation.NewTransID(id, time.Now().UnixMilli(), false),
		Action:       activation.ActionRef{Path: path, Name: name, Version: activation.DefaultVersion},
		ActivationID: activation.ID(id),
		Controller:   controller,
		User: activation.Identity{
			Subject:   namespace,
			Namespace: activation.Namespace{Name: namespace, UUID: id},
			Rights:    []string{},
		},
	}, nil
}

// splitAction splits NAMESPACE/[PACKAGE/]NAME into path and name. A leading slash is
// allowed.
func splitAction(action string) (path, name string, err error) {
	full := strings.TrimPrefix(action, "/")
	cut := strings.LastIndexByte(full, '/')
	if cut < 1 || cut == len(full)-1 || strings.Count(full, "/") > 2 {
		return "", "", fmt.Errorf("action %q: want NAMESPACE/[PACKAGE/]NAME, since no controller is asked whose it is", action)
	}
	return full[:cut], full[cut+1:], nil
}

func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
