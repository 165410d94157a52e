// Package kafka connects the invoker to Kafka: it takes activations in and sends
// acks, events and pings out, and it makes the invoker's topic. It decides
// nothing about activations, and keeps nothing over a restart but the committed
// offset with its metadata.
//
// To be read in this order: a Feed (feed, partition, truncate, progress) hands out
// the activations of the invoker's own topic, and its committer (commit,
// offsetmetadata) commits which of them are completed. A Producer (producer, sender)
// sends. A Pinger (pinger, health, previous) reports that the invoker lives, hears the
// pings of others, and notices another process with its id. Below these are requests
// about one topic (client, login), the reading of one partition (reader) and topics;
// Pending and Requester are for operators' tools.
//
// Requests go through the Client of kafka-go. Its reader and writer are not used: those
// would join a group, where a member that died keeps its partition for 30 s, and would
// sit out a linger when idle.
//
// Goroutines, each waited for by the Close of its owner: a Feed has one that commits and
// one per partition, which fetches and asks for the lag, a Producer has one per topic it
// sends to, a Pinger has one that pings and one that reads pings.
//
// A broker that is away is no error: every part retries for ever with backoff,
// logs the change of state once, and resumes by itself.
package kafka

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
)

// ErrClosed is the error of a call after Close.
var ErrClosed = errors.New("kafka: closed")

// Options are how to reach a Kafka cluster.
type Options struct {
	Brokers  []string     // host:port of the brokers to ask first
	TLS      *tls.Config  // nil: plain text
	Login    *Login       // nil: none is asked for
	ClientID string       // shown in the broker's logs; "gpuwhisk" when empty
	Log      *slog.Logger // slog.Default() when nil
}

// Cluster opens feeds, producers and pingers on one Kafka cluster. It holds no
// connection and no goroutine itself and is safe for concurrent use.
type Cluster struct {
	brokers  []string
	tls      *tls.Config
	login    *login
	clientID string
	log      *slog.Logger
}

// New checks the options. It does not connect: a broker may come up later.
func New(o Options) (*Cluster, error) {
	if len(o.Brokers) == 0 {
		return nil, errors.New("kafka: no brokers given")
	}
	for _, b := range o.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			return nil, fmt.Errorf("kafka: broker %q is not host:port: %w", b, err)
		}
	}
	c := &Cluster{brokers: slices.Clone(o.Brokers), tls: o.TLS, clientID: cmp.Or(o.ClientID, "gpuwhisk"), log: cmp.Or(o.Log, slog.Default())}
	if o.Login != nil {
		var err error
		if c.login, err = newLogin(*o.Login); err != nil {
			return nil, err
		}
	}
	return c, nil
}
