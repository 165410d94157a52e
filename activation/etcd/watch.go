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

// watchAll starts the watches of one lease. A new lease has new ones: an etcd that
// lost its data counts its revisions anew, and a watch would wait for an old one.
func (c *Client) watchAll(ctx context.Context, group *sync.WaitGroup) {
	k := c.cfg.Cluster
	// Only deletions are sent: of the cluster's containers, and of our own two keys.
	for _, prefix := range []string{k.ExistingAll(), k.WarmedAll(), c.health, c.lease} {
		group.Go(func() { c.watchOwn(ctx, prefix) })
	}
	group.Go(func() { follow(ctx, c, k.Leaders(), &c.leaders, activation.DecodeSchedulerEndpoints) })
	group.Go(func() { follow(ctx, c, k.Schedulers(), &c.schedulers, activation.DecodeSchedulerState) })
}

// watchOwn finds registered keys that were deleted.
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
				c.compare() // what was deleted before is not told
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

// table is what etcd has below a prefix. It is safe for use by many goroutines.
type table[T any] struct {
	mu      sync.Mutex
	values  map[string]T
	waiting map[string]chan struct{} // closed at the next change of a key; of any for ""
}

// get gives a key's value and a channel that is closed when that changes.
func (t *table[T]) get(key string) (v T, ok bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok = t.values[key]
	return v, ok, t.wait(key)
}

// all gives every value in the order of the keys, and a channel that is closed when
// one changes.
func (t *table[T]) all() (v []T, changed <-chan struct{}) {
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

// set changes a key, or deletes it.
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

// follow keeps a table as etcd has it: a list, and from its revision on a watch.
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

// Leader is where the scheduler answers that has a queue, and a channel that is closed
// when that changes. Without ok there is none for now.
func (c *Client) Leader(q activation.Queue) (at activation.Endpoint, ok bool, changed <-chan struct{}) {
	e, ok, changed := c.leaders.get(c.cfg.Cluster.Leader(q))
	return e.Endpoint, ok, changed
}

// Schedulers are those of the cluster, in the order of their keys, and a channel
// that is closed when one comes, goes or changes its record.
func (c *Client) Schedulers() (all []activation.SchedulerState, changed <-chan struct{}) {
	return c.schedulers.all()
}
