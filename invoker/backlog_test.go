package invoker

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/proxy"
	"github.com/prometheus/client_golang/prometheus"
)

// fakeSpill keeps messages, or refuses, as a test sets it.
type fakeSpill struct {
	mu     sync.Mutex
	has    map[activation.ID][]byte
	read   []activation.ID
	refuse error               // Spill returns it
	lose   error               // Message answers it
	slow   func(activation.ID) // called before a message is read
}

func newSpill() *fakeSpill { return &fakeSpill{has: map[activation.ID][]byte{}} }

func (s *fakeSpill) Spill(ids []activation.ID, messages [][]byte) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(ids))
	for i, id := range ids {
		if errs[i] = s.refuse; s.refuse == nil {
			s.has[id] = messages[i]
		}
	}
	return errs
}

func (s *fakeSpill) Message(id activation.ID) ([]byte, error) {
	s.mu.Lock()
	slow, lose := s.slow, s.lose
	s.mu.Unlock()
	if slow != nil {
		slow(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = append(s.read, id)
	if lose != nil {
		return nil, lose
	}
	return s.has[id], nil
}

func (s *fakeSpill) will(f func(s *fakeSpill)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// aSecond has each run take a second, one at a time.
func (env *fixture) aSecond() Settings {
	env.lasting(time.Second)
	s := env.gpuSettings(1)
	s.GPU.Tokens.Max = 1
	return s
}

// TestFarActivationsAreSpilled: of a long backlog a handful of messages is in
// memory, the feed has forgotten those that are spilled, and all end once, in
// their order.
func TestFarActivationsAreSpilled(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		store := newSpill()
		env.spill = store
		env.action("gpu", annotate("true"))
		env.action("cpu", nil)
		s := env.aSecond()
		s.InFlight = 4
		iv, stop := env.start(s)
		const n = 300
		for i := range n {
			env.invoke("gpu", func(m *activation.Message) { m.Content = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)) })
			synctest.Wait() // or actions that are fetched overtake each other
		}
		time.Sleep(500 * time.Millisecond)
		st := env.status(iv)
		b := *st.Backlog
		check.Equal(t, b.Spilled+b.InMemory, n)
		check.AtMost(t, b.InMemory, 10)
		check.Equal(t, b.Off, "")
		check.Equal(t, b.Trouble, "")
		check.Equal(t, st.InFlight, n)
		env.mu.Lock()
		check.Equal(t, len(env.done), st.Backlog.Spilled, "the feed forgot")
		env.mu.Unlock()
		env.invokeAndWait("cpu", 1100*time.Millisecond)
		check.That(t, env.record(activation.ID(fmt.Sprintf("%032x", n))) != nil, "a CPU action waits for a GPU")
		time.Sleep((n + 10) * time.Second)
		stop()
		env.judge(0, n+1)
		ended := slices.DeleteFunc(env.records, func(r *activation.Record) bool { return r.Name == "cpu" })
		for i, a := range ended {
			check.Equal(check.Must(t), a.ActivationID, activation.ID(fmt.Sprintf("%032x", i)), "record %d", i)
			check.Equal(check.Must(t), a.Response.StatusCode, 0, "record %d", i)
		}
		check.Equal(t, iv.permits.spilled.Load(), 0)
		check.Equal(t, iv.InFlight(), 0)
		if b := iv.dispatch.gpus.backlog; len(b.spilled)+len(b.loading)+len(b.inMemory) != 0 {
			t.Errorf("at the end memory has %d spilled, %d loading, %d messages", len(b.spilled), len(b.loading), len(b.inMemory))
		}
	})
}

// TestManyFunctionsAreSpilled: where no function has many, but many have some,
// messages are spilled as well, and read when their turn is there.
func TestManyFunctionsAreSpilled(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.spill = newSpill()
		s := env.aSecond()
		s.GPU.Backlog = Backlog{Activations: 1000, Bytes: 20 << 10} // enough for some 20 messages
		iv, stop := env.start(s)
		const n = 200
		for i := range n {
			env.action(fmt.Sprint("gpu", i), annotate("true"))
			env.invoke(fmt.Sprint("gpu", i), nil)
		}
		time.Sleep(500 * time.Millisecond)
		messages, bytes := iv.permits.used()
		check.AtMost(t, messages, 40, "in memory")
		check.AtMost(t, bytes, 40<<10, "in memory")
		check.Equal(t, iv.InFlight(), n)
		time.Sleep((n + 10) * time.Second)
		stop()
		env.judge(0, n)
	})
}

