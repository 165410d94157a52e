package etcd

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestKeysHangOnOneLease: a registered key exists when the call returns, and no key is
// left after the end.
func TestKeysHangOnOneLease(t *testing.T) {
	f := shared(t)
	c := f.run()
	warmed := f.cluster.Warmed(hello, us, "w")
	check.NoError(t, c.change(f.context(), []string{f.key(1), f.key(2), warmed}, nil))
	all := f.all()
	lease := all[f.cluster.Lease(us)]
	for key, value := range map[string]string{
		f.cluster.Invoker(us): string(up.Encode()), f.key(1): "", f.key(2): "", warmed: "",
		f.cluster.Lease(us): strconv.FormatInt(lease.lease, 10),
	} {
		got := all[key]
		if got == nil {
			t.Errorf("%s is not there", key)
			continue
		}
		check.Equal(t, got.value, value, "%s", key)
		check.Equal(t, got.lease, lease.lease, "%s", key)
	}
	check.Equal(t, len(all), 5)
	check.NoError(t, c.change(f.context(), []string{f.cluster.Warmed(hello, us, "c0001")}, []string{f.key(1)}))
	all = f.all()
	check.That(t, all[f.key(1)] == nil, "after the change there are %v", all)
	check.That(t, all[f.cluster.Warmed(hello, us, "c0001")] != nil, "after the change there are %v", all)
	n, err := c.Count(f.context(), f.cluster.ExistingOf(hello), f.cluster.WarmedOf(hello), f.cluster.InProgressOf(hello))
	check.NoError(t, err)
	check.Equal(t, n, 3)
	s := c.State()
	check.Equal(t, s.Keys, 5)
	check.Equal(t, s.Pending, 0)
	check.Equal(t, s.Leases, 1)
	check.Equal(t, s.Lease, lease.value)
	check.That(t, s.OK(), "the state is %+v", s)
	check.NoError(t, c.Close())
	check.Equal(t, len(f.all()), 0)
	check.ErrorIs(t, c.Put(f.context(), f.key(3)), errClosed, "after the end a put")
}

// TestHealthIsWrittenWhenItChanges: a change of the health is written at once.
func TestHealthIsWrittenWhenItChanges(t *testing.T) {
	f := shared(t)
	c := f.run()
	first := f.all()[f.cluster.Invoker(us)].revision
	check.NoError(t, c.Report(f.context(), up))
	check.Equal(t, f.all()[f.cluster.Invoker(us)].revision, first, "the same health was written again")
	down := up
	down.Status = activation.Down
	check.NoError(t, c.Report(f.context(), down))
	check.Equal(t, f.all()[f.cluster.Invoker(us)].value, string(down.Encode()))
}

// TestLostLeaseBringsAllKeysBack: after the lease is revoked, all keys return, and the
// health is put last.
func TestLostLeaseBringsAllKeysBack(t *testing.T) {
	const keys = 1000
	f := shared(t)
	c := f.run()
	var all []string
	for i := range keys {
		all = append(all, f.key(i))
	}
	check.NoError(t, c.change(f.context(), all, nil))
	for round := range 5 {
		f.revoke(c)
		peertest.Until(t, "a new lease", func() string {
			if s := c.State(); s.Leases != round+2 || s.Lease == "" {
				return fmt.Sprintf("%+v", s)
			}
			return ""
		})
	}
	f.until(keys + 2)
	there := f.all()
	health := there[f.cluster.Invoker(us)]
	check.That(check.Must(t), health != nil, "no health")
	for key, got := range there {
		check.AtMost(t, got.revision, health.revision, "%s was put after the health", key)
		check.Equal(t, got.lease, health.lease, "%s hangs on another lease", key)
	}
	s := c.State()
	check.Equal(t, s.Keys, keys+2)
	check.Equal(t, s.Leases, 6)
}

