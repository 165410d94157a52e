package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	wire "github.com/segmentio/kafka-go"
	wirecommit "github.com/segmentio/kafka-go/protocol/offsetcommit"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// A session of a dead member lasts 30 s in the original. A group that still has
// a member after so long has one that lives.
const sessionAtMost = time.Minute

// committer commits how far a feed's activations are completed, in a
// goroutine of its own, so that a slow coordinator delays no activation.
type committer struct {
	feed     *Feed
	retrier  *retry.Retrier
	news     atomic.Int64  // changes since the last commit began
	ends     atomic.Bool   // one of them is a completion
	dirty    chan struct{} // the first of them; one signal is enough
	full     chan struct{} // so many that the commit should not wait
	ended    chan struct{}
	client   *client
	calls    context.Context // of the client: outlives the feed's until stop gives up
	cut      context.CancelFunc
	occupied time.Time // since when the group has a member; zero: it has none
	partly   bool      // the last commit could not say all
}

func newCommitter(f *Feed) *committer {
	c := &committer{
		feed: f, retrier: retry.New(f.log.With("group", f.cfg.Group), "committing of offsets"),
		dirty: make(chan struct{}, 1), full: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	c.calls, c.cut = context.WithCancel(context.Background())
	c.client = f.cluster.client(c.calls, f.cfg.Topic)
	return c
}

// completed notes that a completion is to be committed.
func (c *committer) completed() {
	c.ends.Store(true)
	c.changed(false)
}

// changed notes that there is something to commit, at once where it is urgent.
func (c *committer) changed(urgent bool) {
	n := c.news.Add(1)
	if n == 1 || urgent {
		signal(c.dirty)
	}
	if n == int64(c.feed.cfg.CommitAfter) || urgent {
		signal(c.full)
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run commits at once after a rest, so that a crash makes run again what had
// just ended and no more, and from then on at intervals.
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
		case <-c.full:
		}
		pause := c.feed.cfg.CommitEvery
		if !c.ends.Swap(false) {
			pause /= 16 // what has only begun may end soon, and no end was committed yet
		}
		interval.Reset(pause)
		c.news.Store(0)
		c.commitUntil(ctx)
	}
}

// commitUntil commits until it succeeds or the feed ends, each time the newest
// offsets.
func (c *committer) commitUntil(ctx context.Context) {
	for {
		err := c.commit(false)
		c.watchGroup(err)
		if err == nil {
			c.retrier.Succeeded()
			return
		}
		if !c.retrier.Wait(ctx, err) {
			return
		}
	}
}

// watchGroup notices a group whose member does not go away: not one that died.
func (c *committer) watchGroup(err error) {
	switch {
	case !hasMember(err):
		c.occupied = time.Time{}
	case c.occupied.IsZero():
		c.occupied = time.Now()
	case time.Since(c.occupied) > sessionAtMost:
		c.feed.log.Error("group has a living member: another invoker with this id reads the same activations",
			"group", c.feed.cfg.Group)
		c.occupied = time.Now()
	}
}

// hasMember reports whether err says that a group still has a member, living or
// not: a commit from outside the group is refused until it has none.
func hasMember(err error) bool {
	switch code(err) {
	case wire.UnknownMemberId, wire.IllegalGeneration, wire.RebalanceInProgress:
		return true
	}
	return false
}

// commit writes what the broker does not know yet.
func (c *committer) commit(closing bool) error {
	all := c.feed.uncommitted(closing)
	if len(all) == 0 {
		return nil
	}
	err := c.send(all)
	if errors.Is(err, wire.OffsetMetadataTooLarge) && c.feed.shortenMetadata() {
		return c.commit(closing)
	}
	if err != nil {
		return err
	}
	c.feed.setCommitted(all)
	c.reportPartly(all)
	return nil
}

// send writes a group's offsets from outside the group: generation -1 and no
// member. A broker takes that only while the group has no member.
//
// It does not use the client's OffsetCommit, which says that the offsets are of
// the leaders' epoch 0: the original would take that for a truncated log and
// begin anew.
func (c *committer) send(all map[*partition]offsetCommit) error {
	group, topic := c.feed.cfg.Group, wirecommit.RequestTopic{Name: c.feed.cfg.Topic}
	for p, s := range all {
		topic.Partitions = append(topic.Partitions, wirecommit.RequestPartition{
			PartitionIndex: p.index, CommittedOffset: s.offset, CommittedMetadata: s.metadata,
			CommitTimestamp: -1, CommittedLeaderEpoch: -1,
		})
	}
	req := &wirecommit.Request{GroupID: group, GenerationID: -1, RetentionTimeMs: -1, Topics: []wirecommit.RequestTopic{topic}}
	_, err := callAgain(c.calls, c.client, callTimeout, func(ctx context.Context) (wire.Response, error) {
		res, err := c.client.Transport.RoundTrip(ctx, c.client.Addr, req)
		if err == nil {
			err = commitError(res.(*wirecommit.Response))
		}
		return res, err
	})
	switch {
	case hasMember(err):
		return fmt.Errorf("commit the offsets of group %s, which still has a member until its session ends: %w", group, err)
	case err != nil:
		return fmt.Errorf("commit the offsets of group %s: %w", group, err)
	}
	return nil
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

// reportPartly logs once when the metadata of a commit could not say all that
// is completed. It may be logged again after a commit that could.
func (c *committer) reportPartly(all map[*partition]offsetCommit) {
	partly := false
	for _, s := range all {
		partly = partly || !s.whole
	}
	if partly && !c.partly {
		c.feed.log.Warn("too much is open for the commit to say all that is completed above its offset: a crash now would run some of that again",
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
	return retry.Do(ctx, retry.Default(), func() error { return c.commit(true) })
}
