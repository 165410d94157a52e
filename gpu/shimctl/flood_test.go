package shimctl

import (
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// floodTime is as long as the client connects in a loop.
const floodTime = 3

// flooder connects, hangs up and begins again, by a name that is another
// container's, and says how often it was let in.
const flooder = `
import socket, sys, time
n, until = 0, time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    s = socket.socket(socket.AF_UNIX)
    s.setblocking(False)
    try:
        s.connect(sys.argv[1])
        n += 1
    except OSError:
        time.sleep(0)
    s.close()
print(n)
`

// BenchmarkFlood is what one client gets that connects in a loop: connections that
// the kernel queued, those that were looked at, lines of the log and processor time
// of ours, for three seconds.
func BenchmarkFlood(b *testing.B) {
	var looked atomic.Int64
	log := &countBytes{}
	ctl, _ := openControlLogged(b, Settings{Owns: func(string, int) bool { looked.Add(1); return false }}, slog.New(slog.NewTextHandler(log, nil)))
	bad := openContainer(b, ctl, "bad")
	for b.Loop() {
		looked.Store(0)
		before := spent()
		out, err := exec.CommandContext(b.Context(), "python3", "-c", flooder, bad.Socket(), strconv.Itoa(floodTime)).Output()
		if err != nil {
			b.Skip("no python3: ", err)
		}
		n, _ := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		b.ReportMetric(n, "connections")
		b.ReportMetric(float64(looked.Load()), "looked-at")
		b.ReportMetric(float64(log.lines.Load()), "log-lines")
		b.ReportMetric(float64(log.bytes.Load()), "log-bytes")
		b.ReportMetric(float64((spent()-before).Microseconds())/1000/floodTime, "cpu-ms/s")
	}
}

// spent is the processor time of this process, without its children.
func spent() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type countBytes struct{ lines, bytes atomic.Int64 }

func (c *countBytes) Write(p []byte) (int, error) {
	c.lines.Add(1)
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}
