package fakescheduler

import (
	"context"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
)

// Keys reads the keys of a cluster in etcd. Only tests use it.
type Keys struct {
	*clientv3.Client
	cluster activation.Cluster
}

// Lease is the lease of a key.
type Lease = clientv3.LeaseID

// OpenKeys connects to etcd until the end of the test.
func OpenKeys(t testing.TB, addr string, cluster activation.Cluster) *Keys {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &Keys{c, cluster}
}

// Below returns the keys below a part of the cluster, without the cluster's name, and their
// leases.
func (k *Keys) Below(t testing.TB, part string) map[string]Lease {
	t.Helper()
	head := string(k.cluster) + "/"
	leases := map[string]Lease{}
	for _, kv := range k.get(t, head+part, clientv3.WithPrefix()).Kvs {
		leases[strings.TrimPrefix(string(kv.Key), head)] = Lease(kv.Lease)
	}
	return leases
}

// Health returns an invoker's record and its lease. The record is empty if there is none.
func (k *Keys) Health(t testing.TB, invoker activation.Instance) (h activation.Health, lease Lease) {
	t.Helper()
	found := k.get(t, k.cluster.Invoker(invoker)).Kvs
	if len(found) == 0 {
		return h, 0
	}
	h, err := activation.DecodeHealth(found[0].Value)
	if err != nil {
		t.Error(err)
	}
	return h, Lease(found[0].Lease)
}

func (k *Keys) get(t testing.TB, key string, options ...clientv3.OpOption) *clientv3.GetResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	answer, err := k.Get(ctx, key, options...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// Follow calls take for each new message of a topic until the end of the test.
func Follow(t testing.TB, bus *broker.Bus, topic string, take func(message []byte)) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if err := bus.Consume(ctx, topic, func() { close(ready) }, take); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	<-ready
}
