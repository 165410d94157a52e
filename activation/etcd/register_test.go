package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestKeysHangOnOneLease: what is registered is there when the call returns, and
// nothing is left after the end.
func TestKeysHangOnOneLease(t *testing.T) {
	f := shared(t)
	c := f.run()
	warmed := f.cluster.Warmed(hello, us, "w")
	if err := c.Change(f.context(), []string{f.key(1), f.key(2), warmed}, nil); err != nil {
		t.Fatal(err)
	}
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
		if got.value != value || got.lease != lease.lease {
			t.Errorf("%s is %q on lease %d, want %q on %d", key, got.value, got.lease, value, lease.lease)
		}
	}
	if len(all) != 5 {
		t.Errorf("there are %d keys", len(all))
	}
	if err := c.Change(f.context(), []string{f.cluster.Warmed(hello, us, "c0001")}, []string{f.key(1)}); err != nil {
		t.Fatal(err)
	}
	all = f.all()
	if all[f.key(1)] != nil || all[f.cluster.Warmed(hello, us, "c0001")] == nil {
		t.Errorf("after the change there are %v", all)
	}
	if n, err := c.Count(f.context(), f.cluster.ExistingOf(hello), f.cluster.WarmedOf(hello), f.cluster.InProgressOf(hello)); err != nil || n != 3 {
		t.Errorf("counted %d, %v", n, err)
	}
	if s := c.State(); s.Keys != 5 || s.Pending != 0 || s.Leases != 1 || s.Lease != lease.value || !s.OK() {
		t.Errorf("the state is %+v", s)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if left := f.all(); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
	if err := c.Put(f.context(), f.key(3)); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end a put is %v", err)
	}
}

// TestHealthIsWrittenWhenItChanges, and then at once.
func TestHealthIsWrittenWhenItChanges(t *testing.T) {
	f := shared(t)
	c := f.run()
	first := f.all()[f.cluster.Invoker(us)].revision
	if err := c.Report(f.context(), up); err != nil {
		t.Fatal(err)
	}
	if again := f.all()[f.cluster.Invoker(us)].revision; again != first {
		t.Error("the same health was written again")
	}
	down := up
	down.Status = activation.Down
	if err := c.Report(f.context(), down); err != nil {
		t.Fatal(err)
	}
	if got := f.all()[f.cluster.Invoker(us)].value; got != string(down.Encode()) {
		t.Errorf("it is %s", got)
	}
}

// TestLostLeaseBringsAllKeysBack revokes the lease in a burst, with many keys. The
// health is the last key that is put.
func TestLostLeaseBringsAllKeysBack(t *testing.T) {
	const keys = 1000
	f := shared(t)
	c := f.run()
	var all []string
	for i := range keys {
		all = append(all, f.key(i))
	}
	if err := c.Change(f.context(), all, nil); err != nil {
		t.Fatal(err)
	}
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
	if health == nil {
		t.Fatal("no health")
	}
	for key, got := range there {
		if got.revision > health.revision {
			t.Errorf("%s was put after the health", key)
		}
		if got.lease != health.lease {
			t.Errorf("%s hangs on another lease", key)
		}
	}
	if s := c.State(); s.Keys != keys+2 || s.Leases != 6 {
		t.Errorf("the state is %+v", s)
	}
}

// TestKeysThatOthersDeleteComeBack, the health and the lease's own included.
func TestKeysThatOthersDeleteComeBack(t *testing.T) {
	f := shared(t)
	c := f.run()
	warmed := f.cluster.Warmed(hello, us, "w")
	if err := c.Change(f.context(), []string{f.key(1), warmed}, nil); err != nil {
		t.Fatal(err)
	}
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
	if s := c.State(); s.Leases != 1 {
		t.Errorf("%d leases", s.Leases)
	}
}

// TestGhostsGo: a key on our lease that is not registered any more is deleted, as
// one whose put was reported as a failure and came about.
func TestGhostsGo(t *testing.T) {
	f := shared(t)
	c := f.run()
	c.mu.Lock()
	lease := c.current
	c.mu.Unlock()
	f.put(f.key(7), "", clientv3.WithLease(lease))
	f.until(2) // found by the check that comes with each lease's time
	if s := c.State(); s.Leases != 1 {
		t.Errorf("%d leases", s.Leases)
	}
}

// TestChangesWaitForEtcd: what changes while etcd is away is there when it is back,
// on the same lease if that was soon.
func TestChangesWaitForEtcd(t *testing.T) {
	e := peertest.NewEtcd(t)
	f := connect(t, e.Addr)
	cfg := f.config()
	cfg.TTL = time.Minute
	c := f.client(cfg)
	if err := c.Report(f.context(), up); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(f.context(), f.key(1)); err != nil {
		t.Fatal(err)
	}
	e.Stop(t)
	ctx, cancel := context.WithCancel(f.context())
	cancel()
	if err := c.Put(ctx, f.key(2)); !errors.Is(err, context.Canceled) {
		t.Errorf("without etcd a put is %v", err)
	}
	if err := c.Delete(ctx, f.key(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("without etcd a deletion is %v", err)
	}
	peertest.Until(t, "the state reports it", func() string {
		if s := c.State(); s.OK() || s.Pending != 2 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	if _, err := c.Count(ctx, "x/"); err == nil {
		t.Error("without etcd it counts")
	}
	e.Start(t)
	if err := c.Put(f.context(), f.key(3)); err != nil {
		t.Fatal(err)
	}
	all := f.all()
	for key, want := range map[string]bool{f.key(1): false, f.key(2): true, f.key(3): true, f.cluster.Invoker(us): true} {
		if got := all[key] != nil; got != want {
			t.Errorf("%s is there: %v, want %v", key, got, want)
		}
	}
	if s := c.State(); s.Leases != 1 {
		t.Errorf("%d leases", s.Leases)
	}
	peertest.Until(t, "the state", func() string { return c.State().LastError })
}

// TestEtcdWithoutItsData: all is put again into an etcd that knows nothing.
func TestEtcdWithoutItsData(t *testing.T) {
	e := peertest.NewEtcd(t)
	f := connect(t, e.Addr)
	c := f.run()
	for i := range 300 { // so that the new one's revisions are below the old one's
		if err := c.Put(f.context(), f.key(i)); err != nil {
			t.Fatal(err)
		}
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

// TestFrozenEtcd: a server that stands still longer than the lease costs it, and all
// comes back.
func TestFrozenEtcd(t *testing.T) {
	e := peertest.NewEtcd(t)
	f := connect(t, e.Addr)
	c := f.run()
	if err := c.Put(f.context(), f.key(1)); err != nil {
		t.Fatal(err)
	}
	e.Freeze(t)
	peertest.Until(t, "the state reports it", func() string {
		if c.State().OK() {
			return "it is fine"
		}
		return ""
	})
	e.Thaw(t)
	if err := c.Put(f.context(), f.key(2)); err != nil {
		t.Fatal(err)
	}
	f.until(4)
}
