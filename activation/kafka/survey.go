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

// Retention asks how long a topic keeps its messages. One that keeps them for
// ever has the longest duration there is.
func (c *Cluster) Retention(ctx context.Context, topic string) (time.Duration, error) {
	l, _, err := c.anyBroker(ctx, topic)
	if err != nil {
		return 0, err
	}
	defer l.close()
	const key, resourceTopic = "retention.ms", 2
	answer, err := l.call(&describeconfigs.Request{Resources: []describeconfigs.RequestResource{{
		ResourceType: resourceTopic, ResourceName: topic, ConfigNames: []string{key},
	}}}, callTimeout)
	if err != nil {
		return 0, fmt.Errorf("ask for the settings of topic %s: %w", topic, err)
	}
	for _, r := range answer.(*describeconfigs.Response).Resources {
		if err := codeError(r.ErrorCode); err != nil {
			return 0, fmt.Errorf("ask for the settings of topic %s: %w", topic, err)
		}
		for _, e := range r.ConfigEntries {
			if e.ConfigName == key {
				return retention(e.ConfigValue)
			}
		}
	}
	return 0, fmt.Errorf("ask for the settings of topic %s: the broker left %s out", topic, key)
}

func retention(ms string) (time.Duration, error) {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("retention.ms is %q: %w", ms, err)
	}
	const most = int64(math.MaxInt64 / time.Millisecond)
	if n < 0 || n > most {
		return math.MaxInt64, nil
	}
	return time.Duration(n) * time.Millisecond, nil
}
