package harness

import (
	"log/slog"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
)

// embeddedBroker is the broker of a standalone OpenWhisk. A test can stop it and start it
// again.
type embeddedBroker struct {
	*broker.Broker
	dir string
	log *slog.Logger
}

func newEmbeddedBroker(t testing.TB, log *slog.Logger) *embeddedBroker {
	t.Helper()
	b := &embeddedBroker{dir: t.TempDir(), log: log}
	peertest.OnFreePort(t, 16000, b.listen)
	t.Cleanup(func() { b.Close() }) // the last broker, after any restarts
	return b
}

func (b *embeddedBroker) listen(port int) error {
	started, err := broker.Start(b.dir, port, b.log)
	if err == nil {
		b.Broker = started
	}
	return err
}

func (b *embeddedBroker) Kill() error  { return b.Stop() }
func (b *embeddedBroker) Stop() error  { b.Close(); return nil }
func (b *embeddedBroker) Start() error { return b.listen(b.Port()) }
