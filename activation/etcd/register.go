package etcd

import (
	"cmp"
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// entry is a registered key, or a key whose deletion is not confirmed yet.
type entry struct {
	put       bool // the key must exist; otherwise it must not
	value     string
	gen, done uint64 // generation of the last change, and of the last confirmed one
	lost      bool   // etcd may have lost the key
}

// pending reports whether the entry must still be written to etcd.
func (e *entry) pending() bool { return e.done < e.gen || e.lost }

// change registers keys with empty values and deletes others, in one transaction
// unless there are too many. It blocks until etcd has confirmed the change. If ctx ends
// before, the change is still carried out as soon as etcd is reachable.
func (c *Client) change(ctx context.Context, put, deleted []string) error {
	c.mu.Lock()
	for _, key := range put {
		c.set(key, "", true)
	}
	for _, key := range deleted {
		c.set(key, "", false)
	}
	gen := c.gen
	c.mu.Unlock()
	c.signal()
	return c.await(ctx, gen, slices.Concat(put, deleted))
}

// Put registers one key; see Change.
func (c *Client) Put(ctx context.Context, key string) error {
	return c.change(ctx, []string{key}, nil)
}

// Delete deletes one key; see Change.
func (c *Client) Delete(ctx context.Context, key string) error {
	return c.change(ctx, nil, []string{key})
}

// Report sets the invoker's health. It blocks as Change does. After the loss of a lease
// the health is the last key that is put.
func (c *Client) Report(ctx context.Context, h activation.Health) error {
	value := string(h.Encode())
	c.mu.Lock()
	if e := c.keys[c.health]; e == nil || e.value != value {
		c.set(c.health, value, true)
	}
	gen := c.gen
	c.mu.Unlock()
	c.signal()
	return c.await(ctx, gen, []string{c.health})
}

// set changes a key. The caller must hold c.mu.
func (c *Client) set(key, value string, put bool) {
	c.gen++
	e := c.keys[key]
	if e == nil {
		e = &entry{done: c.gen - 1}
		c.keys[key] = e
	}
	e.put, e.value, e.gen = put, value, c.gen
}

func (c *Client) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// await blocks until the changes of the keys up to generation gen are confirmed.
func (c *Client) await(ctx context.Context, gen uint64, keys []string) error {
	for {
		c.mu.Lock()
		changed := c.settled
		open := slices.ContainsFunc(keys, func(key string) bool {
			e := c.keys[key]
			return e != nil && e.done < min(gen, e.gen)
		})
		c.mu.Unlock()
		if !open {
			return nil
		}
		select {
		case <-changed:
		case <-c.closing:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changed wakes the callers that wait for a confirmation. The caller must hold c.mu.
func (c *Client) changed() {
	close(c.settled)
	c.settled = make(chan struct{})
}

// batchSize is below etcd's limit of 128 operations in a transaction.
const batchSize = 100

// operation is a put or a deletion of a key in a transaction.
type operation struct {
	key string
	entry
}

// next returns the operations of the next transaction in the order of the changes.
// The health is written after all other keys.
func (c *Client) next() []operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []operation
	for key, e := range c.keys {
		if e.pending() && key != c.health {
			all = append(all, operation{key, *e})
		}
	}
	if e := c.keys[c.health]; len(all) == 0 && e != nil && e.pending() {
		return []operation{{c.health, *e}}
	}
	slices.SortFunc(all, func(a, b operation) int { return cmp.Compare(a.gen, b.gen) })
	return all[:min(len(all), batchSize)]
}

// write carries out a batch in one transaction.
func (c *Client) write(ctx context.Context, lease clientv3.LeaseID, batch []operation) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var ops []clientv3.Op
	for _, o := range batch {
		if o.key == c.health {
			return c.writeHealth(ctx, lease, o)
		}
		if o.put {
			ops = append(ops, clientv3.OpPut(o.key, o.value, clientv3.WithLease(lease)))
		} else {
			ops = append(ops, clientv3.OpDelete(o.key))
		}
	}
	if _, err := c.etcd.Txn(ctx).Then(ops...).Commit(); err != nil {
		return err
	}
	c.confirm(batch)
	return nil
}

// confirm records that etcd has carried out a batch.
func (c *Client) confirm(batch []operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range batch {
		e := c.keys[o.key]
		e.done = max(e.done, o.gen)
		if e.gen != o.gen {
			continue // the key has changed since
		}
		if e.lost = false; !e.put {
			delete(c.keys, o.key)
		}
	}
	c.changed()
}

// writeHealth puts the health key unless it is on another process's lease.
func (c *Client) writeHealth(ctx context.Context, lease clientv3.LeaseID, o operation) error {
	put := clientv3.OpPut(o.key, o.value, clientv3.WithLease(lease))
	ours := clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(o.key), "=", lease)},
		[]clientv3.Op{put}, []clientv3.Op{clientv3.OpGet(o.key)})
	// A missing key, or a key without a lease, has lease 0.
	answer, err := c.etcd.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(o.key), "=", 0)).Then(put).Else(ours).Commit()
	if err != nil {
		return err
	}
	if !answer.Succeeded {
		if inner := answer.Responses[0].GetResponseTxn(); !inner.Succeeded {
			kvs := inner.Responses[0].GetResponseRange().Kvs
			return c.contend(clientv3.LeaseID(kvs[0].Lease))
		}
	}
	c.yielded()
	c.confirm([]operation{o})
	return nil
}

// lose marks all keys as lost, because they ended with the old lease.
func (c *Client) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.keys {
		e.lost = true
	}
}

// loseKeys marks keys as lost that another process deleted.
func (c *Client) loseKeys(keys ...string) {
	c.mu.Lock()
	for _, key := range keys {
		if e := c.keys[key]; e != nil && e.put {
			e.lost = true
		}
	}
	c.mu.Unlock()
	c.signal()
}
