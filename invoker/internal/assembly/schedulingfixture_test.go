package assembly_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// whole is a deployment with an engine whose containers are servers of this process.
type whole struct {
	*harness.Deployment
	engine *proxies
}

// start runs the invoker, until it is ready.
func (f *whole) start() *harness.Running {
	f.T.Helper()
	return f.Start(0, f.engine.into)
}

// scheduling is a whole deployment in scheduler mode.
type scheduling struct {
	whole
	// Of the actions that function stores.
	width   int    // concurrency; 0 means 1
	version string // empty means 0.0.1
}

func newScheduling(t *testing.T, more ...string) *scheduling {
	t.Helper()
	return newSchedulingOf(t, harness.Patient, more...)
}

// newSchedulingOf is newScheduling with other settings of the scheduler.
func newSchedulingOf(t *testing.T, change func(*fakescheduler.Config), more ...string) *scheduling {
	t.Helper()
	f := &scheduling{whole: whole{engine: newProxies(t), Deployment: harness.Deploy(t, harness.Parts{Scheduler: change,
		Settings: append([]string{"CONFIG_whisk_containerProxy_timeouts_pauseGrace=500 milliseconds",
			"CONFIG_whisk_containerPool_memorySyncInterval=100 milliseconds"}, more...)})}}
	f.Unique = ""
	t.Cleanup(func() { check.Equal(t, len(f.Store.Repeated()), 0, "two records of %v", f.Store.Repeated()) })
	return f
}

// function stores an action, and returns its name.
func (f *scheduling) function(name string, memory int, annotations ...string) string {
	f.T.Helper()
	a := harness.Action{Name: name, Kind: "nodejs:20", Code: "x", Timeout: time.Minute, Concurrency: f.width, MemoryMB: memory, Version: f.version, Annotations: map[string]any{}}
	for _, key := range annotations {
		a.Annotations[key] = true
	}
	if slices.Contains(annotations, "gpu") {
		a.Annotations["invoker-resources"] = []string{"gpu"}
	}
	f.Put(a)
	return name
}

// invoke gives the scheduler an activation of an action.
func (f *scheduling) invoke(action string) string {
	f.T.Helper()
	return f.Invoke(1, harness.Message{Action: action})[0]
}

// ack blocks until the completion of an activation.
func (f *scheduling) ack(id string) (a activation.Ack) {
	f.T.Helper()
	f.AwaitSlot(id)
	records, _ := f.Recording.All()
	i := slices.IndexFunc(records, func(r harness.Record) bool { return r.FreesSlot() && r.ActivationID() == id })
	a, err := activation.DecodeAck([]byte(records[i].Value))
	check.NoError(f.T, err)
	return a
}

// recorded blocks until the record of an activation is stored.
func (f *scheduling) recorded(id string) *activation.Record {
	f.T.Helper()
	return f.DB.AwaitRecord(f.T, activation.ID(id))
}

// succeeded blocks until the completion and the record of an activation that succeeds.
func (f *scheduling) succeeded(id string) {
	f.T.Helper()
	check.Equal(f.T, f.ack(id).SystemError, false)
	check.Equal(f.T, f.recorded(id).Response.StatusCode, activation.StatusSuccess)
}

// wantNothingLost fails if an activation was lost, if the scheduler ended one, or if the
// scheduler could not read a message of the invoker.
func (f *scheduling) wantNothingLost() {
	f.T.Helper()
	seen, _ := f.Scheduler.Seen()
	check.Equal(f.T, seen.Lost, 0)
	check.Equal(f.T, seen.Unparsed, 0)
	check.Equal(f.T, len(seen.Failures), 0, "%+v", seen.Failures)
}

func (f *scheduling) until(what string, ok func() bool) {
	f.T.Helper()
	f.Until(what, func() string {
		if ok() {
			return ""
		}
		return fmt.Sprint("keys ", f.keys(""))
	})
}

// keys lists the cluster's keys in etcd below a path, without the cluster's name.
func (f *scheduling) keys(below string) []string {
	f.T.Helper()
	return slices.Sorted(maps.Keys(f.KeysBelow(below)))
}

// status is the invoker's state as schedulers see it.
func (f *scheduling) status() activation.HealthStatus {
	h, _ := f.Health(0)
	return h.Status
}

// proxies is an engine whose containers are servers of this process.
type proxies struct {
	t    testing.TB
	died chan container.ID

	mu     sync.Mutex
	all    map[container.ID]*proxied
	done   counts
	run    func() // called while an activation runs
	create func(container.Spec) error
}

// counts are how many containers were made, paused, resumed and removed.
type counts struct{ made, paused, resumed, removed int }

func newProxies(t testing.TB) *proxies {
	return &proxies{t: t, all: map[container.ID]*proxied{}, died: make(chan container.ID)}
}

func (p *proxies) into(o *assembly.Options) { o.Engine = p }

type proxied struct{ *httptest.Server }

// kill ends a container, whatever runs in it.
func (c *proxied) kill() {
	_ = c.Listener.Close()
	c.CloseClientConnections()
}

func (p *proxies) Create(_ context.Context, spec container.Spec) (container.Handle, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.create != nil {
		if err := p.create(spec); err != nil {
			return container.Handle{}, err
		}
	}
	p.done.made++
	id := container.ID(fmt.Sprint("container", p.done.made))
	c := &proxied{httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		run := p.run
		p.mu.Unlock()
		if r.URL.Path == "/run" && run != nil {
			run()
		}
		_, _ = fmt.Fprintf(w, `{"container":%q}`, id)
	}))}
	p.t.Cleanup(c.Close) // when nothing is held any more
	p.all[id] = c
	return container.Handle{ID: id, Name: spec.Name, Addr: c.Listener.Addr().String()}, nil
}

func (p *proxies) setRun(run func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = run
}

func (p *proxies) Pause(context.Context, container.ID) error  { return p.count(&p.done.paused) }
func (p *proxies) Resume(context.Context, container.ID) error { return p.count(&p.done.resumed) }

func (p *proxies) count(n *int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n++
	return nil
}

func (p *proxies) counts() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

func (p *proxies) Remove(_ context.Context, id container.ID) error {
	p.mu.Lock()
	c := p.all[id]
	delete(p.all, id)
	p.done.removed++
	p.mu.Unlock()
	if c != nil {
		c.kill()
	}
	return nil
}

func (p *proxies) CleanUp(ctx context.Context, _ string) error {
	p.mu.Lock()
	all := p.all
	p.all = map[container.ID]*proxied{}
	p.mu.Unlock()
	for _, c := range all {
		c.kill()
	}
	return ctx.Err()
}

func (p *proxies) OOMKilled(context.Context, container.ID) bool      { return false }
func (p *proxies) LogsReady(container.ID, container.LogRequest) bool { return true }
func (p *proxies) Died() <-chan container.ID                         { return p.died }
func (p *proxies) Close() error                                      { return nil }
func (p *proxies) Logs(context.Context, container.ID, container.LogRequest) container.LogResult {
	return container.LogResult{}
}
