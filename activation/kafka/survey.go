package kafka

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// Survey is what a cluster says about itself.
type Survey struct {
	// Asked is the broker that answered.
	Asked string
	// Brokers are the addresses that the cluster tells its clients to use. A
	// client works with these, whatever address it asked first.
	Brokers []string
	// Topics are all topics that this client may see, with their partitions.
	Topics map[string]int
	// Retention is how long some topics keep their messages, for whoever asked
	// for it with Retention.
	Retention map[string]time.Duration
}

// Survey asks the first broker that answers what the cluster has. It changes
// nothing and tries each broker once.
func (c *Cluster) Survey(ctx context.Context) (Survey, error) {
	var failure error
	for _, addr := range c.brokers {
		s, err := c.surveyBy(ctx, addr)
		if err == nil {
			return s, nil
		}
		failure = err
	}
	return Survey{}, failure
}

func (c *Cluster) surveyBy(ctx context.Context, addr string) (Survey, error) {
	l, err := c.dial(ctx, addr)
	if err != nil {
		return Survey{}, err
	}
	defer l.close()
	answer, err := l.call(&metadata.Request{}, callTimeout)
	if err != nil {
		return Survey{}, fmt.Errorf("ask broker %s for its topics: %w", addr, err)
	}
	res := answer.(*metadata.Response)
	s := Survey{Asked: addr, Topics: make(map[string]int, len(res.Topics))}
	for _, b := range res.Brokers {
		s.Brokers = append(s.Brokers, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	slices.Sort(s.Brokers)
	for _, t := range res.Topics {
		if t.ErrorCode == 0 {
			s.Topics[t.Name] = len(t.Partitions)
		}
	}
	return s, nil
}

// Kept is for how long a topic keeps its messages: until they have an age, and
// until so many bytes of their partition came after them. For ever is the largest
// number there is.
type Kept struct {
	Time  time.Duration
	Bytes int64
}

// Retention asks how long a topic keeps its messages.
func (c *Cluster) Retention(ctx context.Context, topic string) (Kept, error) {
	l, _, err := c.anyBroker(ctx, topic)
	if err != nil {
		return Kept{}, err
	}
	defer l.close()
	const byTime, byBytes, resourceTopic = "retention.ms", "retention.bytes", 2
	answer, err := l.call(&describeconfigs.Request{Resources: []describeconfigs.RequestResource{{
		ResourceType: resourceTopic, ResourceName: topic, ConfigNames: []string{byTime, byBytes},
	}}}, callTimeout)
	if err != nil {
		return Kept{}, fmt.Errorf("ask for the settings of topic %s: %w", topic, err)
	}
	said := map[string]string{}
	for _, r := range answer.(*describeconfigs.Response).Resources {
		if err := codeError(r.ErrorCode); err != nil {
			return Kept{}, fmt.Errorf("ask for the settings of topic %s: %w", topic, err)
		}
		for _, e := range r.ConfigEntries {
			said[e.ConfigName] = e.ConfigValue
		}
	}
	ms, err := limit(said, byTime)
	if err != nil {
		return Kept{}, fmt.Errorf("ask for the settings of topic %s: %w", topic, err)
	}
	k := Kept{Time: math.MaxInt64}
	if ms <= int64(math.MaxInt64/time.Millisecond) {
		k.Time = time.Duration(ms) * time.Millisecond
	}
	if k.Bytes, err = limit(said, byBytes); err != nil {
		return Kept{}, fmt.Errorf("ask for the settings of topic %s: %w", topic, err)
	}
	return k, nil
}

// limit reads a limit, where a number below zero is none.
func limit(said map[string]string, key string) (int64, error) {
	text, ok := said[key]
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
