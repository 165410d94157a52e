package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
)

// Scheduled holds the parts that a probe needs in OpenWhisk's scheduler mode. There the
// probe acts as the scheduler of one activation.
type Scheduled struct {
	Etcd etcd.Config
	// Document reads the document of an action by its id.
	Document func(ctx context.Context, id string) (json.RawMessage, error)
	// Host is the address of this machine as seen by the invoker.
	Host string
}

// ErrScheduled is returned in scheduler mode by functions that only read topics, because
// activations do not use the topics there.
var ErrScheduled = errors.New("this works in classic mode only: in OpenWhisk's scheduler mode the invoker's topic holds no activations")

const (
	// creationTime limits the wait for an invoker's ack, as in schedulers.
	creationTime = 20 * time.Second
	// creationPause is the pause between a refused creation and the next one.
	creationPause = time.Second
	// leaveTime limits the wait for the invoker's next fetch, which is answered with an
	// order to end the container.
	leaveTime = 5 * time.Second
)

// exchange is the activation of a probe.
type exchange struct {
	message        json.RawMessage
	removalOrdered chan struct{} // closed when a container was ordered to end

	leaves  sync.Once
	mu      sync.Mutex
	fetched bool
}

// answer gives the activation to the first fetch. Later fetches are answered as after an
// update of the action, so their containers end.
func (x *exchange) answer(_ activation.Queue, alive bool) activation.FetchAnswer {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case !alive:
		return activation.FetchAnswer{Kind: activation.NoActivation}
	case !x.fetched:
		x.fetched = true
		return activation.NewFetchAnswer(x.message)
	}
	x.leaves.Do(func() { close(x.removalOrdered) })
	return activation.FetchAnswer{Kind: activation.ActionMismatch}
}

// probeScheduled orders a container as a scheduler does, hands out one activation, and
// waits for the ack that frees its slot. An empty name means the action by which the
// original invoker tests itself.
func (i Invoker) probeScheduled(ctx context.Context, action string) (took time.Duration, err error) {
	if action == "" {
		action = fmt.Sprintf("whisk.system/invokerHealthTestAction%d", i.ID)
	}
	m, err := message(action, "probe-"+random()[:8])
	if err != nil {
		return 0, err
	}
	doc, err := i.Scheduled.Document(ctx, m.Action.FQN())
	if err != nil {
		return 0, fmt.Errorf("read action %s (another can be named): %w", action, err)
	}
	q, meta, err := Describe(doc, m.User.Namespace.Name)
	if err != nil {
		return 0, fmt.Errorf("action %s: %w", action, err)
	}
	m.Action, m.Revision = q.Action, q.Revision
	x := &exchange{message: m.Encode(), removalOrdered: make(chan struct{})}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, err
	}
	server := fetch.Serve(l, x.answer)
	defer server.Close()
	order := &activation.ContainerCreation{
		TransID: m.TransID, Queue: q, MetaData: meta,
		Scheduler: m.Controller, Endpoint: activation.Endpoint{Host: i.Scheduled.Host, Port: l.Addr().(*net.TCPAddr).Port},
	}
	return i.order(ctx, action, m, order, x)
}

// order sends creations until one is accepted, and then waits for the end of the
// activation.
func (i Invoker) order(ctx context.Context, action string, m activation.Message, c *activation.ContainerCreation, x *exchange) (took time.Duration, err error) {
	ended := make(chan activation.Ack, 1)
	completed, err := i.requester(ctx, m.Controller, func(ack activation.Ack) {
		if ack.ActivationID == m.ActivationID && ack.FreesSlot() {
			offer(ended, ack)
		}
	})
	if err != nil {
		return 0, err
	}
	acks := make(chan activation.ContainerCreationAck, 1)
	reply := kafka.TopicSpec{Name: i.Prefix + activation.CreationAckTopic(c.Scheduler), Config: replyConfig()}
	created, err := i.Cluster.NewRequester(ctx, reply, func(value []byte) {
		if ack, err := activation.DecodeContainerCreationAck(value); err == nil {
			offer(acks, ack)
		}
	})
	if err != nil {
		return 0, errors.Join(err, completed.Close(context.WithoutCancel(ctx)))
	}
	defer func() {
		last := context.WithoutCancel(ctx)
		if closed := errors.Join(completed.Close(last), created.Close(last)); err == nil {
			err = closed
		}
	}()
	if err := i.awaitUp(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	for {
		c.ID = activation.ID(random())
		if err := created.Send(ctx, i.topic(), c.Encode()); err != nil {
			return 0, err
		}
		again := time.NewTimer(creationTime)
		for waiting := true; waiting; {
			select {
			case ack := <-ended:
				again.Stop()
				x.leave(ctx)
				return time.Since(began), judge(action, m, ack)
			case ack := <-acks:
				switch {
				case ack.Error == activation.NoCreationError:
					again.Stop() // the invoker has accepted the creation
				case !ack.Error.Retried():
					return 0, fmt.Errorf("the invoker refuses a container of %s: %s: %s", action, ack.Error, ack.Reason)
				default:
					again.Reset(creationPause)
				}
			case <-again.C:
				waiting = false
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
	}
}

// awaitUp blocks until the invoker accepts creations. After Hold it first ends the lease
// that the invoker had before, because the process of that lease has been stopped.
func (i Invoker) awaitUp(ctx context.Context) error {
	if i.Hold == nil {
		return etcd.AwaitUp(ctx, i.Scheduled.Etcd, i.ID, 0)
	}
	before, err := etcd.Lease(ctx, i.Scheduled.Etcd, i.ID)
	if err != nil {
		return err
	}
	if err := i.Hold(ctx); err != nil {
		return err
	}
	return etcd.AwaitUp(ctx, i.Scheduled.Etcd, i.ID, before)
}

// leave blocks until the container fetches once more, or until leaveTime has passed.
func (x *exchange) leave(ctx context.Context) {
	select {
	case <-x.removalOrdered:
	case <-time.After(leaveTime):
	case <-ctx.Done():
	}
}

// offer sends a value to a channel unless the channel is full.
func offer[T any](to chan T, v T) {
	select {
	case to <- v:
	default:
	}
}

// Describe returns a scheduler's description of an action for the namespace that invokes
// it: the name of the queue, and the action's document without the code.
func Describe(doc json.RawMessage, namespace string) (activation.Queue, activation.ActionMetaData, error) {
	var fields, exec map[string]json.RawMessage
	var known struct {
		Revision string `json:"_rev"`
		Version  string
		Name     string
		Path     string `json:"namespace"`
		Exec     json.RawMessage
	}
	if err := errors.Join(json.Unmarshal(doc, &fields), json.Unmarshal(doc, &known)); err != nil {
		return activation.Queue{}, activation.ActionMetaData{}, fmt.Errorf("its document cannot be read: %w", err)
	}
	if err := json.Unmarshal(known.Exec, &exec); err != nil {
		return activation.Queue{}, activation.ActionMetaData{}, fmt.Errorf("its document has no exec: %w", err)
	}
	delete(exec, "code")
	if exec["binary"] == nil {
		exec["binary"] = json.RawMessage("false")
	}
	for _, own := range []string{"_id", "_rev", "_attachments", "entityType"} {
		delete(fields, own)
	}
	var err error
	if fields["exec"], err = json.Marshal(exec); err != nil {
		return activation.Queue{}, activation.ActionMetaData{}, err
	}
	meta, err := json.Marshal(fields)
	q := activation.NewQueue(namespace, activation.ActionRef{Path: known.Path, Name: known.Name, Version: known.Version}, known.Revision)
	return q, activation.NewActionMetaData(meta), err
}
