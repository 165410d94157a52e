package shimctl

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestLimitIsShared: a container's processes together hold at most its limit. The others may
// use memory that a process gives back or leaves behind.
func TestLimitIsShared(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	c.Limit(10*mib, 3*mib)
	first, second := startGuest(t, c), startGuest(t, c)
	reported := map[int]bool{} // in either order
	rec.await(t, "the first usage of both", func(e event) bool {
		reported[e.pid] = reported[e.pid] || e.usage != nil
		return reported[first.PID()] && reported[second.PID()]
	})
	received := func() { // a process that has answered this question has received all earlier frames
		t.Helper()
		_, err := c.Report(limited(t))
		check.NoError(t, err)
	}
	first.Do("alloc %d", 6*mib)
	rec.awaitUsage(t, first.PID(), 6*mib)
	received()
	check.Equal(t, second.Do("try %d", 5*mib), 2, "5 MiB beside 6 of 10: the driver answers")
	check.Equal(t, second.Do("try %d", 4*mib), 0, "4 MiB beside 6 of 10: the driver answers")
	rec.awaitUsage(t, second.PID(), 4*mib)
	for _, try := range []struct{ of, bytes, want int64 }{{0, 2 * mib, 0}, {1, 2 * mib, 2}, {1, mib, 0}, {0, 1, 2}} {
		g := []*shimtest.Guest{first, second}[try.of]
		check.Equal(t, g.Do("pin %d", try.bytes), try.want, "pinning %d of 3 MiB, together: the driver answers", try.bytes)
		received() // its pinned memory is reported, and the others are notified
		received()
	}
	first.Kill()
	// The process leaves the container a moment before the others get its memory, or longer
	// before if the process ends later than its connection.
	available(c, second.PID(), limits{10 * mib, 3 * mib})
	received()
	check.Equal(t, second.Do("try %d", 6*mib), 0, "6 MiB after the other has ended: the driver answers")
}

// available blocks until a process was told that the given limits are left for it.
func available(c *Container, pid int, want limits) {
	for sent := false; !sent; runtime.Gosched() {
		c.mu.Lock()
		p := c.processes[pid]
		sent = p != nil && p.sent[1] == want
		c.mu.Unlock()
	}
}

// TestLimitToItsLastByte: beside a process that holds nothing, one may have all of the
// limit.
func TestLimitToItsLastByte(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	c.Limit(10*mib, 10*mib)
	idle := startGuest(t, c)
	rec.awaitUsage(t, idle.PID(), 0)
	other := startGuest(t, c)
	rec.awaitUsage(t, other.PID(), 0)
	check.Equal(t, other.Do("pin %d", 10*mib), 0, "pinning 10 MiB of 10: the driver answers")
	check.Equal(t, other.Do("try %d", 10*mib), 0, "10 MiB of 10: the driver answers")
}

// TestProcessesRaceForTheLimit: processes that allocate at the same time get the available
// memory, and never more in total. An allocation that fits beside the others is not refused.
func TestProcessesRaceForTheLimit(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	for _, race := range []struct {
		what      string
		each      int64
		processes int
		get       int
	}{{"try", 6 * mib, 2, 1}, {"pin", 6 * mib, 2, 1}, {"try", 4 * mib, 2, 2}, {"pin", 4 * mib, 2, 2}, {"try", 3 * mib, 5, 3}} {
		for i := range 4 {
			c := openContainer(t, ctl, fmt.Sprint(race, i))
			c.Limit(10*mib, 10*mib)
			var guests []*shimtest.Guest
			for range race.processes {
				guests = append(guests, startGuest(t, c))
			}
			codes := make([]int64, len(guests))
			var together sync.WaitGroup
			for n, g := range guests {
				together.Go(func() { codes[n] = g.Do("%s %d", race.what, race.each) })
			}
			together.Wait()
			got := 0
			for _, code := range codes {
				if code == 0 {
					got++
				}
			}
			check.Equal(t, got, race.get, "%s %d bytes of 10 MiB by %d processes at once: the driver answers %v", race.what, race.each, race.processes, codes)
			for _, g := range guests {
				g.Kill()
			}
		}
	}
	has := map[string]map[int]int64{}
	for len(rec.ch) > 0 {
		e := check.Receive(t, rec.ch)
		if has[e.container] == nil {
			has[e.container] = map[int]int64{}
		}
		delete(has[e.container], e.pid)
		if e.usage != nil {
			has[e.container][e.pid] = max(e.usage.Allocated, e.usage.Pinned)
		}
		check.AtMost(t, sumOf(slices.Collect(maps.Values(has[e.container]))), 10*mib, "by their reports the processes of %s hold", e.container)
	}
}

