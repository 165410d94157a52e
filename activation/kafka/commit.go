package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	wire "github.com/segmentio/kafka-go"
	wirecommit "github.com/segmentio/kafka-go/protocol/offsetcommit"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// committer commits the progress of a feed in its own goroutine, so that a slow coordinator
// delays no activation.
type committer struct {
	feed    *Feed
	retrier *retry.Retrier
	dirty   chan struct{}   // there is something to commit; one signal is enough
	calls   context.Context // outlives the feed's, until Close gives up
	cut     context.CancelFunc

	single chan struct{} // capacity 1: one commit at a time, so that no older one overtakes
	client *client       // used only by the holder of single
}

func newCommitter(f *Feed) *committer {
	c := &committer{
		feed: f, retrier: retry.New(f.log.With("group", f.cfg.Group), "committing of offsets"),
		dirty: make(chan struct{}, 1), single: make(chan struct{}, 1), client: f.cluster.client(f.cfg.Topic),
	}
	c.calls, c.cut = context.WithCancel(context.Background())
	return c
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run commits at once after a rest, and from then on at intervals: after a crash
// only activations that had just ended may run again. A failed commit is tried again with the
// newest offsets.
func (c *committer) run() {
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
		}
		interval.Reset(c.feed.cfg.CommitEvery)
		for err := c.commit(c.calls); err != nil; err = c.commit(c.calls) {
			if !c.retrier.Wait(ctx, err) {
				return
			}
		}
		c.retrier.Succeeded()
	}
}

// commit waits for its turn and then commits all changes that are not committed yet. ctx
// bounds the wait as well.
func (c *committer) commit(ctx context.Context) error {
	select {
	case c.single <- struct{}{}:
	default:
		select {
		case c.single <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-c.single }()
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
		return nil
	}
}

// offsetCommit holds the values to commit for one partition.
type offsetCommit struct {
	offset   int64
	metadata string
	changes  uint64 // of the partition that this commits
}

// send writes the group's offsets from outside the group, which a broker takes only
// while the group has no member.
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
	group := c.feed.cfg.Group
	req := &wirecommit.Request{GroupID: group, GenerationID: -1, RetentionTimeMs: -1, Topics: []wirecommit.RequestTopic{topic}}
	_, err := callAgain(ctx, c.client, callTimeout, func(ctx context.Context) (wire.Response, error) {
		res, err := c.client.Transport.RoundTrip(ctx, c.client.Addr, req)
		if err == nil {
			err = commitError(res.(*wirecommit.Response))
		}
		return res, err
	})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("commit the offsets of group %s: %w", group, err)
	switch code(err) {
	case wire.UnknownMemberId, wire.IllegalGeneration, wire.RebalanceInProgress:
		err = fmt.Errorf("%w: the group still has a member until its session ends", err)
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

// last commits once more after the goroutine has ended. It uses the same connection as the
// goroutine did. On another connection it could overtake a commit under way, and the next
// process would then read the older offset.
func (c *committer) last(ctx context.Context) error {
	defer c.client.close()
	return retry.Do(ctx, retry.Default(), func() error { return c.commit(c.calls) })
}
