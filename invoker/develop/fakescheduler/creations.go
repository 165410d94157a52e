package fakescheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// mostRetries limits the retries of a creation.
const mostRetries = 5

// job is a creation whose final ack has not arrived yet.
type job struct {
	creation activation.ContainerCreation
	queue    *queue
	claim    string      // the warmed key of the paused container to use; "" means a new container
	timer    *time.Timer // ends the job, retries included
}

// order begins the creation of n containers. The caller must hold s.mu.
func (s *Scheduler) order(q *queue, n int) {
	var jobs []*job
	for range n {
		j := &job{queue: q, creation: activation.ContainerCreation{
			TransID: s.transID, ID: s.newID(), Queue: q.Function.Queue, MetaData: q.MetaData,
			Scheduler: s.cfg.ID, Endpoint: s.endpoints.Endpoint,
		}}
		jobs = append(jobs, j)
		// The original counts the creation when its watch of etcd reports the key, and may order one more until then.
		q.CreationPut(j.creation.ID)
		s.inProgress[s.key(j)] = true
	}
	s.background(func(ctx context.Context) error { return s.schedule(ctx, q.Function, jobs) })
}

// newID returns an id of 32 hexadecimal digits.
func (s *Scheduler) newID() activation.ID {
	return activation.ID(fmt.Sprintf("%016x%016x", s.random.Uint64(), s.random.Uint64()))
}

// schedule chooses an invoker for each job, puts its key and sends it.
func (s *Scheduler) schedule(ctx context.Context, f Function, jobs []*job) error {
	invokers, err := s.invokers(ctx)
	if err != nil && s.ctx.Err() == nil {
		s.log.Error("list the invokers", "error", err) // as in the original, the list is then empty
	}
	n := needOf(f)
	reduced := slices.Clone(invokers)
	for _, j := range jobs {
		s.mu.Lock()
		to, failure := s.choose(reduced, n, j)
		s.mu.Unlock()
		if failure != activation.NoCreationError {
			s.unplaced(j, failure)
			continue
		}
		// The original forgets at each choice the memory of the choice before.
		reduced = slices.Clone(invokers)
		for i := range reduced {
			if reduced[i].id == to {
				reduced[i].health.FreeMB -= n.memoryMB
			}
		}
		if err := s.send(ctx, j, to); err != nil {
			return err
		}
	}
	return nil
}

