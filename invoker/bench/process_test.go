package bench

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

// asInvoker, when set, makes this test program be an invoker, so that memory
// and start are measured of a process that holds nothing else. Its value is
// the address of the action.
const asInvoker = "GPUWHISK_BENCH_INVOKER"

// invokerID is which invoker that is.
const invokerID = "GPUWHISK_BENCH_INVOKER_ID"

// profileInto, when set, is a directory that gets profiles of each invoker, by its
// id and process: of its processor time, 2-123.cpu, and of what it allocated,
// 2-123.allocs.
const profileInto = "GPUWHISK_BENCH_PROFILE"

// profile begins one, and returns what ends it.
func profile(id string) (end func()) {
	dir := os.Getenv(profileInto)
	if dir == "" {
		return func() {}
	}
	id = fmt.Sprintf("%s-%d", id, os.Getpid())
	f, err := os.Create(filepath.Join(dir, id+".cpu"))
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
		if f, err := os.Create(filepath.Join(dir, id+".allocs")); err == nil {
			_ = pprof.Lookup("allocs").WriteTo(f, 0)
			_ = f.Close()
		}
	}
}

// withLogs, when set, is the directory of the containers' logs; each has an
// address of its own then.
const withLogs = "GPUWHISK_BENCH_LOGS"

// sweep gives memory that is not in use back to the system, on SIGUSR1, and
// says how many bytes are.
func sweep() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for range asked {
		runtime.GC() // pools keep what they have for one more turn
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Println(m.HeapAlloc)
	}
}

func TestMain(m *testing.M) {
	if addr := os.Getenv(asInvoker); addr != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		go sweep()
		id := cmp.Or(os.Getenv(invokerID), "0")
		profiled := profile(id)
		err := serve(ctx, id, os.Environ(), addr, func(door string) { fmt.Println(door) }, nil)
		stop()
		profiled()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// BenchmarkProcess starts an invoker as a process of its own. Goals: first ping
// within 1 s of the start with the broker up, at most 40 MB at rest and 0.3 %
// of a core, at most 150 MB with 64 in flight and 10,000 cached actions, and
// 200 us of CPU for a warm activation.
func BenchmarkProcess(b *testing.B) {
	for b.Loop() {
		r := newRig(b)
		health := r.pings()
		began := time.Now()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(r.environment(), asInvoker+"="+r.action, "PATH="+os.Getenv("PATH"))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		<-health
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "first-ping-ms")
		r.atRest(cmd.Process.Pid)
		r.loaded(cmd.Process.Pid)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	}
}

// pings gives a channel that gets the time of each ping.
func (r *rig) pings() <-chan time.Time {
	out := make(chan time.Time, 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr()), kgo.ConsumeTopics("health"))
	if err != nil {
		r.b.Fatal(err)
	}
	r.b.Cleanup(client.Close)
	go func() {
		if len(client.PollFetches(context.Background()).Records()) > 0 {
			out <- time.Now()
		}
	}()
	return out
}

func (r *rig) atRest(pid int) {
	const watch = 5 * time.Second
	timer := time.NewTimer(watch)
	before := cpuOf(r.b, pid)
	<-timer.C
	used := cpuOf(r.b, pid) - before
	r.b.ReportMetric(100*used.Seconds()/watch.Seconds(), "rest-cpu-%")
	r.b.ReportMetric(rss(r.b, pid), "rest-MB")
}

// loaded runs 10,000 different actions, 64 at a time.
func (r *rig) loaded(pid int) {
	const actions = 10_000
	names := make(chan string, actions)
	for i := range actions {
		names <- fmt.Sprint("a", i)
	}
	close(names)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for name := range names {
				r.invoke("invoker0", name)
			}
		})
	}
	wg.Wait()
	const warm = 5000
	before := cpuOf(r.b, pid)
	r.burst("invoker0", 64, warm)
	r.b.ReportMetric(float64((cpuOf(r.b, pid)-before).Microseconds())/warm, "cpu-us/run")
	r.b.ReportMetric(rss(r.b, pid), "loaded-MB")
}

// rss is the resident memory of a process in MB.
func rss(b *testing.B, pid int) float64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 1 && fields[0] == "VmRSS:" {
			kb, _ := strconv.ParseFloat(fields[1], 64)
			return kb / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// cpuOf is the time that a process has spent on a core, in ticks of 10 ms.
func cpuOf(b *testing.B, pid int) time.Duration {
	const ofProcess = 2 // the clock that counts what all threads have run (clock_getcpuclockid(3))
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofProcess), &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}
