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
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
	"github.com/prometheus/client_golang/prometheus"
)

// world is everything around an invoker: a topic, a store, an engine whose
// containers answer as the test says, and what came out of it all.
type world struct {
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
	hungUp  int   // talks that were closed
	cleaned []int // hungUp at each clean-up
	created []container.Spec
	ackErr  error
	putErr  error

	history    func(d *Delivery) // what an earlier process left of each delivery
	forwarded  []forwarded
	forwardErr error
	logsAtOnce bool // nothing is waited for when logs are read

	create   func(spec container.Spec) error
	resume   func() error
	pause    func() error
	run      func(n int, body []byte) proxy.Exchange
	init     func(body []byte) proxy.Exchange
	oom      bool
	hang     bool                            // init never answers
	stall    func(n int) (sent, stalls bool) // the nth run never answers
	logs     container.LogResult
	logging  func() // called before logs are handed over
	diedC    chan container.ID
	gpu      fakeMover
	shelf    Shelf
	asked    []container.LogRequest
	dialled  []int
	registry *prometheus.Registry
	engine   Engine // in the world's place
	notes    Notes
	userLogs UserLogs
	log      *slog.Logger // nil: nobody reads it
	follows  bool         // a process is to follow
}

func newWorld(t testing.TB) *world {
	return &world{
		registry: prometheus.NewRegistry(),
		t:        t, feed: make(chan Delivery, 1000), actions: map[string]*activation.Action{},
		diedC: make(chan container.ID, 10),
		run:   func(int, []byte) proxy.Exchange { return answer(200, `{"ok":true}`) },
		init:  func([]byte) proxy.Exchange { return answer(200, `{}`) },
	}
}

func answer(status int, body string) proxy.Exchange {
	return proxy.Exchange{Status: status, Body: []byte(body), ContentLength: int64(len(body))}
}

func (w *world) Next(ctx context.Context) (Delivery, error) {
	select {
	case d := <-w.feed:
		return d, nil
	case <-ctx.Done():
		return Delivery{}, ctx.Err()
	}
}

func (w *world) Action(_ context.Context, id, _ string) (*activation.Action, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.actions[id]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("get %s: %w", id, ErrNotFound)
}

func (w *world) Put(_ context.Context, _ string, doc []byte, stored func(batch int, err error)) error {
	rec, err := activation.DecodeRecord(doc)
	if err != nil {
		w.t.Errorf("record %s: %v", doc, err)
	}
	w.mu.Lock()
	w.records = append(w.records, rec)
	w.mu.Unlock()
	stored(12, w.putErr)
	return nil
}

func (w *world) Ack(_ context.Context, controller string, ack activation.Ack, sent func(error)) error {
	if controller != "0" {
		w.t.Errorf("ack for controller %q", controller)
	}
	back, err := activation.DecodeAck(ack.Encode())
	if err != nil {
		w.t.Errorf("ack %s: %v", ack.Encode(), err)
	}
	w.mu.Lock()
	w.acks = append(w.acks, back)
	w.mu.Unlock()
	w.gpu.note(back.Kind.String())
	sent(w.ackErr)
	return nil
}

func (w *world) Event(_ context.Context, e activation.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	return nil
}

func (w *world) Forward(_ context.Context, topic, _ string, message []byte, sent func(error)) error {
	w.mu.Lock()
	w.forwarded = append(w.forwarded, forwarded{topic, message})
	w.mu.Unlock()
	sent(w.forwardErr)
	return nil
}

// forwarded is a message that was passed on.
type forwarded struct {
	topic   string
	message []byte
}

func (w *world) Blocked(namespace string) bool { return namespace == "blocked" }

func (w *world) Begin(context.Context, activation.ID) error { return nil }
func (w *world) Completed(activation.ID)                    {}
func (w *world) Owe(ids []activation.ID, records [][]byte) []error {
	for i, id := range ids {
		rec, err := activation.DecodeRecord(records[i])
		if err != nil || rec.ActivationID != id {
			w.t.Errorf("owed for %s: %s, %v", id, records[i], err)
		}
	}
	return make([]error, len(ids))
}

func (w *world) Create(_ context.Context, spec container.Spec) (container.Handle, error) {
	w.mu.Lock()
	w.made++
	n := w.made
	w.created = append(w.created, spec)
	create := w.create
	w.mu.Unlock()
	if create != nil {
		if err := create(spec); err != nil {
			return container.Handle{}, err
		}
	}
	return container.Handle{ID: container.ID(fmt.Sprint("id", n)), Name: spec.Name, Addr: fmt.Sprint("addr", n)}, nil
}

func (w *world) Pause(context.Context, container.ID) error {
	if w.pause != nil {
		return w.pause()
	}
	return nil
}

func (w *world) Resume(context.Context, container.ID) error {
	if w.resume != nil {
		return w.resume()
	}
	return nil
}

func (w *world) Remove(context.Context, container.ID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed++
	return nil
}

func (w *world) OOMKilled(context.Context, container.ID) bool { return w.oom }

