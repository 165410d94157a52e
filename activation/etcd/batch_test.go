package etcd

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// unconnected is a client that writes nothing by itself.
func unconnected() *Client {
	return &Client{
		health: "health", keys: map[string]*entry{}, settled: make(chan struct{}),
		closing: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// TestBatchesKeepTheOrder of the changes; health waits for all others.
func TestBatchesKeepTheOrder(t *testing.T) {
	c := unconnected()
	c.set("health", "up", true)
	for i := range 2*batchSize + 1 {
		c.set(fmt.Sprint(i), "", i%2 == 0)
	}
	n := 0
	for _, want := range []int{batchSize, batchSize, 1} {
		batch := c.next()
		if len(batch) != want {
			t.Fatalf("a batch of %d, want %d", len(batch), want)
		}
		for _, o := range batch {
			if o.key != fmt.Sprint(n) || o.put != (n%2 == 0) {
				t.Fatalf("got %s, put %v, as number %d", o.key, o.put, n)
			}
			n++
		}
		c.confirm(batch)
	}
	batch := c.next()
	if len(batch) != 1 || batch[0].key != "health" {
		t.Fatalf("last are %+v", batch)
	}
	c.confirm(batch)
	if left := c.next(); len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
	if s := c.State(); s.Keys != batchSize+2 || s.Pending != 0 {
		t.Errorf("the state is %+v", s)
	}
}

// TestChangeDuringItsWrite is written again, and confirmed only then.
func TestChangeDuringItsWrite(t *testing.T) {
	given, cancel := context.WithCancel(t.Context())
	cancel()
	c := unconnected()
	if err := c.Put(given, "a"); !errors.Is(err, context.Canceled) {
		t.Fatalf("a put is %v", err)
	}
	first := c.next()
	if err := c.Delete(given, "a"); !errors.Is(err, context.Canceled) {
		t.Fatalf("a deletion is %v", err)
	}
	c.confirm(first)
	second := c.next()
	if len(second) != 1 || second[0].put {
		t.Fatalf("then comes %+v", second)
	}
	if err := c.await(given, c.gen, []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the deletion is confirmed: %v", err)
	}
	c.confirm(second)
	if err := c.await(given, c.gen, []string{"a"}); err != nil {
		t.Errorf("the deletion is not confirmed: %v", err)
	}
	if len(c.keys) != 0 {
		t.Errorf("kept are %d keys", len(c.keys))
	}
}

// TestLostKeysAreWrittenAgain, those to be deleted included.
func TestLostKeysAreWrittenAgain(t *testing.T) {
	c := unconnected()
	c.set("a", "", true)
	c.set("health", "up", true)
	c.confirm(c.next())
	c.confirm(c.next())
	c.set("b", "", false)
	c.lose()
	batch := c.next()
	if len(batch) != 2 || batch[0].key != "a" || batch[1].key != "b" {
		t.Errorf("written are %+v", batch)
	}
	c.loseKeys("nothing", "b")
	c.confirm(batch)
	if batch = c.next(); len(batch) != 1 || batch[0].key != "health" {
		t.Errorf("then comes %+v", batch)
	}
}
