package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// ShareConfig says which topic is shared. Only the topic has no default.
type ShareConfig struct {
	Topic string
	// Group is the name under which the topic is shared, its own name with
	// "-takers" behind it when empty: an invoker's feed of a topic and a share
	// of it must not meet in one group.
	Group string
	// Session is how long a member may be silent, 10 s, before its partitions
	// go to the others. Brokers take no less than 6 s by default.
	Session time.Duration
	// HandOver is how long a member that gave up a partition may go on with
	// what it has taken from it, 5 minutes, before the next one reads there.
	// What is open after that counts as interrupted elsewhere.
	HandOver time.Duration
	// CommitEvery is the time between commits, 150 ms.
	CommitEvery time.Duration
}

// Share hands out the activations of a topic that several invokers take from.
// Kafka's group protocol gives each of them some of the partitions, and lets it
// keep these as long as it lives (cooperative-sticky assignment): what has one
// key stays with one invoker, where it is warm. Partitions of a member that
// died go to the others when its session has ended. Which of their records are
// completed is committed as a Feed does.
//
// It is the one part that joins a group, and the only one made on franz-go:
// rebalancing is where the other client has known defects.
type Share struct {
	cfg    ShareConfig
	log    *slog.Logger
	client *kgo.Client
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	dirty  chan struct{} // there is something to commit; one signal is enough
	owned  sync.WaitGroup

	reading, committing, taking *outage.Outage // the last of partitions that we are given
	greeted                     bool           // Next's: a broker has let us in

	mu      sync.Mutex
	claims  map[int32]*claim
	leaving map[*claim]struct{} // of partitions that were given up, and something of them is open
	stats   ShareStats

	noteChars int           // what the broker takes beside a position
	settled   chan struct{} // closed and made anew when something is completed, or a partition is ours no more
}

// ShareStats is a copy of what a share knows.
type ShareStats struct {
	Partitions    []int32 `json:"partitions"` // that are ours now
	Delivered     uint64  `json:"delivered"`
	Undecodable   uint64  `json:"undecodable"`
	Finished      uint64  `json:"finished"`               // not delivered, since somebody had completed them
	Open          int     `json:"open"`                   // handed out and not completed
	Leaving       bool    `json:"leaving,omitzero"`       // something is open of partitions that were given up
	Following     int     `json:"following,omitzero"`     // of our partitions, those that are read when another member has completed what it has of them
	Narrowed      bool    `json:"narrowed,omitzero"`      // nothing is read until more is completed: a position would not say it all
	Waiting       int64   `json:"waiting"`                // on our partitions, when last heard
	Interrupted   string  `json:"interrupted,omitzero"`   // why reading does not work; empty when it does
	CommitFailing string  `json:"commitFailing,omitzero"` // why committing does not work; empty when it does
}

// claim is a partition that is ours for now.
type claim struct {
	account
	share *Share
	index int32
	next  int64 // the offset that is read next
	edge  int64 // of the partition, when last heard
	gone  bool  // ours no more: nothing of it is told

	// Of a handing over, see handover.go.
	awaits  string             // the sign of life of the member that is still at it
	follow  context.CancelFunc // ends the waiting for that member
	skip    span               // completed by that member after we were given the partition
	sign    int64              // the newest sign of life of ours, 0: we are not leaving
	settled chan struct{}      // while we are leaving: something is completed
}

