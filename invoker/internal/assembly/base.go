package assembly

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/zookeeper"
	"github.com/prometheus/client_golang/prometheus"
)

// base has the settings, the condition and the metrics, which every piece uses.
type base struct {
	Options
	condition
	c        *config.Config
	instance activation.Instance
	began    time.Time

	metrics *prometheus.Registry
	// functions are the metrics of each GPU function, apart from the others: the
	// console reads those once a second.
	functions *prometheus.Registry
	steps     *invoker.StepObserver // of adapters

	invoker atomic.Pointer[invoker.Invoker] // nil until all parts are open
}

// condition says whether the invoker can work, for /ping, /status and the pings. The fields
// that are not atomic are set before the admin listener opens.
type condition struct {
	ready       atomic.Bool
	stopping    atomic.Bool       // the stop has begun
	retired     atomic.Bool       // an operator disabled it
	stage       atomic.Value      // string: the step that the start waits for
	unable      atomic.Value      // string: why the invoker cannot work
	closing     chan struct{}     // closed when the admin listener closes
	address     string            // of the admin listener
	login       string            // why the admin port's login protects nothing; empty if it does
	manifest    string            // why actions of every kind fail; empty if they do not
	certificate *x509.Certificate // of the admin port; nil without https
}

// identify finds the invoker's number: given, or assigned by ZooKeeper.
func (b *base) identify(ctx context.Context) error {
	id := b.c.Identity
	b.instance = activation.Instance{
		UniqueName: id.UniqueName, DisplayedName: id.DisplayedName,
		UserMemory: activation.Size(b.c.Pool.UserMemory),
		Tags:       id.Tags, DedicatedNamespaces: id.DedicatedNamespaces,
	}
	if id.ID != nil {
		b.instance.ID = *id.ID
		return nil
	}
	b.stage.Store("asking ZooKeeper for an invoker id")
	n, err := zookeeper.Assign(ctx, zookeeper.Request{
		Hosts: id.ZooKeeperHosts, Name: id.UniqueName, Overwrite: id.OverwriteID, Log: b.Log,
	})
	if err != nil {
		return fmt.Errorf("assign invoker id: %w (or give one with --id)", err)
	}
	b.instance.ID = n
	return nil
}
