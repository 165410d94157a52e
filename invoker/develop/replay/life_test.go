package replay

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// inFlight is how many activations run when something happens.
const inFlight = 50

// gate is what actions call at the beginning of a run. It reports when so many
// have begun, and lets none go on before it is opened.
type gate struct {
	t      *testing.T
	server *httptest.Server
	opened chan struct{}
	begun  chan string
	runs   atomic.Int64
	open   func()
}

func newGate(t *testing.T) *gate { return newGateAt(t, "127.0.0.1") }

// newGateAt listens at an address of this machine.
func newGateAt(t *testing.T, host string) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, opened: make(chan struct{}), begun: make(chan string, 100*inFlight)}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	g.server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		g.runs.Add(1)
		g.begun <- r.URL.Path
		select {
		case <-g.opened:
		case <-r.Context().Done():
		}
	}))
	_ = g.server.Listener.Close()
	g.server.Listener = listener
	g.server.Start()
	t.Cleanup(func() {
		g.open()
		g.server.Close()
	})
	return g
}

// await returns when so many runs have begun.
func (g *gate) await(n int) {
	g.t.Helper()
	late := time.After(waitLimit)
	for range n {
		select {
		case <-g.begun:
		case <-late:
			g.t.Fatalf("%d runs have begun, want %d", g.runs.Load(), n)
		}
	}
}

// caller is an action that calls its parameter url, or without one rests a
// little, and then answers with its parameter n. One container runs many at
// once.
const caller = `{"entityType":"action","namespace":"guest","name":"caller","version":"0.0.1","publish":false,"updated":1,"parameters":[],
"annotations":[{"key":"provide-api-key","value":false}],"limits":{"concurrency":100,"logs":10,"memory":256,"timeout":300000},
"exec":{"kind":"nodejs:20","binary":false,"code":"const http=require('http'); function main(p){ return new Promise((ok,no)=>!p.url?setTimeout(()=>ok({n:p.n}),200):http.get(p.url,r=>{r.resume();r.on('end',()=>ok({n:p.n}))}).on('error',no)); }"}}`

// crowd is a number of activations of caller, sent and followed by their ids.
type crowd struct {
	w    *fixture
	gate *gate
	rev  string
	ids  []string
	far  bool // the actions cannot reach the gate
}

func newCrowd(w *fixture) *crowd {
	w.t.Helper()
	rev, err := w.db.Put(w.t.Context(), names.Whisks, "guest/caller", []byte(caller))
	if err != nil {
		w.t.Fatal(err)
	}
	return &crowd{w: w, gate: newGate(w.t), rev: rev}
}

// invoke sends n more activations.
func (c *crowd) invoke(n int) (ids []string) {
	c.w.t.Helper()
	for range n {
		id := fmt.Sprintf("%032x", len(c.ids)+1)
		c.ids, ids = append(c.ids, id), append(ids, id)
		url := c.gate.server.URL + "/" + id
		if c.far {
			url = ""
		}
		c.w.publish(fmt.Sprintf(`{"transid":["t%d",%d],"action":{"path":"guest","name":"caller","version":"0.0.1"},"revision":%q,`+
			`"activationId":%q,"rootControllerIndex":{"asString":"0","instanceType":"controller"},"blocking":true,"initArgs":[],`+
			`"lockedArgs":{},"content":{"n":%d,"url":%q},"user":{"subject":"guest","namespace":{"name":"guest","uuid":"u"},`+
			`"authkey":{"api_key":"u:k"},"rights":[],"limits":{}}}`,
			len(c.ids), time.Now().UnixMilli(), c.rev, id, len(c.ids), url))
	}
	return ids
}

// settled waits for the completions of activations.
func (c *crowd) settled(ids []string) {
	c.w.t.Helper()
	for _, id := range ids {
		c.w.awaitSlot(id)
	}
}

