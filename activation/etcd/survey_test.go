package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// TestInspect: the members' versions and the schedulers are found, and nothing stays.
func TestInspect(t *testing.T) {
	f := shared(t)
	state := activation.SchedulerState{ID: "0", Endpoints: activation.SchedulerEndpoints{Endpoint: activation.Endpoint{Host: "s0", Port: 13001}}}
	if _, err := f.etcd.Put(f.context(), f.cluster.Scheduler("0"), string(state.Encode())); err != nil {
		t.Fatal(err)
	}
	cfg := f.config()
	cfg.Hosts = append(cfg.Hosts, "127.0.0.1:1")
	ctx, cancel := context.WithTimeout(f.context(), 10*time.Second)
	defer cancel()
	s, err := Inspect(ctx, cfg)
	if err != nil || s.Lease != nil {
		t.Fatalf("%v, %v", err, s.Lease)
	}
	if len(s.Members) != 2 || s.Members[0].Err != nil || !strings.HasPrefix(s.Members[0].Version, "3.") || s.Members[1].Err == nil || !strings.Contains(s.Members[1].Err.Error(), "refused") {
		t.Errorf("members %+v", s.Members)
	}
	if len(s.Schedulers) != 1 || s.Schedulers[0] != state {
		t.Errorf("schedulers %+v", s.Schedulers)
	}
	if n := len(f.all()); n != 1 {
		t.Errorf("%d keys", n)
	}
	if _, err := f.etcd.Put(f.context(), f.cluster.Scheduler("1"), "{}"); err != nil {
		t.Fatal(err)
	}
	if _, err = Inspect(f.context(), f.config()); err == nil || !strings.Contains(err.Error(), f.cluster.Scheduler("1")) {
		t.Errorf("a scheduler's record that cannot be read: %v", err)
	}
}

// TestAwaitUp: the lease of a process that is dead is ended at once, that of the next
// one never.
func TestAwaitUp(t *testing.T) {
	f := shared(t)
	cfg := f.config()
	dead, err := f.etcd.Grant(f.context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	down := activation.Health{Status: activation.Down}
	if _, err := f.etcd.Put(f.context(), f.cluster.Invoker(us), string(down.Encode()), clientv3.WithLease(dead.ID)); err != nil {
		t.Fatal(err)
	}
	if lease, err := Lease(f.context(), cfg, us.ID); err != nil || lease != int64(dead.ID) {
		t.Errorf("lease %d, %v", lease, err)
	}
	if lease, err := Lease(f.context(), cfg, 7); err != nil || lease != 0 {
		t.Errorf("lease of an invoker that is not there: %d, %v", lease, err)
	}
	ended := make(chan error)
	go func() { ended <- AwaitUp(f.context(), cfg, us.ID, int64(dead.ID)) }()
	c := f.run()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if c.State().Leases != 1 {
		t.Error("the next process lost its lease")
	}
	if err := c.Report(f.context(), down); err != nil {
		t.Fatal(err)
	}
	why := errors.New("late")
	ctx, cancel := context.WithCancelCause(f.context())
	cancel(why)
	if err := AwaitUp(ctx, cfg, us.ID, 0); !errors.Is(err, why) {
		t.Errorf("an invoker that is down: %v", err)
	}
}