func sumOf(numbers []int64) (sum int64) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// TestOrderOutlivesAConnection: a connection that breaks is no answer to an order,
// whether it breaks before the order or after it: the process's memory is where it
// was, and the order goes to its next connection.
func TestOrderOutlivesAConnection(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		ctl, rec := openControl(t, Settings{})
		c := openContainer(t, ctl, when)
		l := dial(t, c)
		l.hello(0)
		l.usage(0, 9, 9)
		rec.awaitUsage(t, os.Getpid(), 9)
		done := make(chan Done, 1)
		order := func() {
			d, err := c.Evict(limited(t), 7)
			if err != nil {
				t.Errorf("%s: %v", when, err)
			}
			done <- d
		}
		if when == "after" {
			go order()
			l.receive(typeEvict)
		}
		_ = l.conn.Close()
		for disconnected := false; !disconnected; runtime.Gosched() {
			c.mu.Lock()
			disconnected = len(c.disconnected) == 1
			c.mu.Unlock()
		}
		if when == "before" {
			go order()
			underWay(c)
		}
		again := dial(t, c)
		again.hello(0)
		check.Equal(t, binary.LittleEndian.Uint64(again.receive(typeEvict)[8:]), 7, "%s: the order", when)
		again.send(encode(typeDone, 7, pair(uint32(typeEvict), uint32(OK)), 0, 9, 1, 0))
		d := check.Receive(t, done)
		check.Equal(t, d.Processes, 1, "%s", when)
		check.Equal(t, d.Moved, 9, "%s", when)
		check.Equal(t, d.Status, OK, "%s", when)
	}
}

// TestEndOfRunIsAnswered: one request ends a run and returns the usage after the run, in a
// backend that moves memory and in one that only counts.
func TestEndOfRunIsAnswered(t *testing.T) {
	for _, backend := range []string{"managed", "vmm", "count"} {
		ctl, rec := openControl(t, Settings{})
		c := openContainer(t, ctl, backend)
		usage, err := c.Ended(limited(t))
		check.NoError(t, err, "%s: no process is connected", backend)
		check.Equal(t, len(usage), 0, "%s: no process is connected, and reports %v", backend, usage)
		g := startGuest(t, c, "GPUWHISK_SHIM="+backend)
		rec.awaitUsage(t, g.PID(), 0)
		c.Running(true)
		g.Do("alloc %d", 8*mib)
		g.Do("fill 0 1")
		usage, err = c.Ended(limited(t))
		u := usage[g.PID()]
		check.NoError(t, err, "%s: %v", backend, usage)
		check.Equal(t, len(usage), 1, "%s", backend)
		check.Equal(t, u.Allocated, 8*mib, "%s", backend)
		check.Equal(t, u.Resident, 8*mib, "%s", backend)
		g.Kill()
	}
}

// floodTime is as long as the client connects in a loop.
const floodTime = 3

// flooder connects, hangs up and begins again, by a name that is another
// container's, and reports how often it was accepted.
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

// BenchmarkFlood measures the effect of a client that connects in a loop for three seconds:
// connections queued by the kernel, examined connections, log lines, and our processor time.
func BenchmarkFlood(b *testing.B) {
	var examined atomic.Int64
	log := &countBytes{}
	ctl, _ := openControlLogged(b, Settings{Owns: func(string, int) bool { examined.Add(1); return false }}, slog.New(slog.NewTextHandler(log, nil)))
	bad := openContainer(b, ctl, "bad")
	for b.Loop() {
		examined.Store(0)
		before := spent()
		out, err := exec.CommandContext(b.Context(), "python3", "-c", flooder, bad.Socket(), strconv.Itoa(floodTime)).Output()
		if err != nil {
			b.Skip("no python3: ", err)
		}
		n, _ := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		b.ReportMetric(n, "connections")
		b.ReportMetric(float64(examined.Load()), "examined")
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

// TestLoweredGrant: a process has time to read that its grant was lowered. Memory that it took
// before that was granted; afterwards no more is.
func TestLoweredGrant(t *testing.T) {
	now := time.Now()
	a := account{used: limits{4, 0}, grant: limits{2, 0}, most: limits{10, 0}}
	for _, step := range []struct {
		after      time.Duration
		used, want int64
	}{{0, 4, 10}, {readTime, 6, 10}, {readTime + 1, 6, 6}, {2 * readTime, 9, 6}, {4 * readTime, 3, 3}} {
		a.used.device = step.used
		if a.lower(now.Add(step.after)); a.most.device != step.want {
			t.Errorf("after %v with %d held: %d at most, want %d", step.after, step.used, a.most.device, step.want)
		}
	}
}
