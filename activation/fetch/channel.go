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
	// callsPerChannel is below the limit of a scheduler's server, 256 streams on one
	// connection.
	callsPerChannel = 200
	// overhead is the size of an answer without the activation's content: the identity
	// with its key and limits, the trace context and names.
	overhead = 1 << 20
	// leastReceived is gRPC's default limit of an answer.
	leastReceived = 4 << 20
)

// Client calls schedulers. It has a pool of channels for each scheduler. It is safe
// for concurrent use.
type Client struct {
	cfg     Config
	options []grpc.DialOption

	mu         sync.Mutex
	closed     bool
	schedulers map[activation.Endpoint]*scheduler
}

// scheduler is the pool of one address.
type scheduler struct {
	endpoint  activation.Endpoint
	condition retry.Condition
	channels  []*channel
	leaving   bool // left the cluster; closed when its last call ends
}

// channel is a gRPC channel with its number of open calls.
type channel struct {
	conn   *grpc.ClientConn
	client activationpb.ActivationServiceClient
	owner  *scheduler
	calls  int
}

// New returns a client without connections.
func New(cfg Config) *Client {
	if cfg.Payload == 0 {
		cfg.Payload = activation.DefaultBounds().Payload
	}
	options := []grpc.DialOption{
		// Schedulers speak plain HTTP/2 only, even if whisk.scheduler.grpc.tls is set.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(),
		grpc.WithStatsHandler(departures{}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(max(leastReceived, int(cfg.Payload)+overhead))),
		// Short pauses make the client reconnect soon after a scheduler restarts.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// Calls to a peer that vanished silently end after 20 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}),
	}
	if cfg.dial != nil {
		options = append(options, grpc.WithContextDialer(cfg.dial))
	}
	return &Client{cfg: cfg, options: options, schedulers: map[activation.Endpoint]*scheduler{}}
}

func address(at activation.Endpoint) string { return net.JoinHostPort(at.Host, strconv.Itoa(at.Port)) }

// acquire returns a channel with capacity for a call. It opens one if necessary.
func (c *Client) acquire(at activation.Endpoint) (*channel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	s := c.schedulers[at]
	if s == nil {
		s = &scheduler{endpoint: at}
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

// release ends a call on a channel. err is the result of the call.
func (c *Client) release(ch *channel, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ch.owner
	ch.calls--
	switch log := c.cfg.Log.With("scheduler", address(s.endpoint)); {
	case err == nil || errors.Is(err, ErrRejected) || errors.Is(err, activation.ErrUnreadable):
		s.condition.Succeeded(log, "calls of a scheduler resumed")
	case errors.Is(err, context.Canceled): // we ended the call ourselves
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

// drop closes the pool of a scheduler. The caller must hold c.mu.
func (c *Client) drop(s *scheduler) {
	for _, ch := range s.channels {
		if err := ch.conn.Close(); err != nil {
			c.cfg.Log.Debug("close channel", "scheduler", address(s.endpoint), "error", err)
		}
	}
	delete(c.schedulers, s.endpoint)
}

// Retain forgets the schedulers that are not in the list. Each is closed when its
// last call has ended.
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

// State describes the calls to one scheduler.
type State struct {
	Scheduler string `json:"scheduler"` // host and port
	Channels  int    `json:"channels"`
	Calls     int    `json:"calls"` // open ones
	retry.Condition
}

// States lists the called schedulers in the order of their addresses.
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

// Close closes all channels. Open calls fail, and activations in their answers are
// lost. The caller must end open calls by Leave before.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, s := range c.schedulers {
		c.drop(s)
	}
	return nil
}

// connected blocks while a connection is being made. If that fails, the following call
// fails at once, with the reason.
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

// once stops gRPC from repeating a call. gRPC repeats a call when the server reports
// that it did not begin it, and no option turns that off. A scheduler that is wrong
// about it would hand over an activation that nobody receives. gRPC asks for
// credentials at each attempt, so once refuses the second request.
type once struct{ tried atomic.Bool }

func (o *once) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if o.tried.Swap(true) {
		return nil, status.Error(codes.Unavailable, "the scheduler did not begin the call")
	}
	return nil, nil
}

// RequireTransportSecurity is part of the credentials interface.
func (o *once) RequireTransportSecurity() bool { return false }

var _ credentials.PerRPCCredentials = (*once)(nil)

// departures calls the function in a request's context once the request is written.
// Messages that are sent after that call follow the request.
type departures struct{}

// sentKey is the context key of the function that departures calls.
type sentKey struct{}

// HandleRPC handles the event that a request is written.
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
