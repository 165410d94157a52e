package bench

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

const manifest = `{"runtimes":{"nodejs":[{"kind":"nodejs:20","default":true,"image":{"name":"node"}}]},"blackboxes":[]}`

// controller is a client in the place of a controller, with a broker, an action and
// a database.
type controller struct {
	b       *testing.B
	broker  *broker.Broker
	db      *database
	dbURL   string
	actions *http.Server
	action  string // host:port
	logs    string // a directory
	*harness.Caller
}

func newController(b *testing.B) *controller {
	b.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	br, err := broker.Start(b.TempDir(), 0, quiet)
	check.NoError(b, err)
	b.Cleanup(br.Close)
	logs := b.TempDir()
	s, ln, err := actionServer(logs)
	check.NoError(b, err)
	b.Cleanup(func() { _ = s.Close() })
	r := &controller{b: b, broker: br, actions: s, action: ln.Addr().String(), logs: logs}
	r.db = &database{}
	web := httptest.NewServer(r.db)
	b.Cleanup(web.Close)
	r.dbURL = web.URL
	r.connect(quiet)
	return r
}

func (r *controller) connect(log *slog.Logger) {
	bus, err := broker.Dial([]string{r.broker.Addr()}, log)
	check.NoError(r.b, err)
	var topics []broker.Topic
	for _, name := range []string{"completed0", "completedfloor", "health", "invoker0", "invoker1"} {
		topics = append(topics, broker.Topic{Name: name})
	}
	check.NoError(r.b, bus.CreateTopics(r.b.Context(), topics))
	bus.Close()
	r.Caller = harness.NewCaller(r.b, r.broker.Addr(), "completed0", "completedfloor", "health")
}

// invoke sends one activation and waits for its ack.
func (r *controller) invoke(topic, action string) time.Duration {
	f := r.flight(topic, action)
	return time.Since(f.Sent)
}

// flight is invoke with all times.
func (r *controller) flight(topic, action string) *harness.Flight {
	f := r.Send(topic, func(id activation.ID) []byte {
		m := message(action, id)
		if topic == "invoker1" {
			m.Controller = "floor"
		}
		return m.Encode()
	})
	r.Await(f)
	return f
}

func message(action string, id activation.ID) activation.Message {
	return activation.Message{
		TransID: activation.NewTransID("t", time.Now().UnixMilli(), false), Revision: "1-a",
		Action:       activation.ActionRef{Path: "guest", Name: action, Version: "0.0.1"},
		User:         activation.Identity{Subject: "guest", Namespace: activation.Namespace{Name: "guest", UUID: "u"}, AuthKey: activation.NewAuthKey("k:s"), Rights: []string{"ACTIVATE"}},
		ActivationID: id, Controller: "0", Blocking: true, Content: []byte(`{"name":"` + strings.Repeat("x", 400) + `"}`),
	}
}

// environment returns the environment in which an operator would start the invoker.
func (r *controller) environment() []string {
	host, port, _ := strings.Cut(strings.TrimPrefix(r.dbURL, "http://"), ":")
	return []string{
		"KAFKA_HOSTS=" + r.broker.Addr(), "RUNTIMES_MANIFEST=" + manifest, "WHISK_API_HOST_NAME=localhost", "PORT=0",
		"CONFIG_whisk_couchdb_protocol=http", "CONFIG_whisk_couchdb_host=" + host, "CONFIG_whisk_couchdb_port=" + port,
		"CONFIG_whisk_couchdb_username=u", "CONFIG_whisk_couchdb_password=p", "CONFIG_whisk_couchdb_databases_WhiskAuth=subjects",
		"CONFIG_whisk_couchdb_databases_WhiskEntity=whisks", "CONFIG_whisk_couchdb_databases_WhiskActivation=activations",
		"CONFIG_whisk_containerPool_userMemory=16384m",
		"CONFIG_whisk_gpu_state=" + r.b.TempDir(),
	}
}

