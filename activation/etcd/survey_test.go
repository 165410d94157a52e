package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestInspect finds the members' versions and the schedulers, and leaves no key or
// lease behind.
func TestInspect(t *testing.T) {
	f := shared(t)
	state := activation.SchedulerState{ID: "0", Endpoints: activation.SchedulerEndpoints{Endpoint: activation.Endpoint{Host: "s0", Port: 13001}}}
	_, err := f.etcd.Put(f.context(), f.cluster.Scheduler("0"), string(state.Encode()))
	check.NoError(t, err)
	cfg := f.config()
	cfg.Hosts = append(cfg.Hosts, "127.0.0.1:1")
	ctx, cancel := context.WithTimeout(f.context(), 10*time.Second)
	defer cancel()
	s, err := Inspect(ctx, cfg)
	check.NoError(t, err)
	check.NoError(t, s.Lease)
	check.Equal(check.Must(t), len(s.Members), 2)
	check.NoError(t, s.Members[0].Err)
	check.That(check.Must(t), strings.HasPrefix(s.Members[0].Version, "3."), "members %+v", s.Members)
	check.ErrorContains(t, s.Members[1].Err, "refused")
	check.Equal(check.Must(t), len(s.Schedulers), 1)
	check.Equal(t, s.Schedulers[0], state)
	check.Equal(t, len(f.all()), 1)
	_, err = f.etcd.Put(f.context(), f.cluster.Scheduler("1"), "{}")
	check.NoError(t, err)
	_, err = Inspect(f.context(), f.config())
	check.ErrorContains(t, err, f.cluster.Scheduler("1"), "a scheduler's record that cannot be read")
}

// TestAwaitUp: the lease of a dead process is revoked at once, the lease of the next
// process never.
func TestAwaitUp(t *testing.T) {
	f := shared(t)
	cfg := f.config()
	dead, err := f.etcd.Grant(f.context(), 3600)
	check.NoError(t, err)
	down := activation.Health{Status: activation.Down}
	_, err = f.etcd.Put(f.context(), f.cluster.Invoker(us), string(down.Encode()), clientv3.WithLease(dead.ID))
	check.NoError(t, err)
	lease, err := Lease(f.context(), cfg, us.ID)
	check.NoError(t, err)
	check.Equal(t, lease, int64(dead.ID))
	lease, err = Lease(f.context(), cfg, 7)
	check.NoError(t, err, "lease of an invoker that is not there")
	check.Equal(t, lease, 0, "lease of an invoker that is not there")
	ended := make(chan error)
	go func() { ended <- AwaitUp(f.context(), cfg, us.ID, int64(dead.ID)) }()
	c := f.run()
	check.NoError(t, check.Receive(t, ended))
	check.Equal(t, c.State().Leases, 1, "the next process lost its lease")
	check.NoError(t, c.Report(f.context(), down))
	why := errors.New("late")
	ctx, cancel := context.WithCancelCause(f.context())
	cancel(why)
	check.ErrorIs(t, AwaitUp(ctx, cfg, us.ID, 0), why, "an invoker that is down")
}
