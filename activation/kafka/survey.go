package kafka

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

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
