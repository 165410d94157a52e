package fakescheduler

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
)

const manifest = `{"runtimes":{"nodejs":[{"kind":"nodejs:20","default":true,"image":{"name":"node"}}]}}`

// onEachBroker runs a test with the broker in this process, and with a real one.
func onEachBroker(t *testing.T, test func(t *testing.T, kafka string)) {
	t.Run("embedded", func(t *testing.T) {
		b, err := broker.Start(t.TempDir(), 0, peertest.Log(t))
		check.NoError(t, err)
		t.Cleanup(b.Close)
		test(t, b.Addr())
	})
	t.Run("kafka", func(t *testing.T) {
		addr := os.Getenv("GPUWHISK_TEST_KAFKA")
		if addr == "" {
			peertest.Missing(t, "no Kafka to test with: GPUWHISK_TEST_KAFKA is not set")
		}
		test(t, addr)
	})
}

// fixture is a cluster with one invoker, which the test plays.
type fixture struct {
	t        *testing.T
	cfg      Config
	etcd     *Keys
	bus      *broker.Bus
	fetcher  *fetch.Client
	instance activation.Instance
	messages chan []byte // on the invoker's topic
}

func newFixture(t *testing.T, kafka string) *fixture {
	t.Helper()
	m, err := activation.ParseManifest([]byte(manifest), activation.ManifestOptions{})
	check.NoError(t, err)
	name := fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
	f := &fixture{t: t, messages: make(chan []byte, 1000), instance: activation.Instance{UniqueName: "0", UserMemory: activation.MB}, cfg: Config{
		Cluster: activation.Cluster(name), Etcd: peertest.NeedEtcd(t), Kafka: kafka, Prefix: name, Manifest: m, Log: peertest.Log(t), Lease: 2 * time.Second,
	}}
	f.etcd = OpenKeys(t, f.cfg.Etcd, f.cfg.Cluster)
	f.bus, err = broker.Dial([]string{kafka}, f.cfg.Log)
	check.NoError(t, err)
	t.Cleanup(f.bus.Close)
	f.fetcher = fetch.New(fetch.Config{Log: f.cfg.Log})
	t.Cleanup(func() { f.fetcher.Close() })
	topics := []broker.Topic{{Name: name + "invoker0", Retention: time.Hour, Large: true}, {Name: name + "completed0", Retention: time.Hour, Large: true}}
	check.NoError(t, f.bus.CreateTopics(f.context(), topics))
	f.consume(name+"invoker0", f.messages)
	return f
}

func (f *fixture) consume(topic string, to chan []byte) {
	f.t.Helper()
	Follow(f.t, f.bus, topic, func(v []byte) { to <- v })
}

func (f *fixture) context() context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), peertest.WaitLimit)
	f.t.Cleanup(cancel)
	return ctx
}

func (f *fixture) start() *Scheduler {
	f.t.Helper()
	s, err := New(f.cfg)
	check.NoError(f.t, err)
	f.t.Cleanup(func() {
		if s.ctx.Err() == nil {
			if err := s.Stop(); err != nil {
				f.t.Error(err)
			}
		}
	})
	return s
}

// healthy puts the invoker's record and receives the warm-up.
func (f *fixture) healthy(freeMB int64) {
	f.t.Helper()
	f.put(f.cfg.Cluster.Invoker(f.instance), string(activation.Health{Status: activation.Up, FreeMB: freeMB}.Encode()))
	c := f.creation()
	check.That(f.t, c.WarmUp(), "the first creation is of %s", c.Queue.Action.FQN())
}

func (f *fixture) put(key, value string) {
	f.t.Helper()
	_, err := f.etcd.Put(f.context(), key, value)
	check.NoError(f.t, err)
}

func (f *fixture) delete(key string) {
	f.t.Helper()
	_, err := f.etcd.Delete(f.context(), key)
	check.NoError(f.t, err)
}

// keys returns the number of keys in etcd below a prefix.
func (f *fixture) keys(prefix string) int64 {
	f.t.Helper()
	answer, err := f.etcd.Get(f.context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	check.NoError(f.t, err)
	return answer.Count
}

// receive returns the next message to the invoker.
func (f *fixture) receive() (*activation.ContainerCreation, *activation.ContainerDeletion) {
	f.t.Helper()
	select {
	case v := <-f.messages:
		c, d, err := activation.DecodeContainerMessage(v)
		check.NoError(f.t, err)
		return c, d
	case <-time.After(peertest.WaitLimit):
		f.t.Fatal("no message")
	}
	return nil, nil
}

// invoke creates the queue of hello, with one activation.
func (f *fixture) invoke(s *Scheduler) {
	f.t.Helper()
	check.NoError(f.t, s.CreateQueue(f.context(), hello))
	check.NoError(f.t, s.Invoke(f.context(), message(1)))
}

func (f *fixture) creation() *activation.ContainerCreation {
	f.t.Helper()
	c, d := f.receive()
	if c == nil {
		f.t.Fatalf("a deletion of %s", d.Queue.Action.FQN())
	}
	return c
}

func (f *fixture) ack(c *activation.ContainerCreation, e activation.CreationError) {
	f.t.Helper()
	a := activation.ContainerCreationAck{Creation: c, Instance: f.instance, Error: e, Reason: "for a test"}
	check.NoError(f.t, f.bus.Publish(f.context(), f.cfg.Prefix+activation.CreationAckTopic(c.Scheduler), a.Encode()))
}

// function is an action of the namespace guest.
func function(revision, version, annotations string) Function {
	meta := fmt.Sprintf(`{"annotations":[%s],"exec":{"binary":false,"kind":"nodejs:20"},"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},"name":"hello","namespace":"guest","parameters":[],"publish":false,"updated":1717990000000,"version":"%s"}`, annotations, version)
	return Function{
		Queue:    activation.NewQueue("guest", activation.ActionRef{Path: "guest", Name: "hello", Version: version}, revision),
		MetaData: activation.NewActionMetaData([]byte(meta)),
	}
}

var hello = function("1-aa", "0.0.1", "")

// message is an activation of hello.
func message(n int) *activation.Message {
	return &activation.Message{
		TransID: activation.NewTransID("t", time.Now().UnixMilli(), false), Action: hello.Queue.Action, Revision: hello.Queue.Revision,
		User:         activation.Identity{Subject: "guest", Namespace: activation.Namespace{Name: "guest", UUID: "u"}},
		ActivationID: activation.ID(fmt.Sprintf("%032x", n)), Controller: "0", Blocking: true,
	}
}

// until blocks until want accepts the events seen so far, and returns them.
func (f *fixture) until(s *Scheduler, what string, want func(Seen) bool) Seen {
	f.t.Helper()
	late := time.After(peertest.WaitLimit)
	for {
		seen, changed := s.Seen()
		if want(seen) {
			return seen
		}
		select {
		case <-changed:
		case <-late:
			f.t.Fatalf("%s: %+v", what, seen)
		}
	}
}
