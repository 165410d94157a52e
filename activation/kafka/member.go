package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
// session has ended.
//
// The group alone is franz-go's: its client reads nothing. A Feed reads the
// partitions that are assigned, and commits as the member that the client is.
type Member struct {
	cfg     MemberConfig
	log     *slog.Logger
	client  *kgo.Client
	feed    *Feed
	started chan struct{} // closed when client and feed are there for the client's callbacks
	joining *retry.Retrier
}

// MemberStats is a snapshot of a member.
type MemberStats struct {
	Partitions    []int32 `json:"partitions"` // that are assigned to us now
	Delivered     uint64  `json:"delivered"`
	Undecodable   uint64  `json:"undecodable"`
	Finished      uint64  `json:"finished"`               // not delivered, since they were completed before
	Open          int     `json:"open"`                   // handed out and not completed
	Leaving       bool    `json:"leaving,omitzero"`       // something is open of partitions that were released
	Following     int     `json:"following,omitzero"`     // of our partitions, those that are read when another member has completed what it has of them
	Narrowed      bool    `json:"narrowed,omitzero"`      // nothing is read until more is completed: a commit would not hold it all
	Waiting       int64   `json:"waiting"`                // on our partitions, when last known
	Interrupted   string  `json:"interrupted,omitzero"`   // why reading does not work; empty when it does
	CommitFailing string  `json:"commitFailing,omitzero"` // why committing does not work; empty when it does
}

// NewMember joins the group. It does not wait for a broker.
func (c *Cluster) NewMember(cfg MemberConfig) (*Member, error) {
	cfg.Group = cmp.Or(cfg.Group, cfg.Topic+"-takers")
	cfg.Session = cmp.Or(cfg.Session, 10*time.Second)
	cfg.HandOver = cmp.Or(cfg.HandOver, 5*time.Minute)
	log := c.log.With("topic", cfg.Topic, "group", cfg.Group)
	m := &Member{cfg: cfg, log: log, started: make(chan struct{}), joining: retry.New(log, "membership of the group")}
	var err error
	if m.client, err = kgo.NewClient(m.options(c)...); err != nil {
		return nil, fmt.Errorf("join group %s of topic %s: %w", cfg.Group, cfg.Topic, err)
	}
	m.client.PauseFetchTopics(cfg.Topic)
	m.feed = c.newFeed(FeedConfig{Topic: cfg.Topic, Group: cfg.Group, CommitEvery: cfg.CommitEvery}, m)
	close(m.started)
	m.feed.owned.Go(m.watch)
	m.feed.owned.Go(m.sendHeartbeats)
	return m, nil
}

