package etcd

import (
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestSecondProcessIsRefused: the health of one invoker is one process's, as long as
// that lives.
func TestSecondProcessIsRefused(t *testing.T) {
	f := shared(t)
	first := f.run()
	second := f.client(f.config())
	if err := second.Claim(f.context()); !errors.Is(err, ErrTaken) {
		t.Errorf("the claim is %v", err)
	}
	select {
	case <-second.Taken():
	default:
		t.Error("it is not reported")
	}
	if got := f.all()[f.cluster.Invoker(us)]; got == nil || got.value != string(up.Encode()) {
		t.Errorf("the first one's health is %+v", got)
	}
	if s := first.State(); !s.OK() {
		t.Errorf("the first one's state is %+v", s)
	}
}

// TestNextProcessWaitsForTheLease: the keys of a process that was killed go with its lease.
func TestNextProcessWaitsForTheLease(t *testing.T) {
	f := shared(t)
	first := f.client(f.config())
	if err := first.Report(f.context(), up); err != nil {
		t.Fatal(err)
	}
	abandon(first)
	second := f.client(f.config())
	if err := second.Claim(f.context()); err != nil {
		t.Fatal(err)
	}
	busy := up
	busy.BusyMB = 256
	if err := second.Report(f.context(), busy); err != nil {
		t.Fatal(err)
	}
	if got := f.all()[f.cluster.Invoker(us)].value; got != string(busy.Encode()) {
		t.Errorf("the health is %s", got)
	}
}

// TestLeaseFile: with it the next process does not wait, and ends the keys that the
// last one left.
func TestLeaseFile(t *testing.T) {
	f := shared(t)
	cfg := f.config()
	cfg.TTL, cfg.LeaseFile = time.Hour, f.leaseFile()
	first := f.client(cfg)
	if err := first.Report(f.context(), up); err != nil {
		t.Fatal(err)
	}
	if err := first.Put(f.context(), f.key(1)); err != nil {
		t.Fatal(err)
	}
	abandon(first)
	second := f.client(cfg)
	if err := second.Claim(f.context()); err != nil {
		t.Fatal(err)
	}
	if f.all()[f.key(1)] != nil {
		t.Error("a key of the last process is there")
	}
}

// TestLeaseFileOfAnother: a number that etcd does not have for this invoker is not
// revoked.
func TestLeaseFileOfAnother(t *testing.T) {
	f := shared(t)
	cfg := f.config()
	cfg.LeaseFile = f.leaseFile()
	lease := f.lease(time.Hour)
	f.put("other/"+string(f.cluster), "", clientv3.WithLease(lease))
	previous := f.client(cfg)
	previous.keepLease(lease)
	abandon(previous)
	if err := f.client(cfg).Claim(f.context()); err != nil {
		t.Fatal(err)
	}
	answer, err := f.etcd.TimeToLive(f.context(), lease)
	if err != nil || answer.TTL <= 0 {
		t.Errorf("the other's lease is gone: %v", err)
	}
	f.etcd.Revoke(f.context(), lease)
}

// TestHealthWithoutALease: a key that somebody left by hand is overwritten.
func TestHealthWithoutALease(t *testing.T) {
	f := shared(t)
	f.put(f.cluster.Invoker(us), "stale")
	f.run()
	if got := f.all()[f.cluster.Invoker(us)]; got.value != string(up.Encode()) || got.lease == 0 {
		t.Errorf("it is %+v", got)
	}
}

// TestHealthThatAnotherOverwrites: the original writes over what is there. That is
// found, and ends in a refusal if the other one lives.
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
	if s := c.State(); !strings.Contains(s.LastError, ErrTaken.Error()) {
		t.Errorf("the state is %+v", s)
	}
	f.etcd.Revoke(f.context(), lease)
	f.until(2)
}

// TestLogin: an etcd that asks for a user, and one that does not know it yet.
func TestLogin(t *testing.T) {
	e := peertest.NewEtcd(t)
	f := connect(t, e.Addr)
	for _, step := range []func() error{
		func() error { _, err := f.etcd.UserAdd(f.context(), "root", "of a test"); return err },
		func() error { _, err := f.etcd.UserGrantRole(f.context(), "root", "root"); return err },
		func() error { _, err := f.etcd.AuthEnable(f.context()); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
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
	if text := wrong.State().LastError; strings.Contains(text, cfg.Password) {
		t.Errorf("it tells the password: %s", text)
	}
	if _, err := Inspect(f.context(), cfg); !errors.Is(err, ErrLogin) {
		t.Errorf("a wrong password: %v", err)
	}
	cfg.Password = "of a test"
	if s, err := Inspect(f.context(), cfg); err != nil || s.Lease != nil {
		t.Errorf("the right one: %v, %v", err, s.Lease)
	}
	if _, err := Inspect(f.context(), f.config()); !errors.Is(err, ErrLogin) {
		t.Errorf("no user: %v", err)
	}
	c := f.client(cfg)
	if err := c.Claim(f.context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Report(f.context(), up); err != nil {
		t.Fatal(err)
	}
}

// TestConfig names what is wrong.
func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no host": {TTL: time.Second, Log: peertest.Log(t)},
		"no time": {Hosts: []string{"h:1"}, Log: peertest.Log(t)},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestWithoutEtcd: a client begins and ends without one.
func TestWithoutEtcd(t *testing.T) {
	c, err := New(Config{Hosts: []string{"127.0.0.1:1"}, TTL: time.Second, Cluster: "x", Instance: activation.Instance{}, Log: peertest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	peertest.Until(t, "the state reports it", func() string {
		if c.State().OK() {
			return "it is fine"
		}
		return ""
	})
	if text := c.State().LastError; !strings.Contains(text, "127.0.0.1:1") {
		t.Errorf("it does not tell which: %s", text)
	}
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
