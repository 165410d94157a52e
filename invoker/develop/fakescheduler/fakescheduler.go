// Package fakescheduler is a scheduler of OpenWhisk for tests. Like the original, and
// with the original's faults, it orders containers by Kafka, hands out activations
// by gRPC and keeps its keys in etcd. Only tests and simulations import it.
//
// It also replaces the part of the controller that creates queues: a test calls
// CreateQueue, and then calls Invoke or sends to the scheduler's topic. The package
// does not read the database.
//
// Its goroutines end with Stop or Kill.
package fakescheduler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch/activationpb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
)

// Config holds the settings of a Scheduler. A zero time means the original's value.
type Config struct {
	ID       string // "0" when empty
	Host     string // address to listen on, 127.0.0.1 when empty
	Cluster  activation.Cluster
	Etcd     string // host:port
	Kafka    string // host:port
	Prefix   string // of topics
	Manifest *activation.Manifest
	Log      *slog.Logger
	Seed     uint64 // of the choice of invokers

	// NamespaceLimit is the most containers of a namespace; 0 means 30.
	NamespaceLimit int
	// Lease is the time of the scheduler's lease.
	Lease time.Duration
	// Job limits the time of a creation. If the image is pulled, the limit is fifteen
	// times as long.
	Job time.Duration
	// Check is the interval between decisions to order containers.
	Check time.Duration
	// Queue sets the times of queues. The concurrency comes from each action.
	Queue memoryqueue.Settings
}

// withDefaults returns the settings with the defaults filled in.
func (c Config) withDefaults() Config {
	c.ID = cmp.Or(c.ID, "0")
	c.Host = cmp.Or(c.Host, "127.0.0.1")
	c.NamespaceLimit = cmp.Or(c.NamespaceLimit, 30)
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.Job = cmp.Or(c.Job, 20*time.Second)
	c.Check = cmp.Or(c.Check, 100*time.Millisecond)
	c.Queue = cmp.Or(c.Queue, memoryqueue.Defaults())
	return c
}

// Scheduler is one scheduler. It is safe for concurrent use.
type Scheduler struct {
	activationpb.UnimplementedActivationServiceServer
	cfg       Config
	log       *slog.Logger
	etcd      *clientv3.Client
	bus       *broker.Bus
	server    *grpc.Server
	lease     clientv3.LeaseID
	endpoints activation.SchedulerEndpoints
	transID   activation.TransID // of all creations, made at the start

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup

	mu         sync.Mutex
	random     *rand.Rand
	limits     map[string]int      // namespaces with a limit of their own
	queues     map[string]*queue   // by namespace and action
	outdated   []*queue            // non-empty queues of older revisions
	functions  map[string]Function // for creating a removed queue again
	jobs       map[activation.ID]*job
	claims     map[string]activation.ID // warmed keys that a creation will use
	existing   map[string]bool          // keys of containers
	inProgress map[string]bool          // keys of creations
	warmed     map[string]bool          // keys of paused containers that were put since the start
	greeted    map[int]bool             // invokers that received a warm-up
	revisions  map[string]int64         // etcd's revision up to which a prefix is counted
	seen       Seen
	changed    chan struct{} // closed and replaced at each event
}

// queue is a memory queue with its function.
type queue struct {
	*memoryqueue.Queue
	Function
	outdated bool
	flag     bool // the throttling state that controllers know
}

// New starts a scheduler. It needs etcd and Kafka.
func New(cfg Config) (*Scheduler, error) {
	cfg = cfg.withDefaults()
	s := &Scheduler{
		cfg: cfg, log: cfg.Log.With("scheduler", cfg.ID), random: rand.New(rand.NewPCG(cfg.Seed, 0)),
		limits: map[string]int{}, queues: map[string]*queue{}, functions: map[string]Function{},
		jobs: map[activation.ID]*job{}, claims: map[string]activation.ID{},
		existing: map[string]bool{}, inProgress: map[string]bool{}, warmed: map[string]bool{}, greeted: map[int]bool{}, revisions: map[string]int64{},
		changed: make(chan struct{}), transID: activation.NewTransID("sid_containerCreation", time.Now().UnixMilli(), false),
	}
	s.seen.Fetches = map[activation.FetchKind]int{}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if err := s.start(); err != nil {
		s.Kill()
		return nil, fmt.Errorf("start scheduler: %w", err)
	}
	return s, nil
}