// NewShare starts to take part. It does not wait for a broker.
func (c *Cluster) NewShare(cfg ShareConfig) (*Share, error) {
	cfg.setDefaults()
	s := &Share{
		cfg: cfg, log: c.log.With("topic", cfg.Topic, "group", cfg.Group),
		dirty: make(chan struct{}, 1), claims: map[int32]*claim{}, leaving: map[*claim]struct{}{},
		noteChars: noteChars, settled: make(chan struct{}),
	}
	s.reading = outage.New(s.log, "reading of shared activations")
	s.committing = outage.New(s.log, "committing of shared positions")
	s.taking = outage.New(s.log, "taking of shared partitions")
	s.ctx, s.cancel = context.WithCancel(context.Background())
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.brokers...), kgo.ClientID(c.clientID),
		kgo.ConsumerGroup(cfg.Group), kgo.ConsumeTopics(cfg.Topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(cfg.Session), kgo.HeartbeatInterval(cfg.Session / 4),
		kgo.RebalanceTimeout(2 * cfg.Session), kgo.MaxVersions(versions()),
		kgo.FetchMaxWait(fetchWait), kgo.FetchMaxPartitionBytes(1 << 20),
		kgo.OnPartitionsAssigned(s.assigned), kgo.OnPartitionsRevoked(s.revoked), kgo.OnPartitionsLost(s.lost),
	}
	if c.tls != nil {
		opts = append(opts, kgo.DialTLSConfig(c.tls.Clone()))
	}
	if c.login != nil {
		opts = append(opts, kgo.SASL(c.login.mechanism))
	}
	s.mu.Lock() // which the client's calls take before they use it
	defer s.mu.Unlock()
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("share topic %s: %w", cfg.Topic, err)
	}
	s.client = client
	s.owned.Go(s.commitAll)
	return s, nil
}

func (c *ShareConfig) setDefaults() {
	c.Group = cmp.Or(c.Group, c.Topic+"-takers")
	c.Session = cmp.Or(c.Session, 10*time.Second)
	c.HandOver = cmp.Or(c.HandOver, 5*time.Minute)
	c.CommitEvery = cmp.Or(c.CommitEvery, 150*time.Millisecond)
}

// Next waits for the next activation of the partitions that are ours; those of
// one partition come in order. Its error is that of ctx or ErrClosed; a broker
// that is away only makes it wait. One goroutine at a time may call it.
func (s *Share) Next(ctx context.Context) (Delivery, error) {
	poll, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err := s.greet(poll); err != nil {
		return Delivery{}, err
	}
	for {
		s.untilRoomy(poll)
		got := s.poll(poll)
		switch {
		case s.ctx.Err() != nil || got.IsClientClosed():
			return Delivery{}, ErrClosed
		case ctx.Err() != nil && got.NumRecords() == 0:
			return Delivery{}, ctx.Err()
		}
		s.hear(got)
		for _, r := range got.Records() {
			s.reading.Over()
			if d, ok := s.deliver(r); ok {
				return d, nil
			}
		}
		if err := got.Err(); err != nil && got.NumRecords() == 0 {
			s.reading.Failed(poll, fmt.Errorf("%w%s", err, advice(err)))
		}
	}
}

// quietFor is how long nothing may fail after a failure until a broker is asked
// whether all is well: the next record may be hours away.
const quietFor = 3 * time.Second

// poll waits for a record or a failure. After a failure it may return with
// neither.
func (s *Share) poll(ctx context.Context) kgo.Fetches {
	if s.reading.Reason() == "" {
		return s.client.PollRecords(ctx, 1)
	}
	quiet, cancel := context.WithTimeout(ctx, quietFor)
	defer cancel()
	got := s.client.PollRecords(quiet, 1)
	if quiet.Err() == nil || ctx.Err() != nil || got.NumRecords() > 0 {
		return got
	}
	if s.client.Ping(ctx) == nil {
		s.reading.Over()
	}
	return nil
}

// greet waits until a broker lets us in, once: of one that does not the client
// says nothing when it is polled.
func (s *Share) greet(ctx context.Context) error {
	for !s.greeted {
		err := s.client.Ping(ctx)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w%s", err, advice(err))
		}
		switch {
		case err == nil:
			s.reading.Over()
			s.greeted = true
		case s.ctx.Err() != nil:
			return ErrClosed
		case ctx.Err() != nil || !s.reading.Failed(ctx, err):
			return ctx.Err()
		}
	}
	return nil
}

// untilRoomy waits until one more can be open, and the positions still say it
// all.
func (s *Share) untilRoomy(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		s.stats.Narrowed = false
		for _, c := range s.claims {
			s.stats.Narrowed = s.stats.Narrowed || !c.roomy(s.noteChars-signRoom)
		}
		narrowed, settled := s.stats.Narrowed, s.settled
		s.mu.Unlock()
		if !narrowed {
			return
		}
		select {
		case <-settled:
		case <-ctx.Done():
		}
	}
}