// TestStartWaitsForItsMessage: a run whose message is slow to come holds up
// no other.
func TestStartWaitsForItsMessage(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		store := newSpill()
		store.slow = func(activation.ID) { time.Sleep(time.Minute) }
		env.spill = store
		env.action("gpu", annotate("true"))
		env.action("cpu", nil)
		_, stop := env.start(env.aSecond())
		const n = 12
		for range n {
			env.invoke("gpu", nil)
		}
		time.Sleep(30 * time.Second)
		cpu := env.invokeAndWait("cpu", 1100*time.Millisecond)
		check.That(t, env.record(cpu) != nil, "a CPU action waits for a spilled message")
		time.Sleep(time.Hour)
		stop()
		env.judge(0, n+1)
	})
}

// TestUnreadableMessageIsAnswered: an activation whose message is lost is
// answered once, to its controller, and a run of its function goes on after it.
func TestUnreadableMessageIsAnswered(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		store := newSpill()
		env.spill = store
		env.action("gpu", annotate("true"))
		iv, stop := env.start(env.aSecond())
		const n = 40
		for range n {
			env.invoke("gpu", nil)
		}
		time.Sleep(500 * time.Millisecond)
		st := env.status(iv)
		store.will(func(s *fakeSpill) { s.lose = errors.New("bad sector") })
		time.Sleep(time.Minute)
		store.will(func(s *fakeSpill) { s.lose = nil })
		last := env.invokeAndWait("gpu", time.Minute)
		stop()
		env.judge(0, n+1)
		lost := 0
		for _, r := range env.records {
			if r.Response.StatusCode == activation.StatusWhiskError && strings.Contains(string(r.Response.Result), textUnreadable) {
				lost++
				check.Equal(t, r.Subject, "guest")
				check.Equal(t, r.Namespace, "guest")
				check.Equal(t, r.Name, "gpu")
			}
		}
		check.That(t, lost != 0, "%d answered as unreadable of %d that were spilled", lost, st.Backlog.Spilled)
		check.AtMost(t, lost, st.Backlog.Spilled)
		env.ok(last)
	})
}

// TestSpilledActivationsAreRefused: those whose device does not come back are
// answered with the reason, whether their messages can be read or not.
func TestSpilledActivationsAreRefused(t *testing.T) {
	for _, lose := range []error{nil, errors.New("bad sector")} {
		withFixture(t, func(t *testing.T, env *fixture) {
			store := newSpill()
			env.spill = store
			env.action("gpu", annotate("true"))
			s := env.aSecond()
			s.GPU.DeviceTimeout = 5 * time.Minute
			iv, stop := env.start(s)
			iv.DeviceLost(0, "Xid 79")
			const n = 500
			for range n {
				env.invoke("gpu", nil)
			}
			time.Sleep(time.Minute)
			store.will(func(s *fakeSpill) { s.lose = lose })
			time.Sleep(5 * time.Minute)
			stop()
			env.judge(0, n)
			for _, r := range env.records {
				check.Contains(check.Must(t), string(r.Response.Result), "there was none that could run it")
			}
		})
	}
}

