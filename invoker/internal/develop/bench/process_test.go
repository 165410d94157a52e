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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/gauge"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
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

// profileInto names a variable. If it is set to a directory, profiles of each invoker
// are written there, named for the invoker's id and process: the processor time in
// 2-123.cpu and the allocations in 2-123.allocs.
const profileInto = "GPUWHISK_BENCH_PROFILE"

// profile begins the profiles of an invoker and returns a function that ends them.
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

// sweepAtSignal gives memory that is not in use back to the system, on SIGUSR1, and
// prints how many bytes are.
func sweepAtSignal() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for range asked {
		runtime.GC() // a sync.Pool keeps its content for one more collection
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Println(m.HeapAlloc)
	}
}

func TestMain(m *testing.M) {
	if addr := os.Getenv(asInvoker); addr != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		go sweepAtSignal()
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
	peertest.Exit(m.Run())
}

// invokerProcess is an invoker in its own process, with its resource usage.
type invokerProcess struct {
	gauge.Side
	b      *testing.B
	cmd    *exec.Cmd
	topic  string
	admin  harness.Admin
	output *bufio.Scanner
}

// process starts an invoker from this program or from another build.
func (r *controller) process(program string, id int, more ...string) *invokerProcess {
	r.b.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(r.environment(), asInvoker+"="+r.action, fmt.Sprintf("%s=%d", invokerID, id),
		"PATH="+os.Getenv("PATH"), profileInto+"="+os.Getenv(profileInto))
	cmd.Env = append(cmd.Env, more...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	check.NoError(r.b, err)
	r.b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p := &invokerProcess{b: r.b, cmd: cmd, topic: fmt.Sprint("invoker", id), admin: harness.AdminOf(cmd.Env), output: bufio.NewScanner(out)}
	p.PID = cmd.Process.Pid
	check.That(check.Must(r.b), p.output.Scan(), "an invoker starts")
	addr := p.output.Text()
	p.admin.URL = "http://127.0.0.1" + addr[max(strings.LastIndex(addr, ":"), 0):]
	return p
}

// stop asks the invoker to end and waits for its end.
func (p *invokerProcess) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		p.b.Error(err)
	}
}

// sweep has the process give memory back that it does not use, and reports how many
// MiB it does.
func (p *invokerProcess) sweep() float64 {
	check.NoError(p.b, p.cmd.Process.Signal(syscall.SIGUSR1))
	p.output.Scan()
	bytes, err := strconv.ParseFloat(p.output.Text(), 64)
	check.NoError(p.b, err)
	return bytes / (1 << 20)
}

// BenchmarkProcess starts an invoker as a process of its own. Goals: first ping
// within 1 s of the start with the broker up, at most 40 MB at rest and 0.3 %
// of a core, at most 150 MB with 64 in flight and 10,000 cached actions, and
// 200 us of CPU for a warm activation.
func BenchmarkProcess(b *testing.B) {
	for b.Loop() {
		r := newController(b)
		began := time.Now()
		p := r.process(os.Args[0], 0)
		<-r.Pings
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "first-ping-ms")
		r.atRest(p.PID)
		r.loaded(p.PID)
		p.stop()
	}
}

func (r *controller) atRest(pid int) {
	const watch = 5 * time.Second
	timer := time.NewTimer(watch)
	before := gauge.CPU(r.b, pid)
	<-timer.C
	used := gauge.CPU(r.b, pid) - before
	r.b.ReportMetric(100*used.Seconds()/watch.Seconds(), "rest-cpu-%")
	r.b.ReportMetric(gauge.Resident(r.b, pid), "rest-MB")
}

// loaded runs 10,000 different actions, 64 at a time.
func (r *controller) loaded(pid int) {
	const actions = 10_000
	var n atomic.Int64
	harness.Burst(64, actions, func() { r.invoke("invoker0", fmt.Sprint("a", n.Add(1)-1)) })
	const warm = 5000
	before := gauge.CPU(r.b, pid)
	r.burst("invoker0", 64, warm)
	r.b.ReportMetric(float64((gauge.CPU(r.b, pid)-before).Microseconds())/warm, "cpu-us/run")
	r.b.ReportMetric(gauge.Resident(r.b, pid), "loaded-MB")
}
