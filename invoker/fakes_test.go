package invoker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
	"github.com/prometheus/client_golang/prometheus"
)

// fixture is everything around an invoker: a topic, a store, an engine whose containers answer
// as the test tells them to, and all results.
type fixture struct {
	t    testing.TB
	feed chan Delivery

	mu      sync.Mutex
	actions map[string]*activation.Action
	acks    []activation.Ack
	events  []activation.Event
	records []*activation.Record
	done    []int64 // offsets, in the order in which they were done
	offset  int64
	made    int
	removed int
	hungUp  int   // clients that were closed
	cleaned []int // hungUp at each clean-up
	created []container.Spec
	ackErr  error
	putErr  error

	fetched    bool              // a scheduler hands activations out
	history    func(d *Delivery) // sets the state that an earlier process left of each delivery
	forwarded  []forwarded
	forwardErr error
	gpuHosts   GPUHosts
	logsAtOnce bool // nothing is waited for when logs are read

	create func(spec container.Spec) error
	// endsAtOnce is whether a container whose create fails was made, and has a log.
	endsAtOnce bool
	resume     func() error
	pause      func() error
	run        func(n int, body []byte) proxy.Exchange
	init       func(body []byte) proxy.Exchange
	oom        bool
	hang       bool                            // init never answers
	stall      func(n int) (sent, stalls bool) // the nth run never answers
	logs       container.LogResult
	logging    func() // called before logs are handed over
	diedC      chan container.ID
	gpu        fakeMover
	asked      []container.LogRequest
	dialled    []int
	registry   *prometheus.Registry
	engine     Engine // instead of the fixture
	daemon     Daemon
	states     ContainerStates
	userLogs   UserLogs
	log        *slog.Logger // nil: discarded
	follows    bool         // a process is to follow
}

func newFixture(t testing.TB) *fixture {
	return &fixture{
		registry: prometheus.NewRegistry(),
		t:        t, feed: make(chan Delivery, 1000), actions: map[string]*activation.Action{},
		diedC: make(chan container.ID, 10),
		run:   func(int, []byte) proxy.Exchange { return answer(200, `{"ok":true}`) },
		init:  func([]byte) proxy.Exchange { return answer(200, `{}`) },
	}
}

// withFixture runs a test with a fixture, on the fake clock of testing/synctest.
func withFixture(t *testing.T, f func(t *testing.T, env *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newFixture(t)) })
}

func answer(status int, body string) proxy.Exchange {
	return proxy.Exchange{Status: status, Body: []byte(body), ContentLength: int64(len(body))}
}

func (env *fixture) Next(ctx context.Context) (Delivery, error) {
	select {
	case d := <-env.feed:
		return d, nil
	case <-ctx.Done():
		return Delivery{}, ctx.Err()
	}
}

func (env *fixture) Action(_ context.Context, id, _ string) (*activation.Action, error) {
	env.mu.Lock()
	defer env.mu.Unlock()
	if a := env.actions[id]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("get %s: %w", id, ErrNotFound)
}

func (env *fixture) Cached(string, string) (*activation.Action, bool) { return nil, false }

func (env *fixture) Put(_ context.Context, _ string, doc []byte, stored func(batch int, err error)) error {
	rec, err := activation.DecodeRecord(doc)
	if err != nil {
		env.t.Errorf("record %s: %v", doc, err)
	}
	env.mu.Lock()
	env.records = append(env.records, rec)
	env.mu.Unlock()
	stored(12, env.putErr)
	return nil
}

func (env *fixture) Ack(_ context.Context, controller string, ack activation.Ack, sent func(error)) error {
	check.Equal(env.t, controller, "0", "ack for controller")
	back, err := activation.DecodeAck(ack.Encode())
	if err != nil {
		env.t.Errorf("ack %s: %v", ack.Encode(), err)
	}
	env.mu.Lock()
	env.acks = append(env.acks, back)
	env.mu.Unlock()
	env.gpu.log(back.Kind.String())
	sent(env.ackErr)
	return nil
}

func (env *fixture) Event(_ context.Context, e activation.Event) error {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.events = append(env.events, e)
	return nil
}

