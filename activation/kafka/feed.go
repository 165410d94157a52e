package kafka

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// FeedConfig configures a Feed. Only the topic has no default.
type FeedConfig struct {
	Topic string
	// Group for which offsets are committed; the topic's name when
	// empty, as the original has it, so that each resumes at the other's offset.
	Group string
	// Commits are so far apart (150 ms): it is the work that a crash makes run
	// twice. The first after a rest goes out at once.
	CommitEvery time.Duration
	// LagEvery is how old the known end of the partition may be, 10 s, before
	// it is asked for because nothing is being fetched.
	LagEvery time.Duration
	// Delay, when not nil, gets the time that each record spent in Kafka.
	Delay func(time.Duration)
	// Journaled means that the caller records completions itself, so the feed may read on when
	// there are more completions than the metadata of a commit can name. Without a journal the
	// feed stops reading at that point.
	Journaled bool
	// Committed, when not nil, is called after a commit that moved the offset of a partition:
	// messages below the offset are not delivered again. It must not block for long.
	Committed func(partition int32, below int64)
	// Raw makes Next deliver each message without decoding it.
	Raw bool
}

// fetchBytes bounds one answer of the broker. The original's 1 MiB brings no further gain. A
// single larger record is still delivered.
const fetchBytes = 128 << 10

// Feed hands out the activations of one topic, in order within each partition. It commits the
// offset below which all activations are completed and, in the metadata of that commit, the
// completed offsets above it. A restart hands out none of these again.
//
// It reads all partitions by assignment and never joins the group, so it starts at once even
// while a dead member still holds the group. A partition is fetched only when its last answer
// is used up and a call of Next is waiting. A caller without capacity does not call Next, so
// nothing is pulled.
type Feed struct {
	cluster *Cluster
	cfg     FeedConfig
	log     *slog.Logger
	ctx     context.Context // ends with the feed
	cancel  context.CancelFunc
	commits *committer
	owned   sync.WaitGroup // the committer and a goroutine per partition
	changed chan struct{}  // Next should look again; one signal is enough

	undecodable retry.LogLimit

	mu            sync.Mutex
	partitions    []*partition
	ended         bool
	metadataChars int // the broker's limit for the metadata of an offset
	stats         FeedStats
}

// FeedStats is a snapshot of a feed, for metrics and status. Of a
// topic with more than one partition, offsets are those of the first, and
// Partitions has those of each.
type FeedStats struct {
	Position         int64            `json:"position"`      // the offset that is read next
	Committed        int64            `json:"committed"`     // -1 before the first commit
	HighWatermark    int64            `json:"highWatermark"` // the end of the partition when last known
	Delivered        uint64           `json:"delivered"`
	Undecodable      uint64           `json:"undecodable"`
	SkippedCompleted uint64           `json:"skippedCompleted"`       // not delivered, since an earlier process had completed them
	Open             int              `json:"open"`                   // handed out and not completed
	Lost             int64            `json:"lost"`                   // offsets that had expired before they were read
	ReadPaused       bool             `json:"readPaused,omitzero"`    // nothing is read until more is completed: the commit would not hold it all
	Interrupted      string           `json:"interrupted,omitzero"`   // why reading does not work; empty when it does
	Since            time.Time        `json:"since,omitzero"`         // when no partition could be read any more; zero: some can
	CommitFailing    string           `json:"commitFailing,omitzero"` // why committing does not work; empty when it does
	Partitions       []PartitionStats `json:"partitions,omitzero"`    // only of a topic with more than one

	lag int64
}

// PartitionStats is a snapshot of one partition.
type PartitionStats struct {
	Partition     int32  `json:"partition"`
	Position      int64  `json:"position"`
	Committed     int64  `json:"committed"`
	HighWatermark int64  `json:"highWatermark"`
	Open          int    `json:"open"`
	Interrupted   string `json:"interrupted,omitzero"`
}

// Lag returns how many records wait in Kafka, 0 before anything was read.
func (s FeedStats) Lag() int64 { return s.lag }

// Delivery is one activation that the feed handed out.
type Delivery struct {
	Message   *activation.Message // nil from a raw feed
	Value     []byte              // of a raw feed: the message
	Partition int32
	Offset    int64
	Timestamp time.Time // when it was sent, by the sender's clock or the broker's
	// After is the time at which the broker had no unread record. The message was sent later,
	// by the clock of this process. It is zero if there always was an unread record.
	After time.Time
	// Mark is the last mark that an earlier process committed; 0 means none.
	Mark uint8

	partition *partition
	open      *openOffset
}

// Commit stores a mark of an open activation in the metadata of the offset, for the next
// process. If the feed is closed before the activation is completed, its last commit has the
// mark stopped instead. Commit blocks until the broker has the mark. It returns an error only
// if ctx ends before that; the feed then commits the mark later.
func (d Delivery) Commit(ctx context.Context, mark, stopped uint8) error {
	f := d.partition.feed
	f.mu.Lock()
	d.partition.setMark(d.open, mark, stopped)
	f.mu.Unlock()
	signal(f.commits.dirty)
	return retry.Do(ctx, retry.Default(), func() error { return f.commits.commit(ctx) })
}

// Done reports that the activation is completed: the broker has its acks, so a crash need not
// run it again. Further calls are no-ops.
func (d Delivery) Done() {
	d.partition.feed.mu.Lock()
	defer d.partition.feed.mu.Unlock()
	d.partition.completed(d.open)
}

