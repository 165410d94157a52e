package kafka

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"strconv"
	"sync"
	"time"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// PingerConfig says which invoker pings, and on which topic.
type PingerConfig struct {
	Topic    string // the health topic
	Instance activation.Instance
	// Every is the time from the start of one ping to the start of the next: one second, as in
	// the original. A controller gives an invoker up after ten seconds without a ping.
	Every time.Duration
	// Disabled makes the pinger begin with one ping that says "disabled", and no more.
	Disabled bool
	// Process is the name of this process in its pings. It must be unique. If it is empty, a
	// random name is used.
	Process string
	// Backlog, when not nil, is called before each ping. It returns for how long the
	// activations that wait keep the GPUs busy, and false while no GPU can be used.
	Backlog func() (time.Duration, bool)
	// Heard, when not nil, is called after each reading of pings, with the new pings of all
	// invokers. There may be none.
	Heard func(all []HeardPing)
}

// Pinger reports to controllers that the invoker is alive. It pings at once and then every
// second. A failed ping is not repeated, because the next ping has the same content. The
// Pinger also reads the health topic, to notice a second process with its id.
type Pinger struct {
	cluster *Cluster
	cfg     PingerConfig
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	owned   sync.WaitGroup
	sending *retry.Retrier
	watch   *healthWatch
	client  *client       // of the pinging goroutine
	now     chan struct{} // ping at once; one signal is enough

	mu       sync.Mutex
	enabled  bool
	reported chan struct{} // closed when the broker has the present state
	last     time.Time
	sent     uint64
}

// PingStatus is a snapshot of a pinger.
type PingStatus struct {
	Enabled     bool      `json:"enabled"`
	Sent        uint64    `json:"sent"`
	Last        time.Time `json:"last,omitzero"`        // when the broker last took a ping; zero: never
	Interrupted string    `json:"interrupted,omitzero"` // why pings fail; empty when they do not
	Since       time.Time `json:"since,omitzero"`       // when they began to fail
	Duplicate   string    `json:"duplicate,omitzero"`   // another process that pings with our id; empty: none
}

// pingTimeout is how long a ping may take before the next one is tried. It is well below the
// 10 s after which a controller gives the invoker up.
const pingTimeout = 3 * time.Second

// NewPinger starts to ping.
func (c *Cluster) NewPinger(cfg PingerConfig) *Pinger {
	cfg.Every = cmp.Or(cfg.Every, time.Second)
	cfg.Process = cmp.Or(cfg.Process, rand.Text())
	p := &Pinger{
		cluster: c, cfg: cfg, log: c.log, enabled: !cfg.Disabled,
		now: make(chan struct{}, 1), reported: make(chan struct{}),
		sending: retry.New(c.log.With("topic", cfg.Topic), "sending of pings"),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.client = c.client(cfg.Topic)
	p.watch = newHealthWatch(c, cfg)
	p.owned.Go(p.run)
	p.owned.Go(func() { p.watch.run(p.ctx) })
	return p
}

// Enable resumes the pings at once. It returns when the broker has a ping, or ctx ends.
func (p *Pinger) Enable(ctx context.Context) error { return p.set(ctx, true) }

// Disable sends one ping that says "disabled", and no more; controllers then mark the invoker
// as down. It returns when the broker has the ping, or ctx ends. In that case the ping is sent
// when the broker is back.
func (p *Pinger) Disable(ctx context.Context) error { return p.set(ctx, false) }

func (p *Pinger) set(ctx context.Context, enabled bool) error {
	p.mu.Lock()
	changed := p.enabled != enabled
	if changed {
		p.enabled = enabled
		p.reported = make(chan struct{})
	}
	reported := p.reported
	p.mu.Unlock()
	if changed { // otherwise the ping is sent already, or about to be sent
		signal(p.now)
	}
	select {
	case <-reported:
		return nil
	case <-p.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Pinger) run() {
	defer p.client.close()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.now:
		case <-next.C:
		}
		began := time.Now()
		if p.ping() {
			next.Reset(p.cfg.Every - time.Since(began))
		} else {
			next.Stop()
		}
	}
}

// ping sends the present state. It is a no-op if the state is disabled and the broker knows
// that. It returns whether another ping should follow.
func (p *Pinger) ping() bool {
	p.mu.Lock()
	enabled, reported := p.enabled, p.reported
	p.mu.Unlock()
	if !enabled && isClosed(reported) {
		return false
	}
	err := p.send(activation.Ping{Instance: p.cfg.Instance, Enabled: enabled}.Encode())
	if err != nil {
		if p.ctx.Err() == nil {
			p.sending.Failed(err)
		}
		return true
	}
	p.sending.Succeeded()
	p.mu.Lock()
	p.last = time.Now()
	p.sent++
	p.mu.Unlock()
	if !isClosed(reported) {
		close(reported)
	}
	return enabled
}

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (p *Pinger) send(value []byte) error {
	if _, err := p.client.connect(p.ctx, 0); err != nil {
		return err
	}
	headers := []wire.Header{{Key: processHeader, Value: []byte(p.cfg.Process)}}
	if p.cfg.Backlog != nil {
		if backlog, ok := p.cfg.Backlog(); ok {
			headers = append(headers, wire.Header{Key: backlogHeader, Value: strconv.AppendInt(nil, backlog.Milliseconds(), 10)})
		}
	}
	err := p.client.send(p.ctx, 0, []outgoing{{value: value, headers: headers, time: time.Now()}}, pingTimeout)
	if err != nil {
		p.client.close()
	}
	return err
}

// Status returns a snapshot.
func (p *Pinger) Status() PingStatus {
	p.mu.Lock()
	s := PingStatus{Enabled: p.enabled, Sent: p.sent, Last: p.last}
	p.mu.Unlock()
	s.Interrupted, s.Since = p.sending.LastError(), p.sending.Since()
	s.Duplicate = p.watch.name()
	return s
}

// Close ends the pings. It sends no goodbye to the controllers; Disable does that.
func (p *Pinger) Close() {
	p.cancel()
	p.owned.Wait()
}