func (m *Member) options(c *Cluster) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.brokers...), kgo.ClientID(c.clientID),
		kgo.ConsumerGroup(m.cfg.Group), kgo.ConsumeTopics(m.cfg.Topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(m.cfg.Session), kgo.HeartbeatInterval(m.cfg.Session / 4),
		kgo.RebalanceTimeout(2 * m.cfg.Session),
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

// Next waits for the next activation of the partitions that are assigned to us,
// as that of a Feed.
func (m *Member) Next(ctx context.Context) (Delivery, error) { return m.feed.Next(ctx) }

// quietFor is how long nothing may fail after a failure until the group counts
// as well.
const quietFor = 3 * time.Second

// watch notices when the group cannot be joined, or is lost.
func (m *Member) watch() {
	for ctx := m.feed.ctx; ctx.Err() == nil; {
		if err := m.failure(ctx); err != nil {
			m.joining.Wait(ctx, fmt.Errorf("%w%s", err, advice(err)))
		} else {
			m.joining.Succeeded()
		}
	}
}

// failure asks whether a broker lets us in, of which the client reports nothing
// when it is polled, and waits a while for a failure of the group.
func (m *Member) failure(ctx context.Context) error {
	if err := m.client.Ping(ctx); err != nil {
		return err
	}
	quiet, cancel := context.WithTimeout(ctx, quietFor)
	defer cancel()
	err := m.client.PollFetches(quiet).Err()
	if quiet.Err() != nil {
		return nil
	}
	return err
}

// assigned reads partitions from now on.
func (m *Member) assigned(_ context.Context, _ *kgo.Client, all map[string][]int32) {
	partitions := all[m.cfg.Topic]
	if len(partitions) == 0 {
		return
	}
	<-m.started
	m.feed.mu.Lock()
	for _, i := range partitions {
		m.feed.add(i)
	}
	m.feed.mu.Unlock()
	m.log.Info("partitions assigned", "partitions", partitions)
}

// revoked releases partitions. Of what is open of them a heartbeat stands in the
// metadata of the commit, so that the member that has the partition next does
// not run it a second time; no other member has to wait for that.
func (m *Member) revoked(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	partitions := all[m.cfg.Topic]
	if len(partitions) == 0 {
		return
	}
	<-m.started
	if m.feed.ctx.Err() != nil { // Close has committed
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Session)
	defer cancel()
	defer context.AfterFunc(m.feed.ctx, cancel)()
	open := m.release(partitions)
	err := retry.Do(ctx, retry.Default(), func() error { return m.feed.commits.commit(ctx) })
	if m.feed.ctx.Err() != nil { // Close commits
		return
	}
	m.forget(partitions)
	if err != nil {
		m.log.Error("partitions released, and what is completed of them not committed: that runs again, and open runs count as interrupted",
			"partitions", partitions, "withRunsOpen", open, "error", err)
		return
	}
	m.log.Info("partitions released", "partitions", partitions, "withRunsOpen", open)
}

// lost is called when partitions were assigned to others without a revocation:
// this member sent no heartbeat for too long. What is open runs there, too.
func (m *Member) lost(_ context.Context, _ *kgo.Client, all map[string][]int32) {
	if partitions := all[m.cfg.Topic]; len(partitions) > 0 {
		<-m.started
		m.forget(partitions)
		m.log.Error("partitions went to others since this member was silent for too long: what was running may run there, too",
			"partitions", partitions)
	}
}

// forget removes partitions, but not those that were released with something open
// when the broker has that.
func (m *Member) forget(partitions []int32) {
	m.feed.mu.Lock()
	defer m.feed.mu.Unlock()
	for _, p := range slices.Clone(m.feed.partitions) {
		if (p.heartbeat == 0 || p.renewed.Equal(p.since)) && slices.Contains(partitions, p.index) {
			m.feed.remove(p)
		}
	}
}

// Stats returns a snapshot.
func (m *Member) Stats() MemberStats {
	f := m.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	all := MemberStats{
		Partitions: []int32{}, Delivered: f.stats.Delivered, Undecodable: f.stats.Undecodable, Finished: f.stats.Finished,
		Narrowed: f.stats.Narrowed, Interrupted: m.joining.LastError(), CommitFailing: f.commits.retrier.LastError(),
	}
	for _, p := range f.partitions {
		all.Open += len(p.open)
		if p.heartbeat != 0 {
			all.Leaving = true
			continue
		}
		all.Partitions = append(all.Partitions, p.index)
		all.Waiting += p.lag()
		all.Interrupted = cmp.Or(all.Interrupted, p.reading.LastError())
		if p.following {
			all.Following++
		}
	}
	slices.Sort(all.Partitions)
	return all
}

// Close stops reading, commits what is completed by now and leaves the group,
// for as long as ctx lets it try: the partitions go to the others at once, with
// what is not done.
func (m *Member) Close(ctx context.Context) error {
	if m.feed.ctx.Err() != nil {
		return nil
	}
	err := m.feed.Close(ctx)
	if left := m.client.LeaveGroupContext(ctx); left != nil && !errors.Is(left, context.Canceled) {
		err = errors.Join(err, fmt.Errorf("leave group %s: %w", m.cfg.Group, left))
	}
	m.client.Close()
	return err
}
