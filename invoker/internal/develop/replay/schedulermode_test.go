package replay

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestSchedulerMode is the list by which an invoker is accepted in OpenWhisk's
// scheduler mode, with the program as it ships. What other tests hold:
//
//	paused containers that go, or are kept    slot.TestSlotScripts
//	several runs in a container               assembly.TestSchedulerModeRunsSeveralInAContainer
//	an image that is not there                TestKills, under load with idle containers
//	an update under load                      assembly.TestSchedulerModeUpdateUnderLoad
//	another scheduler leads                   assembly.TestSchedulerModeFollowsTheLeader
//	kill -9                                   TestKills, under load with idle containers
//	the lease is lost                         assembly.TestSchedulerModeOutlivesItsLease
//	1,000 calls, none lost                    assembly.TestSchedulerModeLosesNothing
//	no invoker with the resource: the error   fakescheduler.TestWithoutInvokers
//	beside the original                       ansible/tests/stock
//	all acks can be parsed                    fixture.allEnded, at the end of each
func TestSchedulerMode(t *testing.T) {
	t.Parallel()
	s := newFixture(t, harness.Parts{Apache: true, Scheduler: harness.Scheduled, OwnEtcd: true,
		Settings: []string{"CONFIG_whisk_containerProxy_timeouts_pauseGrace=5 seconds"}})
	s.DB.Store(t, harness.Names.Subjects, "guest/limits", []byte(`{"maxActionMemory":1024}`))
	s.Put(counter("hello"))
	l := &accepted{first: s.Ship(0)}
	for _, c := range []struct {
		name string
		do   func(*fixture)
	}{
		{"seen", l.seen}, {"cold and warm", l.coldAndWarm}, {"paused and resumed", l.pausedAndResumed}, {"many at once", l.manyAtOnce},
		{"waits for memory", l.waitsForMemory}, {"limits of the namespace", l.limits}, {"action that is gone", l.gone},
		{"disabled and enabled", l.disabled}, {"settings of the package", l.packaged},
		{"Kafka stops under load", l.kafkaStops}, {"etcd stops under load", l.etcdStops}, {"tags", l.tags},
	} {
		if !t.Run(c.name, func(t *testing.T) { s.at(t, c.do) }) {
			t.FailNow()
		}
	}
	l.first.Terminate(t)
	s.allEnded(1)
}

// accepted is the shared state of the cases.
type accepted struct {
	first *harness.Process
}

func (l *accepted) seen(s *fixture) {
	_, lease := s.Health(0)
	left, err := s.Keys.TimeToLive(s.T.Context(), lease)
	check.NoError(s.T, err)
	check.Equal(s.T, left.GrantedTTL, 10, "lease %+v", left)
	s.Until("a warm-up", func() string {
		if seen, _ := s.Scheduler.Seen(); seen.WarmUps != 1 {
			return fmt.Sprint(seen.WarmUps)
		}
		return ""
	})
	check.Equal(s.T, s.poolCount(l.first), 0)
}

func (l *accepted) coldAndWarm(s *fixture) {
	check.Contains(s.T, s.result("hello"), `{"n":1}`)
	s.AwaitNoKeys("in-progress/")
	check.Greater(s.T, len(s.KeysBelow("namespace/guest/guest/hello/")), 0, "the container has no key")
	seen, _ := s.Scheduler.Seen()
	before := len(seen.Creations)
	for _, a := range seen.Acks {
		check.Equal(s.T, a.Error, activation.NoCreationError, "ack %+v", a)
	}
	check.Contains(s.T, s.result("hello"), `{"n":2}`)
	seen, _ = s.Scheduler.Seen()
	check.Equal(s.T, len(seen.Creations), before, "creations after a warm call")
}

func (l *accepted) pausedAndResumed(s *fixture) {
	const warmed = "warmed/guest/guest/hello/"
	s.AwaitNoKeys("namespace/")
	before := s.KeysBelow(warmed)
	check.Equal(s.T, len(before), 1, "paused: %v", before)
	check.Contains(s.T, s.result("hello"), `{"n":3}`)
	s.Until("its keys are swapped", func() string {
		if paused, there := s.KeysBelow(warmed), s.KeysBelow("namespace/guest/guest/hello/"); len(paused) > 0 || len(there) == 0 {
			return fmt.Sprint(paused, there)
		}
		return ""
	})
}

