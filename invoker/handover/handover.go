// Package handover is what replacing one invoker by another asks: has
// everything that was sent to the old one been answered, and does the new one
// answer? It works with any invoker that speaks OpenWhisk's protocol, since it
// uses only what controllers and schedulers use. It changes nothing but, for a probe
// and for load, topics that it deletes again. It has no goroutine of its own.
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

// Invoker is the one that is measured.
type Invoker struct {
	Cluster *kafka.Cluster
	Prefix  string // of the deployment's topics
	ID      int
	// Hold, when not nil, is called by a probe that is ready to send, which waits
	// for it: so preparing takes none of the time in which no invoker serves.
	Hold func(context.Context) error
	// Scheduled is nil in classic mode.
	Scheduled *Scheduled
}

// ErrNoController is a deployment where no controller ever ran.
var ErrNoController = errors.New("no topic completed0, completed1, ...: no controller of this deployment ever ran; check CONFIG_whisk_kafka_topics_prefix")

// completed are the topics on which controllers receive acks, and the number of
// one of them.
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
		return nil, "", ErrNoController
	}
	slices.Sort(topics)
	return topics, controller, nil
}

// Drained returns when nothing that was sent to the invoker is unanswered.
// Progress is called with each count. Longest is how long an activation may take: what the
// invoker took before that and never answered is lost, and not waited for.
func (i Invoker) Drained(ctx context.Context, longest time.Duration, progress func(waiting, running int)) error {
	if i.Scheduled != nil {
		return fmt.Errorf("%w; after POST /disable, GET /pool/count shows 0 when all has ended", ErrScheduled)
	}
	p := i.Cluster.NewPending(i.Prefix, activation.Instance{ID: i.ID}.Topic(), longest)
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

// Probe sends an activation to the invoker, as a controller would, and returns
// when the ack that frees its slot has come. Without an action's name it is the
// one by which controllers test invokers. In scheduler mode it is a scheduler that
// sends.
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

// judge is what is wrong with the end of a probe.
func judge(action string, m activation.Message, ack activation.Ack) error {
	if !ack.SystemError {
		return nil
	}
	return fmt.Errorf("%s ended in a system error (activation %s in namespace %s has the reason)", action, m.ActivationID, m.User.Namespace.Name)
}

// topic is the one from which the invoker takes activations.
func (i Invoker) topic() string { return i.Prefix + activation.Instance{ID: i.ID}.Topic() }

// requester makes a topic of acks for a controller of this name, and passes on
// what comes there.
func (i Invoker) requester(ctx context.Context, controller string, receive func(activation.Ack)) (*kafka.Requester, error) {
	reply := kafka.TopicSpec{Name: i.Prefix + "completed" + controller, Config: replyConfig()}
	return i.Cluster.NewRequester(ctx, reply, func(value []byte) {
		if ack, err := activation.DecodeAck(value); err == nil {
			receive(ack)
		}
	})
}

// replyConfig is that of topics on which answers come.
func replyConfig() map[string]string {
	return map[string]string{"retention.ms": "300000", "max.message.bytes": strconv.Itoa(kafka.MaxMessageBytes)}
}

// message is an activation of an action, as a controller of this name sends it.
func message(action, controller string) (activation.Message, error) {
	path, name, err := SplitAction(action)
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

func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
