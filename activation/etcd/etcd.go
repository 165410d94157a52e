// Package etcd maintains an invoker's keys in OpenWhisk's etcd and finds the
// schedulers. The keys are the invoker's health and one key for each container, all
// on one lease.
//
// Schedulers count these keys: a missing key makes them order too many containers,
// and a surplus key keeps activations waiting. A Client therefore puts registered
// keys again if they are lost, and deletes unregistered ones, through any
// interruption.
//
// The caller decides the content of the keys. A Client has one goroutine that writes,
// one that renews the lease, and one for each watch. They end with Close.
package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// errTaken means that another living process reports the health of the same invoker.
var errTaken = errors.New("another process is this invoker")

// errClosed is returned by calls of a closed client.
var errClosed = errors.New("client of etcd is closed")

// requestLimit is the timeout of one request. A slower member counts as unreachable.
const requestLimit = 5 * time.Second

// Config of a Client.
type Config struct {
	Hosts    []string // host:port
	Username string   // empty: no login
	Password string
	TTL      time.Duration // of the lease, in whole seconds
	Cluster  activation.Cluster
	Instance activation.Instance
	// LeaseFile stores the number of the lease, so that the next process can revoke it
	// at once instead of waiting until it expires. Empty means no file.
	LeaseFile string
	// RetryInterval is the longest pause between attempts; zero means a second.
	RetryInterval time.Duration
	Log           *slog.Logger
}

// Client maintains the keys of one invoker. It is safe for concurrent use.
type Client struct {
	cfg    Config
	log    *slog.Logger
	etcd   *clientv3.Client
	health string // key
	lease  string // key

	leaders    table[activation.SchedulerEndpoints]
	schedulers table[activation.SchedulerState]

	stop    context.CancelFunc
	done    sync.WaitGroup
	closing chan struct{} // closed when Close begins
	wake    chan struct{} // the writer has something to do

	mu           sync.Mutex
	keys         map[string]*entry
	gen          uint64        // of the last change
	settled      chan struct{} // closed and replaced when changes are confirmed
	check        bool          // the keys on the lease must be compared
	current      clientv3.LeaseID
	leases       int   // granted so far
	renewals     int64 // of the current lease
	condition    retry.Condition
	foreign      clientv3.LeaseID // lease of another process that has our health key, 0 for none
	since        time.Time        // when the foreign lease was first seen
	foreignAlive chan struct{}    // closed when the foreign lease is known to be alive
}

// New returns a client that starts to register at once. etcd may be unreachable.
func New(cfg Config) (*Client, error) {
	if len(cfg.Hosts) == 0 {
		return nil, errors.New("etcd: no host")
	}
	if cfg.TTL < time.Second {
		return nil, fmt.Errorf("etcd: lease of %s: want a second or more", cfg.TTL)
	}
	if cfg.RetryInterval <= 0 {
		cfg.RetryInterval = time.Second
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{
		cfg: cfg, log: cfg.Log.With("peer", "etcd"), stop: stop,
		health: cfg.Cluster.Invoker(cfg.Instance), lease: cfg.Cluster.Lease(cfg.Instance),
		closing: make(chan struct{}), wake: make(chan struct{}, 1), // one pending wake-up is enough
		keys: map[string]*entry{}, settled: make(chan struct{}), foreignAlive: make(chan struct{}),
	}
	c.done.Go(func() { c.run(ctx) })
	return c, nil
}

// dial returns etcd's own client. With a login it contacts etcd and can fail.
func (cfg Config) dial() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints:            cfg.Hosts,
		Username:             cfg.Username,
		Password:             cfg.Password,
		DialTimeout:          requestLimit,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: requestLimit,
		Logger:               zap.NewNop(), // our errors have the same text
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			// gRPC's default pauses grow to two minutes, which would delay the return of etcd.
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: cmp.Or(cfg.RetryInterval, time.Second)},
			MinConnectTimeout: requestLimit,
		})},
	})
}

