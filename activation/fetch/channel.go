package fetch

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch/activationpb"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

const (
	// callsPerChannel is below the 256 streams that a scheduler's server takes on one
	// connection.
	callsPerChannel = 200
	// overhead is what an answer holds beside an activation's content: the
	// identity with its key and limits, trace context, names.
	overhead = 1 << 20
	// leastReceived is gRPC's own limit of an answer.
	leastReceived = 4 << 20
)

// Client calls schedulers. It keeps a pool of channels for each. It is safe for
// use by many goroutines.
type Client struct {
	cfg     Config
	options []grpc.DialOption

	mu         sync.Mutex
	closed     bool
	schedulers map[activation.Endpoint]*scheduler
}

// scheduler is the pool of one address.
type scheduler struct {
	at        activation.Endpoint
	condition retry.Condition
	channels  []*channel
	leaving   bool // not of the cluster any more: closed with its last call
}

// channel is a gRPC channel with the calls that are open on it.
type channel struct {
	conn   *grpc.ClientConn
	client activationpb.ActivationServiceClient
	owner  *scheduler
	calls  int
}

// New makes a client.
func New(cfg Config) *Client {
	if cfg.Payload == 0 {
		cfg.Payload = activation.DefaultBounds().Payload
	}
	options := []grpc.DialOption{
		// Schedulers speak plain HTTP/2 only, whatever whisk.scheduler.grpc.tls says.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(),
		grpc.WithStatsHandler(departures{}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(max(leastReceived, int(cfg.Payload)+overhead))),
		// The way back to a scheduler that restarts is short.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A peer that vanished without a word ends its calls after 20 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}),
	}
	if cfg.dial != nil {
		options = append(options, grpc.WithContextDialer(cfg.dial))
	}
	return &Client{cfg: cfg, options: options, schedulers: map[activation.Endpoint]*scheduler{}}
}

func address(at activation.Endpoint) string { return net.JoinHostPort(at.Host, strconv.Itoa(at.Port)) }

// acquire takes a channel with room for a call, or opens one.
func (c *Client) acquire(at activation.Endpoint) (*channel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	s := c.schedulers[at]
	if s == nil {
		s = &scheduler{at: at}
		c.schedulers[at] = s
	}
	for _, ch := range s.channels {
		if ch.calls < callsPerChannel {
			ch.calls++
			return ch, nil
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+address(at), c.options...)
	if err != nil {
		return nil, err
	}
	ch := &channel{conn, activationpb.NewActivationServiceClient(conn), s, 1}
	s.channels = append(s.channels, ch)
	return ch, nil
}

// release ends a call with its result.
func (c *Client) release(ch *channel, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ch.owner
	ch.calls--
	switch log := c.cfg.Log.With("scheduler", address(s.at)); {
	case err == nil || errors.Is(err, ErrRejected) || errors.Is(err, ErrUnreadable):
		s.condition.Succeeded(log, "calls of a scheduler resumed")
	case errors.Is(err, context.Canceled): // our own end
	default:
		s.condition.Failed(log, "calls of a scheduler interrupted", err)
	}
	if s.leaving && s.calls() == 0 {
		c.drop(s)
	}
}

func (s *scheduler) calls() int {
	n := 0
	for _, ch := range s.channels {
		n += ch.calls
	}
	return n
}

// drop closes the pool of a scheduler. c.mu is locked.
func (c *Client) drop(s *scheduler) {
	for _, ch := range s.channels {
		if err := ch.conn.Close(); err != nil {
			c.cfg.Log.Debug("close channel", "scheduler", address(s.at), "error", err)
		}
	}
	delete(c.schedulers, s.at)
}

// Retain forgets schedulers that are not in a list, each when its last call has
// ended.
func (c *Client) Retain(live []activation.Endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, s := range c.schedulers {
		s.leaving = !slices.Contains(live, at)
		if s.leaving && s.calls() == 0 {
			c.drop(s)
		}
	}
}

// State is what is known of the calls to one scheduler.
type State struct {
	Scheduler string `json:"scheduler"` // host and port
	Channels  int    `json:"channels"`
	Calls     int    `json:"calls"` // open ones
	retry.Condition
}

// States lists the schedulers that were called, by their addresses.
func (c *Client) States() []State {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]State, 0, len(c.schedulers))
	for at, s := range c.schedulers {
		all = append(all, State{address(at), len(s.channels), s.calls(), s.condition})
	}
	slices.SortFunc(all, func(a, b State) int { return strings.Compare(a.Scheduler, b.Scheduler) })
	return all
}

// Close closes all channels. Calls that are still open fail, and what their answers
// would have brought is lost: the caller ends them by Leave before.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, s := range c.schedulers {
		c.drop(s)
	}
	return nil
}

// connected waits while a connection is made. Where that fails, the call that
// follows fails at once, with the reason.
func (ch *channel) connected(ctx context.Context) error {
	for {
		state := ch.conn.GetState()
		if state != connectivity.Idle && state != connectivity.Connecting {
			return ctx.Err()
		}
		ch.conn.Connect()
		if !ch.conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}

// once lets gRPC try a call once: credentials are asked for at each attempt. gRPC
// repeats a call by itself when the server says that it did not begin it, which no
// option turns off; a scheduler that errs there would hand over an activation that
// nothing receives.
type once struct{ tried atomic.Bool }

func (o *once) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if o.tried.Swap(true) {
		return nil, status.Error(codes.Unavailable, "the scheduler did not begin the call")
	}
	return nil, nil
}

// RequireTransportSecurity is part of credentials, of which there are none.
func (o *once) RequireTransportSecurity() bool { return false }

var _ credentials.PerRPCCredentials = (*once)(nil)

// departures calls what waits for a request to be written: what is sent elsewhere
// after that follows the request.
type departures struct{}

// sentKey is the key of that call in a request's context.
type sentKey struct{}

// HandleRPC takes the event that a request is written.
func (departures) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, is := s.(*stats.OutPayload); !is {
		return
	}
	if sent, ok := ctx.Value(sentKey{}).(func()); ok {
		sent()
	}
}

// TagRPC, TagConn and HandleConn are the rest of a stats.Handler.
func (departures) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn adds nothing.
func (departures) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (departures) HandleConn(context.Context, stats.ConnStats) {}
