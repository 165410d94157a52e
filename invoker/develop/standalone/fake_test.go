package standalone

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// fakeInvoker is the minimum that a controller accepts as an invoker: it reads its topic
// from the beginning, pings, and answers each activation with the result of run. It
// takes all settings from its environment, like the real one.
type fakeInvoker struct {
	t   testing.TB
	run func(m *activation.Message) activation.Response
	// shrink answers blocking calls with only the id, as for results that do not fit
	// into a message.
	shrink bool

	mu   sync.Mutex
	env  map[string]string
	seen []*activation.Message
}

func (f *fakeInvoker) start(ctx context.Context, environ, _ []string) (func() error, error) {
	f.env = map[string]string{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		f.env[name] = value
	}
	if err := createTopic(ctx, f.env["KAFKA_HOSTS"], "invoker0"); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(f.env["KAFKA_HOSTS"]), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"invoker0": {0: kgo.NewOffset().AtStart()}}),
		kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { f.ping(ctx, client) })
	running.Go(func() { f.consume(ctx, client, &running) })
	return func() error {
		running.Wait()
		client.Close()
		return nil
	}, nil
}

// createTopic uses a separate client, because a client that already consumes the topic
// would request it again only after a second.
func createTopic(ctx context.Context, seed, name string) error {
	bus, err := broker.Dial([]string{seed}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer bus.Close()
	return bus.CreateTopics(ctx, []broker.Topic{{Name: name, Retention: time.Hour, Large: true}})
}

func (f *fakeInvoker) instance() activation.Instance {
	return activation.Instance{UniqueName: "standalone", UserMemory: 2 << 30, Tags: []string{}, DedicatedNamespaces: []string{}}
}

func (f *fakeInvoker) ping(ctx context.Context, client *kgo.Client) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		f.send(client, "health", activation.Ping{Instance: f.instance(), Enabled: ctx.Err() == nil}.Encode())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (f *fakeInvoker) send(client *kgo.Client, topic string, value []byte) {
	if err := client.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: value}).FirstErr(); err != nil {
		f.t.Logf("fake invoker: send to %s: %v", topic, err)
	}
}

func (f *fakeInvoker) consume(ctx context.Context, client *kgo.Client, running *sync.WaitGroup) {
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			m, err := activation.DecodeMessage(r.Value)
			if err != nil {
				f.t.Errorf("the controller sent a message that no invoker can decode: %v\n%s", err, r.Value)
				return
			}
			f.mu.Lock()
			f.seen = append(f.seen, m)
			f.mu.Unlock()
			running.Go(func() { f.serve(client, m) })
		})
	}
}

func (f *fakeInvoker) serve(client *kgo.Client, m *activation.Message) {
	start := time.Now().UnixMilli()
	response := activation.Response{Result: json.RawMessage(`{}`)}
	if f.run != nil && m.Action.Path != "whisk.system" {
		response = f.run(m)
	}
	if response.Result != nil && response.Size == nil {
		response = response.WithSize(activation.UTF16Length(string(response.Result)))
	}
	took := time.Now().UnixMilli() - start
	r := &activation.Record{
		ActivationID: m.ActivationID, Namespace: m.User.Namespace.Name, Name: m.Action.Name, Subject: m.User.Subject,
		Version: m.Version(), Cause: m.Cause, Start: start, End: start + took, Duration: &took, Response: response,
		Logs: []string{"2024-06-10T06:13:20.250123456Z stdout: ran"},
	}
	if m.CausedBySequence() {
		r.Annotations.AddText("causedBy", "sequence")
	}
	if m.Action.Binding != "" {
		r.Annotations.AddText("binding", m.Action.Binding)
	}
	r.Annotations.AddText("path", m.Action.FQN())
	r.Annotations.AddText("kind", "nodejs:20")
	r.Annotations = append(r.Annotations, activation.Annotation{Key: "limits", Value: json.RawMessage(`{"concurrency":1,"logs":10,"memory":256,"timeout":60000}`)})
	f.store(r)
	acks := "completed" + m.Controller
	if m.Blocking {
		ack := activation.NewResult(m.TransID, r)
		if f.shrink {
			ack = ack.Shrink()
		}
		f.send(client, acks, ack.Encode())
	}
	f.send(client, acks, activation.NewCompletion(m.TransID, m.ActivationID, response.SystemError(), f.instance()).Encode())
}

func (f *fakeInvoker) store(r *activation.Record) {
	db, err := couchdb.New(couchdb.Config{
		URL:  fmt.Sprintf("%s://%s:%s", f.env["CONFIG_whisk_couchdb_protocol"], f.env["CONFIG_whisk_couchdb_host"], f.env["CONFIG_whisk_couchdb_port"]),
		User: f.env["CONFIG_whisk_couchdb_username"], Password: f.env["CONFIG_whisk_couchdb_password"],
		Names: couchdb.Names{Activations: f.env["CONFIG_whisk_couchdb_databases_WhiskActivation"]},
	})
	if err != nil {
		f.t.Error(err)
		return
	}
	defer db.Close()
	if err := db.SaveRecord(context.Background(), r, time.Now().UnixMilli()); err != nil {
		f.t.Error(err)
	}
}

// messages returns the activations so far, without health tests.
func (f *fakeInvoker) messages() []*activation.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*activation.Message
	for _, m := range f.seen {
		if m.Action.Path != "whisk.system" {
			all = append(all, m)
		}
	}
	return all
}

// begin starts a standalone with the fake invoker and waits until it is ready.
func begin(t *testing.T, f *fakeInvoker, change func(*Options)) *Standalone {
	t.Helper()
	f.t = t
	o := Options{Data: t.TempDir(), Runtime: "process", Invoker: f.start, Version: "test"}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Start(ctx, o)
	check.NoError(t, err)
	t.Cleanup(func() { stop(t, s) })
	check.NoError(t, s.WaitReady(ctx))
	return s
}

func stop(t *testing.T, s *Standalone) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}
