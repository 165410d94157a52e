package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
)

// fixture is the surroundings of a Puller: a topic, a scheduler, etcd, a journal, and
// containers. It records the events in order.
type fixture struct {
	*testing.T
	*Puller
	orders     chan Message
	queue      chan string // activations that wait at the scheduler
	left       chan struct{}
	redelivers bool // a returned activation goes to the next fetch at once
	busy       bool // the scheduler hands out an activation although the container leaves

	mu        sync.Mutex
	log       []string
	keys      map[string]bool
	health    activation.Health
	leader    activation.Endpoint
	moved     chan struct{}
	fetchErr  error
	known     map[activation.ID]bool // by the journal, in progress
	acquire   func(r invoker.PinRequest)
	delivered []invoker.Delivery
	made      int
	changing  map[string]bool
	reserved  atomic.Int64
	takes     map[string]bool // which schedulers take activations back
	returnErr error
	limits    activation.UserLimits // of the namespace
	limitsErr error
	read      int           // how often
	full      chan struct{} // of the journal, closed when it has room; nil: it has
}

func pulling(t *testing.T, change func(*Config), test func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{
			T: t, orders: make(chan Message, 100), queue: make(chan string, 100), left: make(chan struct{}, 100),
			keys: map[string]bool{}, moved: make(chan struct{}), known: map[activation.ID]bool{}, changing: map[string]bool{},
			leader: activation.Endpoint{Host: "s0", Port: 1},
		}
		f.acquire = func(r invoker.PinRequest) { go f.Notify(invoker.PinReady{ID: r.ID, Warm: false}) }
		m, err := activation.ParseManifest([]byte(`{"runtimes":{"nodejs":[{"kind":"nodejs:20","default":true,"image":{"prefix":"p","name":"node","tag":"1"}}]},"blackboxes":[]}`), activation.ManifestOptions{})
		check.NoError(t, err)
		cfg := Config{
			Instance: activation.Instance{ID: 0, UniqueName: "0"}, Cluster: "whisk", Manifest: m, MemoryMB: 1024,
			Bounds: activation.DefaultBounds(), JobTime: 20 * time.Second, BlackboxMultiple: 15, ReportEvery: time.Second,
			Slots: slot.Config{PauseGrace: 10 * time.Second, IdleTimeout: 10 * time.Minute, Keeping: time.Hour, GPU: slot.DefaultGPU(1, 2)},
		}
		if change != nil {
			change(&cfg)
		}
		f.Puller = New(cfg, Ports{Orders: f, Acks: acks{f}, Schedulers: f, Registry: f, Journal: f, Limits: f, Deliver: f.deliver}, slog.New(slog.DiscardHandler))
		f.Use(f)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { f.Puller.Run(ctx); close(ended) }()
		test(f)
		f.Stop(t.Context())
		stop()
		<-ended
		f.Puller.Close()
	})
}

func (f *fixture) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

// pass advances the fake clock of testing/synctest, on which all tests of this package
// run. No real time passes, and all timers that are due have fired afterwards.
func pass(d time.Duration) { time.Sleep(d) }

// want waits until the system is idle and compares the events since its last call.
func (f *fixture) want(events ...string) {
	f.Helper()
	pass(50 * time.Millisecond)
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.log, events) {
		f.Fatalf("happened:\n%s\nwant:\n%s", strings.Join(f.log, "\n"), strings.Join(events, "\n"))
	}
	f.log = nil
}

// has reports whether an event has happened since the last call, and forgets the events.
func (f *fixture) has(event string) bool {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.log = nil }()
	return slices.Contains(f.log, event)
}

// creation sends a creation for an action with the given annotations and limits.
func (f *fixture) creation(annotations, limits string) activation.ID {
	return f.send(time.Now(), "", cmp.Or(annotations, "[]"), cmp.Or(limits, `{"concurrency":1,"logs":10,"memory":256,"timeout":60000}`))
}

func (f *fixture) send(at time.Time, exec, annotations, limits string) activation.ID {
	return f.sent(at, time.Now(), exec, annotations, limits)
}

// sent sends a creation that was sent at a time and was not in the topic before another.
func (f *fixture) sent(at, after time.Time, exec, annotations, limits string) activation.ID {
	f.made++
	c := activation.ContainerCreation{
		TransID: activation.NewTransID("sid_containerCreation", 1, false), ID: activation.ID(fmt.Sprintf("%032x", f.made)),
		Queue:     activation.NewQueue("guest", activation.ActionRef{Path: "guest", Name: "hello", Version: "0.0.1"}, "1-a"),
		Scheduler: "0", Endpoint: activation.Endpoint{Host: "s0", Port: 1},
		MetaData: activation.NewActionMetaData(json.RawMessage(fmt.Sprintf(
			`{"namespace":"guest","name":"hello","exec":%s,"parameters":[{"key":"k","value":"secret"}],"limits":%s,"version":"0.0.1","publish":false,"annotations":%s,"updated":1}`,
			cmp.Or(exec, `{"kind":"nodejs:20","binary":false}`), limits, annotations))),
	}
	f.orders <- Message{Value: c.Encode(), Sent: at, After: after, Done: func() { f.add("done") }}
	return c.ID
}

func (f *fixture) message(value []byte, at time.Time) {
	f.orders <- Message{Value: value, Sent: at, Done: func() { f.add("done") }}
}