// NewFeed starts a feed. It does not wait for a broker.
func (c *Cluster) NewFeed(cfg FeedConfig) *Feed {
	cfg.Group = cmp.Or(cfg.Group, cfg.Topic)
	cfg.CommitEvery = cmp.Or(cfg.CommitEvery, 150*time.Millisecond)
	cfg.LagEvery = cmp.Or(cfg.LagEvery, 10*time.Second)
	f := &Feed{
		cluster: c, cfg: cfg, log: c.log.With("topic", cfg.Topic),
		metadataChars: metadataChars, changed: make(chan struct{}, 1),
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.commits = newCommitter(f)
	f.owned.Go(f.commits.run)
	f.grow(1) // the first one reports how many there are
	return f
}

// grow adds readers for new partitions. A topic never loses partitions unless it is created
// anew.
func (f *Feed) grow(partitions int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.partitions); i < partitions && !f.ended; i++ {
		p := newPartition(f, int32(i))
		f.partitions = append(f.partitions, p)
		f.owned.Go(p.run)
		signal(f.changed) // a waiting Next must wait for this partition, too
	}
}

// Next waits for the next activation. Records that cannot be decoded are
// counted, logged without their content, and skipped. Its error is that of ctx
// or ErrClosed; a broker that is away only makes it wait. One goroutine at a
// time may call it.
func (f *Feed) Next(ctx context.Context) (Delivery, error) {
	for {
		switch {
		case f.ctx.Err() != nil:
			return Delivery{}, ErrClosed
		case ctx.Err() != nil:
			return Delivery{}, ctx.Err()
		}
		p, r := f.oldest()
		if p == nil {
			select {
			case <-ctx.Done():
			case <-f.ctx.Done():
			case <-f.changed:
			}
			continue
		}
		if d, ok := p.deliver(r); ok {
			return d, nil
		}
	}
}

// oldest returns the fetched record with the earliest timestamp, nil if there is none. It also
// asks for a fetch from each partition without records. While the feed is narrowed it returns
// nil and fetches nothing.
func (f *Feed) oldest() (from *partition, first *record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stats.ReadPaused = f.narrowed(); f.stats.ReadPaused {
		return nil, nil
	}
	for _, p := range f.partitions {
		switch {
		case len(p.records) == 0 && !p.asked:
			p.asked = true
			signal(p.want)
		case len(p.records) > 0 && (from == nil || p.records[0].time.Before(first.time)):
			from, first = p, &p.records[0]
		}
	}
	return from, first
}

// narrowed reports whether nothing more may be handed out, because neither the metadata of a
// commit nor a journal could name all open activations. The caller must hold the lock.
func (f *Feed) narrowed() bool {
	if f.cfg.Journaled {
		return false
	}
	return slices.ContainsFunc(f.partitions, func(p *partition) bool { return !p.hasCapacity(f.metadataChars) })
}

// Stats returns a snapshot.
func (f *Feed) Stats() FeedStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.CommitFailing = f.commits.retrier.LastError()
	s.Since = f.interruptedSince()
	for _, p := range f.partitions {
		one := p.stats()
		s.Open += one.Open
		s.lag += p.lag()
		s.Interrupted = cmp.Or(s.Interrupted, one.Interrupted)
		if p.index == 0 {
			s.Position, s.Committed, s.HighWatermark = one.Position, one.Committed, one.HighWatermark
		}
		if len(f.partitions) > 1 {
			s.Partitions = append(s.Partitions, one)
		}
	}
	return s
}

// interruptedSince returns the time from which on no partition can be read, zero if one can be
// read. The caller must hold the lock.
func (f *Feed) interruptedSince() (last time.Time) {
	for _, p := range f.partitions {
		since := p.reading.Since()
		if since.IsZero() {
			return time.Time{}
		}
		if since.After(last) {
			last = since
		}
	}
	return last
}

// uncommitted returns the values to commit for each partition that has changed since its last
// commit.
func (f *Feed) uncommitted() map[*partition]offsetCommit {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[*partition]offsetCommit{}
	for _, p := range f.partitions {
		if !p.located || p.committed == p.changes {
			continue
		}
		c := offsetCommit{offset: p.offset(), changes: p.changes}
		c.metadata, _ = p.metadata(f.metadataChars).encode(c.offset, f.metadataChars)
		all[p] = c
	}
	return all
}

// setCommitted records the values that the broker has stored.
func (f *Feed) setCommitted(all map[*partition]offsetCommit) {
	f.mu.Lock()
	for p, c := range all {
		if f.cfg.Committed == nil || p.confirmed == c.offset {
			delete(all, p)
		}
		p.confirmed, p.committed = c.offset, c.changes
	}
	f.mu.Unlock()
	for p, c := range all {
		f.cfg.Committed(p.index, c.offset)
	}
}

// shortenMetadata halves the assumed limit of the broker for offset metadata. It returns false
// if the limit is zero already.
func (f *Feed) shortenMetadata() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.metadataChars == 0 {
		return false
	}
	if f.metadataChars /= 2; f.metadataChars < 64 {
		f.metadataChars = 0
	}
	f.log.Warn("broker takes less metadata of an offset than it does by default (offset.metadata.max.bytes): fewer activations can be open at a time",
		"group", f.cfg.Group, "characters", f.metadataChars)
	return true
}

// Close stops reading and commits all completions. ctx bounds the attempts. The next feed
// reads unfinished deliveries again.
func (f *Feed) Close(ctx context.Context) error {
	f.mu.Lock()
	first := !f.ended
	f.ended = true
	f.mu.Unlock()
	f.cancel()
	if !first {
		return nil
	}
	defer f.commits.cut()
	defer context.AfterFunc(ctx, f.commits.cut)()
	f.owned.Wait()
	f.mu.Lock()
	for _, p := range f.partitions {
		p.close()
	}
	f.mu.Unlock()
	return f.commits.last(ctx)
}