// backoff returns the pauses of one retry loop.
func (c *Client) backoff() retry.Backoff {
	return retry.Backoff{Min: min(retry.MinPause, c.cfg.RetryInterval), Max: c.cfg.RetryInterval}
}

// Claim blocks until this process may report the invoker's health: it has a lease,
// and the key of an earlier process is gone. It returns errTaken if that key outlives
// the time of an unrenewed lease, because the other process must then be alive.
func (c *Client) Claim(ctx context.Context) error {
	pause := retry.Default()
	for {
		foreign, err := c.healthLease(ctx)
		if err == nil && foreign == 0 {
			c.yielded()
			return nil
		}
		if err == nil {
			err = c.contend(foreign)
		}
		select {
		case <-c.foreignAlive:
			return err
		case <-c.closing:
			return errClosed
		default:
		}
		if !pause.Wait(ctx) {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// healthLease returns another process's lease that the health key is on, 0 for none.
func (c *Client) healthLease(ctx context.Context) (clientv3.LeaseID, error) {
	etcd, err := c.connected()
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	ours, reason := c.current, c.condition.LastError
	c.mu.Unlock()
	if ours == 0 {
		return 0, fmt.Errorf("no lease from etcd: %s", reason)
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	answer, err := etcd.Get(ctx, c.health)
	if err != nil {
		return 0, fmt.Errorf("read the invoker's key: %w", err)
	}
	for _, kv := range answer.Kvs {
		if lease := clientv3.LeaseID(kv.Lease); lease != ours {
			return lease, nil
		}
	}
	return 0, nil
}

// Taken returns a channel that is closed when another living process reports the
// health of this invoker.
func (c *Client) Taken() <-chan struct{} { return c.foreignAlive }

// Count returns the number of keys below the prefixes.
func (c *Client) Count(ctx context.Context, prefixes ...string) (int64, error) {
	etcd, err := c.connected()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var reads []clientv3.Op
	for _, p := range prefixes {
		reads = append(reads, clientv3.OpGet(p, clientv3.WithPrefix(), clientv3.WithCountOnly()))
	}
	answer, err := etcd.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return 0, fmt.Errorf("count keys in etcd: %w", err)
	}
	var n int64
	for _, r := range answer.Responses {
		n += r.GetResponseRange().Count
	}
	return n, nil
}

func (c *Client) connected() (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.etcd == nil {
		return nil, fmt.Errorf("etcd is not connected: %s", c.condition.LastError)
	}
	return c.etcd, nil
}

// State describes the client for /status.
type State struct {
	Lease    string `json:"lease,omitempty"` // decimal, empty without a lease
	Leases   int    `json:"leases"`          // granted since the start
	Renewals int64  `json:"renewals"`        // of the current lease
	Keys     int    `json:"keys"`            // registered
	Pending  int    `json:"pending"`         // puts and deletions without a confirmation
	retry.Condition
}

// State returns the current state.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Leases: c.leases, Renewals: c.renewals, Condition: c.condition}
	if c.current != 0 {
		s.Lease = strconv.FormatInt(int64(c.current), 10)
	}
	for _, e := range c.keys {
		if e.put {
			s.Keys++
		}
		if e.pending() {
			s.Pending++
		}
	}
	return s
}

// Close revokes the lease, which deletes all keys. If etcd is unreachable, Close
// returns anyway, and the keys disappear when the lease expires.
func (c *Client) Close() error {
	c.mu.Lock()
	select {
	case <-c.closing:
		c.mu.Unlock()
		return nil
	default:
		close(c.closing)
	}
	c.mu.Unlock()
	c.stop()
	c.done.Wait()
	c.mu.Lock()
	etcd, lease := c.etcd, c.current
	c.mu.Unlock()
	if etcd == nil {
		return nil
	}
	var err error
	if lease != 0 {
		ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
		defer cancel()
		if err = revoke(ctx, etcd, lease); err == nil {
			c.forgetLease()
		}
	}
	return errors.Join(err, etcd.Close())
}