// check demands, of an invoker that has ended, that nothing was lost: for every
// activation a result and a completion in this order, or both in one, and a
// record that says the same, and no message left to be read.
func (c *crowd) check() {
	c.w.t.Helper()
	acks := map[string][]string{}
	for _, r := range unfolded(c.w.recording.rewound()) {
		if r.isAck() {
			id := r.activationID()
			acks[id] = append(acks[id], r.shape())
		}
	}
	for i, id := range c.ids {
		shapes := slices.Compact(acks[id]) // a lost answer of the broker may double one
		if len(shapes) < 2 || shapes[0] != "result" || shapes[len(shapes)-1] != "completion" {
			c.w.t.Errorf("activation %d: acks %v", i+1, acks[id])
		}
		if want := fmt.Sprintf(`"result":{"n":%d}`, i+1); !strings.Contains(string(c.w.record(id)), want) {
			c.w.t.Errorf("activation %d: record %.300s", i+1, c.w.record(id))
		}
	}
	// A message that the controller's own retry has doubled is read, too.
	if got, end := c.w.recording.committed(), c.w.recording.end("invoker0"); got != end || end < int64(len(c.ids)) {
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
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		env, _ := os.ReadFile(path) // gone meanwhile, or not ours
		if strings.Contains(string(env), w.dir) && !strings.Contains(string(env), "KAFKA_HOSTS=") {
			w.t.Errorf("a process is left: %s", filepath.Dir(path))
		}
	}
}

// TestStopWithRunsInFlight: SIGTERM's way of ending lets every run finish, and
// the next invoker begins where this one ended.
func TestStopWithRunsInFlight(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c := newCrowd(w)
	first := w.start()
	c.invoke(inFlight)
	c.gate.await(inFlight)
	first.stop()
	c.gate.open()
	first.end()
	c.check()

	second := w.start()
	c.settled(c.invoke(1))
	second.end()
	c.check()
	if runs := c.gate.runs.Load(); runs != inFlight+1 {
		t.Errorf("%d runs of %d activations", runs, inFlight+1)
	}
}

// TestStopWithRunsQueued: what waits for a container when the stop comes is
// run, too, or left for the next invoker.
func TestStopWithRunsQueued(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.extra = append(w.extra, "CONFIG_whisk_concurrencyLimit_max=1", "CONFIG_whisk_containerPool_userMemory=256m")
	c := newCrowd(w)
	rev, err := w.db.Put(t.Context(), names.Whisks, "guest/caller",
		[]byte(strings.Replace(strings.Replace(caller, `"concurrency":100`, `"concurrency":1`, 1), `{`, `{"_rev":"`+c.rev+`",`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	c.rev = rev
	first := w.start()
	c.invoke(inFlight)
	c.gate.await(1)
	first.stop()
	c.gate.open()
	first.end()
	second := w.start()
	c.settled(c.ids)
	second.end()
	c.check()
	if runs := c.gate.runs.Load(); runs != inFlight {
		t.Errorf("%d runs of %d activations", runs, inFlight)
	}
}

// TestStoreAway: acks do not wait for a database that is away, and the records
// are written when it is back.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c := newCrowd(w)
	invoker := w.start()
	c.gate.open()
	c.settled(c.invoke(1)) // the action is cached now
	w.store.shut()
	c.settled(c.invoke(inFlight))

	written := make(chan struct{}, 1)
	reported := func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_bulk_docs") {
			select {
			case written <- struct{}{}:
			default:
			}
		}
	}
	w.store.served.Store(&reported)
	w.store.open()
	late := time.After(waitLimit)
	for slices.ContainsFunc(c.ids, func(id string) bool { return w.record(id) == nil }) {
		select {
		case <-written:
		case <-late:
			t.Fatal("records are not written after the database is back")
		}
	}
	invoker.end()
	c.check()
}

// TestEndLeavesNothing: no goroutine of ours outlives an invoker. It runs
// beside no other test, whose goroutines it would find.
func TestEndLeavesNothing(t *testing.T) {
	w := newFixture(t)
	c := newCrowd(w)
	for range 2 {
		invoker := w.start()
		c.gate.open()
		c.settled(c.invoke(5))
		invoker.end()
		c.check()
		if left := ourGoroutines(); left != "" {
			t.Fatalf("goroutines are left:\n%s", left)
		}
	}
}

// ourGoroutines gives the stacks of goroutines in the invoker's own rooms. One
// that is ending may still show for a moment.
func ourGoroutines() string {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(waitLimit); ; <-tick.C {
		buf := make([]byte, 4<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var ours []string
		for _, stack := range strings.Split(string(buf), "\n\n") {
			if strings.Contains(stack, "gpuwhisk/gpuwhisk/") && !strings.Contains(stack, "gpuwhisk/invoker/develop/standalone/") &&
				!strings.Contains(stack, "gpuwhisk/invoker/develop/replay.") && !strings.Contains(stack, "gpuwhisk/invoker/develop/peertest.") {
				ours = append(ours, stack)
			}
		}
		if len(ours) == 0 || time.Now().After(late) {
			return strings.Join(ours, "\n\n")
		}
	}
}
