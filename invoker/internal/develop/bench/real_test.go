package bench

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/gauge"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// realController replaces a controller among real parts, so that benchmarks do not measure
// a real one: it starts an invoker as a separate program, publishes messages and receives
// acks. Without the parts the benchmark is skipped.
type realController struct {
	b *testing.B
	*harness.Deployment
	*harness.Caller
	program string
	id      int              // of the invoker, the number of its topic
	invoker *harness.Process // that runs, or ran last
	sent    atomic.Int64     // activations
}

// otherProgram, when set, is a gpuwhisk to be measured in place of this commit's.
const otherProgram = "GPUWHISK_BENCH_PROGRAM"

const noop = "function main(p) { return p; }"

func newRealController(b *testing.B, settings ...string) *realController {
	b.Helper()
	d := harness.Deploy(b, harness.Parts{Apache: true, PouchDB: true, Docker: true, Unrecorded: true,
		Settings: append(settings, "CONFIG_whisk_userEvents_enabled=false")})
	d.Once = true // as it is by default
	program := os.Getenv(otherProgram)
	if program == "" { // the program as it ships, with its profile
		var err error
		const source = "../../../cmd/gpuwhisk"
		program, err = peertest.Program(source, "-pgo="+source+"/invoker.pgo")
		check.NoError(b, err)
	}
	return (&realController{b: b, Deployment: d}).beside(program)
}

// beside returns a controller of another program, which runs as an invoker of its own
// among the same parts.
func (r *realController) beside(program string) *realController {
	o := &realController{b: r.b, Deployment: r.Deployment, program: program}
	if r.Caller != nil {
		o.id = r.id + 1
	}
	o.Caller = harness.NewCaller(r.b, r.Kafka, "completed0", "health")
	r.b.Cleanup(func() { o.stop(syscall.SIGINT) })
	return o
}

// run starts the invoker and reports how long its first ping took.
func (r *realController) run() time.Duration {
	r.b.Helper()
	select {
	case <-r.Pings:
	default:
	}
	cmd := exec.Command(r.program, append([]string{"invoker"}, r.Args(r.id)...)...)
	cmd.Env = slices.Concat(r.Environment(), harness.UnitEnvironment(r.b), []string{"PATH=" + os.Getenv("PATH")})
	began := time.Now()
	var err error
	r.invoker, err = harness.Start(cmd)
	check.NoError(r.b, err)
	select {
	case first := <-r.Pings:
		return first.Sub(began)
	case <-time.After(peertest.WaitLimit):
	}
	r.stop(syscall.SIGKILL)
	r.b.Fatalf("the invoker does not ping; its log ends with\n%s", &r.invoker.Output)
	return 0
}

// stop ends the invoker and waits for its end.
func (r *realController) stop(how syscall.Signal) {
	if r.invoker != nil {
		_ = r.invoker.Stop(how)
	}
}

// action stores an action.
func (r *realController) action(name, code string, logs int) {
	r.b.Helper()
	r.Put(harness.Action{Name: name, Kind: "nodejs:20", Code: code, Timeout: time.Minute, LogsMB: logs,
		MemoryMB: 128, Annotations: map[string]any{"provide-api-key": false}})
}

// noops stores an action without logs and one with logs.
func (r *realController) noops() {
	r.action("noop", noop, 0)
	r.action("logs", noop, 10)
}

// send publishes an activation.
func (r *realController) send(action string) *harness.Flight {
	r.b.Helper()
	r.sent.Add(1)
	return r.Send(fmt.Sprint("invoker", r.id), func(id activation.ID) []byte {
		return harness.Message{ID: string(id), Action: action, Revision: r.Revisions[action], Content: map[string]any{"name": "World"}}.Text(r.b)
	})
}

// once runs an activation and returns the times until its result and until its completion.
func (r *realController) once(action string) (result, completion time.Duration) {
	f := r.send(action)
	r.Await(f)
	return f.First.Sub(f.Sent), f.Completion.Sub(f.Sent)
}

// cpu is the time that the invoker has spent on a core.
func (r *realController) cpu() time.Duration { return gauge.CPU(r.b, r.invoker.Cmd.Process.Pid) }

// rss is the invoker's resident memory in MB.
func (r *realController) rss() float64 { return gauge.Resident(r.b, r.invoker.Cmd.Process.Pid) }

// quantiles reports the median and another quantile in milliseconds.
func (r *realController) quantiles(name string, all []time.Duration, q float64) {
	at := func(q float64) float64 { return float64(quantile(all, q).Microseconds()) / 1000 }
	r.b.ReportMetric(at(0.5), name+"-p50-ms")
	r.b.ReportMetric(at(q), fmt.Sprintf("%s-p%.0f-ms", name, 100*q))
}
