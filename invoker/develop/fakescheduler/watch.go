package fakescheduler

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// watch follows containers, creations, paused containers and invokers. Paused
// containers of before its start stay unknown, as to the original.
func (s *Scheduler) watch(ctx context.Context) error {
	k := s.cfg.Cluster
	for _, w := range []struct {
		prefix string
		listed bool
		apply  func(key string, put bool)
	}{
		{k.ExistingAll(), true, s.container},
		{k.InProgressAll(), true, s.creation},
		{k.WarmedAll(), false, s.pausedContainer},
		{k.Invokers(), true, s.greet},
	} {
		answer, err := s.etcd.Get(ctx, w.prefix, clientv3.WithPrefix())
		if err != nil {
			return err
		}
		apply := func(key string, put bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			w.apply(key, put)
			s.happened()
		}
		for _, kv := range answer.Kvs {
			if w.listed {
				apply(string(kv.Key), true)
			}
		}
		s.mu.Lock()
		s.revisions[w.prefix] = answer.Header.Revision
		s.mu.Unlock()
		changes := s.etcd.Watch(s.ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithRev(answer.Header.Revision+1))
		s.done.Go(func() {
			for c := range changes {
				for _, e := range c.Events {
					if e.Kv.Lease == int64(s.lease) {
						continue // its own creation, that was counted when it was ordered
					}
					apply(string(e.Kv.Key), e.Type == clientv3.EventTypePut)
				}
				s.mu.Lock()
				s.revisions[w.prefix] = c.Header.Revision
				s.happened()
				s.mu.Unlock()
			}
		})
	}
	return nil
}

// awaitContainers waits until the containers of a queue that etcd has now are counted.
// Where etcd does not answer, it does not wait.
func (s *Scheduler) awaitContainers(q activation.Queue) {
	ctx, cancel := context.WithTimeout(s.ctx, countLimit)
	defer cancel()
	answer, err := s.etcd.Get(ctx, s.cfg.Cluster.ExistingOf(q), clientv3.WithPrefix())
	if err != nil {
		return
	}
	var last int64
	for _, kv := range answer.Kvs {
		last = max(last, kv.ModRevision)
	}
	for {
		s.mu.Lock()
		counted, changed := s.revisions[s.cfg.Cluster.ExistingAll()] >= last, s.changed
		s.mu.Unlock()
		if counted {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// countLimit bounds how long an ack waits for its container's key.
const countLimit = time.Second

func set(keys map[string]bool, key string, put bool) {
	if put {
		keys[key] = true
	} else {
		delete(keys, key)
	}
}

// below counts keys with a prefix.
func below(keys map[string]bool, prefix string) int {
	n := 0
	for key := range keys {
		if strings.HasPrefix(key, prefix) {
			n++
		}
	}
	return n
}

func (s *Scheduler) container(key string, put bool) {
	set(s.existing, key, put)
	s.seen.MostContainers = max(s.seen.MostContainers, len(s.existing))
	for _, q := range s.all() {
		if !strings.HasPrefix(key, s.cfg.Cluster.ExistingOf(q.Function.Queue)) {
			continue
		}
		if id := activation.ContainerOf(key); put {
			q.ContainerPut(id)
		} else {
			q.ContainerDeleted(id)
		}
	}
}

func (s *Scheduler) creation(key string, put bool) {
	set(s.inProgress, key, put)
	for _, q := range s.all() {
		if !strings.HasPrefix(key, s.cfg.Cluster.InProgressOf(q.Function.Queue)) {
			continue
		}
		if id := activation.ID(activation.ContainerOf(key)); put {
			q.CreationPut(id)
		} else {
			q.CreationDeleted(id)
		}
	}
}

func (s *Scheduler) pausedContainer(key string, put bool) { set(s.warmed, key, put) }

// greet sends a warm-up to an invoker that is new.
func (s *Scheduler) greet(key string, put bool) {
	id, ok := s.cfg.Cluster.InvokerOfHealth(key)
	if !ok {
		return
	}
	if !put {
		delete(s.greeted, id)
		return
	}
	if s.greeted[id] {
		return
	}
	s.greeted[id] = true
	c := activation.ContainerCreation{
		TransID: activation.NewTransID("sid_warmUp", s.transID.StartMillis(), false), ID: s.newID(), Queue: activation.WarmUpQueue(),
		MetaData: activation.NewActionMetaData(warmUpMetaData), Scheduler: s.cfg.ID,
	}
	s.seen.WarmUps++
	s.background(func(ctx context.Context) error { return s.bus.Publish(ctx, s.topic(id), c.Encode()) })
}

var warmUpMetaData = []byte(`{"annotations":[],"exec":{"binary":false,"kind":"nodejs:20"},"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},"name":"warmUp","namespace":"whisk.system","parameters":[],"publish":false,"updated":0,"version":"0.0.1"}`)
