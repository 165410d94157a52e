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
	"golang.org/x/sync/semaphore"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// MemberConfig is which topic is shared. Only the topic has no default.
type MemberConfig struct {
	Topic string
	// Group is the consumer group that shares the topic, the topic's name with
	// "-takers" behind it when empty: a feed of a topic and a member of its group
	// must not meet in one group.
	Group string
	// Session is how long a member may be silent, 10 s, before its partitions
	// go to the others. Brokers take no less than 6 s by default.
	Session time.Duration
	// HandOver is how long a member that released a partition may go on with
	// what it has open of it, 5 minutes, before the next one reads there.
	// What is open after that counts as interrupted elsewhere.
	HandOver time.Duration
	// CommitEvery is the time between commits, 150 ms.
	CommitEvery time.Duration
}

// Member is a member of a consumer group: it hands out the activations of a
// topic that several invokers share. Kafka's group protocol assigns each of them
// some of the partitions, and lets it keep these as long as it lives
// (cooperative-sticky assignment): what has one key stays with one invoker,
// where it is warm. Partitions of a member that died go to the others when its
// session has ended. Which of their records are completed is committed as a Feed
// does.
type Member struct {
	cfg     MemberConfig
	log     *slog.Logger
	client  *kgo.Client
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	dirty   chan struct{} // there is something to commit; one signal is enough
	owned   sync.WaitGroup
	commits *semaphore.Weighted // one commit at a time, so that no older one overtakes

	reading, committing, assigning *retry.Retrier
	connected                      bool // Next's: a broker has let us in

	mu            sync.Mutex
	assignments   map[int32]*assignment
	released      map[*assignment]struct{} // revoked, and something of them is open
	stats         MemberStats
	metadataChars int           // what the broker takes as metadata of an offset
	settled       chan struct{} // closed and made anew when something is completed, or an assignment ends
}

// MemberStats is a copy of what a member knows.
type MemberStats struct {
	Partitions    []int32 `json:"partitions"` // that are assigned to us now
	Delivered     uint64  `json:"delivered"`
	Undecodable   uint64  `json:"undecodable"`
	Finished      uint64  `json:"finished"`               // not delivered, since they were completed before
	Open          int     `json:"open"`                   // handed out and not completed
	Leaving       bool    `json:"leaving,omitzero"`       // something is open of partitions that were released
	Following     int     `json:"following,omitzero"`     // of our partitions, those that are read when another member has completed what it has of them
	Narrowed      bool    `json:"narrowed,omitzero"`      // nothing is read until more is completed: a commit would not say it all
	Waiting       int64   `json:"waiting"`                // on our partitions, when last known
	Interrupted   string  `json:"interrupted,omitzero"`   // why reading does not work; empty when it does
	CommitFailing string  `json:"commitFailing,omitzero"` // why committing does not work; empty when it does
}

// assignment is a partition that is assigned to us, or was and has something
// open.
type assignment struct {
	progress
	member *Member
	index  int32
	next   int64 // the offset that is read next
	end    int64 // of the partition, when last known
	gone   bool  // not ours any more: nothing of it is committed

	// Of a hand over, see handover.go.
	awaited   string             // the last heartbeat of the member that has something open of it
	stopWait  context.CancelFunc // ends the wait for that member
	skip      offsetRange        // completed by that member after the partition was assigned to us
	heartbeat int64              // our own last one, 0: we have not released it
	settled   chan struct{}      // after the release: something is completed
}

// NewMember joins the group. It does not wait for a broker.
func (c *Cluster) NewMember(cfg MemberConfig) (*Member, error) {
	cfg.setDefaults()
	m := &Member{
		cfg: cfg, log: c.log.With("topic", cfg.Topic, "group", cfg.Group), commits: semaphore.NewWeighted(1),
		dirty: make(chan struct{}, 1), assignments: map[int32]*assignment{}, released: map[*assignment]struct{}{},
		metadataChars: metadataChars, settled: make(chan struct{}),
	}
	m.reading = retry.New(m.log, "reading of shared activations")
	m.committing = retry.New(m.log, "committing of shared offsets")
	m.assigning = retry.New(m.log, "assignment of shared partitions")
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.mu.Lock() // which the client's callbacks take before they use it
	defer m.mu.Unlock()
	client, err := kgo.NewClient(m.options(c)...)
	if err != nil {
		return nil, fmt.Errorf("join group %s of topic %s: %w", cfg.Group, cfg.Topic, err)
	}
	m.client = client
	m.owned.Go(m.commitAtIntervals)
	return m, nil
}