func (l *accepted) manyAtOnce(s *fixture) {
	s.Put(counter("many"))
	s.settled(s.Invoke(20, harness.Message{Action: "many", Content: map[string]any{"ms": 300}}))
	seen, _ := s.Scheduler.Seen()
	check.AtMost(s.T, seen.MostContainers, 30)
	s.AwaitNoKeys("namespace/")
	s.result("many") // the queue counts no container that is gone, so a new one is ordered
}

// waitsForMemory: an activation without memory runs as soon as there is memory.
func (l *accepted) waitsForMemory(s *fixture) {
	g := s.gated(alone("large", 1024), 2)
	g.Await(2)
	s.Put(counter("small"))
	s.Invoke(1, harness.Message{Action: "small"})
	s.Until("the scheduler has found no memory", func() string {
		if h, _ := s.Health(0); h.FreeMB > 0 {
			return fmt.Sprintf("%+v", h)
		}
		return ""
	})
	g.Open()
	s.settled(s.IDs[len(s.IDs)-3:])
}

// gated invokes an action n times, whose runs wait at a gate.
func (w *fixture) gated(a harness.Action, n int) *harness.Gate {
	w.T.Helper()
	w.Put(a)
	g := w.NewGate()
	w.Invoke(n, harness.Message{Action: a.Name, Content: map[string]any{"url": g.URL}})
	return g
}

func (l *accepted) limits(s *fixture) {
	s.Put(counter("huge", func(a *harness.Action) { a.MemoryMB = 1280 }))
	s.refusal("huge", "memory size 1280 MB exceeds allowed threshold of 1024 MB")
}

func (l *accepted) gone(s *fixture) {
	s.PutNowhere(counter("gone"))
	check.Contains(s.T, s.result("gone"), "Action could not be found or may have been deleted.")
}

func (l *accepted) disabled(s *fixture) {
	l.first.Admin.Do(s.T, http.MethodPost, "/disable")
	s.Until("it is down, and empty", func() string {
		h, _ := s.Health(0)
		if n := s.poolCount(l.first); h.Status != activation.Down || n > 0 {
			return fmt.Sprintf("%+v, %d", h, n)
		}
		return ""
	})
	s.AwaitNoKeys("namespace/")
	s.AwaitNoKeys("warmed/")
	l.first.Admin.Do(s.T, http.MethodPost, "/enable")
	s.AwaitUp(0, l.first)
	s.result("hello")
}

// packaged: the commands of the package find the invoker by the unit's settings file,
// and the program shows the values in force.
func (l *accepted) packaged(s *fixture) {
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(l.first.Admin.URL, "http://"))
	file := s.settingsFile("PORT=" + port)
	for _, args := range [][]string{
		{"ping", "--id", "0", "--env-file", file}, {"probe", "--id", "0", "--action", "guest/hello", "--env-file", file},
	} {
		cmd := s.Shipped(nil, args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil {
			s.T.Errorf("%v: %v: %s", args, err, out)
		}
	}
	out, err := s.Shipped(nil, "invoker", "--id", "0", "--print-config").CombinedOutput()
	check.NoError(s.T, err, "--print-config: %s", out)
	check.Contains(s.T, string(out), s.EtcdAddr, "--print-config")
	check.Lacks(s.T, string(out), "not secret", "--print-config")
}

// kafkaStops: running activations end, and are acknowledged when the broker is back.
func (l *accepted) kafkaStops(s *fixture) {
	s.Scheduler.SetLimit("guest", 100) // creations that were ordered while Kafka or etcd is unreachable count until they expire
	before := s.Fetched()
	g := s.gated(alone("gated", 256), 20)
	ids := s.IDs[len(s.IDs)-20:]
	s.unchecked = append(s.unchecked, ids...) // an ack may come twice, if the broker's answer was lost
	g.Await(4)
	s.Until("the scheduler has all", func() string { // activations that are too old are given up
		q, _ := s.Queue("gated")
		if n := q.Waiting + s.Fetched() - before; n < len(ids) {
			return fmt.Sprint(n)
		}
		return ""
	})
	check.NoError(s.T, s.Broker.Stop())
	g.Open()
	g.Await(1) // activations that are fetched meanwhile run, too
	check.NoError(s.T, s.Broker.Start())
	s.settled(ids)
	s.result("hello")
}

