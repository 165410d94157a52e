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

// committedOffset reads a group's position in a partition of a topic and what
// was committed beside it; ok is false when it has none.
func committedOffset(l *link, group, topic string, partition int32) (offset int64, note string, ok bool, err error) {
	req := &offsetfetch.Request{
		GroupID: group,
		Topics:  []offsetfetch.RequestTopic{{Name: topic, PartitionIndexes: []int32{partition}}},
	}
	answer, err := l.call(req, callTimeout)
	if err != nil {
		return 0, "", false, fmt.Errorf("read the position of group %s: %w", group, err)
	}
	offset, note, err = offsetIn(answer.(*offsetfetch.Response))
	if code(err) == wire.GroupIdNotFound {
		return 0, "", false, nil
	}
	if err != nil {
		return 0, "", false, fmt.Errorf("read the position of group %s: %w", group, err)
	}
	return offset, note, offset >= 0, nil
}

// offsetIn is the one offset in an answer, -1 when it has none.
func offsetIn(res *offsetfetch.Response) (offset int64, note string, err error) {
	if err := codeError(res.ErrorCode); err != nil {
		return -1, "", err
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			return p.CommittedOffset, p.Metadata, codeError(p.ErrorCode)
		}
	}
	return -1, "", nil
}

// standing is what a commit says of one partition.
type standing struct {
	from      *partition
	partition int32
	offset    int64
	note      string
	whole     bool   // the note says all that there is to say
	changes   uint64 // of the partition that this tells
}

// commitOffsets writes a group's positions from outside the group: generation
// -1 and no member. A broker takes that only while the group has no member.
func commitOffsets(l *link, group, topic string, all []standing) error {
	t := offsetcommit.RequestTopic{Name: topic}
	for _, s := range all {
		t.Partitions = append(t.Partitions, offsetcommit.RequestPartition{
			PartitionIndex: s.partition, CommittedOffset: s.offset, CommittedMetadata: s.note,
			CommitTimestamp: -1, CommittedLeaderEpoch: -1,
		})
	}
	req := &offsetcommit.Request{
		GroupID: group, GenerationID: -1, RetentionTimeMs: -1, Topics: []offsetcommit.RequestTopic{t},
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
