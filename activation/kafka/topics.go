package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"time"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// TopicSpec describes a new topic. Zero counts mean one.
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

// A starting cluster does not have all its brokers yet and refuses the replication factor.
// EnsureTopic tries this often, a second apart, before it returns the refusal.
const replicaTries = 10

// EnsureTopic blocks until the topic exists. It does not change an existing topic. While no
// broker answers, it retries without limit. A permanent refusal of the cluster (a bad setting,
// no permission) is an error.
func (c *Cluster) EnsureTopic(ctx context.Context, spec TopicSpec) error {
	creation := retry.New(c.log.With("topic", spec.Name), "creation of the topic")
	client := c.client(spec.Name)
	defer client.close()
	refused := 0
	for {
		err := client.ensureTopic(ctx, spec)
		switch {
		case err == nil:
			creation.Succeeded()
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, wire.InvalidReplicationFactor):
			refused++
			if refused == replicaTries {
				return err
			}
			creation.Failed(err)
			retry.Sleep(ctx, retry.MaxPause)
		case final(err):
			return err
		default:
			creation.Wait(ctx, err)
		}
	}
}

func (c *client) ensureTopic(ctx context.Context, spec TopicSpec) error {
	c.close() // drop stale metadata
	res, err := c.metadata(ctx)
	if err != nil || exists(res, spec.Name) {
		return err
	}
	topic := wire.TopicConfig{
		Topic: spec.Name, NumPartitions: max(spec.Partitions, 1), ReplicationFactor: max(spec.ReplicationFactor, 1),
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Config)) {
		topic.ConfigEntries = append(topic.ConfigEntries, wire.ConfigEntry{ConfigName: name, ConfigValue: spec.Config[name]})
	}
	_, err = call(ctx, c, 2*callTimeout, func(ctx context.Context) (*wire.CreateTopicsResponse, error) {
		res, err := c.CreateTopics(ctx, &wire.CreateTopicsRequest{Topics: []wire.TopicConfig{topic}})
		if err == nil {
			err = res.Errors[spec.Name]
		}
		return res, err
	})
	if err != nil && !errors.Is(err, wire.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", spec.Name, err)
	}
	return nil
}

func exists(res *wire.MetadataResponse, name string) bool {
	return slices.ContainsFunc(res.Topics, func(t wire.Topic) bool {
		return t.Name == name && (t.Error == nil || code(t.Error) == wire.LeaderNotAvailable)
	})
}

func (c *Cluster) deleteTopic(ctx context.Context, topic string) error {
	client := c.client(topic)
	defer client.close()
	_, err := call(ctx, client, 2*callTimeout, func(ctx context.Context) (*wire.DeleteTopicsResponse, error) {
		res, err := client.DeleteTopics(ctx, &wire.DeleteTopicsRequest{Topics: client.topics})
		if err == nil {
			err = res.Errors[topic]
		}
		return res, err
	})
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	return nil
}

// ClusterInfo describes the state of a cluster.
type ClusterInfo struct {
	// Asked is the broker that answered.
	Asked string
	// Brokers are the addresses that the cluster gives to its clients. A
	// client works with these, whatever address it asked first.
	Brokers []string
	// Topics are all topics that this client may see, with their partitions.
	Topics map[string]int
	// Retention maps topics to the time for which they keep messages. It has the topics named
	// in the request.
	Retention map[string]time.Duration
}

// Describe returns the description by the first broker that answers. It changes nothing and
// tries each broker once.
func (c *Cluster) Describe(ctx context.Context) (ClusterInfo, error) {
	var failure error
	for _, addr := range c.brokers {
		d, err := c.describeBy(ctx, addr)
		if err == nil {
			return d, nil
		}
		failure = err
	}
	return ClusterInfo{}, failure
}

func (c *Cluster) describeBy(ctx context.Context, addr string) (ClusterInfo, error) {
	client := &client{cluster: c, brokers: []string{addr}}
	defer client.close()
	res, err := client.metadata(ctx)
	if err != nil {
		return ClusterInfo{}, fmt.Errorf("broker %s: %w", addr, err)
	}
	d := ClusterInfo{Asked: addr, Topics: make(map[string]int, len(res.Topics))}
	for _, b := range res.Brokers {
		d.Brokers = append(d.Brokers, net.JoinHostPort(b.Host, strconv.Itoa(b.Port)))
	}
	slices.Sort(d.Brokers)
	for _, t := range res.Topics {
		if t.Error == nil {
			d.Topics[t.Name] = len(t.Partitions)
		}
	}
	return d, nil
}

// Retention says how long a topic keeps its messages: up to an age, and until so many newer
// bytes are in their partition. The largest number means for ever.
type Retention struct {
	Time  time.Duration
	Bytes int64
}

// Retention asks how long a topic keeps its messages.
func (c *Cluster) Retention(ctx context.Context, topic string) (Retention, error) {
	const byTime, byBytes = "retention.ms", "retention.bytes"
	client := c.client(topic)
	defer client.close()
	var ms, bytes int64
	settings, err := client.settings(ctx, byTime, byBytes)
	if err == nil {
		ms, err = limit(settings, byTime)
	}
	if err == nil {
		bytes, err = limit(settings, byBytes)
	}
	if err != nil {
		return Retention{}, fmt.Errorf("ask for the settings of topic %s: %w", topic, err)
	}
	r := Retention{Time: math.MaxInt64, Bytes: bytes}
	if ms <= int64(math.MaxInt64/time.Millisecond) {
		r.Time = time.Duration(ms) * time.Millisecond
	}
	return r, nil
}

// settings asks for some settings of the topic.
func (c *client) settings(ctx context.Context, names ...string) (map[string]string, error) {
	settings := map[string]string{}
	_, err := call(ctx, c, callTimeout, func(ctx context.Context) (*wire.DescribeConfigsResponse, error) {
		res, err := c.DescribeConfigs(ctx, &wire.DescribeConfigsRequest{Resources: []wire.DescribeConfigRequestResource{{
			ResourceType: wire.ResourceTypeTopic, ResourceName: c.topics[0], ConfigNames: names,
		}}})
		if err != nil {
			return nil, err
		}
		for _, r := range res.Resources {
			if r.Error != nil {
				return nil, r.Error
			}
			for _, e := range r.ConfigEntries {
				settings[e.ConfigName] = e.ConfigValue
			}
		}
		return res, nil
	})
	return settings, err
}

// limit reads a limit. A number below zero means no limit.
func limit(settings map[string]string, key string) (int64, error) {
	text, ok := settings[key]
	if !ok {
		return 0, fmt.Errorf("the broker left %s out", key)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %q: %w", key, text, err)
	}
	if n < 0 {
		return math.MaxInt64, nil
	}
	return n, nil
}