func (m *Member) options(c *Cluster) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.brokers...), kgo.ClientID(c.clientID),
		kgo.ConsumerGroup(m.cfg.Group), kgo.ConsumeTopics(m.cfg.Topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(m.cfg.Session), kgo.HeartbeatInterval(m.cfg.Session / 4),
		kgo.RebalanceTimeout(2 * m.cfg.Session), kgo.MaxVersions(versions()),
		kgo.FetchMaxWait(fetchWait), kgo.FetchMaxPartitionBytes(1 << 20),
		kgo.OnPartitionsAssigned(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost),
	}
	if c.tls != nil {
		opts = append(opts, kgo.DialTLSConfig(c.tls.Clone()))
	}
	if c.login != nil {
		opts = append(opts, kgo.SASL(c.login))
	}
	return opts
}

func (c *MemberConfig) setDefaults() {
	c.Group = cmp.Or(c.Group, c.Topic+"-takers")
	c.Session = cmp.Or(c.Session, 10*time.Second)
	c.HandOver = cmp.Or(c.HandOver, 5*time.Minute)
	c.CommitEvery = cmp.Or(c.CommitEvery, 150*time.Millisecond)
}

// Next waits for the next activation of the partitions that are assigned to us;
// those of one partition come in order. Its error is that of ctx or ErrClosed; a
// broker that is away only makes it wait. One goroutine at a time may call it.
func (m *Member) Next(ctx context.Context) (Delivery, error) {
	poll, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	if err := m.connect(poll); err != nil {
		return Delivery{}, err
	}
	for {
		m.awaitCapacity(poll)
		got := m.poll(poll)
		switch {
		case m.ctx.Err() != nil || got.IsClientClosed():
			return Delivery{}, ErrClosed
		case ctx.Err() != nil && got.NumRecords() == 0:
			return Delivery{}, ctx.Err()
		}
		m.setEnds(got)
		for _, r := range got.Records() {
			m.reading.Succeeded()
			if d, ok := m.deliver(r); ok {
				return d, nil
			}
		}
		if err := got.Err(); err != nil && got.NumRecords() == 0 {
			m.reading.Wait(poll, fmt.Errorf("%w%s", err, advice(err)))
		}
	}
}

// quietFor is how long nothing may fail after a failure until a broker is asked
// whether all is well: the next record may be hours away.
const quietFor = 3 * time.Second

// poll waits for a record or a failure. After a failure it may return with
// neither.
func (m *Member) poll(ctx context.Context) kgo.Fetches {
	if m.reading.LastError() == "" {
		return m.client.PollRecords(ctx, 1)
	}
	quiet, cancel := context.WithTimeout(ctx, quietFor)
	defer cancel()
	got := m.client.PollRecords(quiet, 1)
	if quiet.Err() == nil || ctx.Err() != nil || got.NumRecords() > 0 {
		return got
	}
	if m.client.Ping(ctx) == nil {
		m.reading.Succeeded()
	}
	return nil
}

// connect waits until a broker lets us in, once: of one that does not the client
// says nothing when it is polled.
func (m *Member) connect(ctx context.Context) error {
	for !m.connected {
		err := m.client.Ping(ctx)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w%s", err, advice(err))
		}
		switch {
		case err == nil:
			m.reading.Succeeded()
			m.connected = true
		case m.ctx.Err() != nil:
			return ErrClosed
		case ctx.Err() != nil || !m.reading.Wait(ctx, err):
			return ctx.Err()
		}
	}
	return nil
}

// awaitCapacity waits until one more can be open, and commits still say it all.
func (m *Member) awaitCapacity(ctx context.Context) {
	for ctx.Err() == nil {
		m.mu.Lock()
		m.stats.Narrowed = false
		for _, a := range m.assignments {
			m.stats.Narrowed = m.stats.Narrowed || !a.hasCapacity(m.metadataChars-heartbeatChars)
		}
		narrowed, settled := m.stats.Narrowed, m.settled
		m.mu.Unlock()
		if !narrowed {
			return
		}
		select {
		case <-settled:
		case <-ctx.Done():
		}
	}
}