// serve runs the whole production assembly, with containers that all are the
// action at addr, until ctx ends.
func serve(ctx context.Context, id string, environ []string, addr string, listening func(addr string), ready func()) error {
	cfg, err := config.Load(config.Input{Args: []string{"--id", id, "--uniqueName", id}, Environ: environ})
	if err != nil {
		return err
	}
	return assembly.Run(ctx, assembly.Options{
		Config: cfg, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Listening: listening, Ready: ready,
		Engine: &engine{addr: addr, id: id, dir: os.Getenv(withLogs), died: make(chan container.ID)},
	})
}

// invoker runs one in this process until the benchmark ends.
func (r *controller) invoker() {
	r.serve(func(ctx context.Context, ready func()) error {
		return serve(ctx, "0", r.environment(), r.action, nil, ready)
	})
}

// serve runs something in this process until the benchmark ends, and returns when
// it is ready.
func (r *controller) serve(run func(ctx context.Context, ready func()) error) {
	r.b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		r.b.Fatal(err)
	}
	r.b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.b.Error(err)
		}
	})
}

func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

// BenchmarkWarm measures warm activations, one at a time.
func BenchmarkWarm(b *testing.B) {
	b.Run("embedded", warmBesideFloor)
	b.Run("real", warmAmongRealParts)
}

// warmBesideFloor takes turns between the floor and the invoker, and reports both and their
// ratios. Goals: p50 at most 1.3, p99 at most 2.
func warmBesideFloor(b *testing.B) {
	r := newController(b)
	r.floor(1)
	r.invoker()
	for range 200 {
		r.invoke("invoker0", "a1")
		r.invoke("invoker1", "a1")
	}
	var ours, floor []time.Duration
	for b.Loop() {
		floor = append(floor, r.invoke("invoker1", "a1"))
		ours = append(ours, r.invoke("invoker0", "a1"))
	}
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	b.ReportMetric(us(quantile(ours, 0.5)), "p50-us")
	b.ReportMetric(us(quantile(ours, 0.99)), "p99-us")
	b.ReportMetric(us(quantile(floor, 0.5)), "floor-p50-us")
	b.ReportMetric(us(quantile(floor, 0.99)), "floor-p99-us")
	b.ReportMetric(float64(quantile(ours, 0.5))/float64(quantile(floor, 0.5)), "p50-ratio")
	b.ReportMetric(float64(quantile(ours, 0.99))/float64(quantile(floor, 0.99)), "p99-ratio")
}

// burst keeps n activations in flight until count have been acked.
func (r *controller) burst(topic string, n, count int) time.Duration {
	return r.burstOf("a1", topic, n, count)
}

func (r *controller) burstOf(action, topic string, n, count int) time.Duration {
	return harness.Burst(n, count, func() { r.invoke(topic, action) })
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// BenchmarkInFlight64 keeps 64 activations in flight on either side in turns.
// Goal: throughput at least 0.6 of the floor's. Allocations are of the whole
// process, broker and client included, on either side; the floor writes its
// records one by one, which the invoker does not. BenchmarkProcess has the CPU.
func BenchmarkInFlight64(b *testing.B) {
	r := newController(b)
	r.floor(64)
	r.invoker()
	r.burst("invoker1", 64, 1000)
	r.burst("invoker0", 64, 1000)
	const count = 2000
	var ours, floor time.Duration
	var oursAllocs, floorAllocs uint64
	rounds := 0
	for b.Loop() {
		rounds++
		a := allocated()
		floor += r.burst("invoker1", 64, count)
		floorAllocs += allocated() - a
		a = allocated()
		ours += r.burst("invoker0", 64, count)
		oursAllocs += allocated() - a
	}
	n := float64(rounds * count)
	b.ReportMetric(n/ours.Seconds(), "runs/s")
	b.ReportMetric(n/floor.Seconds(), "floor-runs/s")
	b.ReportMetric(floor.Seconds()/ours.Seconds(), "throughput-ratio")
	b.ReportMetric(float64(oursAllocs)/n, "allocs/run")
	b.ReportMetric(float64(floorAllocs)/n, "floor-allocs/run")
	b.ReportMetric(float64(r.db.stored.Load())/float64(r.db.batches.Load()), "docs/batch")
}
