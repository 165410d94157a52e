package kafka

import (
	"context"
	"fmt"
	"net"
	"strconv"

	wire "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"
)

// coordinator connects to the broker that keeps a group's offsets.
func (c *Cluster) coordinator(ctx context.Context, group string) (*link, error) {
	var failure error
	for _, addr := range c.brokers {
		l, err := c.dial(ctx, addr)
		if err != nil {
			failure = err
			continue
		}
		home, err := findCoordinator(l, group)
		if err == nil {
			return c.moveTo(ctx, l, home)
		}
		l.close()
		failure = err
	}
	return nil, failure
}

func findCoordinator(l *link, group string) (string, error) {
	answer, err := l.call(&findcoordinator.Request{Key: group}, callTimeout)
	if err != nil {
		return "", fmt.Errorf("find the coordinator of group %s: %w", group, err)
	}
	res := answer.(*findcoordinator.Response)
	if err := codeError(res.ErrorCode); err != nil {
		return "", fmt.Errorf("find the coordinator of group %s: %w", group, err)
	}
	return net.JoinHostPort(res.Host, strconv.Itoa(int(res.Port))), nil
}

// committedOffset reads a group's position in partition 0 of a topic; ok is
// false when it has none.
func committedOffset(l *link, group, topic string) (offset int64, ok bool, err error) {
	req := &offsetfetch.Request{
		GroupID: group,
		Topics:  []offsetfetch.RequestTopic{{Name: topic, PartitionIndexes: []int32{0}}},
	}
	answer, err := l.call(req, callTimeout)
	if err != nil {
		return 0, false, fmt.Errorf("read the position of group %s: %w", group, err)
	}
	res := answer.(*offsetfetch.Response)
	offset, err = offsetIn(res)
	if code(err) == wire.GroupIdNotFound {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read the position of group %s: %w", group, err)
	}
	return offset, offset >= 0, nil
}

// offsetIn is the one offset in an answer, -1 when it has none.
func offsetIn(res *offsetfetch.Response) (int64, error) {
	if err := codeError(res.ErrorCode); err != nil {
		return -1, err
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			return p.CommittedOffset, codeError(p.ErrorCode)
		}
	}
	return -1, nil
}

// commitOffset writes a group's position from outside the group: generation -1
// and no member. A broker takes that only while the group has no member.
func commitOffset(l *link, group, topic string, offset int64) error {
	req := &offsetcommit.Request{
		GroupID:         group,
		GenerationID:    -1,
		RetentionTimeMs: -1,
		Topics: []offsetcommit.RequestTopic{{
			Name: topic,
			Partitions: []offsetcommit.RequestPartition{{
				CommittedOffset: offset, CommitTimestamp: -1, CommittedLeaderEpoch: -1,
			}},
		}},
	}
	answer, err := l.call(req, callTimeout)
	if err != nil {
		return fmt.Errorf("commit the position of group %s: %w", group, err)
	}
	for _, t := range answer.(*offsetcommit.Response).Topics {
		for _, p := range t.Partitions {
			err := codeError(p.ErrorCode)
			if held(err) {
				return fmt.Errorf("commit the position of group %s, which still has a member until its session ends: %w", group, err)
			}
			if err != nil {
				return fmt.Errorf("commit the position of group %s: %w", group, err)
			}
		}
	}
	return nil
}
