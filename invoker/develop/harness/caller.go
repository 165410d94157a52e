package harness

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// Caller takes a controller's place, so that no time of a real one is in what
// benchmarks measure: it sends activations and takes the times of acks and pings.
type Caller struct {
	*kgo.Client
	Pings chan time.Time // has room for one; the others are dropped
	t     testing.TB
	next  atomic.Int64 // number of an activation

	mu      sync.Mutex
	flights map[activation.ID]*Flight // whose completion is to come
}

// Flight is an activation that was sent, and when that was and its acks came: the
// first of them, and the one that frees the slot.
type Flight struct {
	ID                      activation.ID
	Sent, First, Completion time.Time // the latter two are read when it is done
	done                    chan struct{}
}

// NewCaller reads acks and pings from now on from topics that are there.
func NewCaller(t testing.TB, kafka string, topics ...string) *Caller {
	t.Helper()
	c := &Caller{t: t, Pings: make(chan time.Time, 1), flights: map[activation.ID]*Flight{}}
	c.next.Store(time.Now().UnixNano()) // a broker may have acks of an earlier one
	// As controllers send.
	c.Client = connect(t, kafka, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
	ends, err := kadm.NewClient(c.Client).ListEndOffsets(t.Context(), topics...)
	check.NoError(t, err)
	c.AddConsumePartitions(ends.KOffsets())
	consume(t, c.Client, func(fetches kgo.Fetches) {
		now := time.Now()
		fetches.EachRecord(func(m *kgo.Record) { c.receive(m, now) })
	})
	return c
}

func (c *Caller) receive(m *kgo.Record, now time.Time) {
	if m.Topic == "health" {
		select {
		case c.Pings <- now:
		default:
		}
		return
	}
	ack, err := activation.DecodeAck(m.Value)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flights[ack.ActivationID]
	if f == nil {
		return
	}
	if f.First.IsZero() {
		f.First = now
	}
	if ack.FreesSlot() {
		f.Completion = now
		delete(c.flights, f.ID)
		close(f.done)
	}
}

// Send sends what encode makes for the id of a new activation.
func (c *Caller) Send(topic string, encode func(activation.ID) []byte) *Flight {
	f := &Flight{ID: activation.ID(fmt.Sprintf("%032x", c.next.Add(1))), done: make(chan struct{})}
	value := encode(f.ID)
	c.mu.Lock()
	c.flights[f.ID] = f
	c.mu.Unlock()
	f.Sent = time.Now()
	c.Produce(context.Background(), &kgo.Record{Topic: topic, Value: value}, func(_ *kgo.Record, err error) {
		if err != nil {
			c.t.Error(err)
		}
	})
	return f
}

// Done is closed when the activation's slot is free.
func (f *Flight) Done() <-chan struct{} { return f.done }

// Await waits for that.
func (c *Caller) Await(f *Flight) {
	late := time.NewTimer(2 * peertest.WaitLimit)
	defer late.Stop()
	select {
	case <-f.done:
	case <-late.C:
		c.t.Error("an activation has no completion")
	}
}

// Burst makes so many calls, with no more than flight at once, and gives the time that
// all took.
func Burst(flight, calls int, call func()) time.Duration {
	began, todo := time.Now(), make(chan struct{}, calls)
	for range calls {
		todo <- struct{}{}
	}
	close(todo)
	var wg sync.WaitGroup
	for range flight {
		wg.Go(func() {
			for range todo {
				call()
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}
