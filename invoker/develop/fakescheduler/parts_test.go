package fakescheduler

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch"
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
	if err != nil {
		f.t.Fatal(err)
	}
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
		if err := first.CreateQueue(f.context(), hello); err != nil {
			t.Fatal(err)
		}
		f.leader(c, first.Endpoint())
		if err := c.Put(f.context(), f.cfg.Cluster.Existing(hello.Queue, f.instance, "c")); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error)
		go func() {
			_, err := f.fetcher.Fetch(t.Context(), first.Endpoint(), fetch.Request{Queue: hello.Queue, Container: "c"})
			waiting <- err
		}()
		f.until(first, "the call", func(Seen) bool {
			q, _ := first.Queue(hello.Queue)
			return q.Calls == 1
		})
		first.Kill()
		if err := <-waiting; err == nil {
			t.Error("the call ended well")
		}
		peertest.Until(t, "the next leader", func() string {
			if err := second.CreateQueue(f.context(), hello); err != nil {
				return err.Error() // until the lease of the first has run out
			}
			return ""
		})
		f.leader(c, second.Endpoint())
		if err := second.Invoke(f.context(), message(1)); err != nil {
			t.Fatal(err)
		}
		if a := f.fetch(second, hello, "c"); a.Kind != activation.Fetched {
			t.Errorf("got %s", a)
		}
		if q, _ := second.Queue(hello.Queue); q.Containers != 1 {
			t.Errorf("the queue has %d containers", q.Containers)
		}
	})
}

// TestNoActivationIsLost while containers leave and come back as fast as they can.
func TestNoActivationIsLost(t *testing.T) {
	onEachBroker(t, func(t *testing.T, kafka string) {
		const containers, calls = 10, 500
		f := newFixture(t, kafka)
		s := f.start()
		if err := s.CreateQueue(f.context(), hello); err != nil {
			t.Fatal(err)
		}
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
						take(f.fetcher.Fetch(t.Context(), s.Endpoint(), fetch.Request{Queue: hello.Queue, Container: name}))
					})
					open.Go(func() { take(f.fetcher.Leave(t.Context(), s.Endpoint(), hello.Queue, name)) })
					open.Wait()
				}
			})
		}
		for i := range calls {
			if err := s.Invoke(f.context(), message(i)); err != nil {
				t.Fatal(err)
			}
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
			if n != 1 {
				t.Errorf("%s came %d times", id, n)
			}
		}
		if seen, _ := s.Seen(); seen.Lost != 0 || len(seen.Failures) != 0 {
			t.Errorf("lost are %d, failed %d", seen.Lost, len(seen.Failures))
		}
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
