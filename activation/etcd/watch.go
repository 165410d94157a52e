package etcd

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// watchAll starts the watches of one lease. A new lease needs new watches, because an
// etcd that lost its data restarts its revisions, and an old watch would wait for a
// revision that does not come.
func (c *Client) watchAll(ctx context.Context, group *sync.WaitGroup) {
	k := c.cfg.Cluster
	// These watches receive deletions only: of the cluster's containers and of our two keys.
	for _, prefix := range []string{k.ExistingAll(), k.WarmedAll(), c.health, c.lease} {
		group.Go(func() { c.watchOwn(ctx, prefix) })
	}
	group.Go(func() { follow(ctx, c, k.Leaders(), &c.leaders, activation.DecodeSchedulerEndpoints) })
	group.Go(func() { follow(ctx, c, k.Schedulers(), &c.schedulers, activation.DecodeSchedulerState) })
}

// watchOwn finds deletions of registered keys.
func (c *Client) watchOwn(ctx context.Context, key string) {
	options := []clientv3.OpOption{clientv3.WithFilterPut(), clientv3.WithCreatedNotify()}
	if strings.HasSuffix(key, "/") {
		options = append(options, clientv3.WithPrefix())
	}
	pause := c.backoff()
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		for answer := range c.etcd.Watch(watching, key, options...) {
			if answer.Err() != nil {
				break
			}
			if answer.Created {
				pause.Reset()
				c.compare() // earlier deletions were not reported
			}
			var keys []string
			for _, e := range answer.Events {
				keys = append(keys, string(e.Kv.Key))
			}
			if len(keys) > 0 {
				c.loseKeys(keys...)
			}
		}
		cancel()
		if !pause.Wait(ctx) {
			return
		}
	}
}

// table holds a copy of the keys below a prefix. It is safe for concurrent use.
type table[T any] struct {
	mu      sync.Mutex
	values  map[string]T
	waiting map[string]chan struct{} // closed at the next change of the key; "" stands for any key
}

// get returns a key's value, and a channel that is closed when the value changes.
func (t *table[T]) get(key string) (v T, ok bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok = t.values[key]
	return v, ok, t.wait(key)
}

// snapshot returns the values in the order of their keys, and a channel that is closed
// when a value changes.
func (t *table[T]) snapshot() (v []T, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(t.values)) {
		v = append(v, t.values[key])
	}
	return v, t.wait("")
}

func (t *table[T]) wait(key string) <-chan struct{} {
	if t.waiting == nil {
		t.waiting = map[string]chan struct{}{}
	}
	if t.waiting[key] == nil {
		t.waiting[key] = make(chan struct{})
	}
	return t.waiting[key]
}

// set changes a key, or deletes it if ok is false.
func (t *table[T]) set(key string, v T, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.values == nil {
		t.values = map[string]T{}
	}
	if t.values[key] = v; !ok {
		delete(t.values, key)
	}
	for _, k := range []string{key, ""} {
		if ch := t.waiting[k]; ch != nil {
			close(ch)
			delete(t.waiting, k)
		}
	}
}

// keys lists the keys.
func (t *table[T]) keys() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.values))
}

// follow keeps a table up to date: it lists the keys and then watches from that
// revision.
func follow[T any](ctx context.Context, c *Client, prefix string, t *table[T], decode func([]byte) (T, error)) {
	apply := func(kv *mvccpb.KeyValue, there bool) {
		var v T
		var err error
		if there {
			if v, err = decode(kv.Value); err != nil {
				c.log.Warn("a record in etcd cannot be read", "key", string(kv.Key), "error", err)
				return
			}
		}
		t.set(string(kv.Key), v, there)
	}
	pause := c.backoff()
	for ctx.Err() == nil {
		if answer, err := c.list(ctx, prefix); err == nil {
			pause.Reset()
			there := map[string]bool{}
			for _, kv := range answer.Kvs {
				there[string(kv.Key)] = true
				apply(kv, true)
			}
			for _, key := range t.keys() {
				if !there[key] {
					apply(&mvccpb.KeyValue{Key: []byte(key)}, false)
				}
			}
			watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
			for changes := range c.etcd.Watch(watching, prefix, clientv3.WithPrefix(), clientv3.WithRev(answer.Header.Revision+1)) {
				if changes.Err() != nil {
					break
				}
				for _, e := range changes.Events {
					apply(e.Kv, e.Type == clientv3.EventTypePut)
				}
			}
			cancel()
		}
		if !pause.Wait(ctx) {
			return
		}
	}
}

func (c *Client) list(ctx context.Context, prefix string) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return c.etcd.Get(ctx, prefix, clientv3.WithPrefix())
}

// Leader returns the address of the scheduler that leads a queue, and a channel that is
// closed when the leader changes. ok is false if the queue has no leader.
func (c *Client) Leader(q activation.Queue) (at activation.Endpoint, ok bool, changed <-chan struct{}) {
	e, ok, changed := c.leaders.get(c.cfg.Cluster.Leader(q))
	return e.Endpoint, ok, changed
}

// Schedulers returns the cluster's schedulers in the order of their keys, and a channel
// that is closed when the list or a record changes.
func (c *Client) Schedulers() (all []activation.SchedulerState, changed <-chan struct{}) {
	return c.schedulers.snapshot()
}