// unplaced ends a job for which there is no invoker. As in the original, the job of a
// retry stays: the queue forgets the creation, but its key counts until the job's
// time is over.
func (s *Scheduler) unplaced(j *job, failure activation.CreationError) {
	const reason = "No available invokers."
	if j.timer == nil {
		s.finish(j, failure, reason)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j.queue.CreationFailed(j.creation.ID, failure, reason)
	s.happened()
}

// choose returns the index of an invoker for the job; an invoker with a paused
// container of the queue comes first. The caller must hold s.mu.
func (s *Scheduler) choose(all []invoker, n need, j *job) (int, activation.CreationError) {
	fit := usable(all, n)
	prefix := s.cfg.Cluster.WarmedOf(j.creation.Queue)
	for _, key := range slices.Sorted(maps.Keys(s.warmed)) {
		id, ok := activation.InvokerOf(key)
		_, claimed := s.claims[key]
		if ok && !claimed && strings.HasPrefix(key, prefix) && slices.ContainsFunc(fit, func(i invoker) bool { return i.id == id }) {
			s.claims[key], j.claim = j.creation.ID, key
			return id, activation.NoCreationError
		}
	}
	from, failure := candidates(fit, n)
	if failure != activation.NoCreationError {
		return 0, failure
	}
	return from[s.random.IntN(len(from))].id, activation.NoCreationError
}

// send puts the key of a new job, and sends the message of the job.
func (s *Scheduler) send(ctx context.Context, j *job, to int) error {
	if j.timer == nil {
		limit := s.cfg.Job
		if j.queue.action.Exec.Pull {
			limit *= 15
		}
		s.mu.Lock()
		s.jobs[j.creation.ID] = j
		j.timer = time.AfterFunc(limit, func() {
			if s.ctx.Err() == nil {
				action := j.creation.Queue.Action
				s.finish(j, activation.CreationTimeout, fmt.Sprintf("[%s@%s] timeout waiting for the ack of %s after %d seconds",
					action.FQN(), action.Version, j.creation.ID, int(limit.Seconds())))
			}
		})
		s.mu.Unlock()
		if err := s.put(ctx, s.key(j), nil); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.seen.Creations = append(s.seen.Creations, Creation{j.creation.ID, j.creation.Queue, to, j.creation.Retry, j.claim != ""})
	s.happened()
	message := j.creation.Encode()
	s.mu.Unlock()
	return s.bus.Publish(ctx, s.topic(to), message)
}

func (s *Scheduler) key(j *job) string {
	return s.cfg.Cluster.InProgress(j.creation.Queue, s.cfg.ID, j.creation.ID)
}

func (s *Scheduler) topic(invoker int) string {
	return s.cfg.Prefix + "invoker" + strconv.Itoa(invoker)
}

// ack handles an invoker's answer to a creation. It waits for the container's key, as
// if the ack had come later, because the original sometimes counts the container
// after the ack and then orders one more.
func (s *Scheduler) ack(value []byte) {
	a, err := activation.DecodeContainerCreationAck(value)
	if err == nil && a.Error == activation.NoCreationError {
		s.awaitContainers(a.Creation.Queue)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.happened()
	if err != nil {
		s.log.Error("terminal failure while processing container creation ack message", "error", err)
		s.seen.Unparsed++
		return
	}
	s.seen.Acks = append(s.seen.Acks, Ack{a.Creation.ID, a.Instance.ID, a.Error, a.Reason})
	j := s.jobs[a.Creation.ID]
	switch {
	case j == nil: // too late: only the queue is informed
		if q := s.queues[Function{Queue: a.Creation.Queue}.id()]; q != nil && a.Error == activation.NoCreationError {
			q.CreationSucceeded(a.Creation.ID)
		}
	case a.Error == activation.NoCreationError || !a.Error.Retried() || a.Creation.Retry >= mostRetries:
		s.end(j, a.Error, a.Reason)
	default:
		s.release(j)
		pause := 100 * time.Millisecond << a.Creation.Retry
		time.AfterFunc(pause, func() { s.again(j) })
	}
}

// again retries a creation. All invokers are candidates.
func (s *Scheduler) again(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[j.creation.ID] != j {
		return // the job's time is over
	}
	j.creation.Retry++
	s.background(func(ctx context.Context) error { return s.schedule(ctx, j.queue.Function, []*job{j}) })
}

func (s *Scheduler) finish(j *job, failure activation.CreationError, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(j, failure, reason)
}

// end ends a job with its result. The caller must hold s.mu.
func (s *Scheduler) end(j *job, failure activation.CreationError, reason string) {
	s.release(j)
	if j.timer != nil {
		j.timer.Stop()
	}
	delete(s.jobs, j.creation.ID)
	key := s.key(j)
	delete(s.inProgress, key)
	s.background(func(ctx context.Context) error {
		_, err := s.etcd.Delete(ctx, key)
		return err
	})
	if failure == activation.NoCreationError {
		j.queue.CreationSucceeded(j.creation.ID)
	} else {
		j.queue.CreationFailed(j.creation.ID, failure, reason)
	}
	s.happened()
}

// release gives up the job's claim on a warmed key. The caller must hold s.mu.
func (s *Scheduler) release(j *job) {
	delete(s.claims, j.claim)
	j.claim = ""
}

// delete orders the end of an old revision's containers, from every invoker that has
// a container of the action. The caller must hold s.mu.
func (s *Scheduler) delete(q *queue) {
	d := activation.ContainerDeletion{
		TransID: activation.NewTransID("sid_containerDeletion", s.transID.StartMillis(), false), Queue: q.Function.Queue, MetaData: q.MetaData,
	}
	action := q.Function.Queue.Namespace + "/" + q.Function.Queue.Action.FQN() + "/"
	to := map[int]bool{}
	for _, keys := range []map[string]bool{s.existing, s.warmed} {
		for key := range keys {
			if id, ok := activation.InvokerOf(key); ok && strings.Contains(key, "/"+action) {
				to[id] = true
			}
		}
	}
	for id := range to {
		s.seen.Deletions = append(s.seen.Deletions, Deletion{d.Queue, id})
		s.background(func(ctx context.Context) error { return s.bus.Publish(ctx, s.topic(id), d.Encode()) })
	}
	s.happened()
}

// invokers lists the invokers in the order of their keys.
func (s *Scheduler) invokers(ctx context.Context) ([]invoker, error) {
	answer, err := s.etcd.Get(ctx, s.cfg.Cluster.Invokers(), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	var all []invoker
	for _, kv := range answer.Kvs {
		id, ok := s.cfg.Cluster.InvokerOfHealth(string(kv.Key))
		h, err := activation.DecodeHealth(kv.Value)
		if !ok || err != nil {
			s.mu.Lock()
			s.seen.Unparsed++
			s.mu.Unlock()
			continue
		}
		all = append(all, invoker{id, h})
	}
	return all, nil
}
