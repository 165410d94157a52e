// Package broker is the Kafka of the standalone command: an embedded broker
// that speaks the real protocol and keeps its topics on disk, and a bus on
// which the standalone controller publishes and reads, be the broker embedded
// or not.
//
// The invoker does not use this package. It finds the broker by its address,
// as it finds a cluster in production, and reads and writes through
// activation/kafka.
//
// The embedded broker's goroutines belong to kfake and end with Close.
package broker

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Broker is an embedded broker.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
}

// Start starts a broker on a port of the loopback interface; 0 means any free port.
// Topics, offsets and messages are stored in dir. Acknowledged messages survive the
// end of the process, even by a kill, because they are at least in the page cache.
func Start(dir string, port int, log *slog.Logger) (*Broker, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create broker directory: %w", err)
	}
	// kfake refuses port 0 in a list of ports, but takes a free port without a
	// list.
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.DataDir(dir),
		kfake.ClusterID("gpuwhisk"),
		// OpenWhisk's topics have one partition each.
		kfake.DefaultNumPartitions(1),
		kfake.WithLogger(brokerLog{log}),
	}
	if port != 0 {
		opts = append(opts, kfake.Ports(port))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("start embedded broker on port %d: %w", port, err)
	}
	addrs := cluster.ListenAddrs()
	if len(addrs) != 1 {
		cluster.Close()
		return nil, fmt.Errorf("start embedded broker: it listens on %d addresses, want one", len(addrs))
	}
	return &Broker{cluster: cluster, addr: addrs[0]}, nil
}

// Addr is the host and port that clients connect to.
func (b *Broker) Addr() string { return b.addr }

// Port is the port alone.
func (b *Broker) Port() int {
	_, port, _ := net.SplitHostPort(b.addr)
	n, _ := strconv.Atoi(port)
	return n
}

// Close writes buffered data to disk and ends the broker.
func (b *Broker) Close() { b.cluster.Close() }

// brokerLog forwards the broker's errors. At lower levels kfake logs a line for
// each request.
type brokerLog struct{ log *slog.Logger }

// Logf takes one line of kfake.
func (l brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	if l.log == nil || level != kfake.LogLevelError {
		return
	}
	l.log.Error("embedded broker", "line", fmt.Sprintf(format, args...))
}
