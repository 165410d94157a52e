package replay

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
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
	check.NoError(t, err)
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
	for range n {
		g.next()
	}
}

// next waits for the beginning of a run, and gives the path that it called.
func (g *gate) next() (path string) {
	g.t.Helper()
	return check.Receive(g.t, g.begun, "another run beside %d", g.all())
}

// awaitUntil returns when so many runs have begun, or at a moment.
func (g *gate) awaitUntil(n int, moment <-chan time.Time) {
	for range n {
		select {
		case <-g.begun:
		case <-moment:
			return
		}
	}
}

// drop discards the starts so far.
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

// load puts caller, or a changed one, and has its runs wait at a gate.
func (w *fixture) load(a harness.Action) *fixture {
	w.t.Helper()
	w.put(a)
	w.gate = newGate(w.t, "127.0.0.1")
	return w
}

// call sends n activations of caller.
func (w *fixture) call(n int) (ids []string) {
	w.t.Helper()
	return w.invoke(n, harness.Message{Action: caller.Name})
}

// ranOnce demands that each activation ran once.
func (w *fixture) ranOnce() {
	w.t.Helper()
	check.Equal(w.t, w.gate.all(), len(w.ids), "runs of activations")
}

// hasRecord demands that an activation's record has its result.
func (w *fixture) hasRecord(i int) {
	w.t.Helper()
	doc, want := string(w.record(w.ids[i])), fmt.Sprintf(`"result":{"n":%d}`, i+1)
	check.That(w.t, strings.Contains(doc, want), "activation %d: record %.300s, want %s in it", i+1, doc, want)
}

// check demands, of an invoker that has ended, that nothing was lost: for every
// activation a result and a completion in this order, or both in one, and a
// record of the same, and no message left to be read.
func (w *fixture) check() {
	w.t.Helper()
	acks := map[string][]string{}
	for _, r := range unfolded(w.recording.ToTheEnd()) {
		if r.IsAck() {
			id := r.ActivationID()
			acks[id] = append(acks[id], r.Shape())
		}
	}
	for i, id := range w.ids {
		shapes := slices.Compact(acks[id]) // a lost answer of the broker may double one
		check.AtLeast(w.t, len(shapes), 2, "activation %d: acks %v", i+1, acks[id])
		if len(shapes) > 0 {
			check.Equal(w.t, shapes[0], "result", "activation %d: acks %v", i+1, acks[id])
			check.Equal(w.t, shapes[len(shapes)-1], "completion", "activation %d: acks %v", i+1, acks[id])
		}
		w.hasRecord(i)
	}
	w.nothingLeft()
}

// nothingLeft checks, for an ended invoker, that no unread message, no process and no
// file of an action is left.
func (w *fixture) nothingLeft() {
	w.t.Helper()
	check.Equal(w.t, w.behind(), "", "the position, for %d activations", len(w.ids))
	w.noStrays()
}

// behind describes the committed position, if it is not at the end of the topic. An
// invoker that has just started must first skip the activations that the previous one
// had ended but not committed.
func (w *fixture) behind() string {
	w.t.Helper()
	// A message that the controller's own retry has doubled is read, too.
	if at, end := w.recording.Committed("invoker0"), w.recording.End("invoker0"); at != end || end < int64(len(w.ids)) {
		return fmt.Sprintf("%d of %d", at, end)
	}
	return ""
}

// noStrays checks that no process and no file of an action is left.
func (w *fixture) noStrays() {
	w.t.Helper()
	w.noContainers()
	for pid, command := range peertest.Processes(w.dir) {
		check.Contains(w.t, command, harness.RoleInvoker, "process %d is left", pid)
	}
}

func (w *fixture) noContainers() {
	w.t.Helper()
	left := w.left()
	check.Equal(w.t, len(left), 0, "containers are left: %v", left)
}

// TestStop: an invoker that is asked to stop finishes every run, and the next one
// continues there. An activation that waits for a container is run, or left for the next
// invoker.
func TestStop(t *testing.T) {
	t.Parallel()
	alone := caller
	alone.Concurrency = 1
	for _, c := range []struct {
		name    string
		action  harness.Action
		extra   []string
		running int // running activations among those in flight
	}{
		{"runs in flight", caller, nil, inFlight},
		{"runs queued", alone, []string{"CONFIG_whisk_concurrencyLimit_max=1", "CONFIG_whisk_containerPool_userMemory=256m"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t).load(c.action)
			w.extra = append(w.extra, c.extra...)
			first := w.start()
			w.call(inFlight)
			w.gate.await(c.running)
			first.stop()
			w.gate.open()
			first.end()
			if c.running == inFlight {
				w.check()
			}
			second := w.start()
			w.awaitSlot(w.ids...)
			w.awaitSlot(w.call(1)...)
			second.end()
			w.check()
			w.ranOnce()
		})
	}
}

// TestRecordsOutliveTheDatabase: acks do not wait for an unreachable database. When it
// is back, the records of all answers are written: by the same invoker, after a stop by
// the next one from the disk, or after a kill from the journal. Nothing runs twice.
func TestRecordsOutliveTheDatabase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		end   os.Signal // nil: the invoker lives on
		extra []string
	}{
		{"the same invoker", nil, nil},
		{"the next invoker", os.Interrupt, nil},
		{"after a kill", syscall.SIGKILL, []string{"CONFIG_whisk_gpu_records_spool=none"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t).load(caller)
			w.once, w.extra = true, append(w.extra, c.extra...)
			w.gate.open()
			invoker := w.spawn()
			w.awaitSlot(w.call(1)...) // the action is cached now
			w.awaitRecords(w.ids)
			w.store.shut()
			w.awaitSlot(w.call(inFlight)...)
			if c.end != nil {
				if err := invoker.Stop(c.end); err != nil {
					t.Error(err)
				}
			}
			w.store.open()
			if c.end != nil {
				invoker = w.spawn()
				w.awaitSlot(w.call(1)...)
			}
			w.awaitRecords(w.ids)
			invoker.Terminate(t)
			w.check()
			w.ranOnce()
		})
	}
}

// awaitRecords waits until each activation has its record.
func (w *fixture) awaitRecords(ids []string) {
	w.t.Helper()
	for _, id := range ids {
		w.db.AwaitRecord(w.t, activation.ID(id))
	}
}