// requestLimit bounds one request to etcd or Kafka.
const requestLimit = 30 * time.Second

func (s *Scheduler) start() (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, requestLimit)
	defer cancel()
	if s.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{s.cfg.Etcd}, DialTimeout: requestLimit, Logger: zap.NewNop()}); err != nil {
		return err
	}
	if s.bus, err = broker.Dial([]string{s.cfg.Kafka}, s.log); err != nil {
		return err
	}
	acks, activations := s.cfg.Prefix+activation.CreationAckTopic(s.cfg.ID), s.cfg.Prefix+"scheduler"+s.cfg.ID
	topics := []broker.Topic{{Name: acks, Retention: time.Hour, Large: true}, {Name: activations, Retention: time.Hour, Large: true}}
	if err = s.bus.CreateTopics(ctx, topics); err != nil {
		return err
	}
	lease, err := s.etcd.Grant(ctx, int64(s.cfg.Lease/time.Second))
	if err != nil {
		return err
	}
	s.lease = lease.ID
	renewals, err := s.etcd.KeepAlive(s.ctx, s.lease)
	if err != nil {
		return err
	}
	s.done.Go(func() {
		for range renewals {
		}
	})
	if err = s.listen(); err != nil {
		return err
	}
	if err = s.consume(ctx, acks, s.ack); err != nil {
		return err
	}
	if err = s.consume(ctx, activations, s.arrive); err != nil {
		return err
	}
	if err = s.watch(ctx); err != nil {
		return err
	}
	state := activation.SchedulerState{ID: s.cfg.ID, Endpoints: s.endpoints}
	if err = s.put(ctx, s.cfg.Cluster.Scheduler(s.cfg.ID), state.Encode()); err != nil {
		return err
	}
	s.done.Go(s.run)
	return nil
}

// consume passes each new message of a topic to handle.
func (s *Scheduler) consume(ctx context.Context, topic string, handle func([]byte)) error {
	ready := make(chan struct{})
	s.done.Go(func() {
		if err := s.bus.Consume(s.ctx, topic, func() { close(ready) }, handle); err != nil && s.ctx.Err() == nil {
			s.log.Error("read a topic", "topic", topic, "error", err)
		}
	})
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no position in the topic %s", topic)
	}
}

// listen opens the gRPC server.
func (s *Scheduler) listen() error {
	l, err := net.Listen("tcp", net.JoinHostPort(s.cfg.Host, "0"))
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s.endpoints = activation.SchedulerEndpoints{Endpoint: activation.Endpoint{Host: host, Port: n}, ActorPort: 17355}
	// The original answers any number of pings.
	s.server = grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	activationpb.RegisterActivationServiceServer(s.server, s)
	s.done.Go(func() {
		if err := s.server.Serve(l); err != nil {
			s.log.Error("serve gRPC", "error", err)
		}
	})
	return nil
}

// Endpoint returns the address of the gRPC server.
func (s *Scheduler) Endpoint() activation.Endpoint { return s.endpoints.Endpoint }

// put puts a key on the scheduler's lease.
func (s *Scheduler) put(ctx context.Context, key string, value []byte) error {
	_, err := s.etcd.Put(ctx, key, string(value), clientv3.WithLease(s.lease))
	return err
}

// run decides in the intervals of the original, and answers calls in time.
func (s *Scheduler) run() {
	tick := time.NewTicker(s.cfg.Check)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			s.tick(now)
		}
	}
}

// Stop ends the scheduler as an operator does: its keys are deleted at once.
func (s *Scheduler) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	_, err := s.etcd.Revoke(ctx, s.lease)
	s.Kill()
	return err
}

// Kill ends the scheduler as the loss of its machine does: the activations in its
// queues are lost, and its keys stay until the lease expires.
func (s *Scheduler) Kill() {
	s.stop()
	if s.server != nil {
		s.server.Stop()
	}
	s.mu.Lock()
	for _, q := range s.all() {
		q.Remove() // ends the waiting calls; nobody receives their answers
	}
	for _, j := range s.jobs {
		j.timer.Stop()
	}
	s.mu.Unlock()
	s.done.Wait()
	if s.bus != nil {
		s.bus.Close()
	}
	if s.etcd != nil {
		_ = s.etcd.Close()
	}
}
