package assembly

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// scheduling is a deployment in scheduler mode: etcd, a scheduler, Kafka, a database,
// and an engine whose containers are servers of this process.
type scheduling struct {
	*testing.T
	cluster   activation.Cluster
	environ   []string
	scheduler *fakescheduler.Scheduler
	config    fakescheduler.Config
	etcd      *fakescheduler.Keys
	engine    *proxies
	acks      chan activation.Ack
	next      int
	early     map[activation.ID]activation.Ack

	mu      sync.Mutex
	records map[activation.ID]*activation.Record
	actions map[string]string // documents
	limits  string            // of the namespace; empty: none
	width   int               // concurrency of actions; 0: 1
}

const schedulingManifest = `{"runtimes":{"nodejs":[{"kind":"nodejs:20","default":true,"image":{"prefix":"p","name":"node","tag":"1"}}]},"blackboxes":[{"prefix":"p","name":"dockerskeleton"}]}`

func newScheduling(t *testing.T, more ...string) *scheduling {
	t.Helper()
	queue := memoryqueue.Defaults()
	queue.Retention = time.Hour // nothing is given up because a machine is slow
	return newSchedulingOf(t, queue, more...)
}

// newSchedulingOf is newScheduling with other settings of queues.
func newSchedulingOf(t *testing.T, queue memoryqueue.Settings, more ...string) *scheduling {
	t.Helper()
	addr := peertest.NeedEtcd(t)
	bus, environ := deployment(t)
	f := &scheduling{
		T: t, cluster: activation.Cluster(fmt.Sprintf("c%d", time.Now().UnixNano())), acks: make(chan activation.Ack, 1000),
		records: map[activation.ID]*activation.Record{}, actions: map[string]string{}, early: map[activation.ID]activation.Ack{},
		engine: &proxies{t: t, all: map[container.ID]*proxied{}, died: make(chan container.ID)},
	}
	couch := httptest.NewServer(http.HandlerFunc(f.database))
	t.Cleanup(couch.Close)
	u, err := url.Parse(couch.URL)
	check.NoError(t, err)
	host, port, err := net.SplitHostPort(u.Host)
	check.NoError(t, err)
	f.environ = append(slices.DeleteFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "RUNTIMES") || strings.Contains(v, "couchdb_host") || strings.Contains(v, "couchdb_port") || strings.Contains(v, "gpu_devices")
	}), "RUNTIMES_MANIFEST="+schedulingManifest, "CONFIG_whisk_couchdb_host="+host, "CONFIG_whisk_couchdb_port="+port,
		"CONFIG_whisk_etcd_hosts="+addr, "CONFIG_whisk_etcd_lease_timeout=10", "CONFIG_whisk_etcd_pool_threads=10",
		"CONFIG_whisk_cluster_name="+string(f.cluster), "CONFIG_whisk_containerProxy_timeouts_pauseGrace=500 milliseconds",
		"CONFIG_whisk_containerPool_userMemory=2048 m", "CONFIG_whisk_containerPool_memorySyncInterval=100 milliseconds")
	if !slices.ContainsFunc(more, func(v string) bool { return strings.Contains(v, "gpu_simulated") }) {
		f.environ = append(f.environ, "CONFIG_whisk_gpu_devices=none")
	}
	f.environ = append(f.environ, more...)
	check.NoError(t, bus.CreateTopics(t.Context(), []broker.Topic{{Name: "completed0", Retention: time.Hour}}))
	fakescheduler.Follow(t, bus, "completed0", func(m []byte) {
		if a, err := activation.DecodeAck(m); err == nil {
			f.acks <- a
		}
	})
	m, err := activation.ParseManifest([]byte(schedulingManifest), activation.ManifestOptions{})
	check.NoError(t, err)
	kafka := ""
	for _, v := range environ {
		if rest, ok := strings.CutPrefix(v, "KAFKA_HOSTS="); ok {
			kafka = rest
		}
	}
	f.etcd = fakescheduler.OpenKeys(t, addr, f.cluster)
	// A creation that finds no invoker for a moment counts for the namespace until the time of
	// its job is over. A queue that is at the limit and has no container fails its waiting
	// activations.
	f.config = fakescheduler.Config{
		Cluster: f.cluster, Etcd: addr, Kafka: kafka, Manifest: m, Log: slog.New(slog.DiscardHandler),
		Queue: queue, Job: time.Hour, NamespaceLimit: 10000,
	}
	if f.scheduler, err = fakescheduler.New(f.config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.scheduler.Kill() })
	return f
}

// database is CouchDB as far as invokers use it.
func (f *scheduling) database(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch path := r.URL.Path; {
	case r.Method == http.MethodGet && strings.HasPrefix(path, "/whisks/") && f.actions[strings.TrimPrefix(path, "/whisks/")] != "":
		_, _ = w.Write([]byte(f.actions[strings.TrimPrefix(path, "/whisks/")]))
	case r.Method == http.MethodGet && strings.HasPrefix(path, "/whisks/") && !strings.Contains(path, "_design"):
		http.Error(w, `{"error":"not_found","reason":"missing"}`, http.StatusNotFound)
	case strings.HasSuffix(path, "/guest/limits") && f.limits != "":
		_, _ = w.Write([]byte(f.limits))
	case strings.HasSuffix(path, "/_bulk_docs"):
		var in struct{ Docs []json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&in)
		var out []string
		for _, doc := range in.Docs {
			var id struct {
				ID string `json:"_id"`
			}
			_ = json.Unmarshal(doc, &id)
			if rec, err := activation.DecodeRecord(doc); err == nil {
				if f.records[rec.ActivationID] != nil {
					f.Errorf("two records of %s", rec.ActivationID)
				}
				f.records[rec.ActivationID] = rec
			}
			out = append(out, fmt.Sprintf(`{"ok":true,"id":%q,"rev":"1-a"}`, id.ID))
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("[" + strings.Join(out, ",") + "]"))
	default:
		_, _ = w.Write([]byte(`{"total_rows":0,"offset":0,"rows":[]}`))
	}
}

