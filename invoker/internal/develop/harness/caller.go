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

// Caller replaces a controller in benchmarks, so that the measured times do not
// include a real controller's. It sends activations and notes the times of acks and
// pings.
type Caller struct {
	*kgo.Client
	Pings chan time.Time // has capacity one; further pings are dropped
	t     testing.TB
	next  atomic.Int64 // number of an activation

	mu      sync.Mutex
	flights map[activation.ID]*Flight // the activations without a completion
}

// Flight is an activation in progress, with the times of its sending, of its first
// ack, and of the ack that frees its slot.
type Flight struct {
	ID                      activation.ID
	Sent, First, Completion time.Time // First and Completion may be read once Done is closed
	done                    chan struct{}
}

// NewCaller starts to read new acks and pings from existing topics.
func NewCaller(t testing.TB, kafka string, topics ...string) *Caller {
	t.Helper()
	c := &Caller{t: t, Pings: make(chan time.Time, 1), flights: map[activation.ID]*Flight{}}
	c.next.Store(time.Now().UnixNano()) // a broker may still have acks for an earlier Caller
	// Controllers send with these options.
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

// Send sends the message that encode returns for the id of a new activation.
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

// Done returns a channel that is closed when the activation's slot is free.
func (f *Flight) Done() <-chan struct{} { return f.done }

// Await blocks until the activation's slot is free.
func (c *Caller) Await(f *Flight) {
	late := time.NewTimer(2 * peertest.WaitLimit)
	defer late.Stop()
	select {
	case <-f.done:
	case <-late.C:
		c.t.Error("an activation has no completion")
	}
}

// Burst makes the given number of calls, at most flight at a time, and returns the
// total time.
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