// wake has Next look again whether there is room: of a partition that is ours no
// more nothing will be completed. The caller holds the lock.
func (s *Share) wake() {
	close(s.settled)
	s.settled = make(chan struct{})
}

// hear notes the ends of partitions.
func (s *Share) hear(got kgo.Fetches) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got.EachPartition(func(p kgo.FetchTopicPartition) {
		if c := s.claims[p.Partition]; c != nil {
			c.edge = p.HighWatermark
		}
	})
}

// deliver makes a delivery of a record, unless it is completed, or its
// partition went to somebody else meanwhile, who reads it again.
func (s *Share) deliver(got *kgo.Record) (Delivery, bool) {
	r := record{offset: got.Offset, time: got.Timestamp, value: got.Value}
	m, err := activation.DecodeMessage(r.value)
	s.mu.Lock()
	c := s.claims[got.Partition]
	if c == nil || !c.take(r) {
		s.mu.Unlock()
		return Delivery{}, false
	}
	d := c.hand(r)
	d.Message, d.Partition, d.holder = m, c.index, c
	if err == nil {
		s.stats.Delivered++
	} else {
		s.stats.Undecodable++
	}
	s.mu.Unlock()
	if err != nil {
		s.log.Error("activation message cannot be decoded, skipped",
			"partition", got.Partition, "offset", r.offset, "bytes", len(r.value), "error", err)
		d.Done()
		return Delivery{}, false
	}
	return d, true
}

// take notes that a record was read, and tells whether it is to be handed out.
func (c *claim) take(r record) bool {
	switch {
	case c.marks == nil: // the group had no position
		c.open(r.offset, note{})
	case r.offset >= c.skip.from && r.offset < c.skip.end: // the client was told of an older position
		return false
	case r.offset < c.next: // the client went back: the log was truncated
		c.cut(r.offset)
	}
	c.next, c.skip = r.offset+1, span{}
	if !c.meet(r) {
		c.share.stats.Finished++
		return false
	}
	return true
}

func (c *claim) begin(epoch int, offset int64) {
	c.share.mu.Lock()
	defer c.share.mu.Unlock()
	if c.gone {
		return
	}
	if news, _ := c.start(epoch, offset); news {
		signal(c.share.dirty)
	}
}

func (c *claim) finish(epoch int, offset int64) {
	s := c.share
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone || !c.end(epoch, offset) {
		return
	}
	s.wake()
	switch {
	case c.sign != 0:
		signal(c.settled)
	default:
		signal(s.dirty)
	}
}

// Stats copies what the share knows.
func (s *Share) Stats() ShareStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.stats
	all.Leaving = len(s.leaving) > 0
	all.Interrupted, all.CommitFailing = cmp.Or(s.reading.Reason(), s.taking.Reason()), s.committing.Reason()
	all.Partitions = []int32{}
	for c := range s.leaving {
		all.Open += c.marks.Open()
	}
	for i, c := range s.claims {
		all.Partitions = append(all.Partitions, i)
		if c.awaits != "" {
			all.Following++
		}
		if c.marks != nil {
			all.Open += c.marks.Open()
			all.Waiting += max(0, c.edge-c.next)
		}
	}
	slices.Sort(all.Partitions)
	return all
}

// Close stops reading, commits what is completed by now and leaves the group,
// for as long as ctx lets it try: the partitions go to the others at once, with
// what is not done.
func (s *Share) Close(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return nil
	}
	s.cancel()
	s.owned.Wait()
	err := s.commit(ctx, func() []*claim { return s.held(nil) }, true)
	if left := s.client.LeaveGroupContext(ctx); left != nil && !errors.Is(left, context.Canceled) {
		err = errors.Join(err, fmt.Errorf("leave group %s: %w", s.cfg.Group, left))
	}
	s.client.Close()
	return err
}