// function puts an action into the database. exec is its exec without its code.
func (f *scheduling) function(name, revision, version, annotations string, memory int) fakescheduler.Function {
	limits := fmt.Sprintf(`{"concurrency":%d,"logs":0,"memory":%d,"timeout":60000}`, max(f.width, 1), memory)
	head := fmt.Sprintf(`"annotations":[%s],"limits":%s,"name":%q,"namespace":"guest","parameters":[],"publish":false,"updated":1717990000000,"version":%q`, annotations, limits, name, version)
	f.mu.Lock()
	f.actions["guest/"+name] = fmt.Sprintf(`{"_id":"guest/%s","_rev":%q,"entityType":"action","exec":{"binary":false,"kind":"nodejs:20","code":"x"},%s}`, name, revision, head)
	f.mu.Unlock()
	return fakescheduler.Function{
		Queue:    activation.NewQueue("guest", activation.ActionRef{Path: "guest", Name: name, Version: version}, revision),
		MetaData: activation.NewActionMetaData(json.RawMessage(`{"exec":{"binary":false,"kind":"nodejs:20"},` + head + `}`)),
	}
}

// invoke gives the scheduler an activation of a function.
func (f *scheduling) invoke(of fakescheduler.Function) activation.ID {
	f.Helper()
	f.next++
	m := &activation.Message{
		TransID: activation.NewTransID("t", time.Now().UnixMilli(), false), Action: of.Queue.Action, Revision: of.Queue.Revision,
		User:         activation.Identity{Subject: "guest", Namespace: activation.Namespace{Name: "guest", UUID: "u"}, AuthKey: activation.NewAuthKey("k:s")},
		ActivationID: activation.ID(fmt.Sprintf("%032x", f.next)), Controller: "0", Blocking: true, Content: json.RawMessage(`{}`),
	}
	check.NoError(f, f.scheduler.CreateQueue(f.Context(), of))
	check.NoError(f, f.scheduler.Invoke(f.Context(), m))
	return m.ActivationID
}

// answered waits for the completion of an activation.
func (f *scheduling) answered(id activation.ID) activation.Ack {
	f.Helper()
	late := time.After(peertest.WaitLimit)
	for {
		if a, ok := f.early[id]; ok {
			delete(f.early, id)
			return a
		}
		select {
		case a := <-f.acks:
			f.early[a.ActivationID] = a
		case <-late:
			seen, _ := f.scheduler.Seen()
			f.Fatalf("%s is not answered; the scheduler saw %+v", id, seen)
		}
	}
}

// recorded waits for a record.
func (f *scheduling) recorded(id activation.ID) (r *activation.Record) {
	f.Helper()
	f.until("record of "+string(id), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		r = f.records[id]
		return r != nil
	})
	return r
}

// succeeded waits for the completion and the record of an activation that
// succeeds.
func (f *scheduling) succeeded(id activation.ID) {
	f.Helper()
	check.Equal(f, f.answered(id).SystemError, false)
	check.Equal(f, f.recorded(id).Response.StatusCode, activation.StatusSuccess)
}

// wantNothingLost fails if an activation was lost, if the scheduler ended one, or if the
// scheduler could not read a message of the invoker.
func (f *scheduling) wantNothingLost() {
	f.Helper()
	seen, _ := f.scheduler.Seen()
	check.Equal(f, seen.Lost, 0)
	check.Equal(f, seen.Unparsed, 0)
	check.Equal(f, len(seen.Failures), 0, "%+v", seen.Failures)
}

// until polls, since etcd is another process.
func (f *scheduling) until(what string, ok func() bool) {
	f.Helper()
	peertest.Until(f, what, func() string {
		if ok() {
			return ""
		}
		return fmt.Sprint("keys ", f.keys(""))
	})
}

// keys lists the cluster's keys in etcd below a path, without the cluster's name.
func (f *scheduling) keys(below string) []string {
	f.Helper()
	return slices.Sorted(maps.Keys(f.etcd.Below(f, below)))
}

// health is the invoker's record.
func (f *scheduling) health() activation.Health {
	h, _ := f.etcd.Health(f, invoker0)
	return h
}

// invoker0 is the invoker that start and startVictim run.
var invoker0 = activation.Instance{ID: 0}

// start runs the invoker, until it is up.
func (f *scheduling) start(change ...func(*Options)) running {
	f.Helper()
	change = append([]func(*Options){func(o *Options) { o.Engine = f.engine }}, change...)
	r := start(f.T, f.environ, change...)
	f.until("the invoker is up", func() bool {
		select {
		case err := <-r.ended:
			f.Fatalf("the invoker ended: %v", err)
		default:
		}
		return f.health().Status == activation.Up
	})
	return r
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
