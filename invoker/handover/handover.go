// Package handover is what replacing one invoker by another asks of Kafka: has
// everything that was sent to the old one been answered, and does the new one
// answer? It works with any invoker that speaks OpenWhisk's protocol, since it
// looks at topics only. It changes nothing but, for a probe, a topic that it
// takes away again. It has no goroutine of its own.
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

// Invoker is the one that is looked at.
type Invoker struct {
	Cluster *kafka.Cluster
	Prefix  string // of the deployment's topics
	ID      int
	// Hold, when not nil, is called by a probe that is ready to send, which waits
	// for it: what makes ready then takes none of the time in which nobody serves.
	Hold func(context.Context) error
}

// ErrNoController is a deployment where no controller ever ran.
var ErrNoController = errors.New("no topic completed0, completed1, ...: no controller of this deployment ever ran; check CONFIG_whisk_kafka_topics_prefix")

// completed are the topics on which controllers hear acks, and the number of
// one of them.
func (i Invoker) completed(ctx context.Context) (topics []string, controller string, err error) {
	s, err := i.Cluster.Survey(ctx)
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

// Drained returns when nothing that was sent to the invoker is unanswered. Told
// hears each count. Longest is how long an activation may take: what the
// invoker took before that and never answered is lost, and not waited for.
func (i Invoker) Drained(ctx context.Context, longest time.Duration, told func(waiting, running int)) error {
	p := i.Cluster.NewPending(i.Prefix, activation.Instance{ID: i.ID}.Topic(), longest)
	defer p.Close()
	const every = 250 * time.Millisecond
	for {
		topics, _, err := i.completed(ctx)
		if err != nil {
			return err
		}
		waiting, running, err := p.Look(ctx, topics)
		if err != nil {
			return err
		}
		told(waiting, running)
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
// one by which controllers test invokers.
func (i Invoker) Probe(ctx context.Context, action string) (took time.Duration, err error) {
	if action == "" {
		_, controller, err := i.completed(ctx)
		if err != nil {
			return 0, err
		}
		action = "whisk.system/invokerHealthTestAction" + controller
	}
	cut := strings.LastIndexByte(action, '/')
	if cut < 1 {
		return 0, fmt.Errorf("action %q is not NAMESPACE/NAME or NAMESPACE/PACKAGE/NAME", action)
	}
	path, name := action[:cut], action[cut+1:]
	namespace, _, _ := strings.Cut(path, "/")
	id := random()
	m := activation.Message{
		TransID:      activation.NewTransID(id, time.Now().UnixMilli(), false),
		Action:       activation.ActionRef{Path: path, Name: name, Version: activation.DefaultVersion},
		ActivationID: activation.ID(id),
		Controller:   "probe-" + id[:8],
		User: activation.Identity{
			Subject:   namespace,
			Namespace: activation.Namespace{Name: namespace, UUID: id},
			Rights:    []string{},
		},
	}
	reply := kafka.TopicSpec{Name: i.Prefix + "completed" + m.Controller, Config: map[string]string{
		"retention.ms": "300000", "max.message.bytes": strconv.Itoa(kafka.MaxMessageBytes),
	}}
	began := time.Now()
	hold := func(ctx context.Context) error {
		if i.Hold == nil {
			return nil
		}
		defer func() { began = time.Now() }()
		return i.Hold(ctx)
	}
	var failed error
	err = i.Cluster.Exchange(ctx, i.Prefix+activation.Instance{ID: i.ID}.Topic(), m.Encode(), reply, hold, func(value []byte) bool {
		ack, err := activation.DecodeAck(value)
		if err != nil || ack.ActivationID != m.ActivationID || !ack.FreesSlot() {
			return false
		}
		if ack.SystemError {
			failed = fmt.Errorf("%s ended in a system error (activation %s in namespace %s has the reason)", action, id, namespace)
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return time.Since(began), err
}

func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
