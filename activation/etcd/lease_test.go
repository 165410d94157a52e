package etcd

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestSecondProcessIsRefused: while a process reports the health of an invoker, a
// second process is refused.
func TestSecondProcessIsRefused(t *testing.T) {
	f := shared(t)
	first := f.run()
	second := f.client(f.config())
	check.ErrorIs(t, second.Claim(f.context()), errTaken, "the claim")
	select {
	case <-second.Taken():
	default:
		t.Error("it is not reported")
	}
	got := f.all()[f.cluster.Invoker(us)]
	check.That(check.Must(t), got != nil, "the first one's health is %+v", got)
	check.Equal(t, got.value, string(up.Encode()), "the first one's health")
	s := first.State()
	check.That(t, s.OK(), "the first one's state is %+v", s)
}

// TestNextProcessWaitsForTheLease: the keys of a killed process disappear when its
// lease expires.
func TestNextProcessWaitsForTheLease(t *testing.T) {
	f := shared(t)
	first := f.client(f.config())
	check.NoError(t, first.Report(f.context(), up))
	abandon(first)
	second := f.client(f.config())
	check.NoError(t, second.Claim(f.context()))
	busy := up
	busy.BusyMB = 256
	check.NoError(t, second.Report(f.context(), busy))
	check.Equal(t, f.all()[f.cluster.Invoker(us)].value, string(busy.Encode()), "the health")
}

// TestLeaseFile: with a lease file the next process does not wait, and deletes the
// keys that the last process left.
func TestLeaseFile(t *testing.T) {
	f := shared(t)
	cfg := f.config()
	cfg.TTL, cfg.LeaseFile = time.Hour, f.leaseFile()
	first := f.client(cfg)
	check.NoError(t, first.Report(f.context(), up))
	check.NoError(t, first.Put(f.context(), f.key(1)))
	abandon(first)
	second := f.client(cfg)
	check.NoError(t, second.Claim(f.context()))
	check.That(t, f.all()[f.key(1)] == nil, "a key of the last process is there")
}

// TestLeaseFileOfAnother: a lease that does not belong to this invoker is not revoked.
func TestLeaseFileOfAnother(t *testing.T) {
	f := shared(t)
	cfg := f.config()
	cfg.LeaseFile = f.leaseFile()
	lease := f.lease(time.Hour)
	f.put("other/"+string(f.cluster), "", clientv3.WithLease(lease))
	previous := f.client(cfg)
	previous.keepLease(lease)
	abandon(previous)
	check.NoError(t, f.client(cfg).Claim(f.context()))
	answer, err := f.etcd.TimeToLive(f.context(), lease)
	check.NoError(t, err, "the other's lease is gone")
	check.Greater(t, answer.TTL, 0, "the other's lease is gone")
	f.etcd.Revoke(f.context(), lease)
}

// TestHealthWithoutALease: a health key without a lease is overwritten.
func TestHealthWithoutALease(t *testing.T) {
	f := shared(t)
	f.put(f.cluster.Invoker(us), "stale")
	f.run()
	got := f.all()[f.cluster.Invoker(us)]
	check.Equal(t, got.value, string(up.Encode()))
	check.That(t, got.lease != 0, "it is %+v", got)
}

// TestHealthThatAnotherOverwrites: the original invoker overwrites an existing health
// key. The client notices, and refuses to go on if the other process stays alive.
func TestHealthThatAnotherOverwrites(t *testing.T) {
	f := shared(t)
	c := f.run()
	lease := f.lease(time.Hour)
	f.put(f.cluster.Invoker(us), string(up.Encode()), clientv3.WithLease(lease))
	select {
	case <-c.Taken():
	case <-time.After(peertest.WaitLimit):
		t.Error("it is not found")
	}
	check.Contains(t, c.State().LastError, errTaken.Error(), "the state")
	f.etcd.Revoke(f.context(), lease)
	f.until(2)
}

// TestLogin: etcd requires a user, and the user is unknown at first.
func TestLogin(t *testing.T) {
	e := peertest.NewEtcd(t)
	f := connect(t, e.Addr)
	for _, step := range []func() error{
		func() error { _, err := f.etcd.UserAdd(f.context(), "root", "of a test"); return err },
		func() error { _, err := f.etcd.UserGrantRole(f.context(), "root", "root"); return err },
		func() error { _, err := f.etcd.AuthEnable(f.context()); return err },
	} {
		check.NoError(t, step())
	}
	cfg := f.config()
	cfg.Username, cfg.Password = "root", "wrong-hush"
	wrong := f.client(cfg)
	peertest.Until(t, "the refusal", func() string {
		if wrong.State().OK() {
			return "none"
		}
		return ""
	})
	check.Lacks(t, wrong.State().LastError, cfg.Password, "it tells the password")
	_, err := Inspect(f.context(), cfg)
	check.ErrorIs(t, err, ErrLogin, "a wrong password")
	cfg.Password = "of a test"
	s, err := Inspect(f.context(), cfg)
	check.NoError(t, err, "the right one")
	check.NoError(t, s.Lease, "the right one")
	_, err = Inspect(f.context(), f.config())
	check.ErrorIs(t, err, ErrLogin, "no user")
	c := f.client(cfg)
	check.NoError(t, c.Claim(f.context()))
	check.NoError(t, c.Report(f.context(), up))
}

// TestConfig: the errors of a wrong configuration name the fault.
func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no host": {TTL: time.Second, Log: peertest.Log(t)},
		"no time": {Hosts: []string{"h:1"}, Log: peertest.Log(t)},
	} {
		_, err := New(cfg)
		check.That(t, err != nil, "%s is taken", name)
	}
}

// TestWithoutEtcd: a client starts and ends although etcd is unreachable.
func TestWithoutEtcd(t *testing.T) {
	c, err := New(Config{Hosts: []string{"127.0.0.1:1"}, TTL: time.Second, Cluster: "x", Instance: activation.Instance{}, Log: peertest.Log(t)})
	check.NoError(t, err)
	peertest.Until(t, "the state reports it", func() string {
		if c.State().OK() {
			return "it is fine"
		}
		return ""
	})
	check.Contains(t, c.State().LastError, "127.0.0.1:1", "it does not tell which")
	check.NoError(t, c.Close())
}
