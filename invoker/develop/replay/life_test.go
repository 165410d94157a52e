package replay

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// inFlight is how many activations run when something happens.
const inFlight = 50

// gate is a server that actions call at the beginning of a run. It counts the runs
// of each, reports when so many have begun, and lets none go on before it is opened.
type gate struct {
	t      *testing.T
	url    string // as actions reach it
	opened chan struct{}
	begun  chan string
	open   func()
	work   time.Duration // of every fifth activation and its runs; the others take less

	mu   sync.Mutex
	runs map[string]int // by path
}

// newGate listens at an address of this machine.
func newGate(t *testing.T, host string) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, opened: make(chan struct{}), begun: make(chan string, 1<<17), runs: map[string]int{}}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	server := httptest.NewUnstartedServer(http.HandlerFunc(g.serve))
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	g.url = server.URL
	t.Cleanup(func() {
		g.open()
		server.Close()
	})
	return g
}

func (g *gate) serve(_ http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.runs[r.URL.Path]++
	work := g.work * time.Duration(len(g.runs)%5) / 4
	g.mu.Unlock()
	g.begun <- r.URL.Path
	select {
	case <-g.opened:
	case <-r.Context().Done():
	}
	select {
	case <-time.After(work):
	case <-r.Context().Done():
	}
}

// all is how many runs have begun.
func (g *gate) all() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, runs := range g.runs {
		n += runs
	}
	return n
}

// of is how many runs with a path have begun.
func (g *gate) of(path string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.runs[path]
}

// await returns when so many runs have begun.
func (g *gate) await(n int) {
	g.t.Helper()
	if begun := g.awaitUntil(n, time.After(peertest.WaitLimit)); begun < n {
		g.t.Fatalf("%d runs have begun, want %d more", g.all(), n-begun)
	}
}

// awaitUntil returns when so many runs have begun, or at a moment, and gives how
// many have begun.
func (g *gate) awaitUntil(n int, moment <-chan time.Time) int {
	for i := range n {
		select {
		case <-g.begun:
		case <-moment:
			return i
		}
	}
	return n
}

// drop forgets what has begun.
func (g *gate) drop() {
	for len(g.begun) > 0 {
		<-g.begun
	}
}

// caller is an action that calls its parameter url, or without one waits a
// little, and then answers with its parameter n. One container runs many at
// once.
var caller = harness.Action{
	Name: "caller", Kind: "nodejs:20", Annotations: map[string]any{"provide-api-key": false},
	Concurrency: 100, LogsMB: 10, Timeout: 5 * time.Minute,
	Code: "const http=require('http'); function main(p){ return new Promise((ok,no)=>!p.url?setTimeout(()=>ok({n:p.n}),200):" +
		"http.get(p.url,r=>{r.resume();r.on('end',()=>ok({n:p.n}))}).on('error',no)); }",
}

// load is a number of activations of caller, sent and followed by their ids.
type load struct {
	w    *fixture
	gate *gate
	rev  string
	ids  []string
	far  bool // the actions cannot reach the gate
}

func newLoad(w *fixture) *load { return newLoadOf(w, caller) }

// newLoadOf is a load of a changed caller.
func newLoadOf(w *fixture, a harness.Action) *load {
	w.t.Helper()
	return &load{w: w, gate: newGate(w.t, "127.0.0.1"), rev: w.put(a)}
}

// invoke sends n more activations.
func (c *load) invoke(n int) (ids []string) {
	c.w.t.Helper()
	for range n {
		id := fmt.Sprintf("%032x", len(c.ids)+1)
		c.ids, ids = append(c.ids, id), append(ids, id)
		url := c.gate.url + "/" + id
		if c.far {
			url = ""
		}
		c.w.send(harness.Message{ID: id, Action: "caller", Revision: c.rev, Content: map[string]any{"n": len(c.ids), "url": url}})
	}
	return ids
}

// settled waits for the completions of activations.
func (c *load) settled(ids []string) {
	c.w.t.Helper()
	for _, id := range ids {
		c.w.awaitSlot(id)
	}
}

// ranOnce demands that each activation ran once.
func (c *load) ranOnce() {
	c.w.t.Helper()
	if runs := c.gate.all(); runs != len(c.ids) {
		c.w.t.Errorf("%d runs of %d activations", runs, len(c.ids))
	}
}

