package invoker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
	"github.com/prometheus/client_golang/prometheus"
)

// fakeShelf keeps messages as a test says.
type fakeShelf struct {
	mu     sync.Mutex
	has    map[activation.ID][]byte
	read   []activation.ID
	refuse error               // Park answers it
	lose   error               // Message answers it
	slow   func(activation.ID) // called before a message is read
}

func newShelf() *fakeShelf { return &fakeShelf{has: map[activation.ID][]byte{}} }

func (s *fakeShelf) Park(ids []activation.ID, messages [][]byte) []error {
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

func (s *fakeShelf) Message(id activation.ID) ([]byte, error) {
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

func (s *fakeShelf) will(f func(s *fakeShelf)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// aSecond has each run take a second, one at a time.
func (w *world) aSecond() Settings {
	w.setRun(func(int, []byte) proxy.Exchange { time.Sleep(time.Second); return answer(200, `{}`) })
	s := w.gpuSettings(1)
	s.GPU.Tokens = 1
	return s
}

// TestFarActivationsAreParked: of a long backlog a handful of messages is in
// memory, the feed has forgotten those that are parked, and all end once, in
// their order.
func TestFarActivationsAreParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		shelf := newShelf()
		w.shelf = shelf
		w.action("gpu", annotate("true"))
		w.action("cpu", nil)
		s := w.aSecond()
		s.InFlight = 4
		iv, stop := w.start(s)
		const n = 300
		for i := range n {
			w.invoke("gpu", func(m *activation.Message) { m.Content = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)) })
			synctest.Wait() // or actions that are fetched overtake each other
		}
		time.Sleep(500 * time.Millisecond)
		st, err := iv.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b := *st.Backlog; b.Parked+b.InMemory != n || b.InMemory > 10 || b.Off != "" || b.Trouble != "" {
			t.Errorf("backlog %+v", b)
		}
		if st.InFlight != n {
			t.Errorf("%d in flight", st.InFlight)
		}
		w.mu.Lock()
		if len(w.done) != st.Backlog.Parked {
			t.Errorf("the feed let go of %d, want the %d that are parked", len(w.done), st.Backlog.Parked)
		}
		w.mu.Unlock()
		w.invoke("cpu", nil)
		time.Sleep(1100 * time.Millisecond)
		if w.record(activation.ID(fmt.Sprintf("%032x", n))) == nil {
			t.Error("a CPU action waits for a GPU")
		}
		time.Sleep((n + 10) * time.Second)
		stop()
		w.judge(0, n+1)
		ended := slices.DeleteFunc(w.records, func(r *activation.Record) bool { return r.Name == "cpu" })
		for i, a := range ended {
			if id := activation.ID(fmt.Sprintf("%032x", i)); a.ActivationID != id || a.Response.StatusCode != 0 {
				t.Fatalf("record %d is of %s: %+v", i, a.ActivationID, a.Response)
			}
		}
		if p := iv.places.parked.Load(); p != 0 || iv.InFlight() != 0 {
			t.Errorf("%d parked, %d in flight at the end", p, iv.InFlight())
		}
		if b := iv.dispatch.gpus.backlog; len(b.items)+len(b.coming)+len(b.callers) != 0 {
			t.Errorf("at the end memory has %d parked, %d coming, %d callers", len(b.items), len(b.coming), len(b.callers))
		}
	})
}

// TestManyFunctionsAreParked: where no function has many, but many have some,
// messages are parked as well, and read when their turn is there.
func TestManyFunctionsAreParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.shelf = newShelf()
		s := w.aSecond()
		s.GPU.Backlog = Backlog{Activations: 1000, Bytes: 20 << 10} // room for some 20 messages
		iv, stop := w.start(s)
		const n = 200
		for i := range n {
			w.action(fmt.Sprint("gpu", i), annotate("true"))
			w.invoke(fmt.Sprint("gpu", i), nil)
		}
		time.Sleep(500 * time.Millisecond)
		if n, bytes := iv.places.held(); n > 40 || bytes > 40<<10 {
			t.Errorf("%d messages of %d bytes in memory", n, bytes)
		}
		if got := iv.InFlight(); got != n {
			t.Errorf("%d are taken, want all %d", got, n)
		}
		time.Sleep((n + 10) * time.Second)
		stop()
		w.judge(0, n)
	})
}

