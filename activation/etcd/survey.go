package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// ErrLogin means that etcd refuses the login, or requires one.
var ErrLogin = errors.New("etcd refuses the login")

// Survey is the result of Inspect.
type Survey struct {
	Members    []Member
	Lease      error // the reason why etcd does not grant a lease of the configured time
	Schedulers []activation.SchedulerState
}

// Member is one of the configured addresses.
type Member struct {
	Host, Version string
	Err           error
}

// Inspect reads the version of each member and the schedulers, and gets a lease that
// it revokes at once. It returns an error if etcd cannot be used at all.
func Inspect(ctx context.Context, cfg Config) (Survey, error) {
	var s Survey
	var away error
	answers := false
	for _, host := range cfg.Hosts {
		m := ask(ctx, host, len(cfg.Hosts))
		s.Members, away, answers = append(s.Members, m), errors.Join(away, m.Err), answers || m.Err == nil
	}
	if !answers {
		return s, fmt.Errorf("no member of etcd answers: %w", away)
	}
	etcd, err := cfg.dial()
	if err != nil {
		return s, login(err)
	}
	defer etcd.Close()
	answer, err := etcd.Get(ctx, cfg.Cluster.Schedulers(), clientv3.WithPrefix())
	if err != nil {
		return s, login(err)
	}
	for _, kv := range answer.Kvs {
		state, err := activation.DecodeSchedulerState(kv.Value)
		if err != nil {
			return s, fmt.Errorf("%s: %w", kv.Key, err)
		}
		s.Schedulers = append(s.Schedulers, state)
	}
	lease, err := etcd.Grant(ctx, int64(cfg.TTL/time.Second))
	if err != nil {
		s.Lease = login(err)
		return s, nil
	}
	_, s.Lease = etcd.Revoke(ctx, lease.ID)
	return s, nil
}

// ask reads the version of one member, within its share of the time. Versions can be
// read without a login.
func ask(ctx context.Context, host string, of int) Member {
	m := Member{Host: host}
	if until, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(until)/time.Duration(of+1))
		defer cancel()
	}
	// etcd's client does not report why a member is unreachable.
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		m.Err = err
		return m
	}
	_ = conn.Close()
	etcd, err := Config{Hosts: []string{host}}.dial()
	if err != nil {
		m.Err = err
		return m
	}
	defer etcd.Close()
	answer, err := etcd.Status(ctx, host)
	if m.Err = err; err == nil {
		m.Version = answer.Version
	}
	return m
}

// login wraps a refused login in ErrLogin.
func login(err error) error {
	for _, refused := range []error{
		rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed, rpctypes.ErrPermissionDenied, rpctypes.ErrAuthNotEnabled, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserNotFound,
	} {
		if strings.Contains(err.Error(), refused.Error()) {
			return fmt.Errorf("%w: %w", ErrLogin, err)
		}
	}
	return err
}

// Lease returns the lease of an invoker's health key, 0 for none.
func Lease(ctx context.Context, cfg Config, id int) (int64, error) {
	_, lease, err := cfg.health(ctx, id)
	return lease, err
}

// AwaitUp blocks until an invoker reports to be up. Before that, it revokes the lease
// `ended` if it is not 0 and the invoker's health key is still on it.
func AwaitUp(ctx context.Context, cfg Config, id int, ended int64) error {
	for {
		h, lease, err := cfg.health(ctx, id)
		switch {
		case err == nil && ended != 0 && lease == ended:
			err = cfg.revoke(ctx, lease)
		case err == nil && h.Status == activation.Up:
			return nil
		case err == nil && lease == 0:
			err = fmt.Errorf("etcd has no health of invoker%d", id)
		case err == nil:
			err = fmt.Errorf("invoker%d reports to be %s", id, h.Status)
		}
		if !retry.Sleep(ctx, retry.MinPause) {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// health returns an invoker's health and the lease of the key.
func (cfg Config) health(ctx context.Context, id int) (h activation.Health, lease int64, err error) {
	etcd, err := cfg.dial()
	if err != nil {
		return h, 0, login(err)
	}
	defer etcd.Close()
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	answer, err := etcd.Get(ctx, cfg.Cluster.Invokers(), clientv3.WithPrefix())
	if err != nil {
		return h, 0, login(err)
	}
	for _, kv := range answer.Kvs {
		if n, ok := cfg.Cluster.InvokerOfHealth(string(kv.Key)); ok && n == id {
			h, err = activation.DecodeHealth(kv.Value)
			return h, kv.Lease, err
		}
	}
	return h, 0, nil
}

func (cfg Config) revoke(ctx context.Context, lease int64) error {
	etcd, err := cfg.dial()
	if err != nil {
		return err
	}
	defer etcd.Close()
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return revoke(ctx, etcd, clientv3.LeaseID(lease))
}