func (env *fixture) Forward(_ context.Context, invoker int, message []byte, sent func(error)) error {
	env.mu.Lock()
	env.forwarded = append(env.forwarded, forwarded{invoker, message})
	env.mu.Unlock()
	sent(env.forwardErr)
	return nil
}

// forwarded is a message that was passed on.
type forwarded struct {
	invoker int
	message []byte
}

// fakeGPUHosts chooses invoker 9, or none.
type fakeGPUHosts struct{ err error }

func (h fakeGPUHosts) Choose(context.Context, string, string) (int, error) { return 9, h.err }

func (env *fixture) Blocked(namespace string) bool { return namespace == "blocked" }

func (env *fixture) Begin(context.Context, activation.ID, int) (bool, error) { return true, nil }
func (env *fixture) BeginHandback(activation.ID) error                       { return nil }
func (env *fixture) AbortHandback(activation.ID)                             {}
func (env *fixture) CommitHandback(activation.ID) error                      { return nil }
func (env *fixture) AppendFetched(activation.ID, []byte) (delivery.History, bool, error) {
	return delivery.History{}, true, nil
}
func (env *fixture) Completed(activation.ID) {}
func (env *fixture) KeepUnacknowledged(ids []activation.ID, records [][]byte) []error {
	for i, id := range ids {
		rec, err := activation.DecodeRecord(records[i])
		check.NoError(env.t, err, "kept for %s: %s", id, records[i])
		check.Equal(env.t, rec.ActivationID, id)
	}
	return make([]error, len(ids))
}

func (env *fixture) Create(_ context.Context, spec container.Spec) (container.Handle, error) {
	env.mu.Lock()
	env.made++
	n := env.made
	env.created = append(env.created, spec)
	create := env.create
	env.mu.Unlock()
	if create != nil {
		if err := create(spec); err != nil && !env.endsAtOnce {
			return container.Handle{}, err
		} else if err != nil {
			return container.Handle{ID: container.ID(fmt.Sprint("id", n)), Name: spec.Name}, err
		}
	}
	return container.Handle{ID: container.ID(fmt.Sprint("id", n)), Name: spec.Name, Addr: fmt.Sprint("addr", n)}, nil
}

func (env *fixture) Pause(context.Context, container.ID) error {
	if env.pause != nil {
		return env.pause()
	}
	return nil
}

func (env *fixture) Resume(context.Context, container.ID) error {
	if env.resume != nil {
		return env.resume()
	}
	return nil
}

func (env *fixture) Remove(context.Context, container.ID) error {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.removed++
	return nil
}

func (env *fixture) OOMKilled(context.Context, container.ID) bool { return env.oom }

func (env *fixture) LogsReady(container.ID, container.LogRequest) bool { return env.logsAtOnce }

func (env *fixture) Logs(_ context.Context, _ container.ID, req container.LogRequest) container.LogResult {
	env.mu.Lock()
	logging := env.logging
	env.mu.Unlock()
	if logging != nil {
		logging()
	}
	env.mu.Lock()
	defer env.mu.Unlock()
	env.asked = append(env.asked, req)
	return env.logs
}

func (env *fixture) CleanUp(context.Context, string) error {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.cleaned = append(env.cleaned, env.hungUp)
	return nil
}

// fakeDaemon is a daemon that is there and that no earlier process left anything in.
type fakeDaemon struct{}

func (fakeDaemon) Ping(context.Context) error                                            { return nil }
func (fakeDaemon) Leftovers(context.Context, string) ([]container.Leftover, error)       { return nil, nil }
func (fakeDaemon) Adopt(context.Context, []container.Leftover, []container.Spec) []error { return nil }
func (fakeDaemon) Resize(context.Context, container.ID, int64) error                     { return nil }

func (env *fixture) Died() <-chan container.ID { return env.diedC }

// fakeProxy is one container's proxy.
type fakeProxy struct {
	w    *fixture
	runs atomic.Int32
}

func (env *fixture) dial(_ string, concurrency int) ProxyClient {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.dialled = append(env.dialled, concurrency)
	return &fakeProxy{w: env}
}

