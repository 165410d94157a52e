package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// errLeaseLost reports the end of the lease for any reason.
var errLeaseLost = errors.New("the lease is lost")

// run maintains a lease until ctx ends.
func (c *Client) run(ctx context.Context) {
	pause := c.backoff()
	for ctx.Err() == nil {
		err := c.grant(ctx)
		if err == nil {
			c.succeeded()
			pause.Reset()
			err = c.serve(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		c.failed(err)
		if !errors.Is(err, errLeaseLost) && !pause.Wait(ctx) {
			return
		}
	}
}

func (c *Client) failed(err error) {
	if errors.Is(err, context.DeadlineExceeded) { // etcd's client does not report the cause
		err = fmt.Errorf("no answer of %s within %s: %w", strings.Join(c.cfg.Hosts, ","), requestLimit, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.condition.Failed(c.log, "reports to etcd interrupted, retrying", err)
	c.changed()
}

func (c *Client) succeeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.condition.Succeeded(c.log, "reports to etcd resumed")
}

// grant keeps the current lease if etcd still has it, and otherwise gets a new one.
func (c *Client) grant(ctx context.Context) error {
	if c.etcd == nil {
		etcd, err := c.cfg.dial()
		if err != nil {
			return fmt.Errorf("connect to etcd: %w", err)
		}
		c.mu.Lock()
		c.etcd = etcd
		c.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	if err := c.endPrevious(ctx); err != nil {
		return err
	}
	if c.current != 0 {
		_, err := c.etcd.KeepAliveOnce(ctx, c.current)
		if err == nil {
			c.compare()
			return nil
		}
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return fmt.Errorf("renew the lease: %w", err)
		}
		c.hold(0)
	}
	answer, err := c.etcd.Grant(ctx, int64(c.cfg.TTL/time.Second))
	if err != nil {
		return fmt.Errorf("get a lease from etcd: %w", err)
	}
	c.lose()
	c.hold(answer.ID)
	c.keepLease(answer.ID)
	c.log.Info("have a lease", "lease", int64(answer.ID), "ttl", answer.TTL)
	return nil
}

// hold sets the current lease; 0 means none.
func (c *Client) hold(lease clientv3.LeaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = lease
	if lease != 0 {
		c.leases++
		c.renewals = 0
		c.set(c.lease, strconv.FormatInt(int64(lease), 10), true)
	}
	c.changed()
}

// revoke ends a lease. It returns nil if the lease has already ended.
func revoke(ctx context.Context, etcd *clientv3.Client, lease clientv3.LeaseID) error {
	if _, err := etcd.Revoke(ctx, lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke the lease: %w", err)
	}
	return nil
}

// serve maintains the lease and its keys until the lease is lost or ctx ends.
func (c *Client) serve(ctx context.Context) error {
	lease := c.current
	ctx, cancel := context.WithCancel(ctx)
	var watches sync.WaitGroup
	defer watches.Wait()
	defer cancel()
	renewals, err := c.etcd.KeepAlive(ctx, lease)
	if err != nil {
		return fmt.Errorf("renew the lease: %w", err)
	}
	lost := make(chan struct{})
	watches.Go(func() {
		defer close(lost)
		for range renewals { // the channel is closed when the lease ends
			c.mu.Lock()
			c.renewals++
			c.mu.Unlock()
		}
	})
	c.watchAll(ctx, &watches)
	pause := c.backoff()
	// The regular comparison finds changes that a watch missed, and a process that
	// overwrites the health.
	check := time.NewTicker(c.cfg.TTL)
	defer check.Stop()
	for {
		again, err := c.settle(ctx, lease)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errLeaseLost), errors.Is(err, rpctypes.ErrLeaseNotFound):
			return errLeaseLost
		case err != nil:
			c.failed(err)
			c.compare() // it is unknown which operations were carried out
			if !pause.Wait(ctx) {
				return ctx.Err()
			}
			continue
		case again:
			continue
		}
		c.succeeded()
		pause.Reset()
		select {
		case <-c.wake:
		case <-check.C:
			c.compare()
		case <-lost:
			return errLeaseLost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settle carries out one pending step: it compares the keys with etcd, or writes one batch of
// changes. It returns false if nothing was pending.
func (c *Client) settle(ctx context.Context, lease clientv3.LeaseID) (again bool, err error) {
	c.mu.Lock()
	check := c.check
	c.check = false
	c.mu.Unlock()
	if check {
		return true, c.reconcile(ctx, lease)
	}
	batch := c.next()
	if len(batch) == 0 {
		return false, nil
	}
	return true, c.write(ctx, lease, batch)
}

// compare requests a comparison of the keys on the lease with the registered keys.
func (c *Client) compare() {
	c.mu.Lock()
	c.check = true
	c.mu.Unlock()
	c.signal()
}

// reconcile finds lost keys, and unregistered keys on the lease.
func (c *Client) reconcile(ctx context.Context, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	answer, err := c.etcd.TimeToLive(ctx, lease, clientv3.WithAttachedKeys())
	if err != nil {
		return err
	}
	if answer.TTL < 0 { // 0 means less than a second
		return errLeaseLost
	}
	there := make(map[string]bool, len(answer.Keys))
	for _, key := range answer.Keys {
		there[string(key)] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.keys {
		if e.put && !there[key] {
			e.lost = true
		}
	}
	for key := range there {
		if c.keys[key] == nil {
			c.set(key, "", false)
		}
	}
	return nil
}

// contend handles another process's lease on our health key. The key of a dead
// process disappears a little after the time of a lease. If the key stays longer, the
// process is alive, and contend returns errTaken.
func (c *Client) contend(foreign clientv3.LeaseID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.foreign != foreign {
		c.foreign, c.since = foreign, time.Now()
	}
	if time.Since(c.since) > c.cfg.TTL+c.cfg.TTL/2 {
		select {
		case <-c.foreignAlive:
		default:
			c.log.Error("another process reports this invoker's health", "key", c.health, "lease", int64(foreign))
			close(c.foreignAlive)
		}
	}
	return fmt.Errorf("%w: it has %s on its lease %d", errTaken, c.health, foreign)
}

// yielded records that the health key is ours.
func (c *Client) yielded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.foreign = 0
}

// keepLease stores the lease's number for the next process. Without the number the
// next process waits until the lease expires.
func (c *Client) keepLease(lease clientv3.LeaseID) {
	if c.cfg.LeaseFile == "" {
		return
	}
	text := strconv.FormatInt(int64(lease), 10) + "\n"
	part := c.cfg.LeaseFile + ".part"
	err := os.MkdirAll(filepath.Dir(part), 0o755)
	if err == nil {
		err = os.WriteFile(part, []byte(text), 0o600)
	}
	if err == nil {
		err = os.Rename(part, c.cfg.LeaseFile)
	}
	if err != nil {
		c.log.Warn("cannot keep the lease's number for the next start", "error", err)
	}
}

func (c *Client) forgetLease() {
	if c.cfg.LeaseFile != "" {
		_ = os.Remove(c.cfg.LeaseFile)
	}
}

// endPrevious revokes the lease of the previous process if etcd still has that lease
// for this invoker.
func (c *Client) endPrevious(ctx context.Context) error {
	if c.cfg.LeaseFile == "" || c.leases > 0 || c.current != 0 {
		return nil
	}
	text, err := os.ReadFile(c.cfg.LeaseFile)
	if err != nil {
		return nil // no previous process
	}
	number := strings.TrimSpace(string(text))
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return nil
	}
	answer, err := c.etcd.Get(ctx, c.lease)
	if err != nil {
		return fmt.Errorf("read the lease of the last process: %w", err)
	}
	if len(answer.Kvs) == 1 && string(answer.Kvs[0].Value) == number {
		c.log.Info("end the lease of the last process", "lease", id)
		return revoke(ctx, c.etcd, clientv3.LeaseID(id))
	}
	return nil
}
