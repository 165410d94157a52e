package kafka

import (
	"net"
	"testing"
	"time"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestResetConnectionIsNoMissingTopic: where the brokers could not be asked for the leaders,
// errors say why, not that the topic is not found.
func TestResetConnectionIsNoMissingTopic(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.(*net.TCPConn).SetLinger(0) // the close resets the connection
			_ = conn.Close()
		}
	}()
	defer func() { _ = l.Close(); <-ended }()
	cluster, err := New(Options{Brokers: []string{l.Addr().String()}})
	check.NoError(t, err)
	r := cluster.reader("health", 0, 1, 1<<20, time.Millisecond)
	defer r.close()
	_, fetched := r.fetch(t.Context())
	_, found := r.find(t.Context(), wire.LastOffset)
	_, connected := r.connect(t.Context(), 0)
	for what, err := range map[string]error{"fetch": fetched, "offsets": found, "connect": connected} {
		check.ErrorContains(t, err, "health", "%s", what)
		check.Lacks(t, err.Error(), "not found", "%s", what)
		check.That(t, closedByPeer(err), "%s: %v", what, err)
	}
}