// TestStartWaitsForItsMessage: a run whose message is slow to come holds up
// nobody else.
func TestStartWaitsForItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		shelf := newShelf()
		shelf.slow = func(activation.ID) { time.Sleep(time.Minute) }
		w.shelf = shelf
		w.action("gpu", annotate("true"))
		w.action("cpu", nil)
		_, stop := w.start(w.aSecond())
		const n = 12
		for range n {
			w.invoke("gpu", nil)
		}
		time.Sleep(30 * time.Second)
		cpu := w.invoke("cpu", nil)
		time.Sleep(1100 * time.Millisecond)
		if w.record(cpu) == nil {
			t.Error("a CPU action waits for a parked message")
		}
		time.Sleep(time.Hour)
		stop()
		w.judge(0, n+1)
	})
}

// TestUnreadableMessageIsAnswered: an activation whose message is lost is
// answered once, to whoever sent it, and a run of its function goes on after it.
func TestUnreadableMessageIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		shelf := newShelf()
		w.shelf = shelf
		w.action("gpu", annotate("true"))
		iv, stop := w.start(w.aSecond())
		const n = 40
		for range n {
			w.invoke("gpu", nil)
		}
		time.Sleep(500 * time.Millisecond)
		st, _ := iv.Status(t.Context())
		shelf.will(func(s *fakeShelf) { s.lose = errors.New("bad sector") })
		time.Sleep(time.Minute)
		shelf.will(func(s *fakeShelf) { s.lose = nil })
		last := w.invoke("gpu", nil)
		time.Sleep(time.Minute)
		stop()
		w.judge(0, n+1)
		lost := 0
		for _, r := range w.records {
			if r.Response.StatusCode == activation.StatusWhiskError && strings.Contains(string(r.Response.Result), textUnreadable) {
				lost++
				if r.Subject != "guest" || r.Namespace != "guest" || r.Name != "gpu" {
					t.Errorf("record %+v", r)
				}
			}
		}
		if lost == 0 || lost > st.Backlog.Parked {
			t.Errorf("%d answered as unreadable of %d that were parked", lost, st.Backlog.Parked)
		}
		if rec := w.record(last); rec == nil || rec.Response.StatusCode != 0 {
			t.Errorf("the next one: %+v", rec)
		}
	})
}

// TestParkedActivationsAreRefused: those whose device does not come back are
// answered with the reason, whether their messages can be read or not.
func TestParkedActivationsAreRefused(t *testing.T) {
	for _, lose := range []error{nil, errors.New("bad sector")} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			shelf := newShelf()
			w.shelf = shelf
			w.action("gpu", annotate("true"))
			s := w.aSecond()
			s.GPU.Patience = 5 * time.Minute
			iv, stop := w.start(s)
			iv.DeviceLost(0, "Xid 79")
			const n = 500
			for range n {
				w.invoke("gpu", nil)
			}
			time.Sleep(time.Minute)
			shelf.will(func(s *fakeShelf) { s.lose = lose })
			time.Sleep(5 * time.Minute)
			stop()
			w.judge(0, n)
			for _, r := range w.records {
				if !strings.Contains(string(r.Response.Result), "there was none that could run it") {
					t.Fatalf("record %+v", r)
				}
			}
		})
	}
}

// TestFullShelfPressesBack: what cannot be parked stays in memory and takes
// places, so that less is pulled; it is said, and all end when there is space.
func TestFullShelfPressesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		shelf := newShelf()
		shelf.refuse = errors.New("journal is full")
		w.shelf = shelf
		w.action("gpu", annotate("true"))
		s := w.aSecond()
		s.InFlight, s.GPU.Backlog = 4, Backlog{Activations: 20, Bytes: 1 << 20}
		s.GPU.Overdue = 0
		w.setRun(func(int, []byte) proxy.Exchange { time.Sleep(time.Minute); return answer(200, `{}`) })
		iv, stop := w.start(s)
		const n = 100
		for range n {
			w.invoke("gpu", nil)
		}
		time.Sleep(30 * time.Second)
		st, _ := iv.Status(t.Context())
		if st.InFlight != 24 || st.Backlog.Trouble != "journal is full" || st.Backlog.Parked != 0 {
			t.Errorf("%d in flight, want 20 of the backlog and 4: %+v", st.InFlight, st.Backlog)
		}
		iv.dispatch.gpus.backlog.places.most.Activations = 1000 // as the operator would after a look
		shelf.will(func(s *fakeShelf) { s.refuse = nil })
		time.Sleep(20 * time.Second)
		st, _ = iv.Status(t.Context())
		if st.InFlight != n || st.Backlog.Trouble != "" || st.Backlog.InMemory > 10 {
			t.Errorf("%d in flight when there is space: %+v", st.InFlight, st.Backlog)
		}
		time.Sleep((n + 10) * time.Minute)
		stop()
		w.judge(0, n)
	})
}

