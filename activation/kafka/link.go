package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/gpuwhisk/gpuwhisk/activation/socket"
)

// link is one connection to one broker, used by one goroutine at a time: a
// request goes out and its answer is read by the same goroutine, which is the
// shortest way there is. After an error of call it is good for nothing.
type link struct {
	conn *protocol.Conn
	addr string
	used time.Time // when the last call began
	stop func() bool

	login *login    // nil: none
	renew time.Time // from when on the broker is to be told again; zero: never

	// Of requests that are laid out here.
	clientID string
	versions map[protocol.ApiKey]int16
	number   int32   // of the last one
	head     [8]byte // of its answer
}

// restLimit is how long a link may rest and still be trusted. Brokers drop
// links after 10 minutes (connections.max.idle.ms), load balancers after 6.
const restLimit = 3 * time.Minute

// rested tells whether a link was without use for too long.
func (l *link) rested() bool { return time.Since(l.used) > restLimit }

// dial connects, agrees on the versions of the protocol and logs in. The link
// breaks when ctx ends, also in the middle of a call.
func (c *Cluster) dial(ctx context.Context, addr string) (*link, error) {
	limited, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := c.connect(limited, addr)
	if err != nil {
		return nil, fmt.Errorf("connect to broker %s: %w", addr, err)
	}
	l := &link{conn: protocol.NewConn(conn, c.clientID), addr: addr, login: c.login, clientID: c.clientID}
	l.stop = context.AfterFunc(ctx, func() { conn.Close() })
	if err := l.negotiate(); err != nil {
		l.close()
		return nil, fmt.Errorf("agree on versions with broker %s: %w", addr, err)
	}
	if l.login != nil {
		if err := l.logIn(ctx); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func (c *Cluster) connect(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if conn = socket.Quick(conn); c.tls == nil {
		return conn, nil
	}
	config := c.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

func (l *link) negotiate() error {
	answer, err := l.exchange(&apiversions.Request{}, dialTimeout)
	if err != nil {
		return err
	}
	res := answer.(*apiversions.Response)
	if err := codeError(res.ErrorCode); err != nil {
		return err
	}
	versions := make(map[protocol.ApiKey]int16, len(res.ApiKeys))
	for _, r := range res.ApiKeys {
		key := protocol.ApiKey(r.ApiKey)
		versions[key] = key.SelectVersion(r.MinVersion, r.MaxVersion)
	}
	versions[protocol.Fetch] = min(versions[protocol.Fetch], fetchTo)
	versions[protocol.Produce] = min(versions[protocol.Produce], produceTo)
	l.conn.SetVersions(versions)
	l.versions = versions
	if fetch, produce := versions[protocol.Fetch], versions[protocol.Produce]; fetch < fetchFrom || produce < produceFrom {
		return fmt.Errorf("it is older than Kafka 0.11: Fetch version %d, want %d, Produce version %d, want %d", fetch, fetchFrom, produce, produceFrom)
	}
	if at := versions[protocol.SaslHandshake]; at < 1 && l.login != nil {
		return fmt.Errorf("it is older than Kafka 1.0: SaslHandshake version %d, want 1", at)
	}
	return nil
}

// call sends a request and waits for its answer, after a new login where the
// broker is due one.
func (l *link) call(req protocol.Message, limit time.Duration) (protocol.Message, error) {
	if err := l.refresh(); err != nil {
		return nil, err
	}
	return l.exchange(req, limit)
}

// refresh logs in again where the broker is due that.
func (l *link) refresh() error {
	if l.renew.IsZero() || !time.Now().After(l.renew) {
		return nil
	}
	return l.logIn(context.Background()) // the link ends with its own context
}

func (l *link) exchange(req protocol.Message, limit time.Duration) (protocol.Message, error) {
	l.used = time.Now()
	if err := l.conn.SetDeadline(l.used.Add(limit)); err != nil {
		return nil, err
	}
	return l.conn.RoundTrip(req)
}

// close may be called more than once, and on no link at all.
func (l *link) close() {
	if l != nil {
		l.stop()
		l.conn.Close()
	}
}

// anyBroker asks the given brokers in turn until one answers what is known of
// the topic, and returns the answer with the link it came by.
func (c *Cluster) anyBroker(ctx context.Context, topic string) (*link, *metadata.Response, error) {
	var failure error
	for _, addr := range c.brokers {
		l, err := c.dial(ctx, addr)
		if err != nil {
			failure = err
			continue
		}
		answer, err := l.call(&metadata.Request{TopicNames: []string{topic}}, callTimeout)
		if err == nil {
			return l, answer.(*metadata.Response), nil
		}
		l.close()
		failure = fmt.Errorf("ask broker %s for topic %s: %w", addr, topic, err)
	}
	return nil, nil, failure
}

// leader connects to the broker that leads a partition of a topic, and tells
// how many partitions that has.
func (c *Cluster) leader(ctx context.Context, topic string, partition int32) (*link, int, error) {
	l, res, err := c.anyBroker(ctx, topic)
	if err != nil {
		return nil, 0, err
	}
	id, partitions, err := leaderOf(res, topic, partition)
	if err != nil {
		l.close()
		return nil, 0, err
	}
	l, err = c.moveTo(ctx, l, brokerAddr(res, id))
	return l, partitions, err
}

// moveTo keeps the link when it leads where it should, or makes one that does.
func (c *Cluster) moveTo(ctx context.Context, l *link, addr string) (*link, error) {
	if l.addr == addr {
		return l, nil
	}
	l.close()
	return c.dial(ctx, addr)
}

func leaderOf(res *metadata.Response, topic string, partition int32) (id int32, partitions int, err error) {
	for _, t := range res.Topics {
		if t.Name != topic {
			continue
		}
		if err := codeError(t.ErrorCode); err != nil {
			return 0, 0, fmt.Errorf("find topic %s: %w", topic, err)
		}
		for _, p := range t.Partitions {
			if p.PartitionIndex == partition && p.LeaderID >= 0 {
				return p.LeaderID, len(t.Partitions), nil
			}
		}
		return 0, 0, fmt.Errorf("find the leader of topic %s: %w", topic, wire.LeaderNotAvailable)
	}
	return 0, 0, fmt.Errorf("find topic %s: %w", topic, wire.UnknownTopicOrPartition)
}

func brokerAddr(res *metadata.Response, id int32) string {
	for _, b := range res.Brokers {
		if b.NodeID == id {
			return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		}
	}
	return ""
}

// codeError turns an answer's error code into an error; 0 is none.
func codeError(code int16) error {
	if code == 0 {
		return nil
	}
	return wire.Error(code)
}