func (w *world) Logs(_ context.Context, _ container.ID, req container.LogRequest) container.LogResult {
	if !w.logsAtOnce {
		req.Wait()
	}
	w.mu.Lock()
	logging := w.logging
	w.mu.Unlock()
	if logging != nil {
		logging()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	req.Waits = nil
	w.asked = append(w.asked, req)
	return w.logs
}

func (w *world) CleanUp(context.Context, string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleaned = append(w.cleaned, w.hungUp)
	return nil
}

func (w *world) Died() <-chan container.ID { return w.diedC }

// talk is one container's proxy.
type talk struct {
	w    *world
	runs atomic.Int32
}

func (w *world) dial(_ string, concurrency int) Talk {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialled = append(w.dialled, concurrency)
	return &talk{w: w}
}

func (k *talk) Init(ctx context.Context, body []byte, _ time.Duration, _ proxy.Limit) proxy.Exchange {
	if k.w.hang {
		return stamped(func() proxy.Exchange { <-ctx.Done(); return proxy.Exchange{Failure: proxy.Cancelled} })
	}
	return stamped(func() proxy.Exchange { return k.w.init(body) })
}

func (k *talk) Run(ctx context.Context, body []byte, _ time.Duration, _ proxy.Limit) proxy.Exchange {
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

func (k *talk) Close() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.w.hungUp++
}

// setRun changes what runs answer, setStall which do not, at any time.
func (w *world) setRun(f func(n int, body []byte) proxy.Exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run = f
}

func (w *world) setStall(f func(n int) (sent, stalls bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stall = f
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
func (w *world) action(name string, change func(a *activation.Action)) {
	a := &activation.Action{
		ID: "guest/" + name, Rev: "1-a", Namespace: "guest", Name: name, Version: "0.0.1",
		Exec:   activation.Exec{Kind: "nodejs:20", Image: "node", Code: "x", HasCode: true, Sentinels: true},
		Limits: activation.Limits{TimeoutMillis: 60000, MemoryMB: 256, LogsMB: 10, Concurrency: 1},
	}
	if change != nil {
		change(a)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.actions[a.ID] = a
}

// annotate sets the gpu annotation.
func annotate(value string) func(*activation.Action) {
	return func(a *activation.Action) {
		a.Annotations = activation.Annotations{{Key: "gpu", Value: json.RawMessage(value)}}
	}
}

// invoke puts a message on the topic.
func (w *world) invoke(name string, change func(m *activation.Message)) activation.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	offset := w.offset
	w.offset++
	m := &activation.Message{
		TransID:      activation.NewTransID("tid", time.Now().UnixMilli(), false),
		Action:       activation.ActionRef{Path: "guest", Name: name, Version: "0.0.1"},
		Revision:     "1-a",
		User:         activation.Identity{Subject: "guest", Namespace: activation.Namespace{Name: "guest", UUID: "u"}, AuthKey: activation.NewAuthKey("k:s")},
		ActivationID: activation.ID(fmt.Sprintf("%032x", offset)),
		Controller:   "0", Blocking: true, Content: json.RawMessage(`{}`),
	}
	if change != nil {
		change(m)
	}
	d := Delivery{Message: m, Offset: offset, Done: func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done = append(w.done, offset)
	}}
	if w.history != nil {
		w.history(&d)
	}
	w.feed <- d
	return m.ActivationID
}

func (w *world) settings() Settings {
	return Settings{
		Instance: activation.Instance{ID: 0, UserMemory: 2 << 30, UniqueName: "0"},
		Prefix:   "wsk00_", InFlight: 64, Bounds: activation.DefaultBounds(),
		Pool:   container.Config{MemoryMB: 2048, PauseGrace: 10 * time.Second, IdleTimeout: 10 * time.Minute, Overtake: 500 * time.Millisecond},
		Images: func(string) (string, bool) { return "node", true },
		Drain:  time.Minute,
		Events: true,
	}
}

// start runs an invoker in this world; stop ends it and waits. change is done
// to the invoker before it runs.
func (w *world) start(s Settings, change ...func(*Invoker)) (iv *Invoker, stop func()) {
	w.t.Helper()
	iv, err := New(s, Ports{
		Feed: w, Actions: w, Records: w, Outbox: w, Blacklist: w, Journal: w, Shelf: w.shelf, Engine: cmp.Or[Engine](w.engine, w), Dial: w.dial, Mover: &w.gpu,
		Notes: w.notes, UserLogs: w.userLogs, Successor: func() bool { return w.follows },
	}, NewMetrics(w.registry, w.registry), cmp.Or(w.log, slog.New(slog.DiscardHandler)))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range change {
		f(iv)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- iv.Run(ctx, func() {}) }()
	return iv, func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		iv.Close()
	}
}

// acked counts the acks so far.
func (w *world) acked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acks)
}

// kinds lists the acks of an activation by their kind, in order.
func (w *world) kinds(id activation.ID) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.acks {
		if a.ActivationID == id {
			out = append(out, a.Kind.String())
		}
	}
	return out
}

// record finds the stored record of an activation.
func (w *world) record(id activation.ID) *activation.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if r.ActivationID == id {
			return r
		}
	}
	return nil
}