// wake has Next look again whether there is capacity: of an assignment that has
// ended nothing will be completed. The caller holds the lock.
func (m *Member) wake() {
	close(m.settled)
	m.settled = make(chan struct{})
}

// setEnds notes the ends of partitions.
func (m *Member) setEnds(got kgo.Fetches) {
	m.mu.Lock()
	defer m.mu.Unlock()
	got.EachPartition(func(p kgo.FetchTopicPartition) {
		if a := m.assignments[p.Partition]; a != nil {
			a.end = p.HighWatermark
		}
	})
}

// deliver makes a delivery of a record, unless it is completed, or its
// partition went to another member meanwhile, which reads it again.
func (m *Member) deliver(got *kgo.Record) (Delivery, bool) {
	r := record{offset: got.Offset, time: got.Timestamp, value: got.Value}
	message, err := activation.DecodeMessage(r.value)
	m.mu.Lock()
	a := m.assignments[got.Partition]
	if a == nil || !a.take(r) {
		m.mu.Unlock()
		return Delivery{}, false
	}
	d := a.progress.deliver(r)
	d.Message, d.Partition, d.owner = message, a.index, a
	if err == nil {
		m.stats.Delivered++
	} else {
		m.stats.Undecodable++
	}
	m.mu.Unlock()
	if err != nil {
		m.log.Error("activation message cannot be decoded, skipped",
			"partition", got.Partition, "offset", r.offset, "bytes", len(r.value), "error", err)
		d.Done()
		return Delivery{}, false
	}
	return d, true
}

// take notes that a record was read, and reports whether it is to be handed out.
func (a *assignment) take(r record) bool {
	switch {
	case a.watermark == nil: // the group had no committed offset
		a.open(r.offset, offsetMetadata{})
	case r.offset >= a.skip.from && r.offset < a.skip.end: // the client began at an older offset
		return false
	case r.offset < a.next: // the client went back: the log was truncated
		a.cut(r.offset)
	}
	a.next, a.skip = r.offset+1, offsetRange{}
	if !a.read(r) {
		a.member.stats.Finished++
		return false
	}
	return true
}

func (a *assignment) begin(epoch int, offset int64) {
	a.member.mu.Lock()
	defer a.member.mu.Unlock()
	if a.gone {
		return
	}
	if news, _ := a.progress.start(epoch, offset); news {
		signal(a.member.dirty)
	}
}

func (a *assignment) finish(epoch int, offset int64) {
	m := a.member
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.gone || !a.progress.end(epoch, offset) {
		return
	}
	m.wake()
	switch {
	case a.heartbeat != 0:
		signal(a.settled)
	default:
		signal(m.dirty)
	}
}

// Stats copies what the member knows.
func (m *Member) Stats() MemberStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.stats
	all.Leaving = len(m.released) > 0
	all.Interrupted = cmp.Or(m.reading.LastError(), m.assigning.LastError())
	all.CommitFailing = m.committing.LastError()
	all.Partitions = []int32{}
	for a := range m.released {
		all.Open += a.openCount()
	}
	for i, a := range m.assignments {
		all.Partitions = append(all.Partitions, i)
		all.Open += a.openCount()
		if a.awaited != "" {
			all.Following++
		}
		if a.watermark != nil {
			all.Waiting += max(0, a.end-a.next)
		}
	}
	slices.Sort(all.Partitions)
	return all
}

// Close stops reading, commits what is completed by now and leaves the group,
// for as long as ctx lets it try: the partitions go to the others at once, with
// what is not done.
func (m *Member) Close(ctx context.Context) error {
	if m.ctx.Err() != nil {
		return nil
	}
	m.cancel()
	m.owned.Wait()
	err := m.commit(ctx, m.all, true)
	if left := m.client.LeaveGroupContext(ctx); left != nil && !errors.Is(left, context.Canceled) {
		err = errors.Join(err, fmt.Errorf("leave group %s: %w", m.cfg.Group, left))
	}
	m.client.Close()
	return err
}