// TestKeysThatOthersDeleteComeBack: deleted keys return, including the health and the
// key of the lease.
func TestKeysThatOthersDeleteComeBack(t *testing.T) {
	f := shared(t)
	c := f.run()
	warmed := f.cluster.Warmed(hello, us, "w")
	check.NoError(t, c.change(f.context(), []string{f.key(1), warmed}, nil))
	for _, key := range []string{f.key(1), warmed, f.cluster.Invoker(us), f.cluster.Lease(us)} {
		before := f.all()[key].revision
		f.delete(key)
		peertest.Until(t, key+" is put again", func() string {
			if got := f.all()[key]; got == nil || got.revision == before {
				return fmt.Sprintf("%+v", got)
			}
			return ""
		})
	}
	check.Equal(t, c.State().Leases, 1)
}

// TestGhostsGo: an unregistered key on our lease is deleted. Such a key can come from a
// put that was reported as failed but succeeded.
func TestGhostsGo(t *testing.T) {
	f := shared(t)
	c := f.run()
	c.mu.Lock()
	lease := c.current
	c.mu.Unlock()
	f.put(f.key(7), "", clientv3.WithLease(lease))
	f.until(2) // the regular comparison finds it
	check.Equal(t, c.State().Leases, 1)
}

// TestChangesWaitForEtcd: changes during an interruption are written when etcd
// returns. After a short interruption the lease is still the same.
func TestChangesWaitForEtcd(t *testing.T) {
	e := peertest.NewEtcd(t)
	f := connect(t, e.Addr)
	cfg := f.config()
	cfg.TTL = time.Minute
	c := f.client(cfg)
	check.NoError(t, c.Report(f.context(), up))
	check.NoError(t, c.Put(f.context(), f.key(1)))
	e.Stop(t)
	ctx, cancel := context.WithCancel(f.context())
	cancel()
	check.ErrorIs(t, c.Put(ctx, f.key(2)), context.Canceled, "without etcd a put")
	check.ErrorIs(t, c.Delete(ctx, f.key(1)), context.Canceled, "without etcd a deletion")
	peertest.Until(t, "the state reports it", func() string {
		if s := c.State(); s.OK() || s.Pending != 2 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	_, err := c.Count(ctx, "x/")
	check.That(t, err != nil, "without etcd it counts")
	e.Start(t)
	check.NoError(t, c.Put(f.context(), f.key(3)))
	all := f.all()
	for key, want := range map[string]bool{f.key(1): false, f.key(2): true, f.key(3): true, f.cluster.Invoker(us): true} {
		check.Equal(t, all[key] != nil, want, "%s is there", key)
	}
	check.Equal(t, c.State().Leases, 1)
	peertest.Until(t, "the state", func() string { return c.State().LastError })
}

// TestEtcdWithoutItsData: all keys are put again after etcd has lost its data.
func TestEtcdWithoutItsData(t *testing.T) {
	e := peertest.NewEtcd(t)
	f := connect(t, e.Addr)
	c := f.run()
	for i := range 300 { // the new etcd's revisions must be below the old etcd's
		check.NoError(t, c.Put(f.context(), f.key(i)))
	}
	f.put(f.cluster.Leader(hello), `{"host":"h","pekkoPort":1,"rpcPort":2}`)
	peertest.Until(t, "a leader", func() string {
		if _, ok, _ := c.Leader(hello); !ok {
			return "none"
		}
		return ""
	})
	e.Stop(t)
	e.Wipe(t)
	e.Start(t)
	f.until(302)
	peertest.Until(t, "the leader that is gone", func() string {
		if at, ok, _ := c.Leader(hello); ok {
			return fmt.Sprint(at)
		}
		return ""
	})
	f.put(f.cluster.Leader(hello), `{"host":"other","pekkoPort":1,"rpcPort":2}`)
	peertest.Until(t, "the new leader", func() string {
		if at, ok, _ := c.Leader(hello); !ok || at.Host != "other" {
			return fmt.Sprint(at)
		}
		return ""
	})
}

// TestFrozenEtcd: if the server is suspended for longer than the lease, the lease is
// lost, and all keys return.
func TestFrozenEtcd(t *testing.T) {
	e := peertest.NewEtcd(t)
	f := connect(t, e.Addr)
	c := f.run()
	check.NoError(t, c.Put(f.context(), f.key(1)))
	e.Freeze(t)
	peertest.Until(t, "the state reports it", func() string {
		if c.State().OK() {
			return "it is fine"
		}
		return ""
	})
	e.Thaw(t)
	check.NoError(t, c.Put(f.context(), f.key(2)))
	f.until(4)
}
