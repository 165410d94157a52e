package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/gauge"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// controller takes a controller's place, so that no time of a real one is in what
// benchmarks measure: it starts an invoker as a program of its own among real parts,
// publishes messages and receives acks.
type controller struct {
	b         *testing.B
	s         *standalone.Standalone // databases, topics, and a receiver of pings
	db        *couchdb.Client
	program   string
	environ   []string
	id        string // of the invoker, the number of its topic
	unique    string
	invoker   *harness.Process // that runs, or ran last
	client    *kgo.Client
	ids       int
	revisions map[string]string // of actions

	mu    sync.Mutex
	acks  map[activation.ID]*times
	pings chan time.Time
}

// times are when an activation's acks came.
type times struct {
	result, completion time.Time
	done               chan struct{} // closed by the slot-freeing ack
}

// otherProgram, when set, is a gpuwhisk to be measured in place of this commit's.
const otherProgram = "GPUWHISK_BENCH_PROGRAM"

// measured is the program as it ships, with its profile.
func measured(b *testing.B) string {
	b.Helper()
	if other := os.Getenv(otherProgram); other != "" {
		return other
	}
	const source = "../../cmd/gpuwhisk"
	program, err := peertest.Program(source, "-pgo="+source+"/invoker.pgo")
	if err != nil {
		b.Fatal(err)
	}
	return program
}

func newController(b *testing.B, extra ...string) *controller {
	b.Helper()
	w := realParts(b)
	r := &controller{b: b, id: "0", unique: fmt.Sprintf("bench%d", os.Getpid()), acks: map[activation.ID]*times{}, revisions: map[string]string{}, pings: make(chan time.Time, 1)}
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
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.s.Stop(context.Background()) })
	if r.db, err = couchdb.New(r.s.Info().Database); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.db.Close)
	r.listen(w.kafka)
	b.Cleanup(func() { r.stop(syscall.SIGINT) })
	return r
}

// beside is a controller of another program, that runs as an invoker of its own among
// the same parts.
func (r *controller) beside(program string) *controller {
	o := &controller{b: r.b, s: r.s, db: r.db, program: program, id: "1", unique: fmt.Sprintf("other%d", os.Getpid()),
		environ: append(slices.Clone(r.environ), "CONFIG_whisk_gpu_state="+r.b.TempDir()),
		acks:    map[activation.ID]*times{}, revisions: r.revisions, pings: make(chan time.Time, 1)}
	o.listen(r.s.Info().Kafka)
	r.b.Cleanup(func() { o.stop(syscall.SIGINT) })
	return o
}

// listen takes the time of acks and pings.
func (r *controller) listen(kafka string) {
	var err error
	from := kgo.NewOffset().AtEnd()
	r.client, err = kgo.NewClient(kgo.SeedBrokers(kafka), kgo.FetchMaxWait(100*time.Millisecond), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // as controllers send
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"completed0": {0: from}, "health": {0: from}}))
	if err != nil {
		r.b.Fatal(err)
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			fetches := r.client.PollFetches(ctx)
			now := time.Now()
			fetches.EachRecord(func(m *kgo.Record) { r.receive(m, now) })
		}
	}()
	r.b.Cleanup(func() { cancel(); <-done; r.client.Close() })
}

func (r *controller) receive(m *kgo.Record, now time.Time) {
	if m.Topic == "health" {
		select {
		case r.pings <- now:
		default:
		}
		return
	}
	ack, err := activation.DecodeAck(m.Value)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.acks[ack.ActivationID]
	if t == nil {
		return
	}
	if ack.Kind != activation.Completion {
		t.result = now
	}
	if ack.FreesSlot() && t.completion.IsZero() {
		t.completion = now
		close(t.done)
	}
}

// run starts the invoker and reports how long its first ping took.
func (r *controller) run() time.Duration {
	r.b.Helper()
	select {
	case <-r.pings:
	default:
	}
	cmd := exec.Command(r.program, "invoker", "--id", r.id, "--uniqueName", r.unique)
	cmd.Env = append(slices.Clone(r.environ), "PATH="+os.Getenv("PATH"))
	began := time.Now()
	var err error
	if r.invoker, err = harness.Start(cmd); err != nil {
		r.b.Fatal(err)
	}
	select {
	case first := <-r.pings:
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
	a := harness.Action{Name: name, Kind: kind, Code: code, Timeout: timeout, LogsMB: logs, MemoryMB: 128, Annotations: map[string]any{"provide-api-key": false}}
	var err error
	if r.revisions[name], err = r.db.Put(context.Background(), r.db.Names().Whisks, "guest/"+name, a.Document(r.b)); err != nil {
		r.b.Fatal(err)
	}
}

// send publishes an activation and gives the time when it did.
func (r *controller) send(action string) (time.Time, activation.ID, *times) {
	r.b.Helper()
	r.mu.Lock()
	r.ids++
	id := activation.ID(fmt.Sprintf("%032x", int(time.Now().UnixNano())+r.ids))
	t := &times{done: make(chan struct{})}
	r.acks[id] = t
	r.mu.Unlock()
	m := harness.Message{ID: string(id), Action: action, Revision: r.revisions[action], Content: map[string]any{"name": "World"}}
	value := m.Text(r.b)
	began := time.Now()
	if err := r.client.ProduceSync(context.Background(), &kgo.Record{Topic: "invoker" + r.id, Value: value}).FirstErr(); err != nil {
		r.b.Fatal(err)
	}
	return began, id, t
}

// once runs an activation and gives the times until its result and until its
// completion.
func (r *controller) once(action string) (result, completion time.Duration) {
	began, _, t := r.send(action)
	r.await(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.result.Sub(began), t.completion.Sub(began)
}

// await waits for the ack that ends an activation.
func (r *controller) await(t *times) {
	select {
	case <-t.done:
	case <-time.After(2 * peertest.WaitLimit):
		r.b.Error("an activation has no completion")
	}
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