// activate puts an activation into the scheduler's queue.
func (f *fixture) activate(n int) activation.ID {
	m := activation.Message{
		TransID: activation.NewTransID("tid", time.Now().UnixMilli(), false), Revision: "1-a",
		Action:       activation.ActionRef{Path: "guest", Name: "hello", Version: "0.0.1"},
		User:         activation.Identity{Subject: "guest", Namespace: activation.Namespace{Name: "guest", UUID: "u"}, AuthKey: activation.NewAuthKey("k:s")},
		ActivationID: activation.ID(fmt.Sprintf("%032x", n)), Controller: "0",
	}
	f.queue <- string(m.Encode())
	return m.ActivationID
}

func (f *fixture) Next(ctx context.Context) (Message, error) {
	select {
	case m := <-f.orders:
		return m, nil
	case <-ctx.Done():
		return Message{}, ctx.Err()
	}
}

// acks is the topic of acks.
type acks struct{ f *fixture }

func (a acks) Send(_ context.Context, ack activation.ContainerCreationAck, sent func()) error {
	if _, err := activation.DecodeContainerCreationAck(ack.Encode()); err != nil {
		a.f.Errorf("ack: %v", err)
	}
	a.f.add("ack %s", cmp.Or(string(ack.Error), "success"))
	sent()
	return nil
}

func (f *fixture) Fetch(_ context.Context, at activation.Endpoint, r activation.FetchRequest) (activation.FetchAnswer, error) {
	pass(5 * time.Millisecond) // to connect
	f.add("fetch %s warmed=%t", at.Host, r.Warmed)
	r.Sent()
	f.mu.Lock()
	err := f.fetchErr
	f.mu.Unlock()
	if err != nil {
		return activation.FetchAnswer{}, err
	}
	poll := time.NewTimer(time.Second)
	defer poll.Stop()
	select {
	case m := <-f.queue:
		return activation.DecodeFetchAnswer(activation.NewFetchAnswer(json.RawMessage(m)).Encode())
	case <-f.left:
	case <-poll.C:
	}
	return activation.FetchAnswer{Kind: activation.NoActivation}, nil
}

func (f *fixture) Leave(context.Context, activation.Endpoint, activation.Queue, string) (activation.FetchAnswer, error) {
	f.add("leave")
	if !f.busy {
		f.left <- struct{}{}
	}
	return activation.FetchAnswer{Kind: activation.NoActivation}, nil
}

func (f *fixture) Reschedule(_ context.Context, at activation.Endpoint, q activation.Queue, message json.RawMessage) (bool, error) {
	_, err := activation.DecodeMessage(message)
	check.ErrorIs(f, err, nil, "returned to %+v", q)
	check.Equal(f, q.Namespace, "guest")
	check.Equal(f, q.Action.FQN(), "guest/hello")
	check.Equal(f, q.Revision, "1-a")
	f.add("return %s", at.Host)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.takes[at.Host] && f.redelivers {
		f.queue <- string(message)
		pass(time.Second) // the answer is slow
	}
	return f.takes[at.Host], f.returnErr
}

func (f *fixture) Put(_ context.Context, key string) error    { return f.set("put", key, true) }
func (f *fixture) Delete(_ context.Context, key string) error { return f.set("delete", key, false) }

func (f *fixture) set(what, key string, there bool) error {
	f.mu.Lock()
	if f.changing[key] {
		f.Errorf("two changes at once of %s", key)
	}
	f.changing[key] = true
	f.mu.Unlock()
	pass(time.Millisecond)
	f.add("%s %s", what, strings.Split(key, "/")[1])
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.changing, key)
	if f.keys[key] = there; !there {
		delete(f.keys, key)
	}
	return nil
}

func (f *fixture) Count(context.Context, ...string) (int64, error) { return 1, nil }

func (f *fixture) Leader(activation.Queue) (activation.Endpoint, bool, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, true, f.moved
}

func (f *fixture) Report(_ context.Context, h activation.Health) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.health = h
	return nil
}

func (f *fixture) Limits(context.Context, string) (activation.UserLimits, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read++
	return f.limits, f.limitsErr
}

// forget forgets the events so far.
func (f *fixture) forget() { f.has("") }

func (f *fixture) reported() activation.Health {
	pass(2 * time.Second)
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health
}

func (f *fixture) Space(ctx context.Context) error {
	f.mu.Lock()
	full := f.full
	f.mu.Unlock()
	if full == nil {
		return nil
	}
	select {
	case <-full:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fixture) Full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.full != nil
}

func (f *fixture) Fetched(d *invoker.Delivery, message []byte) bool {
	f.add("keep")
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := activation.DecodeMessage(message); err != nil {
		f.Error(err)
	}
	return !f.known[d.Message.ActivationID]
}

func (f *fixture) deliver(_ context.Context, d invoker.Delivery) error {
	f.add("deliver %d", d.Pin)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delivered = append(f.delivered, d)
	return nil
}

func (f *fixture) Pin(r invoker.PinRequest) {
	f.add("acquire %s %d MB", r.Exec.Image, r.MemoryMB)
	f.acquire(r)
}

func (f *fixture) PausePin(id invoker.Pin) {
	f.add("pause")
	go f.Notify(invoker.PinPaused{ID: id, OK: true})
}

func (f *fixture) ReservedMB() int64 { return f.reserved.Load() }

func (f *fixture) Unpin(invoker.Pin) { f.add("remove") }