// hasRecord demands that an activation's record has its result.
func (c *load) hasRecord(i int) {
	c.w.t.Helper()
	if doc, want := string(c.w.record(c.ids[i])), fmt.Sprintf(`"result":{"n":%d}`, i+1); !strings.Contains(doc, want) {
		c.w.t.Errorf("activation %d: record %.300s", i+1, doc)
	}
}

// check demands, of an invoker that has ended, that nothing was lost: for every
// activation a result and a completion in this order, or both in one, and a
// record of the same, and no message left to be read.
func (c *load) check() {
	c.w.t.Helper()
	acks := map[string][]string{}
	for _, r := range unfolded(c.w.recording.ToTheEnd()) {
		if r.IsAck() {
			id := r.ActivationID()
			acks[id] = append(acks[id], r.Shape())
		}
	}
	for i, id := range c.ids {
		shapes := slices.Compact(acks[id]) // a lost answer of the broker may double one
		if len(shapes) < 2 || shapes[0] != "result" || shapes[len(shapes)-1] != "completion" {
			c.w.t.Errorf("activation %d: acks %v", i+1, acks[id])
		}
		c.hasRecord(i)
	}
	// A message that the controller's own retry has doubled is read, too.
	if got, end := c.w.recording.Committed("invoker0"), c.w.recording.End("invoker0"); got != end || end < int64(len(c.ids)) {
		c.w.t.Errorf("the position is %d of %d, for %d activations", got, end, len(c.ids))
	}
	c.w.noStrays()
}

// noStrays demands that no action's process and nothing of it is left.
func (w *fixture) noStrays() {
	w.t.Helper()
	if left := w.left(); len(left) > 0 {
		w.t.Errorf("containers are left: %v", left)
	}
	for pid, command := range peertest.Processes(w.dir) {
		if !strings.Contains(command, harness.RoleInvoker) {
			w.t.Errorf("process %d is left: %s", pid, command)
		}
	}
}

// TestStop: an invoker that is asked to stop lets every run finish, and the next
// one begins where it ended. What waits for a container is run, too, or left for
// the next invoker.
func TestStop(t *testing.T) {
	t.Parallel()
	alone := caller
	alone.Concurrency = 1
	for _, c := range []struct {
		name    string
		action  harness.Action
		extra   []string
		running int // of those in flight
	}{
		{"runs in flight", caller, nil, inFlight},
		{"runs queued", alone, []string{"CONFIG_whisk_concurrencyLimit_max=1", "CONFIG_whisk_containerPool_userMemory=256m"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.extra = append(w.extra, c.extra...)
			load := newLoadOf(w, c.action)
			first := w.start()
			load.invoke(inFlight)
			load.gate.await(c.running)
			first.stop()
			load.gate.open()
			first.end()
			if c.running == inFlight {
				load.check()
			}
			second := w.start()
			load.settled(load.ids)
			load.settled(load.invoke(1))
			second.end()
			load.check()
			load.ranOnce()
		})
	}
}

// TestRecordsOutliveTheDatabase: acks do not wait for a database that is away, and
// the records are written when it is back: by the same invoker, or by the next one
// where it has stopped meanwhile and left them on disk. Nothing runs twice.
func TestRecordsOutliveTheDatabase(t *testing.T) {
	t.Parallel()
	for name, stops := range map[string]bool{"the same invoker": false, "the next invoker": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			c := newLoad(w)
			c.gate.open()
			invoker := w.start()
			c.settled(c.invoke(1)) // the action is cached now
			w.store.shut()
			c.settled(c.invoke(inFlight))
			if stops {
				invoker.end()
			}
			w.store.open()
			if stops {
				invoker = w.start()
				c.settled(c.invoke(1))
			}
			w.awaitRecords(c.ids)
			invoker.end()
			c.check()
			c.ranOnce()
		})
	}
}

// awaitRecords waits until each activation has its record.
func (w *fixture) awaitRecords(ids []string) {
	w.t.Helper()
	for _, id := range ids {
		peertest.Until(w.t, "the record of "+id, func() string {
			if w.record(id) == nil {
				return "is not written"
			}
			return ""
		})
	}
}
