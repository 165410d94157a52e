package assembly

import (
	"log/slog"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
)

// quiet is a log that keeps nothing.
var quiet = slog.New(slog.DiscardHandler)

// SetSilence sets the time without pings after which a previous process counts as dead.
func (o *Options) SetSilence(d time.Duration) { o.silence = d }

// newBroker starts a broker that ends with the test.
func newBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.Start(t.TempDir(), 0, quiet)
	check.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}
