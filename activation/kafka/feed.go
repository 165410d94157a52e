package kafka

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// FeedConfig says what a Feed reads. Only the topic has no default.
type FeedConfig struct {
	Topic string
	// Group under whose name the position is committed; the topic's name when
	// empty, as the original has it, so that both resume each other's position.
	Group string
	// Commits are so far apart (150 ms), or so many completions (1000): it is
	// the work that a crash makes run twice. The first after a rest goes out at
	// once.
	CommitEvery time.Duration
	CommitAfter int
	// FetchBytes bounds one answer of the broker (1 MiB, as the original). One
	// record larger than that still comes.
	FetchBytes int
	// LagEvery is how old the known end of the partition may be, 10 s, before
	// it is asked for because nothing is being fetched.
	LagEvery time.Duration
	// Delay, when not nil, gets the time that each record spent in Kafka.
	Delay func(time.Duration)
}

// Feed hands out the activations of one topic in order, and commits the
// position up to which they are completed.
//
// It reads partition 0 by assignment and never joins the group, so it starts at
// once even while a dead member still holds it. It asks the broker only when
// its last answer is used up, and only while somebody waits in Next: who has no
// room does not call, and so does not pull.
type Feed struct {
	cluster *Cluster
	cfg     FeedConfig
	log     *slog.Logger
	ctx     context.Context // ends with the feed
	cancel  context.CancelFunc
	commits committer
	gauging sync.WaitGroup

	// Of the goroutine that calls Next.
	tail    *tail
	reading *outage.Outage
	records []record // fetched and not yet handed out

	mu    sync.Mutex
	marks *Watermark // nil until the position is known
	epoch int        // rises when the position jumps back
	ended bool
	stats FeedStats
	heard time.Time // when the end of the partition was last told
}

// FeedStats is a copy of what the feed knows, for metrics and status.
type FeedStats struct {
	Position      int64  `json:"position"`      // the offset that is read next
	Committed     int64  `json:"committed"`     // the broker's knowledge; -1 before the first commit
	HighWatermark int64  `json:"highWatermark"` // the end of the partition when last heard
	Delivered     uint64 `json:"delivered"`
	Undecodable   uint64 `json:"undecodable"`
	Open          int    `json:"open"`                   // handed out and not completed
	Lost          int64  `json:"lost"`                   // offsets that had expired before they were read
	Interrupted   string `json:"interrupted,omitzero"`   // why reading does not work; empty when it does
	CommitFailing string `json:"commitFailing,omitzero"` // why committing does not work; empty when it does
}

// Lag is how many records wait in Kafka, zero before anything was read.
func (s FeedStats) Lag() int64 {
	if s.Delivered+s.Undecodable == 0 {
		return 0
	}
	return max(0, s.HighWatermark-s.Position)
}

// Delivery is one activation that the feed handed out.
type Delivery struct {
	Message   *activation.Message
	Offset    int64
	Timestamp time.Time // when the controller sent it

	feed  *Feed
	epoch int
}

// Done says that the activation is completed: its acks are with the broker, so
// that a crash need not run it again. Calling it again does nothing.
func (d Delivery) Done() { d.feed.finish(d.epoch, d.Offset) }

// NewFeed starts a feed. It does not wait for a broker.
func (c *Cluster) NewFeed(cfg FeedConfig) *Feed {
	cfg.setDefaults()
	f := &Feed{cluster: c, cfg: cfg, log: c.log.With("topic", cfg.Topic)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.stats.Committed = -1
	f.reading = outage.New(f.log, "reading of activations")
	f.tail = newTail(c, cfg.Topic, 1, cfg.FetchBytes, fetchWait)
	f.commits.start(f)
	f.gauging.Go(f.gauge)
	return f
}

func (c *FeedConfig) setDefaults() {
	if c.Group == "" {
		c.Group = c.Topic
	}
	if c.CommitEvery == 0 {
		c.CommitEvery = 150 * time.Millisecond
	}
	if c.CommitAfter == 0 {
		c.CommitAfter = 1000
	}
	if c.LagEvery == 0 {
		c.LagEvery = 10 * time.Second
	}
	if c.FetchBytes == 0 {
		c.FetchBytes = 1 << 20
	}
}

// Next waits for the next activation. Records that cannot be decoded are
// counted, logged without their content, and skipped. Its error is that of ctx
// or ErrClosed; a broker that is away only makes it wait. One goroutine at a
// time may call it.
func (f *Feed) Next(ctx context.Context) (Delivery, error) {
	for {
		if err := f.over(ctx); err != nil {
			return Delivery{}, err
		}
		for len(f.records) > 0 {
			r := f.records[0]
			f.records[0] = record{}
			f.records = f.records[1:]
			if d, ok := f.deliver(r); ok {
				return d, nil
			}
		}
		f.fill(ctx)
	}
}

func (f *Feed) over(ctx context.Context) error {
	if f.ctx.Err() != nil {
		return ErrClosed
	}
	return ctx.Err()
}

// deliver makes a delivery of a record. What cannot be decoded is finished
// with, or it would hold back the position for ever.
func (f *Feed) deliver(r record) (Delivery, bool) {
	if f.cfg.Delay != nil {
		f.cfg.Delay(max(0, time.Since(r.time)))
	}
	m, err := activation.DecodeMessage(r.value)
	f.mu.Lock()
	f.marks.Begin(r.offset)
	f.stats.Position = r.offset + 1
	epoch := f.epoch
	if err == nil {
		f.stats.Delivered++
	} else {
		f.stats.Undecodable++
	}
	f.mu.Unlock()
	if err != nil {
		f.log.Error("activation message cannot be decoded, skipped",
			"offset", r.offset, "bytes", len(r.value), "error", err)
		f.finish(epoch, r.offset)
		return Delivery{}, false
	}
	return Delivery{Message: m, Offset: r.offset, Timestamp: r.time, feed: f, epoch: epoch}, true
}

// finish moves the position when the offset was the oldest open one.
func (f *Feed) finish(epoch int, offset int64) {
	f.mu.Lock()
	moved := epoch == f.epoch && f.marks.Finish(offset)
	f.mu.Unlock()
	if moved {
		f.commits.completed(f.cfg.CommitAfter)
	}
}

// Stats copies what the feed knows.
func (f *Feed) Stats() FeedStats {
	f.mu.Lock()
	s := f.stats
	if f.marks != nil {
		s.Open = f.marks.Open()
	}
	f.mu.Unlock()
	s.Interrupted = f.reading.Reason()
	s.CommitFailing = f.commits.outage.Reason()
	return s
}

// Close stops reading and commits what is completed by now, for as long as ctx
// lets it try. Deliveries that are not done are read again by the next feed.
func (f *Feed) Close(ctx context.Context) error {
	f.mu.Lock()
	first := !f.ended
	f.ended = true
	f.mu.Unlock()
	f.cancel()
	if !first {
		return nil
	}
	f.gauging.Wait()
	return f.commits.stop(ctx, f)
}