// TestFullSpillPressesBack: what cannot be spilled stays in memory and takes
// permits, so that less is pulled; the status shows it, and all end when there is space.
func TestFullSpillPressesBack(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		store := newSpill()
		store.refuse = errors.New("journal is full")
		env.spill = store
		env.action("gpu", annotate("true"))
		s := env.aSecond()
		s.InFlight, s.GPU.Backlog = 4, Backlog{Activations: 20, Bytes: 1 << 20}
		s.GPU.Overdue = 0
		// The first run is not over when the status is read at 50 s.
		env.lasting(55 * time.Second)
		iv, stop := env.start(s)
		const n = 100
		for range n {
			env.invoke("gpu", nil)
		}
		time.Sleep(30 * time.Second)
		st := env.status(iv)
		check.Equal(t, st.InFlight, 24, "%d in flight, want 20 of the backlog and 4: %+v", st.InFlight, st.Backlog)
		check.Equal(t, st.Backlog.Trouble, "journal is full", "%d in flight, want 20 of the backlog and 4: %+v", st.InFlight, st.Backlog)
		check.Equal(t, st.Backlog.Spilled, 0, "%d in flight, want 20 of the backlog and 4: %+v", st.InFlight, st.Backlog)
		iv.dispatch.gpus.backlog.permits.most.Activations = 1000 // as the operator would
		store.will(func(s *fakeSpill) { s.refuse = nil })
		time.Sleep(20 * time.Second)
		st = env.status(iv)
		check.Equal(t, st.InFlight, n, "%d in flight when there is space: %+v", st.InFlight, st.Backlog)
		check.Equal(t, st.Backlog.Trouble, "", "%d in flight when there is space: %+v", st.InFlight, st.Backlog)
		check.AtMost(t, st.Backlog.InMemory, 10, "%d in flight when there is space: %+v", st.InFlight, st.Backlog)
		time.Sleep((n + 10) * time.Minute)
		stop()
		env.judge(0, n)
	})
}

// TestStopLeavesWhatIsSpilled: a stop waits for what is in memory and not for
// what is spilled; the next process is given that, and all end once.
func TestStopLeavesWhatIsSpilled(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		store := newSpill()
		env.spill = store
		env.action("gpu", annotate("true"))
		_, stop := env.start(env.aSecond())
		const n = 200
		for range n {
			env.invoke("gpu", nil)
		}
		time.Sleep(500 * time.Millisecond)
		began := time.Now()
		stop()
		check.AtMost(t, time.Since(began), 20*time.Second, "the stop took")
		ended := map[activation.ID]bool{}
		for _, r := range env.records {
			ended[r.ActivationID] = true
		}
		check.AtMost(t, len(ended), 20, "ran in the drain")
		env.registry = prometheus.NewRegistry()
		_, stop = env.start(env.aSecond(), func(*Invoker) { // another process
			for id, text := range store.has {
				m, err := activation.DecodeMessage(text)
				check.NoError(t, err)
				if !ended[id] {
					env.feed <- Delivery{Message: m, Done: func() {}}
				}
			}
		})
		time.Sleep((n + 10) * time.Second)
		stop()
		env.judge(0, n)
	})
}

// TestSpilledForAnotherRevision: an action that was updated while its activation
// was spilled runs in a container of its own revision.
func TestSpilledForAnotherRevision(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.spill = newSpill()
		env.action("gpu", annotate("true"))
		_, stop := env.start(env.aSecond())
		const n = 30
		for range n {
			env.invoke("gpu", nil)
		}
		time.Sleep(500 * time.Millisecond)
		env.action("gpu", func(a *activation.Action) {
			annotate("true")(a)
			a.Rev, a.Version = "2-b", "0.0.2"
		})
		time.Sleep((n + 10) * time.Second)
		stop()
		env.judge(0, n)
		versions := map[string]int{}
		for _, r := range env.records {
			versions[r.Version]++
		}
		check.That(t, versions["0.0.2"] != 0, "versions %v in %d containers, want both in one each", versions, env.made)
		check.Equal(t, env.made, 2)
	})
}