func (k *fakeProxy) Init(ctx context.Context, body []byte, _ time.Duration, _ proxy.Limit) proxy.Exchange {
	if k.w.hang {
		return stamped(func() proxy.Exchange { <-ctx.Done(); return proxy.Exchange{Failure: proxy.Cancelled} })
	}
	return stamped(func() proxy.Exchange { return k.w.init(body) })
}

func (k *fakeProxy) Run(ctx context.Context, body []byte, _ time.Duration, _ proxy.Limit) proxy.Exchange {
	n := int(k.runs.Add(1))
	k.w.mu.Lock()
	stall, run := k.w.stall, k.w.run
	k.w.mu.Unlock()
	if stall != nil {
		if sent, stalls := stall(n); stalls {
			return stamped(func() proxy.Exchange { <-ctx.Done(); return proxy.Exchange{Failure: proxy.Cancelled, Sent: sent} })
		}
	}
	return stamped(func() proxy.Exchange { return run(n, body) })
}

func (k *fakeProxy) Close() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.w.hungUp++
}

// setRun changes the answers to runs. setStall chooses the runs that get no answer. Both may
// be called at any time.
func (env *fixture) setRun(f func(n int, body []byte) proxy.Exchange) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.run = f
}

func (env *fixture) setStall(f func(n int) (sent, stalls bool)) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.stall = f
}

// stamped adds the times of an exchange, which tests do not care to write.
func stamped(f func() proxy.Exchange) proxy.Exchange {
	began := time.Now()
	x := f()
	if x.Start.IsZero() {
		x.Start = began
	}
	if x.End.IsZero() {
		x.End = time.Now()
	}
	return x
}

// action puts an action into the store.
func (env *fixture) action(name string, change func(a *activation.Action)) {
	a := &activation.Action{
		ID: "guest/" + name, Rev: "1-a", Namespace: "guest", Name: name, Version: "0.0.1",
		Exec:   activation.Exec{Kind: "nodejs:20", Image: "node", Code: "x", HasCode: true, Sentinels: true},
		Limits: activation.Limits{TimeoutMillis: 60000, MemoryMB: 256, LogsMB: 10, Concurrency: 1},
	}
	if change != nil {
		change(a)
	}
	env.mu.Lock()
	defer env.mu.Unlock()
	env.actions[a.ID] = a
}

// annotate sets the gpu annotation.
func annotate(value string) func(*activation.Action) {
	return func(a *activation.Action) {
		a.Annotations = activation.Annotations{{Key: "gpu", Value: json.RawMessage(value)}}
	}
}

// newMessage is the message at an offset, by which it is known, for an action.
func newMessage(action string, offset int64) *activation.Message {
	return &activation.Message{
		TransID:      activation.NewTransID("tid", time.Now().UnixMilli(), false),
		Action:       activation.ActionRef{Path: "guest", Name: action, Version: "0.0.1"},
		Revision:     "1-a",
		User:         activation.Identity{Subject: "guest", Namespace: activation.Namespace{Name: "guest", UUID: "u"}, AuthKey: activation.NewAuthKey("k:s")},
		ActivationID: activation.ID(fmt.Sprintf("%032x", offset)),
		Controller:   "0", Blocking: true, Content: json.RawMessage(`{}`),
	}
}

// invoke puts a message on the topic.
func (env *fixture) invoke(name string, change func(m *activation.Message)) activation.ID {
	env.mu.Lock()
	defer env.mu.Unlock()
	offset := env.offset
	env.offset++
	m := newMessage(name, offset)
	if change != nil {
		change(m)
	}
	d := Delivery{Message: m, Offset: offset, Fetched: env.fetched, Done: func() {
		env.mu.Lock()
		defer env.mu.Unlock()
		env.done = append(env.done, offset)
	}}
	if env.history != nil {
		env.history(&d)
	}
	env.feed <- d
	return m.ActivationID
}

