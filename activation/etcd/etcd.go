// Package etcd keeps what an invoker reports in OpenWhisk's etcd: its health and
// the keys of its containers, on one lease, and knows where schedulers are.
// Schedulers count those keys, so a key that is missing costs containers, and one
// too many keeps activations waiting: what is registered is put again when it
// is lost, and what is not is deleted, through any interruption.
//
// The package decides neither what is reported nor when. A Client has goroutines
// that end with Close: one that writes, one that renews the lease, and one for each
// watch.
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

// ErrTaken is another living process that reports the health of the same invoker.
var ErrTaken = errors.New("another process is this invoker")

// ErrClosed is a client that is closed.
var ErrClosed = errors.New("client of etcd is closed")

// requestLimit bounds one request. A member that is slower counts as away.
const requestLimit = 5 * time.Second

// Config of a Client.
type Config struct {
	Hosts    []string // host:port
	Username string   // empty: etcd asks for none
	Password string
	TTL      time.Duration // of the lease, in whole seconds
	Cluster  activation.Cluster
	Instance activation.Instance
	// LeaseFile is where the lease's number is kept, so that the next process ends
	// it at once and waits for no key of this one; empty: nowhere.
	LeaseFile string
	// RetryInterval is the longest pause between tries; zero means a second.
	RetryInterval time.Duration
	Log           *slog.Logger
}

// Client is an invoker's end of etcd. It is safe for use by many goroutines.
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

	mu        sync.Mutex
	keys      map[string]*entry
	gen       uint64        // of the last change
	settled   chan struct{} // closed and made anew when changes are confirmed
	check     bool          // what is on the lease is to be compared
	current   clientv3.LeaseID
	leases    int   // granted so far
	renewals  int64 // of the present one
	condition retry.Condition
	foreign   clientv3.LeaseID // of the process that has our health key, 0 for none
	since     time.Time        // that was seen
	taken     chan struct{}    // closed when that one lives
}

// New makes a client, which begins to register at once. It needs no etcd yet.
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
		closing: make(chan struct{}), wake: make(chan struct{}, 1), // one call is enough
		keys: map[string]*entry{}, settled: make(chan struct{}), taken: make(chan struct{}),
	}
	c.done.Go(func() { c.run(ctx) })
	return c, nil
}

// dial makes etcd's own client. With a login it asks etcd, and can fail.
func (cfg Config) dial() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints:            cfg.Hosts,
		Username:             cfg.Username,
		Password:             cfg.Password,
		DialTimeout:          requestLimit,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: requestLimit,
		Logger:               zap.NewNop(), // what it would write is in our errors
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			// gRPC's own pauses grow to two minutes: an etcd that is back would wait.
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: cmp.Or(cfg.RetryInterval, time.Second)},
			MinConnectTimeout: requestLimit,
		})},
	})
}

// backoff gives the pauses of one loop.
func (c *Client) backoff() retry.Backoff {
	return retry.Backoff{Min: min(retry.MinPause, c.cfg.RetryInterval), Max: c.cfg.RetryInterval}
}

// Claim waits until the invoker's health is this process's to report: there is a
// lease, and no key of another process. One that stays for longer than a lease
// without renewal is of a living process: ErrTaken.
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
		case <-c.taken:
			return err
		case <-c.closing:
			return ErrClosed
		default:
		}
		if !pause.Wait(ctx) {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// healthLease is the lease of another process that the health hangs on, 0 for none.
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

// Taken is closed when another living process reports the health of this invoker.
func (c *Client) Taken() <-chan struct{} { return c.taken }

// Count counts the keys below prefixes.
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

// State is what the client has to report of itself.
type State struct {
	Lease    string `json:"lease,omitempty"` // decimal, empty while there is none
	Leases   int    `json:"leases"`          // granted since the start
	Renewals int64  `json:"renewals"`        // of this lease
	Keys     int    `json:"keys"`            // registered
	Pending  int    `json:"pending"`         // of those and of deletions, not confirmed
	retry.Condition
}

// State is the present state.
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

// Close revokes the lease, and with it all keys go. It returns when that is done,
// or cannot be for the moment: then they go when the lease runs out.
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
