// Package kafka connects the invoker to Kafka. It receives activations, sends acks, events and
// pings, and creates the invoker's topic. It decides nothing about activations. Across
// restarts it keeps only the committed offset with its metadata.
//
// Reading order: a Feed (feed, partition, truncate, progress) hands out the activations of the
// invoker's own topic, and its committer (commit, offsetmetadata) commits the completed ones.
// A Producer (producer, sender) sends. A Pinger (pinger, health, previous) reports that the
// invoker is alive, hears the pings of others, and notices another process with the same id.
// The lower layer has requests about one topic (client, login), the reading of one partition
// (reader) and topics. Unanswered and Requester serve the tools of operators.
//
// All requests use the Client of kafka-go. Its Reader and Writer are not used: they would join
// a group, in which a dead member keeps its partition for 30 s, and they linger before each
// send.
//
// Goroutines: a Feed has a goroutine that commits, and a goroutine for each partition that
// fetches records and measures the lag. A Producer has a goroutine for each topic. A Pinger
// sends pings in a goroutine and reads pings in a second one. The Close method of each type
// waits for its goroutines.
//
// An unreachable broker is not an error. Every part retries without limit, with backoff, logs
// each change of state once, and resumes by itself.
package kafka

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// ErrClosed is the error of a call after Close.
var ErrClosed = errors.New("kafka: closed")

// errUnsent is the error of a message that still waited when its producer closed.
var errUnsent = fmt.Errorf("%w: %w", ErrClosed, activation.ErrUnsent)

// Options say how to reach a Kafka cluster.
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