// TestSpilledKeepsWhatAnAnswerNeeds: what memory has of a spilled activation is
// enough to answer it, whatever its transaction looks like.
func TestSpilledKeepsWhatAnAnswerNeeds(t *testing.T) {
	env := newFixture(t)
	no := false
	long := activation.NewTransID("t", 5, true)
	for range 3 {
		long = long.Child(strings.Repeat("a", 32), 6)
	}
	for i, tid := range []activation.TransID{
		activation.NewTransID(strings.Repeat("b", 32), 1700000000000, false), activation.NewTransID("t\x00", 1, false),
		activation.NewTransID("sid_"+strings.Repeat("b", 40), 1, false), activation.NewTransID(strings.Repeat("b", 32), 1700000000000, true), long, {},
	} {
		for _, cause := range []activation.ID{"", activation.ID(strings.Repeat("c", 32))} {
			id := env.invoke("gpu", func(m *activation.Message) {
				m.TransID, m.Cause, m.Blocking = tid, cause, i%2 == 0
				m.User.Limits.StoreActivations = &no
			})
			want := check.Receive(t, env.feed).Message
			got := newSpilled(&pending{Delivery: Delivery{Message: want}, key: "k"}).message()
			check.Equal(t, got.ActivationID, id, "%+v\nwant %+v", got, want)
			check.Equal(t, string(got.TransID.JSON()), string(tid.JSON()), "%+v\nwant %+v", got, want)
			check.Equal(t, got.TransID.StartMillis(), tid.StartMillis(), "%+v\nwant %+v", got, want)
			check.Equal(t, got.Cause, cause, "%+v\nwant %+v", got, want)
			check.Equal(t, got.Controller, "0", "%+v\nwant %+v", got, want)
			check.Equal(t, got.Blocking, want.Blocking, "%+v\nwant %+v", got, want)
			check.Equal(t, got.Action, want.Action, "%+v\nwant %+v", got, want)
			check.Equal(t, got.User.Subject, "guest", "%+v\nwant %+v", got, want)
			check.Equal(t, got.User.Namespace, want.User.Namespace, "%+v\nwant %+v", got, want)
			check.That(t, !*got.User.Limits.StoreActivations, "%+v\nwant %+v", got, want)
		}
	}
}

// A message that a run has come to wait for is read at once, whatever those before
// it wait for.
func TestFetcherHurries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun []activation.ID
		store, release := newSpill(), make(chan struct{})
		store.slow = func(id activation.ID) {
			mu.Lock()
			begun = append(begun, id)
			mu.Unlock()
			<-release
			runtime.Goexit()
		}
		f := &fetcher{
			iv: &Invoker{ports: Ports{Spill: store}, dispatch: &dispatcher{work: t.Context()}},
		}
		const last = fetchTogether + 2
		all := map[int]*loading{}
		for i := 1; i <= last; i++ {
			all[i] = &loading{spilled: &spilled{id: activation.ID(fmt.Sprint(i))}}
			f.add(all[i])
		}
		want := func(n int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			check.Equal(t, len(begun), n, "are being read")
		}
		want(fetchTogether)
		f.hurry(all[last])
		want(fetchTogether + 1)
		check.Includes(t, begun, all[last].spilled.id, "another than the one that is waited for is being read")
		f.hurry(all[last])
		f.hurry(all[1])
		want(fetchTogether + 1)
		close(release)
		synctest.Wait()
	})
}

// TestPausedFunctionIsReported: a function that fails in each run pauses, the status
// says so and why, and the end of the pause is seen without an event.
func TestPausedFunctionIsReported(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("gpu", annotate("true"))
		s := env.aSecond()
		env.setRun(func(int, []byte) proxy.Exchange {
			return proxy.Exchange{Failure: proxy.NoResponse, Err: errors.New("connection reset"), Sent: true}
		})
		iv, stop := env.start(s)
		const n = 5
		for range n {
			env.invoke("gpu", nil)
		}
		time.Sleep(8 * time.Second)
		st := env.status(iv)
		check.Equal(check.Must(t), len(st.Flows), 1)
		f := st.Flows[0]
		check.That(check.Must(t), f.Paused, "after failures in a row: %+v", f)
		check.Contains(t, f.Why, "backs off", "after failures in a row")
		time.Sleep(time.Hour)
		st = env.status(iv)
		for _, f := range st.Flows {
			check.That(t, !f.Paused, "an hour later: %+v", f)
			check.AtMost(t, f.Queued, 0, "an hour later")
		}
		stop()
		env.judge(0, n)
	})
}
