package bench

import (
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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/gauge"
)

// asInvoker, when set, makes this test program be an invoker, so that memory
// and start are measured of a process that holds nothing else. Its value is
// the address of the action.
const asInvoker = "GPUWHISK_BENCH_INVOKER"

// invokerID is which invoker that is.
const invokerID = "GPUWHISK_BENCH_INVOKER_ID"

// asFloor, when set, is the topic that a process serves as the floor, not as an
// invoker, with the database at withDatabase.
const (
	asFloor      = "GPUWHISK_BENCH_FLOOR"
	withDatabase = "GPUWHISK_BENCH_DATABASE"
)

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
		var err error
		if topic := os.Getenv(asFloor); topic != "" {
			f := &floor{broker: os.Getenv("KAFKA_HOSTS"), action: addr, database: os.Getenv(withDatabase), topic: topic, parallel: containers}
			err = f.run(ctx, func() { fmt.Println(topic) })
		} else {
			err = serve(ctx, id, os.Environ(), addr, func(admin string) { fmt.Println(admin) }, nil)
		}
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
		r := newHarness(b)
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
func (r *harness) pings() <-chan time.Time {
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

func (r *harness) atRest(pid int) {
	const watch = 5 * time.Second
	timer := time.NewTimer(watch)
	before := gauge.CPU(r.b, pid)
	<-timer.C
	used := gauge.CPU(r.b, pid) - before
	r.b.ReportMetric(100*used.Seconds()/watch.Seconds(), "rest-cpu-%")
	r.b.ReportMetric(gauge.Resident(r.b, pid), "rest-MB")
}

// loaded runs 10,000 different actions, 64 at a time.
func (r *harness) loaded(pid int) {
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
	before := gauge.CPU(r.b, pid)
	r.burst("invoker0", 64, warm)
	r.b.ReportMetric(float64((gauge.CPU(r.b, pid)-before).Microseconds())/warm, "cpu-us/run")
	r.b.ReportMetric(gauge.Resident(r.b, pid), "loaded-MB")
}
