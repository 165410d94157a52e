package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Times that bound how long a dead broker is taken for a slow one. The second
// is the request.timeout.ms of the original.
const (
	dialTimeout = 5 * time.Second
	callTimeout = 30 * time.Second
)

// restLimit is how long a connection may rest and still be trusted. Brokers
// close connections after 10 minutes (connections.max.idle.ms), load balancers
// after 6.
const restLimit = 3 * time.Minute

// metadataAge limits the age of the client's knowledge of a topic's leaders
// (metadata.max.age.ms). After a failed request the client asks for the leaders at once.
const metadataAge = 5 * time.Minute

// client sends requests about one topic over its own connections. So a request that the broker
// holds back delays no request about another topic. A failed request closes the connections,
// and the next request asks again which broker leads the topic. It is not safe for concurrent
// use.
type client struct {
	wire.Client // set by open

	cluster *Cluster
	brokers []string
	topics  []string        // none: all
	pool    *wire.Transport // nil while there are no connections

	partitions int // of the topic, when connect made connections
}

// client returns a client for a topic. It connects at the first use.
func (c *Cluster) client(topic string) *client {
	return &client{cluster: c, brokers: c.brokers, topics: []string{topic}}
}

// open prepares connections if there are none.
func (c *client) open() {
	if c.pool != nil {
		return
	}
	c.pool = &wire.Transport{
		DialTimeout: dialTimeout, IdleTimeout: restLimit, MetadataTTL: metadataAge, MetadataTopics: c.topics,
		ClientID: c.cluster.clientID, TLS: c.cluster.tls,
	}
	if c.cluster.login != nil {
		c.pool.SASL = c.cluster.login
	}
	c.Addr, c.Transport = wire.TCP(c.brokers...), c.pool
}

// close ends the connections. A connection that waits for an answer ends after the answer or
// the request's timeout. The next request opens new connections.
func (c *client) close() {
	if c.pool != nil {
		c.pool.CloseIdleConnections()
		c.pool = nil
	}
}

// call sends a request and waits for its answer until limit. Any failure closes the
// connections, unless the broker refused the request itself.
func call[Answer any](ctx context.Context, c *client, limit time.Duration, request func(context.Context) (Answer, error)) (Answer, error) {
	c.open()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := request(ctx)
	if err == nil || aboutRequest(err) {
		return answer, err
	}
	err = c.causeOfNoLeader(ctx, err)
	c.close()
	return answer, c.explain(err)
}

// causeOfNoLeader returns why the brokers could not be asked for the leaders, if a request
// failed because no leader is known. The library then says "topic not found".
func (c *client) causeOfNoLeader(ctx context.Context, err error) error {
	if !errors.Is(err, protocol.ErrNoTopic) && !errors.Is(err, protocol.ErrNoPartition) && !errors.Is(err, protocol.ErrNoLeader) {
		return err
	}
	// The library answers from its cached metadata. It does not ask the brokers again.
	if _, cause := c.Metadata(ctx, &wire.MetadataRequest{Topics: c.topics}); cause != nil {
		return fmt.Errorf("ask the brokers %s for topics %q: %w", strings.Join(c.brokers, ","), c.topics, cause)
	}
	return err
}

// callAgain is call for a request that may be sent twice. If the broker has closed the
// connection, as it does after a rest and when a login expires, the request is sent once more
// over a new connection.
func callAgain[Answer any](ctx context.Context, c *client, limit time.Duration, request func(context.Context) (Answer, error)) (Answer, error) {
	connected := c.pool != nil
	answer, err := call(ctx, c, limit, request)
	if connected && closedByPeer(err) && ctx.Err() == nil {
		return call(ctx, c, limit, request)
	}
	return answer, err
}

func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// aboutRequest reports whether a broker refused the content of a request, so that another
// connection would not help.
func aboutRequest(err error) bool {
	switch code(err) {
	case wire.OffsetOutOfRange, wire.OffsetMetadataTooLarge, wire.MessageSizeTooLarge, wire.RecordListTooLarge:
		return true
	}
	return false
}

// explain adds the broker, the user and the settings to check to the error of a refused login.
func (c *client) explain(err error) error {
	if hint := advice(err); hint != "" && c.cluster.login != nil {
		return fmt.Errorf("log in to broker %s as %s: %w%s", strings.Join(c.brokers, ","), c.cluster.login, err, hint)
	}
	return err
}

// metadata returns the cluster's description of the client's topics. The description may be up
// to metadataAge old.
func (c *client) metadata(ctx context.Context) (*wire.MetadataResponse, error) {
	res, err := call(ctx, c, callTimeout, func(ctx context.Context) (*wire.MetadataResponse, error) {
		return c.Metadata(ctx, &wire.MetadataRequest{Topics: c.topics})
	})
	if err != nil {
		return nil, fmt.Errorf("ask for topics %q: %w", c.topics, err)
	}
	return res, nil
}

// connect ensures that there are connections. It returns an error if the partition has no
// leader when it makes them. It reports whether the connections are new.
func (c *client) connect(ctx context.Context, partition int) (fresh bool, err error) {
	if c.pool != nil {
		return false, nil
	}
	res, err := c.metadata(ctx)
	if err != nil {
		return false, err
	}
	if c.partitions, err = leaderOf(res, c.topics[0], partition); err != nil {
		c.close()
		return false, err
	}
	return true, nil
}

// leaderOf returns an error if a partition has no leader. It returns the number of partitions.
func leaderOf(res *wire.MetadataResponse, topic string, partition int) (partitions int, err error) {
	for _, t := range res.Topics {
		if t.Name != topic {
			continue
		}
		if t.Error != nil {
			return 0, fmt.Errorf("find topic %s: %w", topic, t.Error)
		}
		for _, p := range t.Partitions {
			if p.ID == partition && p.Leader.Host != "" {
				return len(t.Partitions), nil
			}
		}
		return 0, fmt.Errorf("find the leader of topic %s: %w", topic, wire.LeaderNotAvailable)
	}
	return 0, fmt.Errorf("find topic %s: %w", topic, wire.UnknownTopicOrPartition)
}

// final reports whether err is caused by the configuration, so that retries fail until a
// person changes the configuration.
func final(err error) bool {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return true
	}
	switch code(err) {
	case wire.InvalidConfiguration, wire.InvalidPartitionNumber, wire.InvalidTopic,
		wire.InvalidReplicaAssignment, wire.PolicyViolation, wire.InvalidRequest,
		wire.TopicAuthorizationFailed, wire.ClusterAuthorizationFailed,
		wire.UnsupportedVersion, wire.SASLAuthenticationFailed, wire.UnsupportedSASLMechanism, wire.IllegalSASLState:
		return true
	}
	return false
}

// refused reports whether err means that the topic does not exist or refuses our messages. An
// error of an unreachable broker is not one of these.
func refused(err error) bool {
	switch code(err) {
	case wire.UnknownTopicOrPartition, wire.InvalidTopic, wire.TopicAuthorizationFailed,
		wire.InvalidRecord, wire.InvalidTimestamp, wire.InvalidMessage:
		return true
	}
	return false
}

// tooLarge reports whether err means that a batch exceeds the topic's size limit.
func tooLarge(err error) bool {
	return code(err) == wire.MessageSizeTooLarge || code(err) == wire.RecordListTooLarge
}

// code returns the broker's code of an error, 0 if the error comes from elsewhere.
func code(err error) wire.Error {
	var c wire.Error
	errors.As(err, &c)
	return c
}
