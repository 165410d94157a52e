package etcd

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

var (
	hello = activation.NewQueue("guest", activation.ActionRef{Path: "guest", Name: "hello", Version: "0.0.3"}, "5-3f")
	us    = activation.Instance{UniqueName: "0"}
	up    = activation.Health{Status: activation.Up, FreeMB: 2048}
)

// fixture is a test's own cluster in an etcd, with a plain client.
type fixture struct {
	t       *testing.T
	host    string
	cluster activation.Cluster
	etcd    *clientv3.Client
}

// shared returns a fixture in the etcd that all tests share.
func shared(t *testing.T) *fixture { return connect(t, peertest.NeedEtcd(t)) }

func connect(t *testing.T, host string) *fixture {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{host}, DialTimeout: peertest.WaitLimit, Logger: zap.NewNop()})
	check.NoError(t, err)
	t.Cleanup(func() { etcd.Close() })
	name := strings.ReplaceAll(t.Name(), "/", "-")
	f := &fixture{t, host, activation.Cluster(fmt.Sprintf("%s-%d", name, time.Now().UnixNano())), etcd}
	return f
}

func (f *fixture) config() Config {
	return Config{
		Hosts: []string{f.host}, TTL: 2 * time.Second, Cluster: f.cluster, Instance: us,
		RetryInterval: 100 * time.Millisecond, Log: peertest.Log(f.t),
	}
}

// client returns a client that ends with the test.
func (f *fixture) client(cfg Config) *Client {
	f.t.Helper()
	c, err := New(cfg)
	check.NoError(f.t, err)
	f.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			f.t.Errorf("close: %v", err)
		}
	})
	return c
}

// run returns a client that reports to be up.
func (f *fixture) run() *Client {
	f.t.Helper()
	c := f.client(f.config())
	check.NoError(f.t, c.Claim(f.context()))
	check.NoError(f.t, c.Report(f.context(), up))
	return c
}

func (f *fixture) context() context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), peertest.WaitLimit)
	f.t.Cleanup(cancel)
	return ctx
}

// key returns the key of the n-th container.
func (f *fixture) key(n int) string { return f.cluster.Existing(hello, us, fmt.Sprintf("c%04d", n)) }

// all returns the cluster's keys in etcd.
func (f *fixture) all() map[string]*kv {
	f.t.Helper()
	answer, err := f.etcd.Get(f.context(), string(f.cluster)+"/", clientv3.WithPrefix())
	check.NoError(f.t, err)
	keys := map[string]*kv{}
	for _, k := range answer.Kvs {
		keys[string(k.Key)] = &kv{string(k.Value), k.Lease, k.ModRevision}
	}
	return keys
}

type kv struct {
	value    string
	lease    int64
	revision int64
}

// until blocks until the cluster has n keys in etcd.
func (f *fixture) until(n int) {
	f.t.Helper()
	peertest.Until(f.t, "keys in etcd", func() string {
		if got := len(f.all()); got != n {
			return fmt.Sprintf("%d, want %d", got, n)
		}
		return ""
	})
}

// put puts a key without the client under test.
func (f *fixture) put(key, value string, options ...clientv3.OpOption) {
	f.t.Helper()
	_, err := f.etcd.Put(f.context(), key, value, options...)
	check.NoError(f.t, err)
}

func (f *fixture) delete(key string) {
	f.t.Helper()
	_, err := f.etcd.Delete(f.context(), key)
	check.NoError(f.t, err)
}

// lease gets a lease without the client under test.
func (f *fixture) lease(ttl time.Duration) clientv3.LeaseID {
	f.t.Helper()
	answer, err := f.etcd.Grant(f.context(), int64(ttl/time.Second))
	check.NoError(f.t, err)
	return answer.ID
}

// revoke ends a client's lease from outside.
func (f *fixture) revoke(c *Client) {
	f.t.Helper()
	c.mu.Lock()
	lease := c.current
	c.mu.Unlock()
	_, err := f.etcd.Revoke(f.context(), lease)
	check.NoError(f.t, err)
}

// abandon ends a client as a kill does, without revoking its lease.
func abandon(c *Client) {
	c.stop()
	c.done.Wait()
	c.mu.Lock()
	c.current = 0
	c.mu.Unlock()
}

func (f *fixture) leaseFile() string { return filepath.Join(f.t.TempDir(), "state", "lease") }
