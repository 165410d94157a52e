package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	wire "github.com/segmentio/kafka-go"
	wirecommit "github.com/segmentio/kafka-go/protocol/offsetcommit"
	"golang.org/x/sync/semaphore"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// A session of a dead member lasts 30 s in the original. A group that still has
// a member after so long has one that lives.
const sessionAtMost = time.Minute

// committer commits how far a feed's activations are completed, in a
// goroutine of its own, so that a slow coordinator delays no activation.
type committer struct {
	feed    *Feed
	retrier *retry.Retrier
	ends    atomic.Bool   // something was completed since the last commit
	dirty   chan struct{} // there is something to commit; one signal is enough
	urgent  chan struct{} // it should not wait
	ended   chan struct{}
	calls   context.Context // of the client: outlives the feed's until stop gives up
	cut     context.CancelFunc

	single   *semaphore.Weighted // one commit at a time, so that no older one overtakes; it guards what is below
	client   *client
	partly   bool      // the last commit could not hold all
	occupied time.Time // since when the group has a member; zero: it has none
}

func newCommitter(f *Feed) *committer {
	c := &committer{
		feed: f, retrier: retry.New(f.log.With("group", f.cfg.Group), "committing of offsets"), single: semaphore.NewWeighted(1),
		dirty: make(chan struct{}, 1), urgent: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	c.calls, c.cut = context.WithCancel(context.Background())
	c.client = f.cluster.client(c.calls, f.cfg.Topic)
	return c
}

// completed records that a completion is to be committed.
func (c *committer) completed() {
	c.ends.Store(true)
	c.changed(false)
}

// changed signals that there is something to commit, at once where it is urgent.
func (c *committer) changed(urgent bool) {
	signal(c.dirty)
	if urgent {
		signal(c.urgent)
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run commits at once after a rest, and from then on at intervals: after a crash
// only activations that had just ended may run again.
func (c *committer) run() {
	defer close(c.ended)
	interval := time.NewTimer(0)
	defer interval.Stop()
	ctx := c.feed.ctx
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.dirty:
		}
		select {
		case <-ctx.Done():
			return
		case <-interval.C:
		case <-c.urgent:
		}
		pause := c.feed.cfg.CommitEvery
		if !c.ends.Swap(false) {
			pause /= 16 // what has only begun may end soon, and no end was committed yet
		}
		interval.Reset(pause)
		c.commitUntil(ctx)
	}
}

// commitUntil commits until it succeeds or the feed ends, each time the newest
// offsets.
func (c *committer) commitUntil(ctx context.Context) {
	for {
		err := c.commit(c.calls)
		switch {
		case err == nil:
			c.retrier.Succeeded()
			return
		case c.feed.member != nil && code(err) == wire.RebalanceInProgress: // commits are taken again when that has ended
			if !retry.Sleep(ctx, retry.MinPause) {
				return
			}
		case !c.retrier.Wait(ctx, err):
			return
		}
	}
}

// commit writes what is not committed yet, as it is when its turn comes.
func (c *committer) commit(ctx context.Context) error {
	if len(c.feed.uncommitted()) == 0 { // a commit that is under way counts as uncommitted
		return nil
	}
	if err := c.single.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait for another commit: %w", err)
	}
	defer c.single.Release(1)
	for {
		all := c.feed.uncommitted()
		if len(all) == 0 {
			return nil
		}
		err := c.send(ctx, all)
		if errors.Is(err, wire.OffsetMetadataTooLarge) && c.feed.shortenMetadata() {
			continue
		}
		if err != nil {
			return err
		}
		c.feed.setCommitted(all)
		c.reportPartly(all)
		return nil
	}
}

// send writes a group's offsets: as a member of it, or from outside, which a
// broker takes only while the group has no member.
//
// It does not use the client's OffsetCommit, which gives the offsets the leader
// epoch 0: the original would take that for a truncated log and begin anew.
func (c *committer) send(ctx context.Context, all map[*partition]offsetCommit) error {
	topic := wirecommit.RequestTopic{Name: c.feed.cfg.Topic}
	for p, s := range all {
		topic.Partitions = append(topic.Partitions, wirecommit.RequestPartition{
			PartitionIndex: p.index, CommittedOffset: s.offset, CommittedMetadata: s.metadata,
			CommitTimestamp: -1, CommittedLeaderEpoch: -1,
		})
	}
	group, limit := c.feed.cfg.Group, callTimeout
	req := &wirecommit.Request{GroupID: group, GenerationID: -1, RetentionTimeMs: -1, Topics: []wirecommit.RequestTopic{topic}}
	if m := c.feed.member; m != nil {
		req.MemberID, req.GenerationID = m.client.GroupMetadata()
		limit = m.cfg.Session
	}
	_, err := callAgain(ctx, c.client, limit, func(ctx context.Context) (wire.Response, error) {
		res, err := c.client.Transport.RoundTrip(ctx, c.client.Addr, req)
		if err == nil {
			err = commitError(res.(*wirecommit.Response))
		}
		return res, err
	})
	if err != nil {
		err = fmt.Errorf("commit the offsets of group %s: %w", group, err)
	}
	if c.feed.member == nil {
		err = c.watchGroup(err)
	}
	return err
}

func commitError(res *wirecommit.Response) error {
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return wire.Error(p.ErrorCode)
			}
		}
	}
	return nil
}

// watchGroup explains the error of a commit from outside a group that still has a
// member. It logs an error when that member stays longer than the session of a dead
// one would.
func (c *committer) watchGroup(err error) error {
	switch code(err) {
	case wire.UnknownMemberId, wire.IllegalGeneration, wire.RebalanceInProgress:
	default:
		c.occupied = time.Time{}
		return err
	}
	if c.occupied.IsZero() {
		c.occupied = time.Now()
	}
	if time.Since(c.occupied) > sessionAtMost {
		c.feed.log.Error("group has a living member: another invoker with this id reads the same activations",
			"group", c.feed.cfg.Group)
		c.occupied = time.Now()
	}
	return fmt.Errorf("%w: the group still has a member until its session ends", err)
}

// reportPartly logs once when the metadata of a commit could not hold all that
// is completed. It may be logged again after a commit that could.
func (c *committer) reportPartly(all map[*partition]offsetCommit) {
	partly := false
	for _, s := range all {
		partly = partly || !s.whole
	}
	if partly && !c.partly {
		c.feed.log.Warn("the commit has no room for all that is completed above its offset: after a crash now some of it would run again",
			"group", c.feed.cfg.Group, "open", c.feed.Stats().Open)
	}
	c.partly = partly
}

// stop waits for the goroutine and commits a last time, over the same
// connection: a commit that is under way must not be overtaken, or its older
// offset would be what the next process reads.
func (c *committer) stop(ctx context.Context) error {
	defer context.AfterFunc(ctx, c.cut)()
	defer c.cut()
	<-c.ended
	defer c.client.close()
	c.feed.closing()
	return retry.Do(ctx, retry.Default(), func() error { return c.commit(c.calls) })
}
