package fakescheduler

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// keeper is the invoker's own end of etcd.
func (f *fixture) keeper() *etcd.Client {
	f.t.Helper()
	c, err := etcd.New(etcd.Config{
		Hosts: []string{f.cfg.Etcd}, TTL: 2 * time.Second, Cluster: f.cfg.Cluster, Instance: f.instance,
		RetryInterval: 100 * time.Millisecond, Log: f.cfg.Log,
	})
	check.NoError(f.t, err)
	f.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			f.t.Errorf("close: %v", err)
		}
	})
	return c
}

// leader waits until the queue of hello is led by a scheduler.
func (f *fixture) leader(c *etcd.Client, want activation.Endpoint) {
	f.t.Helper()
	for {
		at, ok, changed := c.Leader(hello.Queue)
		if ok && at == want {
			return
		}
		select {
		case <-changed:
		case <-time.After(peertest.WaitLimit):
			f.t.Fatalf("the leader is %v, %v, want %v", at, ok, want)
		}
	}
}

// TestQueueMoves: the scheduler of a queue is killed while a container waits there. The
// container is told so, learns of the next one, and goes on.
func TestQueueMoves(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		f := newFixture(t, kafka)
		f.cfg.Queue = memoryqueue.Defaults()
		f.cfg.Queue.Poll = peertest.WaitLimit // the call ends by the scheduler's end
		first := f.start()
		f.cfg.ID = "1"
		second := f.start()
		c := f.keeper()
		check.NoError(t, first.CreateQueue(f.context(), hello))
		f.leader(c, first.Endpoint())
		check.NoError(t, c.Put(f.context(), f.cfg.Cluster.Existing(hello.Queue, f.instance, "c")))
		waiting := make(chan error)
		go func() {
			_, err := f.fetcher.Fetch(t.Context(), first.Endpoint(), activation.FetchRequest{Queue: hello.Queue, Container: "c"})
			waiting <- err
		}()
		f.until(first, "the call", func(Seen) bool {
			q, _ := first.Queue(hello.Queue)
			return q.Calls == 1
		})
		first.Kill()
		check.That(t, <-waiting != nil, "the call ended well")
		peertest.Until(t, "the next leader", func() string {
			if err := second.CreateQueue(f.context(), hello); err != nil {
				return err.Error() // until the lease of the first has run out
			}
			return ""
		})
		f.leader(c, second.Endpoint())
		check.NoError(t, second.Invoke(f.context(), message(1)))
		check.Equal(t, f.fetch(second, hello, "c").Kind, activation.Fetched)
		q, _ := second.Queue(hello.Queue)
		check.Equal(t, q.Containers, 1, "the queue")
	})
}

// TestNoActivationIsLost while containers leave and come back as fast as they can.
func TestNoActivationIsLost(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		const containers, calls = 10, 500
		f := newFixture(t, kafka)
		s := f.start()
		check.NoError(t, s.CreateQueue(f.context(), hello))
		var mu sync.Mutex
		got := map[activation.ID]int{}
		done := make(chan struct{})
		take := func(a activation.FetchAnswer, err error) {
			if err != nil {
				t.Error(err)
			}
			if a.Kind != activation.Fetched {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if got[a.Message.ActivationID]++; len(got) == calls {
				close(done)
			}
		}
		var group sync.WaitGroup
		for i := range containers {
			name := fmt.Sprint("c", i)
			group.Go(func() {
				for !over(done) {
					var open sync.WaitGroup
					open.Go(func() {
						take(f.fetcher.Fetch(t.Context(), s.Endpoint(), activation.FetchRequest{Queue: hello.Queue, Container: name}))
					})
					open.Go(func() { take(f.fetcher.Leave(t.Context(), s.Endpoint(), hello.Queue, name)) })
					open.Wait()
				}
			})
		}
		for i := range calls {
			check.NoError(t, s.Invoke(f.context(), message(i)))
		}
		select {
		case <-done:
		case <-time.After(peertest.WaitLimit):
			mu.Lock()
			t.Errorf("%d of %d came", len(got), calls)
			mu.Unlock()
			close(done)
		}
		group.Wait()
		for id, n := range got {
			check.Equal(t, n, 1, "%s came", id)
		}
		seen, _ := s.Seen()
		check.Equal(t, seen.Lost, 0)
		check.Equal(t, len(seen.Failures), 0)
	})
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
