package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/gauge"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// harness measures the invoker as a program of its own among real parts. It plays
// the controller itself: it publishes messages and receives acks, so that no time
// of a controller is in what it measures.
type harness struct {
	b         *testing.B
	s         *standalone.Standalone // databases, topics, and a receiver of pings
	db        *couchdb.Client
	program   string
	environ   []string
	id        string // of the invoker, the number of its topic
	unique    string
	cmd       *exec.Cmd
	output    bytes.Buffer // by the invoker that runs, or ran last
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
	program := filepath.Join(b.TempDir(), "gpuwhisk")
	if err := os.WriteFile(program, built(b, source, "-pgo="+source+"/invoker.pgo"), 0o700); err != nil {
		b.Fatal(err)
	}
	return program
}

func newHarness(b *testing.B, extra ...string) *harness {
	b.Helper()
	w := realParts(b)
	r := &harness{b: b, id: "0", unique: fmt.Sprintf("bench%d", os.Getpid()), acks: map[activation.ID]*times{}, revisions: map[string]string{}, pings: make(chan time.Time, 1)}
	r.program = measured(b)
	var err error
	r.s, err = standalone.Start(b.Context(), standalone.Options{
		Data: b.TempDir(), Runtime: "docker", Kafka: w.kafka, CouchDB: w.couch, Docker: w.docker, Manifest: manifest(w.images),
		DBPrefix: fmt.Sprintf("bench_%d_%d_", os.Getpid(), serial.Add(1)), Memory: "2048m", Extra: extra,
		Invoker: func(_ context.Context, environ, _ []string) (func() error, error) {
			r.environ = environ
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

// beside is a harness of another program, that runs as an invoker of its own among
// the same parts.
func (r *harness) beside(program string) *harness {
	o := &harness{b: r.b, s: r.s, db: r.db, program: program, id: "1", unique: fmt.Sprintf("other%d", os.Getpid()),
		environ: append(slices.Clone(r.environ), "CONFIG_whisk_gpu_state="+r.b.TempDir()),
		acks:    map[activation.ID]*times{}, revisions: r.revisions, pings: make(chan time.Time, 1)}
	o.listen(r.s.Info().Kafka)
	r.b.Cleanup(func() { o.stop(syscall.SIGINT) })
	return o
}

// listen takes the time of acks and pings.
func (r *harness) listen(kafka string) {
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

func (r *harness) receive(m *kgo.Record, now time.Time) {
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
func (r *harness) run() time.Duration {
	r.b.Helper()
	select {
	case <-r.pings:
	default:
	}
	r.cmd = exec.Command(r.program, "invoker", "--id", r.id, "--uniqueName", r.unique)
	r.cmd.Env = append(slices.Clone(r.environ), "PATH="+os.Getenv("PATH"))
	r.output.Reset()
	r.cmd.Stderr = &r.output
	began := time.Now()
	if err := peertest.Start(r.cmd); err != nil {
		r.b.Fatal(err)
	}
	select {
	case first := <-r.pings:
		return first.Sub(began)
	case <-time.After(waitLimit):
	}
	r.stop(syscall.SIGKILL)
	r.b.Fatalf("the invoker does not ping; it says\n%s", r.output.String())
	return 0
}

// stop ends the invoker and waits for its end.
func (r *harness) stop(how syscall.Signal) {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Signal(how)
	_ = r.cmd.Wait()
	r.cmd = nil
}

// action puts an action into the database, as a controller would.
func (r *harness) action(name, kind, code string, timeout, logs int) {
	r.b.Helper()
	doc := fmt.Sprintf(`{"annotations":[{"key":"provide-api-key","value":false}],"entityType":"action",`+
		`"exec":{"kind":%q,"code":%q,"binary":false},"limits":{"concurrency":1,"logs":%d,"memory":128,"timeout":%d},`+
		`"name":%q,"namespace":"guest","parameters":[],"publish":false,"updated":1,"version":"0.0.1"}`, kind, code, logs, timeout, name)
	var err error
	if r.revisions[name], err = r.db.Put(context.Background(), r.db.Names().Whisks, "guest/"+name, []byte(doc)); err != nil {
		r.b.Fatal(err)
	}
}

// send publishes an activation and gives the time when it did.
func (r *harness) send(action string) (time.Time, activation.ID, *times) {
	r.b.Helper()
	r.mu.Lock()
	r.ids++
	id := activation.ID(fmt.Sprintf("%032x", int(time.Now().UnixNano())+r.ids))
	t := &times{done: make(chan struct{})}
	r.acks[id] = t
	r.mu.Unlock()
	m := fmt.Sprintf(`{"action":{"name":%q,"path":"guest","version":"0.0.1"},"activationId":%q,"blocking":true,"content":{"name":"World"},`+
		`"initArgs":[],"lockedArgs":{},"revision":%q,"rootControllerIndex":{"asString":"0","instanceType":"controller"},`+
		`"transid":["NAPOoc0yQbkKIpRdncnOKnV1paJVhDIX",%d],"user":{"authkey":{},"limits":{},"namespace":{"name":"guest",`+
		`"uuid":"23bc46b1-71f6-4ed5-8c54-816aa4f8c502"},"rights":["READ","PUT","DELETE","ACTIVATE"],"subject":"guest"}}`,
		action, id, r.revisions[action], time.Now().UnixMilli())
	began := time.Now()
	if err := r.client.ProduceSync(context.Background(), &kgo.Record{Topic: "invoker" + r.id, Value: []byte(m)}).FirstErr(); err != nil {
		r.b.Fatal(err)
	}
	return began, id, t
}

// once runs an activation and gives the times until its result and until its
// completion.
func (r *harness) once(action string) (result, completion time.Duration) {
	began, _, t := r.send(action)
	r.await(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.result.Sub(began), t.completion.Sub(began)
}

// await waits for the ack that ends an activation.
func (r *harness) await(t *times) {
	select {
	case <-t.done:
	case <-time.After(2 * waitLimit):
		r.b.Error("an activation has no completion")
	}
}

// cpu is the time that the invoker has spent on a core.
func (r *harness) cpu() time.Duration { return gauge.CPU(r.b, r.cmd.Process.Pid) }

// rss is the invoker's resident memory in MB.
func (r *harness) rss() float64 { return gauge.Resident(r.b, r.cmd.Process.Pid) }

// quantiles reports the median and another quantile in milliseconds.
func (r *harness) quantiles(name string, all []time.Duration, q float64) {
	slices.Sort(all)
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
	r.b.ReportMetric(at(0.5), name+"-p50-ms")
	r.b.ReportMetric(at(q), fmt.Sprintf("%s-p%.0f-ms", name, 100*q))
}
