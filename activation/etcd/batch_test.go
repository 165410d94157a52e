package etcd

import (
	"context"
	"fmt"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// unconnected returns a client that does not write by itself.
func unconnected() *Client {
	return &Client{
		health: "health", keys: map[string]*entry{}, settled: make(chan struct{}),
		closing: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// TestBatchesKeepTheOrder: batches have the order of the changes, and the health comes
// last.
func TestBatchesKeepTheOrder(t *testing.T) {
	c := unconnected()
	c.set("health", "up", true)
	for i := range 2*batchSize + 1 {
		c.set(fmt.Sprint(i), "", i%2 == 0)
	}
	n := 0
	for _, want := range []int{batchSize, batchSize, 1} {
		batch := c.next()
		check.Equal(check.Must(t), len(batch), want, "a batch")
		for _, o := range batch {
			check.Equal(check.Must(t), o.key, fmt.Sprint(n), "got %s, put %v, as number %d", o.key, o.put, n)
			check.That(check.Must(t), o.put == (n%2 == 0), "got %s, put %v, as number %d", o.key, o.put, n)
			n++
		}
		c.confirm(batch)
	}
	batch := c.next()
	check.Equal(check.Must(t), len(batch), 1)
	check.Equal(check.Must(t), batch[0].key, "health")
	c.confirm(batch)
	check.Equal(t, len(c.next()), 0)
	s := c.State()
	check.Equal(t, s.Keys, batchSize+2)
	check.Equal(t, s.Pending, 0)
}

// TestChangeDuringItsWrite: a key that changes while it is written is written again,
// and confirmed only then.
func TestChangeDuringItsWrite(t *testing.T) {
	given, cancel := context.WithCancel(t.Context())
	cancel()
	c := unconnected()
	check.ErrorIs(check.Must(t), c.Put(given, "a"), context.Canceled, "a put")
	first := c.next()
	check.ErrorIs(check.Must(t), c.Delete(given, "a"), context.Canceled, "a deletion")
	c.confirm(first)
	second := c.next()
	check.Equal(check.Must(t), len(second), 1)
	check.That(check.Must(t), !second[0].put, "then comes %+v", second)
	check.ErrorIs(t, c.await(given, c.gen, []string{"a"}), context.Canceled, "the deletion is confirmed")
	c.confirm(second)
	check.NoError(t, c.await(given, c.gen, []string{"a"}), "the deletion is not confirmed")
	check.Equal(t, len(c.keys), 0)
}

// TestLostKeysAreWrittenAgain: puts and deletions are repeated.
func TestLostKeysAreWrittenAgain(t *testing.T) {
	c := unconnected()
	c.set("a", "", true)
	c.set("health", "up", true)
	c.confirm(c.next())
	c.confirm(c.next())
	c.set("b", "", false)
	c.lose()
	batch := c.next()
	check.Equal(check.Must(t), len(batch), 2)
	check.Equal(t, batch[0].key, "a")
	check.Equal(t, batch[1].key, "b")
	c.loseKeys("nothing", "b")
	c.confirm(batch)
	batch = c.next()
	check.Equal(check.Must(t), len(batch), 1)
	check.Equal(t, batch[0].key, "health")
}
