package replay

import (
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
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestSchedulerMode is the list by which an invoker is accepted in OpenWhisk's
// scheduler mode, with the program as it ships. What other tests hold:
//
//	paused containers that go, or are kept    slot.TestPausedSlotIsKeptAsItsNamespaceWishes
//	several runs in a container               assembly.TestSchedulerModeRunsSeveralInAContainer
//	an image that is not there                TestSchedulerModeKilledUnderLoad
//	an update under load                      assembly.TestSchedulerModeUpdateUnderLoad
//	another scheduler leads                   assembly.TestSchedulerModeFollowsTheLeader
//	kill -9                                   TestSchedulerModeKilledUnderLoad
//	the lease is lost                         assembly.TestSchedulerModeOutlivesItsLease
//	1,000 calls, none lost                    assembly.TestSchedulerModeLosesNothing
//	no invoker with the resource: the error   fakescheduler.TestWithoutInvokers
//	beside the original                       ansible/tests/stock
//	all acks can be parsed                    scheduled.check, at the end of each
func TestSchedulerMode(t *testing.T) {
	t.Parallel()
	peertest.Variable(t, "GPUWHISK_TEST_KAFKA", "kafka.sh")
	w := apacheFixture(t, (*fixture).startStore)
	w.extra = append(w.extra, "CONFIG_whisk_containerProxy_timeouts_pauseGrace=5 seconds")
	s := newScheduled(w)
	s.db.Store(t, names.Subjects, "guest/limits", []byte(`{"maxActionMemory":1024}`))
	l := &accepted{first: s.ship(0), hello: s.function(counter("hello"))}
	for _, c := range []struct {
		name string
		do   func(*scheduled)
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
	s.check(1)
}

// accepted is the shared state of the cases.
type accepted struct {
	first *harness.Process
	hello fakescheduler.Function
}

func (l *accepted) seen(s *scheduled) {
	_, lease := s.health(0)
	left, err := s.client.TimeToLive(s.t.Context(), lease)
	check.NoError(s.t, err)
	check.Equal(s.t, left.GrantedTTL, 10, "lease %+v", left)
	s.until("a warm-up", func() string {
		if seen, _ := s.scheduler.Seen(); seen.WarmUps != 1 {
			return fmt.Sprint(seen.WarmUps)
		}
		return ""
	})
	check.Equal(s.t, s.poolCount(l.first), 0)
}

func (l *accepted) coldAndWarm(s *scheduled) {
	check.Contains(s.t, s.once(l.hello), `{"n":1}`)
	s.none("in-progress/")
	check.Greater(s.t, len(s.keys("namespace/guest/guest/hello/")), 0, "the container has no key")
	seen, _ := s.scheduler.Seen()
	before := len(seen.Creations)
	for _, a := range seen.Acks {
		check.Equal(s.t, a.Error, activation.NoCreationError, "ack %+v", a)
	}
	check.Contains(s.t, s.once(l.hello), `{"n":2}`)
	seen, _ = s.scheduler.Seen()
	check.Equal(s.t, len(seen.Creations), before, "creations after a warm call")
}

func (l *accepted) pausedAndResumed(s *scheduled) {
	const warmed = "warmed/guest/guest/hello/"
	s.none("namespace/")
	before := s.keys(warmed)
	check.Equal(s.t, len(before), 1, "paused: %v", before)
	check.Contains(s.t, s.once(l.hello), `{"n":3}`)
	s.until("its keys are swapped", func() string {
		if paused, there := s.keys(warmed), s.keys("namespace/guest/guest/hello/"); len(paused) > 0 || len(there) == 0 {
			return fmt.Sprint(paused, there)
		}
		return ""
	})
}

func (l *accepted) manyAtOnce(s *scheduled) {
	many := s.function(counter("many"))
	s.settled(s.invoke(many, 20, map[string]any{"ms": 300}))
	seen, _ := s.scheduler.Seen()
	check.AtMost(s.t, seen.MostContainers, 30)
	s.none("namespace/")
	s.once(many) // the queue counts no container that is gone, so a new one is ordered
}

// waitsForMemory: an activation without memory runs as soon as there is memory.
func (l *accepted) waitsForMemory(s *scheduled) {
	g := newGate(s.t, "127.0.0.1")
	ids := s.invoke(s.function(alone("large", 1024)), 2, map[string]any{"url": g.url})
	g.await(2)
	small := s.invoke(s.function(counter("small")), 1, nil)
	s.until("the scheduler has found no memory", func() string {
		if h, _ := s.health(0); h.FreeMB > 0 {
			return fmt.Sprintf("%+v", h)
		}
		return ""
	})
	g.open()
	s.settled(append(ids, small...))
}

// alone is caller, one run in a container.
func alone(name string, memoryMB int) harness.Action {
	a := caller
	a.Name, a.Concurrency, a.MemoryMB, a.LogsMB = name, 1, memoryMB, 0
	return a
}

func (l *accepted) limits(s *scheduled) {
	huge := s.function(counter("huge", func(a *harness.Action) { a.MemoryMB = 1280 }))
	id := s.attempt(huge, 1, nil)[0]
	s.awaitSlot(id)
	s.failed(id, activation.StatusDeveloperError, "memory size 1280 MB exceeds allowed threshold of 1024 MB")
}

// failed demands how a scheduler ended an activation.
func (s *scheduled) failed(id string, status int, text string) {
	s.t.Helper()
	seen, _ := s.scheduler.Seen()
	for _, f := range seen.Failures {
		if string(f.Activation) == id {
			check.Equal(s.t, f.Status, status, "it failed with %+v", f)
			check.Contains(s.t, f.Reason, text)
			return
		}
	}
	s.t.Errorf("%s did not fail: %+v", id, seen.Failures)
}

func (l *accepted) gone(s *scheduled) {
	check.Contains(s.t, s.once(s.unstored(counter("gone"), "1-0a")), "Action could not be found or may have been deleted.")
}

func (l *accepted) disabled(s *scheduled) {
	l.first.Admin.Do(s.t, http.MethodPost, "/disable")
	s.until("it is down, and empty", func() string {
		h, _ := s.health(0)
		if n := s.poolCount(l.first); h.Status != activation.Down || n > 0 {
			return fmt.Sprintf("%+v, %d", h, n)
		}
		return ""
	})
	s.none("namespace/")
	s.none("warmed/")
	l.first.Admin.Do(s.t, http.MethodPost, "/enable")
	s.up(0, l.first)
	s.once(l.hello)
}

// packaged: the commands of the package find the invoker by the unit's settings file,
// and the program shows the values in force.
func (l *accepted) packaged(s *scheduled) {
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(l.first.Admin.URL, "http://"))
	file := s.settingsFile("PORT=" + port)
	for _, args := range [][]string{
		{"ping", "--id", "0", "--env-file", file}, {"probe", "--id", "0", "--action", "guest/hello", "--env-file", file},
	} {
		cmd := s.shipped(nil, args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil {
			s.t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	out, err := s.shipped(nil, "invoker", "--id", "0", "--print-config").CombinedOutput()
	check.NoError(s.t, err, "--print-config: %s", out)
	check.Contains(s.t, string(out), s.etcd.Addr, "--print-config")
	check.Lacks(s.t, string(out), storePassword, "--print-config")
}

// kafkaStops: running activations end, and are acknowledged when the broker is back.
func (l *accepted) kafkaStops(s *scheduled) {
	s.scheduler.SetLimit("guest", 100) // creations that were ordered while Kafka or etcd is unreachable count until they expire
	g := newGate(s.t, "127.0.0.1")
	of, before := s.function(alone("gated", 256)), s.fetched()
	ids := s.attempt(of, 20, map[string]any{"url": g.url})
	g.await(4)
	s.until("the scheduler has all", func() string { // activations that are too old are given up
		q, _ := s.scheduler.Queue(of.Queue)
		if n := q.Waiting + s.fetched() - before; n < len(ids) {
			return fmt.Sprint(n)
		}
		return ""
	})
	check.NoError(s.t, s.apache.Stop())
	g.open()
	g.await(1) // activations that are fetched meanwhile run, too
	check.NoError(s.t, s.apache.Start())
	s.settled(ids) // an ack may come twice, if the broker's answer was lost
	s.once(l.hello)
}

// etcdStops: running activations continue, and the keys exist again afterwards.
func (l *accepted) etcdStops(s *scheduled) {
	g := newGate(s.t, "127.0.0.1")
	ids := s.invoke(s.function(alone("served", 256)), 6, map[string]any{"url": g.url})
	g.await(2)
	s.etcd.Stop(s.t)
	g.open()
	for _, id := range ids[:2] {
		s.awaitSlot(id)
	}
	s.etcd.Start(s.t)
	s.settled(ids)
	s.up(0, l.first)
	s.once(l.hello)
}

// tags: an action that requires a resource waits for an invoker with that resource, and
// runs there on its GPU. An invoker of another namespace gets no work from this
// namespace.
func (l *accepted) tags(s *scheduled) {
	gpu := s.function(counter("gpu", func(a *harness.Action) {
		a.Annotations = map[string]any{"gpu": true, "invoker-resources": []string{"gpu"}}
	}))
	ids := s.invoke(gpu, 8, map[string]any{"ms": 20})
	s.awaitState("no invoker has a GPU", gpu, memoryqueue.Flushing)
	state := func() string { return "CONFIG_whisk_gpu_state=" + s.t.TempDir() }
	tagged := s.ship(1, state(), "CONFIG_whisk_gpu_simulated_devices=1")
	dedicated := s.ship(2, state(), "CONFIG_whisk_invoker_dedicated_namespaces= 'other' ")
	s.settled(ids)
	for _, id := range ids {
		r := s.db.AwaitRecord(s.t, activation.ID(id))
		check.Equal(s.t, r.Response.StatusCode, activation.StatusSuccess, "record %+v", r)
		_, ok := r.Annotations.Get("gpu")
		check.That(s.t, ok, "it ran on no GPU: %+v", r)
	}
	for n := range 10 {
		s.once(s.function(counter("plain" + strconv.Itoa(n))))
	}
	seen, _ := s.scheduler.Seen()
	for _, c := range seen.Creations {
		check.That(s.t, c.Invoker != 2, "%s was ordered from the invoker of another namespace", c.Queue.Action.Name)
		if c.Queue.Action.Name == "gpu" {
			check.Equal(s.t, c.Invoker, 1, "invoker from which gpu was ordered")
		}
	}
	tagged.Terminate(s.t)
	dedicated.Terminate(s.t)
}

// TestSchedulerModeKilledUnderLoad: idle containers are the next process's, with keys on
// its lease, and each activation has one answer and one record. An image that cannot be
// pulled is the developer's error, and is not tried all the time.
func TestSchedulerModeKilledUnderLoad(t *testing.T) {
	t.Parallel()
	peertest.Variable(t, "GPUWHISK_TEST_KAFKA", "kafka.sh")
	peertest.NeedDocker(t)
	w := apacheFixture(t, (*fixture).startStore).inDocker()
	w.extra = append(w.extra, "CONFIG_whisk_containerProxy_timeouts_pauseGrace=1 second", "CONFIG_whisk_containerPool_userMemory=4096m")
	s := newScheduled(w)
	s.scheduler.SetLimit("guest", 6) // so that there is memory for the idle one
	first := s.ship(0)
	idle := s.function(counter("idle"))
	check.Contains(s.t, s.once(idle), `{"n":1}`)
	s.until("its container is paused", func() string {
		if keys := s.keys("warmed/guest/guest/idle/"); len(keys) == 0 {
			return "no key"
		}
		return ""
	})
	g := newGate(t, bridge(t))
	ids := s.invoke(s.function(alone("busy", 256)), 36, map[string]any{"url": g.url})
	// An answer to a fetch that is not in the journal yet would be lost by a kill: wait
	// until each container runs, so that none is fetching.
	s.until("all containers run", func() string {
		there, ordered := s.keys("namespace/guest/guest/busy/"), s.keys("in-progress/")
		if n := g.all(); n < 6 || n != len(there) || len(ordered) > 0 {
			return fmt.Sprintf("%d runs, containers %v, ordered %v", n, there, ordered)
		}
		return ""
	})
	_, old := s.health(0)
	first.Kill()
	g.open()
	next := s.ship(0)
	s.settled(ids)
	_, lease := s.health(0)
	check.That(t, lease != old, "the lease is that of the process that was killed")
	s.until("all keys hang on the new lease", func() string {
		for _, below := range []string{"namespace/", "warmed/"} {
			for key, of := range s.keys(below) {
				if of != lease {
					return key
				}
			}
		}
		return ""
	})
	check.AtLeast(t, next.Admin.Metric(t, "gpuwhisk_containers_adopted_total", ""), 1)
	s.none("namespace/")
	s.scheduler.SetLimit("guest", 30) // creations for the dead invoker count for a while
	s.awaitState("the namespace has places again", idle, memoryqueue.Running)
	s.none("namespace/")
	check.Contains(s.t, s.once(idle), `{"n":2}`)
	s.none("namespace/")
	s.imageMissing()
	next.Terminate(t)
	s.check(2) // an ack may be sent, and not be known to be
}

// awaitState waits until the queue of a function is in a state.
func (s *scheduled) awaitState(what string, of fakescheduler.Function, want memoryqueue.State) {
	s.t.Helper()
	s.until(what, func() string {
		if q, _ := s.scheduler.Queue(of.Queue); q.State != want {
			return q.State.String()
		}
		return ""
	})
}

func (s *scheduled) imageMissing() {
	s.t.Helper()
	missing := s.unstored(harness.Action{Name: "missing", Kind: activation.Blackbox, Image: "localhost:1/missing:1", Timeout: time.Minute}, "1-0a")
	for range 2 {
		id := s.attempt(missing, 1, nil)[0]
		s.awaitSlot(id)
		s.failed(id, activation.StatusDeveloperError, "Failed to pull container image 'localhost:1/missing:1'.")
		s.until("the queue is removed", func() string {
			if q, ok := s.scheduler.Queue(missing.Queue); ok {
				return q.State.String()
			}
			return ""
		})
	}
	check.AtMost(s.t, len(s.creations(missing)), 20, "creations of an image that cannot be pulled")
}

// TestUnitIsReadyWhenSchedulersSeeIt: the service manager gets the same state as the
// health key.
func TestUnitIsReadyWhenSchedulersSeeIt(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	check.NoError(t, err)
	defer l.Close()
	s := newScheduled(newFixture(t))
	p := s.ship(0, "NOTIFY_SOCKET="+at)
	buf := make([]byte, 100)
	check.NoError(t, l.SetReadDeadline(time.Now().Add(peertest.WaitLimit)))
	n, err := l.Read(buf)
	check.NoError(t, err)
	check.Equal(t, string(buf[:n]), "READY=1")
	p.Terminate(t)
	s.check(1)
}
