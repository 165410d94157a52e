package assembly

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

// TestStatsDGetsWhatIsMeasured where the configuration names an agent, under the
// invoker's number, and nothing is opened where it names none.
func TestStatsDGetsWhatIsMeasured(t *testing.T) {
	agent, err := net.ListenPacket("udp", "127.0.0.1:0")
	check.NoError(t, err)
	defer func() { _ = agent.Close() }()
	c := config.Default()
	a := newAssembly(Options{Config: c, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	a.instance.ID = 3
	invoker.NewMetrics(a.metrics, a.functions)
	h, err := a.overview.openStatsD(t.Context())
	check.NoError(t, err)
	check.That(check.Must(t), h.close == nil, "open without being asked for")
	c.Metrics.Kamon = true
	c.Metrics.StatsD.Hostname, c.Metrics.StatsD.Interval = "127.0.0.1", time.Hour
	c.Metrics.StatsD.Port = agent.LocalAddr().(*net.UDPAddr).Port
	h, err = a.overview.openStatsD(t.Context())
	check.NoError(t, err)
	check.NoError(t, h.close(t.Context()))
	buf := make([]byte, 1<<16)
	n, _, err := agent.ReadFrom(buf)
	check.NoError(t, err)
	if got := string(buf[:n]); !strings.Contains(got, "openwhisk-statsd.invoker3.counter.invoker_activation_start:0|c\n") {
		t.Errorf("got %s", got)
	}
}
