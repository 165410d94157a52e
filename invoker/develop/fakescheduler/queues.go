package fakescheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// errLed means that another scheduler leads the queue.
var errLed = errors.New("another scheduler leads the queue")

// Function is an action, together with the namespace that invokes it.
type Function struct {
	Queue    activation.Queue
	MetaData activation.ActionMetaData

	action *activation.Action
}

// id returns the name of the queue, which all revisions share.
func (f Function) id() string { return f.Queue.Namespace + "/" + f.Queue.Action.FQN() }

// SetLimit sets the most containers of a namespace.
func (s *Scheduler) SetLimit(namespace string, containers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits[namespace] = containers
}

// CreateQueue creates the queue of a function and puts its leader's key. A controller
// requests this before the first activation. The error wraps errLed if another
// scheduler leads the queue.
func (s *Scheduler) CreateQueue(ctx context.Context, f Function) error {
	action, err := f.MetaData.Decode(s.cfg.Manifest)
	if err != nil {
		return err
	}
	f.action = action
	key := s.cfg.Cluster.Leader(f.Queue)
	value := string(s.endpoints.Encode())
	answer, err := s.etcd.Txn(ctx).If(clientv3.Compare(clientv3.Version(key), "=", 0)).
		Then(clientv3.OpPut(key, value, clientv3.WithLease(s.lease))).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return fmt.Errorf("elect the leader of %s: %w", key, err)
	}
	if !answer.Succeeded {
		if kvs := answer.Responses[0].GetResponseRange().Kvs; len(kvs) != 1 || string(kvs[0].Value) != value {
			return fmt.Errorf("%w: %s", errLed, key)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[f.id()] == nil {
		s.queues[f.id()] = s.queue(f)
	}
	s.functions[f.id()] = f
	s.happened()
	return nil
}

// queue creates a queue. The caller must hold s.mu.
func (s *Scheduler) queue(f Function) *queue {
	settings := s.cfg.Queue
	settings.Concurrency = max(f.action.Limits.Concurrency, 1)
	settings.Instances = f.action.Limits.Instances
	if f.action.Exec.Kind == activation.Blackbox {
		settings.Retention *= memoryqueue.BlackboxRetention / time.Minute
	}
	q := &queue{Function: f}
	q.Queue = memoryqueue.New(time.Now(), settings, f.Queue.Action, func(a memoryqueue.Activation, status int, reason string) {
		s.fail(f, a, status, reason)
	})
	return q
}

// Update reports that an action was updated. The next activation creates a queue for
// the new revision and retires the old queue.
func (s *Scheduler) Update(f Function) error {
	action, err := f.MetaData.Decode(s.cfg.Manifest)
	if err != nil {
		return err
	}
	f.action = action
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.queues[f.id()]; old != nil {
		old.Outdate()
		old.outdated = true
		s.outdated = append(s.outdated, old)
	}
	s.functions[f.id()] = f
	s.queues[f.id()] = s.queue(f)
	s.happened()
	return nil
}

// mostAge is the greatest age of an activation on its arrival.
const mostAge = 20 * time.Second

// arrive handles an activation from the scheduler's topic.
func (s *Scheduler) arrive(value []byte) {
	m, err := activation.DecodeMessage(value)
	if err != nil {
		s.log.Error("an activation of a test cannot be read", "error", err)
		return
	}
	if age := time.Since(time.UnixMilli(m.TransID.StartMillis())); age > mostAge {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f, ok := s.functions[m.User.Namespace.Name+"/"+m.Action.FQN()]; ok {
			s.fail(f, memoryqueue.Activation{ID: m.ActivationID, JSON: value}, activation.StatusWhiskError, "too old activation is arrived.")
		}
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, requestLimit)
	defer cancel()
	if err := s.Invoke(ctx, m); err != nil {
		s.log.Error("an activation has no queue", "error", err)
	}
}

// Invoke handles an activation as if it had come by the scheduler's topic. The queue
// must have been created once; a removed queue is created again.
func (s *Scheduler) Invoke(ctx context.Context, m *activation.Message) error {
	id := m.User.Namespace.Name + "/" + m.Action.FQN()
	s.mu.Lock()
	f, known := s.functions[id]
	there := s.queues[id] != nil
	s.mu.Unlock()
	if !known {
		return fmt.Errorf("no queue of %s", id)
	}
	if !there {
		if err := s.CreateQueue(ctx, f); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[id] == nil {
		return fmt.Errorf("the queue of %s is removed", id)
	}
	s.add(s.queues[id], m)
	return nil
}

// add puts an activation into a queue, with the revision of the queue. The caller
// must hold s.mu.
func (s *Scheduler) add(q *queue, m *activation.Message) {
	if m.Revision != q.Function.Queue.Revision {
		restamped := *m
		restamped.Revision, restamped.Action.Version = q.Function.Queue.Revision, q.Function.Queue.Action.Version
		m = &restamped
	}
	q.Add(time.Now(), memoryqueue.Activation{ID: m.ActivationID, JSON: m.Encode()})
	s.happened()
}

// all lists the queues in the order of their names, outdated ones last. The caller
// must hold s.mu.
func (s *Scheduler) all() []*queue {
	var all []*queue
	for _, id := range slices.Sorted(maps.Keys(s.queues)) {
		all = append(all, s.queues[id])
	}
	return append(all, s.outdated...)
}

// tick calls Tick of every queue and orders containers.
func (s *Scheduler) tick(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.all() {
		q.Tick(now)
		counts := s.counts(q.Function.Queue.Namespace)
		if n := q.Decide(now, counts); n > 0 {
			s.order(q, n)
		}
		s.reportThrottling(q)
		if q.State() == memoryqueue.Removing && !q.outdated && q.Waiting() == 0 {
			q.Remove() // handed over
		}
	}
	for id, q := range s.queues {
		if q.State() == memoryqueue.Removed {
			delete(s.queues, id)
			s.background(func(ctx context.Context) error { return s.resign(ctx, q.Function.Queue) })
		}
	}
	s.outdated = slices.DeleteFunc(s.outdated, s.retired)
}

// resign deletes the key of a queue's leader if this scheduler is the leader.
func (s *Scheduler) resign(ctx context.Context, q activation.Queue) error {
	key := s.cfg.Cluster.Leader(q)
	_, err := s.etcd.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", string(s.endpoints.Encode()))).
		Then(clientv3.OpDelete(key)).Commit()
	return err
}

// retired ends an empty queue of an old revision together with its containers.
// Activations that wait without any container move to the new queue. The caller
// must hold s.mu.
func (s *Scheduler) retired(q *queue) bool {
	if q.Waiting() > 0 && q.Containers()+q.Creations() > 0 {
		return false
	}
	for _, a := range q.Take() {
		m, err := activation.DecodeMessage(a.JSON)
		if err != nil {
			s.log.Error("an activation of a test cannot be read", "error", err)
			continue
		}
		if next := s.queues[q.id()]; next != nil {
			s.add(next, m)
		}
	}
	q.Remove()
	s.delete(q)
	return true
}

// counts returns the numbers of a namespace's containers. The caller must hold s.mu.
func (s *Scheduler) counts(namespace string) memoryqueue.Counts {
	c := memoryqueue.Counts{Limit: s.cfg.NamespaceLimit}
	if own, ok := s.limits[namespace]; ok {
		c.Limit = own
	}
	c.Existing = below(s.existing, s.cfg.Cluster.ExistingIn(namespace))
	c.InProgress = below(s.inProgress, s.cfg.Cluster.InProgressIn(namespace))
	return c
}

// reportThrottling puts the key by which controllers refuse a namespace. s.mu is
// locked.
func (s *Scheduler) reportThrottling(q *queue) {
	on := q.State() == memoryqueue.NamespaceThrottled
	if on == q.flag {
		return
	}
	q.flag = on
	key := s.cfg.Cluster.Throttled(q.Function.Queue.Namespace)
	s.background(func(ctx context.Context) error { return s.put(ctx, key, fmt.Appendf(nil, "%t", on)) })
}

// background does a request that nothing waits for. s.mu may be locked.
func (s *Scheduler) background(do func(context.Context) error) {
	if s.ctx.Err() != nil {
		return
	}
	s.done.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, requestLimit)
		defer cancel()
		if err := do(ctx); err != nil && s.ctx.Err() == nil {
			s.log.Error("request of the scheduler", "error", err)
		}
	})
}