// etcdStops: running activations continue, and the keys exist again afterwards.
func (l *accepted) etcdStops(s *fixture) {
	g := s.gated(alone("served", 256), 6)
	ids := s.IDs[len(s.IDs)-6:]
	g.Await(2)
	s.Etcd.Stop(s.T)
	g.Open()
	s.AwaitSlot(ids[:2]...)
	s.Etcd.Start(s.T)
	s.settled(ids)
	s.AwaitUp(0, l.first)
	s.result("hello")
}

// tags: an action that requires a resource waits for an invoker with that resource, and
// runs there on its GPU. An invoker of another namespace gets no work from this
// namespace.
func (l *accepted) tags(s *fixture) {
	s.Put(counter("gpu", func(a *harness.Action) {
		a.Annotations = map[string]any{"gpu": true, "invoker-resources": []string{"gpu"}}
	}))
	ids := s.Invoke(8, harness.Message{Action: "gpu", Content: map[string]any{"ms": 20}})
	s.AwaitState("no invoker has a GPU", "gpu", memoryqueue.Flushing)
	state := func() string { return "CONFIG_whisk_gpu_state=" + s.T.TempDir() }
	tagged := s.Ship(1, state(), "CONFIG_whisk_gpu_simulated_devices=1")
	dedicated := s.Ship(2, state(), "CONFIG_whisk_invoker_dedicated_namespaces= 'other' ")
	s.settled(ids)
	for _, id := range ids {
		r := s.DB.AwaitRecord(s.T, activation.ID(id))
		check.Equal(s.T, r.Response.StatusCode, activation.StatusSuccess, "record %+v", r)
		_, ok := r.Annotations.Get("gpu")
		check.That(s.T, ok, "it ran on no GPU: %+v", r)
	}
	for n := range 10 {
		name := "plain" + strconv.Itoa(n)
		s.Put(counter(name))
		s.result(name)
	}
	seen, _ := s.Scheduler.Seen()
	for _, c := range seen.Creations {
		check.That(s.T, c.Invoker != 2, "%s was ordered from the invoker of another namespace", c.Queue.Action.Name)
		if c.Queue.Action.Name == "gpu" {
			check.Equal(s.T, c.Invoker, 1, "invoker from which gpu was ordered")
		}
	}
	tagged.Terminate(s.T)
	dedicated.Terminate(s.T)
}

// TestUnitIsReadyWhenSchedulersSeeIt: the service manager gets the same state as the
// health key.
func TestUnitIsReadyWhenSchedulersSeeIt(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	check.NoError(t, err)
	defer l.Close()
	s := newFixture(t, harness.Parts{Scheduler: harness.Scheduled})
	p := s.Ship(0, "NOTIFY_SOCKET="+at)
	buf := make([]byte, 100)
	check.NoError(t, l.SetReadDeadline(time.Now().Add(peertest.WaitLimit)))
	n, err := l.Read(buf)
	check.NoError(t, err)
	check.Equal(t, string(buf[:n]), "READY=1")
	p.Terminate(t)
	s.allEnded(1)
}

// at runs a part of a test with the same deployment as a subtest.
func (w *fixture) at(t *testing.T, do func(*fixture)) {
	whole := w.T
	w.T = t
	defer func() { w.T = whole }()
	do(w)
}

// settingsFile writes the environment in the form of the packages' unit, with a test's
// additions.
func (w *fixture) settingsFile(extra ...string) (path string) {
	w.T.Helper()
	path = filepath.Join(w.T.TempDir(), "invoker.env")
	var text strings.Builder
	for _, v := range append(w.Environment(), extra...) {
		name, value, _ := strings.Cut(strings.ReplaceAll(v, "\n", ""), "=")
		fmt.Fprintf(&text, "%s='%s'\n", name, value)
	}
	check.NoError(w.T, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// poolCount returns the count that OpenWhisk's role requests before it replaces an
// invoker.
func (w *fixture) poolCount(p *harness.Process) (n int) {
	w.T.Helper()
	check.NoError(w.T, json.Unmarshal(p.Admin.Do(w.T, http.MethodGet, "/pool/count"), &n))
	return n
}
