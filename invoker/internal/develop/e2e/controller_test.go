package e2e

import (
	"context"
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
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/gauge"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// controller replaces a controller, so that benchmarks do not measure a real one: it
// starts an invoker as a separate program among real parts, publishes messages and
// receives acks.
type controller struct {
	b         *testing.B
	s         *standalone.Standalone // databases, topics, and a receiver of pings
	db        harness.Database
	program   string
	environ   []string
	id        string // of the invoker, the number of its topic
	unique    string
	invoker   *harness.Process  // that runs, or ran last
	revisions map[string]string // of actions
	sent      atomic.Int64      // activations
	*harness.Caller
}

// otherProgram, when set, is a gpuwhisk to be measured in place of this commit's.
const otherProgram = "GPUWHISK_BENCH_PROGRAM"

// measured is the program as it ships, with its profile.
func measured(b *testing.B) string {
	b.Helper()
	if other := os.Getenv(otherProgram); other != "" {
		return other
	}
	const source = "../../../cmd/gpuwhisk"
	program, err := peertest.Program(source, "-pgo="+source+"/invoker.pgo")
	check.NoError(b, err)
	return program
}

func newController(b *testing.B, extra ...string) *controller {
	b.Helper()
	w := realParts(b)
	r := &controller{b: b, id: "0", unique: fmt.Sprintf("bench%d", os.Getpid()), revisions: map[string]string{}}
	r.program = measured(b)
	var err error
	r.s, err = standalone.Start(b.Context(), standalone.Options{
		Data: b.TempDir(), Runtime: "docker", Kafka: w.kafka, CouchDB: w.couch, Docker: w.docker, Manifest: manifest(w.images),
		DBPrefix: fmt.Sprintf("bench_%d_%d_", os.Getpid(), serial.Add(1)), Memory: "2048m", Extra: extra,
		Invoker: func(_ context.Context, environ, _ []string) (func() error, error) {
			r.environ = append(environ, harness.UnitEnvironment(b)...)
			return func() error { return nil }, nil
		},
	})
	check.NoError(b, err)
	b.Cleanup(func() { _ = r.s.Stop(context.Background()) })
	r.db = harness.OpenDatabase(b, r.s.Info().Database)
	r.Caller = harness.NewCaller(b, r.s.Info().Kafka, "completed0", "health")
	b.Cleanup(func() { r.stop(syscall.SIGINT) })
	return r
}

// beside is a controller of another program, that runs as an invoker of its own among
// the same parts.
func (r *controller) beside(program string) *controller {
	o := &controller{b: r.b, s: r.s, db: r.db, program: program, id: "1", unique: fmt.Sprintf("other%d", os.Getpid()),
		environ:   append(slices.Clone(r.environ), "CONFIG_whisk_gpu_state="+r.b.TempDir()),
		revisions: r.revisions}
	o.Caller = harness.NewCaller(r.b, r.s.Info().Kafka, "completed0", "health")
	r.b.Cleanup(func() { o.stop(syscall.SIGINT) })
	return o
}

// run starts the invoker and reports how long its first ping took.
func (r *controller) run() time.Duration {
	r.b.Helper()
	select {
	case <-r.Pings:
	default:
	}
	cmd := exec.Command(r.program, "invoker", "--id", r.id, "--uniqueName", r.unique)
	cmd.Env = append(slices.Clone(r.environ), "PATH="+os.Getenv("PATH"))
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
func (r *controller) stop(how syscall.Signal) {
	if r.invoker != nil {
		_ = r.invoker.Stop(how)
	}
}

// action puts an action into the database, as a controller would.
func (r *controller) action(name, kind, code string, timeout time.Duration, logs int) {
	r.b.Helper()
	r.revisions[name] = r.db.StoreAction(r.b, harness.Action{Name: name, Kind: kind, Code: code, Timeout: timeout, LogsMB: logs,
		MemoryMB: 128, Annotations: map[string]any{"provide-api-key": false}})
}

// send publishes an activation.
func (r *controller) send(action string) *harness.Flight {
	r.b.Helper()
	r.sent.Add(1)
	return r.Send("invoker"+r.id, func(id activation.ID) []byte {
		return harness.Message{ID: string(id), Action: action, Revision: r.revisions[action], Content: map[string]any{"name": "World"}}.Text(r.b)
	})
}

// once runs an activation and gives the times until its result and until its
// completion.
func (r *controller) once(action string) (result, completion time.Duration) {
	f := r.send(action)
	r.Await(f)
	return f.First.Sub(f.Sent), f.Completion.Sub(f.Sent)
}

// containers returns the ids of the invoker's running or paused containers. more filters
// these.
func (r *controller) containers(more ...string) string {
	r.b.Helper()
	return peertest.Docker(r.b, append([]string{"ps", "-q", "--filter", "name=wsk" + r.unique}, more...)...)
}

// cpu is the time that the invoker has spent on a core.
func (r *controller) cpu() time.Duration { return gauge.CPU(r.b, r.invoker.Cmd.Process.Pid) }

// rss is the invoker's resident memory in MB.
func (r *controller) rss() float64 { return gauge.Resident(r.b, r.invoker.Cmd.Process.Pid) }

// quantiles reports the median and another quantile in milliseconds.
func (r *controller) quantiles(name string, all []time.Duration, q float64) {
	slices.Sort(all)
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
	r.b.ReportMetric(at(0.5), name+"-p50-ms")
	r.b.ReportMetric(at(q), fmt.Sprintf("%s-p%.0f-ms", name, 100*q))
}
