package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// ErrTooLarge is a message over the broker's limit.
var ErrTooLarge = errors.New("message is larger than the topic allows")

// MaxMessageBytes is the limit of OpenWhisk's activation and ack topics: one MiB of
// payload and the other fields of a message (whisk.activation.payload).
const MaxMessageBytes = 1<<20 + 6068

// Bus publishes to and reads from one Kafka cluster.
type Bus struct {
	client *kgo.Client
	admin  *kadm.Client
	seeds  []string
	log    *slog.Logger
}

// Dial prepares a bus; it connects when it is first used.
func Dial(seeds []string, log *slog.Logger) (*Bus, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(seeds...),
		kgo.ClientID("gpuwhisk-standalone"),
		// As OpenWhisk's producers: acks=1, at once, not compressed.
		kgo.RequiredAcks(kgo.LeaderAck()),
		kgo.DisableIdempotentWrite(),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(MaxMessageBytes+1024),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(30*time.Second),
		kgo.MetadataMinAge(100*time.Millisecond),
	)
	if err != nil {
		return nil, fmt.Errorf("configure Kafka client: %w", err)
	}
	return &Bus{client: client, admin: kadm.NewClient(client), seeds: seeds, log: log}, nil
}

// Close disconnects from the cluster. Publishes under way fail.
func (b *Bus) Close() { b.client.Close() }

// Publish writes one message and returns when the broker has it.
func (b *Bus) Publish(ctx context.Context, topic string, value []byte) error {
	if len(value) > MaxMessageBytes {
		return ErrTooLarge
	}
	err := b.client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: value}).FirstErr()
	switch {
	case errors.Is(err, kerr.MessageTooLarge):
		return ErrTooLarge
	case err != nil:
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// Topic is a topic to be made if it is missing.
type Topic struct {
	Name      string
	Retention time.Duration
	Large     bool // takes messages of MaxMessageBytes
}

// CreateTopics makes the topics that a controller makes at its start, where missing.
func (b *Bus) CreateTopics(ctx context.Context, topics []Topic) error {
	for _, t := range topics {
		_, err := b.admin.CreateTopic(ctx, 1, 1, t.settings(), t.Name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", t.Name, err)
		}
	}
	return nil
}

// settings are the sizes that OpenWhisk gives its topics (KafkaMessagingProvider).
func (t Topic) settings() map[string]*string {
	set := map[string]*string{
		"segment.bytes":   kadm.StringPtr("536870912"),
		"retention.bytes": kadm.StringPtr("1073741824"),
		"retention.ms":    kadm.StringPtr(strconv.FormatInt(t.Retention.Milliseconds(), 10)),
	}
	if t.Large {
		set["max.message.bytes"] = kadm.StringPtr(strconv.Itoa(MaxMessageBytes))
	}
	return set
}

// Consume calls handle with every message that comes to the topic's one
// partition from now on, in order, until the context ends. ready is called
// once the position is fixed: messages published afterwards will be read. If the topic is
// deleted, reading goes on with the first message of the next topic of that name.
func (b *Bus) Consume(ctx context.Context, topic string, ready func(), handle func([]byte)) error {
	at, err := b.end(ctx, topic)
	if err != nil {
		return err
	}
	ready()
	retrier := retry.New(b.log.With("topic", topic), "reading from Kafka")
	for {
		err := b.read(ctx, topic, &at, func(v []byte) {
			retrier.Succeeded()
			handle(v)
		})
		if !retrier.Wait(ctx, err) {
			return nil
		}
		if next, err := b.end(ctx, topic); err == nil && next.topic != at.topic {
			at = position{topic: next.topic}
		}
	}
}

// position is where a consumer reads on.
type position struct {
	topic  kadm.TopicID // another topic of the same name has another one
	offset int64
}

// read calls handle with the messages from a position on, and moves the position. It
// returns the first error.
func (b *Bus) read(ctx context.Context, topic string, at *position, handle func([]byte)) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(b.seeds...),
		kgo.ClientID("gpuwhisk-standalone-"+topic),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(at.offset)}}),
		kgo.FetchMaxWait(500*time.Millisecond),
	)
	if err != nil {
		return fmt.Errorf("configure consumer of %s: %w", topic, err)
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) {
			at.offset = r.Offset + 1
			handle(r.Value)
		})
		if err := cmp.Or(ctx.Err(), fetches.Err()); err != nil {
			return err
		}
	}
}

// end is the position of the topic's next message. It waits for a topic that is being
// made.
func (b *Bus) end(ctx context.Context, topic string) (end position, err error) {
	err = retry.Do(ctx, retry.Default(), func() error {
		ends, err := b.admin.ListEndOffsets(ctx, topic)
		if err == nil {
			err = ends.Error()
		}
		at, found := ends.Lookup(topic, 0)
		switch {
		case err != nil && !kerr.IsRetriable(err):
			return retry.Permanent(err)
		case err == nil && !found:
			return kerr.UnknownTopicOrPartition
		case err != nil:
			return err
		}
		details, err := b.admin.ListTopics(ctx, topic)
		if err != nil {
			return err
		}
		end = position{topic: details[topic].ID, offset: at.Offset}
		return nil
	})
	if err != nil {
		return position{}, fmt.Errorf("find end of %s: %w", topic, err)
	}
	return end, nil
}