// TestStopLeavesWhatIsParked: a stop waits for what is in memory and not for
// what is parked; the next process is given that, and all end once.
func TestStopLeavesWhatIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		shelf := newShelf()
		w.shelf = shelf
		w.action("gpu", annotate("true"))
		_, stop := w.start(w.aSecond())
		const n = 200
		for range n {
			w.invoke("gpu", nil)
		}
		time.Sleep(500 * time.Millisecond)
		began := time.Now()
		stop()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the stop took %s", took)
		}
		ended := map[activation.ID]bool{}
		for _, r := range w.records {
			ended[r.ActivationID] = true
		}
		if len(ended) > 20 {
			t.Errorf("%d ran in the drain", len(ended))
		}
		w.registry = prometheus.NewRegistry()
		_, stop = w.start(w.aSecond(), func(*Invoker) { // another process
			for id, text := range shelf.has {
				m, err := activation.DecodeMessage(text)
				if err != nil {
					t.Fatal(err)
				}
				if !ended[id] {
					w.feed <- Delivery{Message: m, Done: func() {}}
				}
			}
		})
		time.Sleep((n + 10) * time.Second)
		stop()
		w.judge(0, n)
	})
}

// TestParkedForAnotherRevision: an action that was updated while its activation
// was parked runs in a container of its own revision.
func TestParkedForAnotherRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.shelf = newShelf()
		w.action("gpu", annotate("true"))
		_, stop := w.start(w.aSecond())
		const n = 30
		for range n {
			w.invoke("gpu", nil)
		}
		time.Sleep(500 * time.Millisecond)
		w.action("gpu", func(a *activation.Action) {
			annotate("true")(a)
			a.Rev, a.Version = "2-b", "0.0.2"
		})
		time.Sleep((n + 10) * time.Second)
		stop()
		w.judge(0, n)
		versions := map[string]int{}
		for _, r := range w.records {
			versions[r.Version]++
		}
		if versions["0.0.2"] == 0 || w.made != 2 {
			t.Errorf("versions %v in %d containers, want both in one each", versions, w.made)
		}
	})
}

// TestParkedKeepsWhatAnAnswerNeeds: what memory has of a parked activation is
// enough to answer it, whatever its transaction looks like.
func TestParkedKeepsWhatAnAnswerNeeds(t *testing.T) {
	w := newWorld(t)
	no := false
	long := activation.NewTransID("t", 5, true)
	for range 3 {
		long = long.Child(strings.Repeat("a", 32), 6)
	}
	s := newShelved()
	for i, tid := range []activation.TransID{
		activation.NewTransID(strings.Repeat("b", 32), 1700000000000, false), activation.NewTransID("t\x00", 1, false),
		activation.NewTransID("sid_"+strings.Repeat("b", 40), 1, false), activation.NewTransID(strings.Repeat("b", 32), 1700000000000, true), long, {},
	} {
		for _, cause := range []activation.ID{"", activation.ID(strings.Repeat("c", 32))} {
			id := w.invoke("gpu", func(m *activation.Message) {
				m.TransID, m.Cause, m.Blocking = tid, cause, i%2 == 0
				m.User.Limits.StoreActivations = &no
			})
			want := (<-w.feed).Message
			s.put(&job{ticket: &ticket{Message: want}, item: 7, key: "k"})
			p, ok := s.take(7)
			if !ok {
				t.Fatal("it is not there")
			}
			got := p.message()
			if got.ActivationID != id || string(got.TransID.JSON()) != string(tid.JSON()) || got.TransID.StartMillis() != tid.StartMillis() ||
				got.Cause != cause || got.Controller != "0" || got.Blocking != want.Blocking || got.Action != want.Action ||
				got.User.Subject != "guest" || got.User.Namespace != want.User.Namespace || *got.User.Limits.StoreActivations {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		}
	}
	if len(s.callers) != 0 {
		t.Errorf("%d callers are left", len(s.callers))
	}
}
