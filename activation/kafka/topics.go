package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// TopicSpec says how a topic is made. Zero counts mean one.
type TopicSpec struct {
	Name              string
	Partitions        int
	ReplicationFactor int
	Config            map[string]string
}

// MaxMessageBytes is the largest record batch that the original's topics and
// producers take: a payload of 1 MiB and 6068 bytes around it.
const MaxMessageBytes = 1048576 + 6068

// InvokerTopic is the topic of an invoker with the settings that the original
// gives it (whisk.kafka.topics.invoker of its application.conf). Keys of config
// replace or add to them.
func InvokerTopic(name string, replicationFactor int, config map[string]string) TopicSpec {
	all := map[string]string{
		"segment.bytes":     "536870912",
		"retention.bytes":   "1073741824",
		"retention.ms":      "172800000",
		"max.message.bytes": strconv.Itoa(MaxMessageBytes),
	}
	maps.Copy(all, config)
	return TopicSpec{Name: name, Partitions: 1, ReplicationFactor: replicationFactor, Config: all}
}

// A cluster that is starting has fewer brokers than it will have, and says that
// the replication factor is wrong. So many tries, a second apart, it is
// believed to be starting.
const replicaTries = 10

// EnsureTopic returns when the topic exists. One that exists is left as it is.
// While no broker answers, it retries for ever; what the cluster refuses for
// good (a bad setting, no permission) is an error.
func (c *Cluster) EnsureTopic(ctx context.Context, spec TopicSpec) error {
	away := outage.New(c.log.With("topic", spec.Name), "creation of the topic")
	refused := 0
	for {
		err := c.ensureOnce(ctx, spec)
		switch {
		case err == nil:
			away.Over()
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, wire.InvalidReplicationFactor):
			refused++
			if refused == replicaTries {
				return err
			}
			away.Note(err)
			outage.Wait(ctx, outage.MaxPause)
		case final(err):
			return err
		default:
			away.Failed(ctx, err)
		}
	}
}

func (c *Cluster) ensureOnce(ctx context.Context, spec TopicSpec) error {
	l, res, err := c.anyBroker(ctx, spec.Name)
	if err != nil {
		return err
	}
	if c.visible(res, spec) {
		l.close()
		return nil
	}
	l, err = c.moveTo(ctx, l, brokerAddr(res, res.ControllerID))
	if err != nil {
		return err
	}
	defer l.close()
	return create(l, spec)
}

func (c *Cluster) visible(res *metadata.Response, spec TopicSpec) bool {
	for _, t := range res.Topics {
		if t.Name != spec.Name || t.ErrorCode == int16(wire.UnknownTopicOrPartition) {
			continue
		}
		return t.ErrorCode == 0 || t.ErrorCode == int16(wire.LeaderNotAvailable)
	}
	return false
}

func create(l *link, spec TopicSpec) error {
	topic := createtopics.RequestTopic{
		Name:              spec.Name,
		NumPartitions:     int32(max(spec.Partitions, 1)),
		ReplicationFactor: int16(max(spec.ReplicationFactor, 1)),
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Config)) {
		topic.Configs = append(topic.Configs, createtopics.RequestConfig{Name: name, Value: spec.Config[name]})
	}
	req := &createtopics.Request{
		Topics:    []createtopics.RequestTopic{topic},
		TimeoutMs: int32(callTimeout / time.Millisecond),
	}
	answer, err := l.call(req, 2*callTimeout)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", spec.Name, err)
	}
	return created(answer.(*createtopics.Response), spec.Name)
}

func created(res *createtopics.Response, name string) error {
	for _, t := range res.Topics {
		err := codeError(t.ErrorCode)
		if err == nil || errors.Is(err, wire.TopicAlreadyExists) {
			continue
		}
		if t.ErrorMessage != "" {
			return fmt.Errorf("create topic %s: %w: %s", name, err, t.ErrorMessage)
		}
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return nil
}