func (env *fixture) settings() Settings {
	return Settings{
		Instance: activation.Instance{ID: 0, UserMemory: 2 << 30, UniqueName: "0"},
		Prefix:   "wsk00_", InFlight: 64, Bounds: activation.DefaultBounds(),
		Pool:   container.Config{MemoryMB: 2048, PauseGrace: 10 * time.Second, IdleTimeout: 10 * time.Minute, Overtake: 500 * time.Millisecond},
		Images: func(string) (string, bool) { return "node", true },
		Drain:  time.Minute,
		Events: true,
	}
}

// start runs an invoker in this fixture; stop ends it and waits. change is done
// to the invoker before it runs.
func (env *fixture) start(s Settings, change ...func(*Invoker)) (iv *Invoker, stop func()) {
	env.t.Helper()
	iv, err := New(s, Ports{
		Feed: env, Actions: env, Records: env, Outbox: env, Blacklist: env, Journal: env, Engine: cmp.Or[Engine](env.engine, env), Daemon: env.daemon, Dial: env.dial, Mover: &env.gpu,
		ContainerStates: env.states, UserLogs: env.userLogs, GPUHosts: env.gpuHosts, HandoverExpected: func() bool { return env.follows },
	}, NewMetrics(env.registry, env.registry), cmp.Or(env.log, slog.New(slog.DiscardHandler)))
	check.NoError(env.t, err)
	for _, f := range change {
		f(iv)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- iv.Run(ctx, func() {}) }()
	return iv, func() {
		cancel()
		if err := <-ended; err != nil {
			env.t.Error(err)
		}
		iv.Close()
	}
}

// pass lets time pass on the fake clock of testing/synctest, which begins in the year
// 2000: nothing really waits. By a real clock it panics.
func pass(d time.Duration) {
	if now := time.Now(); now.Year() > 2001 {
		panic("pass waits by a real clock: " + now.String())
	}
	time.Sleep(d)
}

// invokeAndWait invokes an action and lets d pass until all is quiet.
func (env *fixture) invokeAndWait(name string, d time.Duration) activation.ID {
	id := env.invoke(name, nil)
	pass(d)
	synctest.Wait()
	return id
}

// answered passes time, to a millisecond, until an activation has so many acks, and an
// hour at most.
func (env *fixture) answered(id activation.ID, acks int) {
	env.t.Helper()
	for began := time.Now(); len(env.kinds(id)) < acks; pass(time.Millisecond) {
		check.AtMost(check.Must(env.t), time.Since(began), time.Hour, "activation %s has the acks %v after an hour, want %d", id, env.kinds(id), acks)
	}
}

// ok fails the test unless these activations have ended with success.
func (env *fixture) ok(ids ...activation.ID) {
	env.t.Helper()
	for _, id := range ids {
		r := env.record(id)
		check.That(check.Must(env.t), r != nil, "record of %s: %+v", id, r)
		check.Equal(env.t, r.Response.StatusCode, activation.StatusSuccess, "record of %s", id)
	}
}

// status is that of a running invoker.
func (env *fixture) status(iv *Invoker) Status {
	env.t.Helper()
	st, err := iv.Status(env.t.Context())
	check.NoError(env.t, err)
	return st
}

// acked counts the acks so far.
func (env *fixture) acked() int {
	env.mu.Lock()
	defer env.mu.Unlock()
	return len(env.acks)
}

// kinds lists the acks of an activation by their kind, in order.
func (env *fixture) kinds(id activation.ID) (out []string) {
	env.mu.Lock()
	defer env.mu.Unlock()
	for _, a := range env.acks {
		if a.ActivationID == id {
			out = append(out, a.Kind.String())
		}
	}
	return out
}

// record finds the stored record of an activation.
func (env *fixture) record(id activation.ID) *activation.Record {
	env.mu.Lock()
	defer env.mu.Unlock()
	for _, r := range env.records {
		if r.ActivationID == id {
			return r
		}
	}
	return nil
}

// newTestObserver counts into a registry of its own and logs nothing.
func newTestObserver() *observer {
	r := prometheus.NewRegistry()
	return &observer{metrics: NewMetrics(r, r), instant: time.Time{}.Add}
}
