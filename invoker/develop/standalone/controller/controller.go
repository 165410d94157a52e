// Package controller is the part of an OpenWhisk controller that runs activations. It
// publishes activations to invokers over Kafka, reads acks and pings, tracks the health
// of invokers and waits for results. It also runs sequences, which are not sent to invokers.
//
// The package serves the developer of one machine. It has no throttling and does not
// share invokers with other controllers. Package rest has the HTTP interface.
//
// Start starts two goroutines (acks, pings), and Invoke one for each running
// sequence. Close ends all and waits for their end.
package controller

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Refusals of Invoke.
var (
	errNoInvoker = entity.Refuse(http.StatusServiceUnavailable, "No invokers available: no invoker is healthy.")
	errClosed    = entity.Refuse(http.StatusServiceUnavailable, "No invokers available: controller is shutting down.")
	errConductor = entity.Refuse(http.StatusNotImplemented, "Compositions (the annotation conductor) are not supported here, by gpuwhisk standalone.")
	errTooLarge  = entity.Refuse(http.StatusRequestEntityTooLarge, "The request entity is larger than the server is willing or able to process.")
)

// Times of OpenWhisk's controller.
const (
	// MaxWait is how long a blocking call waits at most.
	MaxWait = time.Minute
	// A component of a sequence may take its action's time limit and a minute
	// for everything else.
	componentGrace = time.Minute
	// MaxSequence is how many actions a sequence may run, those of nested ones included.
	MaxSequence = 50
	// startTime is how long a call waits for an invoker that is starting.
	startTime = 30 * time.Second
)

// Config holds the parts and settings of a Controller.
type Config struct {
	ID         string // its name in topics, such as "0"
	Bus        *broker.Bus
	DB         *couchdb.Client
	HealthKind string // action kind of the health test
	HealthCode string // its code: returns its parameters
	// OwnInvoker is true where this process has an invoker: until it is healthy for
	// the first time, calls wait instead of being refused.
	OwnInvoker bool
	Log        *slog.Logger
}

// Controller is one running controller.
type Controller struct {
	cfg     Config
	log     *slog.Logger
	health  activation.TransID // of every health test of this process
	callers sync.Map           // channels of waiting callers by activation
	pool    *invokerPool
	damaged retry.LogLimit // pings and acks

	ctx    context.Context // ends with Cancel, when Close finds nothing under way, or when it gives up waiting
	cancel context.CancelFunc
	loops  *errgroup.Group

	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup // sequences under way
}

// New makes a controller that does nothing yet.
func New(cfg Config) *Controller {
	c := &Controller{
		cfg: cfg, log: cfg.Log,
		health: activation.NewTransID("sid_invokerHealth", now(), false),
		pool:   newInvokerPool(),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func now() int64 { return time.Now().UnixMilli() }

// Start makes the topics and the health test's action, and begins to read
// acks and pings. It returns when none can be missed any more.
func (c *Controller) Start(ctx context.Context) error {
	if err := c.cfg.Bus.CreateTopics(ctx, c.topics()); err != nil {
		return err
	}
	if err := c.putHealthAction(ctx); err != nil {
		return err
	}
	positioned := make(chan struct{}, 2) // one of each consumer
	ready := func() { positioned <- struct{}{} }
	var loops context.Context
	c.loops, loops = errgroup.WithContext(c.ctx)
	c.loops.Go(func() error { return c.cfg.Bus.Consume(loops, c.ackTopic(), ready, c.onAck) })
	c.loops.Go(func() error { return c.cfg.Bus.Consume(loops, "health", ready, c.onPing) })
	for range cap(positioned) {
		select {
		case <-positioned:
		case <-loops.Done():
			return fmt.Errorf("read from invokers: %w", c.loops.Wait())
		case <-ctx.Done():
			return fmt.Errorf("read from invokers: %w", ctx.Err())
		}
	}
	return nil
}

func (c *Controller) ackTopic() string { return "completed" + c.cfg.ID }

// topics returns the topics that a controller creates at its start, with their
// retention. Invokers create the activation topics.
func (c *Controller) topics() []broker.Topic {
	return []broker.Topic{
		{Name: c.ackTopic(), Retention: time.Hour, Large: true},
		{Name: "health", Retention: time.Hour},
		{Name: "events", Retention: time.Hour},
		{Name: "cacheInvalidation", Retention: 5 * time.Minute},
	}
}

// Cancel ends every wait for an invoker. Callers get the same answer as after a timeout:
// an activation's id or a sequence's error.
func (c *Controller) Cancel() { c.cancel() }

// Close takes nothing new, waits for sequences under way until the context ends, and
// stops reading.
func (c *Controller) Close(ctx context.Context) {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	idle := make(chan struct{})
	go func() { c.tasks.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	c.cancel()
	<-idle // they end with their context
	if c.loops != nil {
		_ = c.loops.Wait() // ended on purpose
	}
}

// begin starts a goroutine that Close waits for.
func (c *Controller) begin(task func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.tasks.Go(task)
	return nil
}

// newID makes an activation id.
func newID() activation.ID {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails, see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return activation.ID(hex.EncodeToString(b))
}

// NewTransID makes the name of a transaction: 32 letters and digits.
func NewTransID() string { return string(newID()) }