// fail ends an activation for its caller, as the original: with an ack in the
// name of invoker 0. The ack is sent again until the broker has it, because a caller waits for
// the ack however long the broker is away. s.mu is locked.
func (s *Scheduler) fail(f Function, a memoryqueue.Activation, status int, reason string) {
	m, err := activation.DecodeMessage(a.JSON)
	if err != nil {
		s.log.Error("an activation of a test cannot be read", "error", err)
		return
	}
	now := time.Now().UnixMilli()
	record := &activation.Record{
		ActivationID: m.ActivationID, Namespace: m.User.Namespace.Name, Name: m.Action.Name, Subject: m.User.Subject,
		Version: m.Version(), Cause: m.Cause, Start: now, End: now, Response: activation.ErrorResponse(status, reason),
	}
	record.Annotations.AddText("path", m.Action.FQN())
	record.Annotations.AddText("kind", f.action.Exec.Kind)
	record.Annotations = append(record.Annotations, activation.Annotation{Key: "limits", Value: f.action.Limits.JSON()})
	ack := activation.NewCombined(m.TransID, record, activation.Instance{UserMemory: activation.MB})
	if !m.Blocking {
		ack = ack.Shrink()
	}
	s.seen.Failures = append(s.seen.Failures, Failure{a.ID, status, reason})
	s.happened()
	s.background(func(context.Context) error {
		for pause := retry.Default(); ; {
			err := s.bus.Publish(s.ctx, s.cfg.Prefix+"completed"+m.Controller, ack.Encode())
			if err == nil || !pause.Wait(s.ctx) {
				return err
			}
		}
	})
}
