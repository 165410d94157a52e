package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// mix sends activations of several kinds: of an action that works for a while
// beside many others, of one that may run again, and of GPU functions.
type mix struct {
	w     *fixture
	tally *tally
	send  *kgo.Client // a controller that tries for as long as it takes
	revs  map[string]string
	calls []*call
	kinds []string
}

// call is one activation.
type call struct {
	id, action string
	n          int
	sealed     bool // it had ended at a checkpoint
	runs       int  // until then
}

// Names of the actions: caller of the crowd, the same with the annotation
// rerun, and two functions that keep memory of one simulated device.
const (
	plainAction = "caller"
	rerunAction = "again"
)

var gpuActions = []string{"alpha", "beta"}

func newMix(w *fixture, tally *tally, gpu bool) *mix {
	w.t.Helper()
	m := &mix{w: w, tally: tally, revs: map[string]string{}, kinds: []string{plainAction, plainAction, plainAction, rerunAction}}
	rerun := strings.NewReplacer(`"name":"caller"`, `"name":"`+rerunAction+`"`,
		`"annotations":[`, `"annotations":[{"key":"rerun","value":true},`).Replace(caller)
	for name, doc := range map[string]string{plainAction: caller, rerunAction: rerun} {
		rev, err := w.db.Put(w.t.Context(), names.Whisks, "guest/"+name, []byte(doc))
		if err != nil {
			w.t.Fatal(err)
		}
		m.revs[name] = rev
	}
	if gpu {
		for name, rev := range newGPUFunctions(w, gpuActions...).revs {
			m.revs[name] = rev
		}
		m.kinds = append(m.kinds, gpuActions...)
	}
	var err error
	if m.send, err = kgo.NewClient(kgo.SeedBrokers(w.kafka), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(m.send.Close)
	return m
}

// invoke sends n activations. They are with the broker when it returns.
func (m *mix) invoke(n int) []*call {
	m.w.t.Helper()
	first := len(m.calls)
	var records []*kgo.Record
	for range n {
		c := &call{id: fmt.Sprintf("%032x", len(m.calls)+1), n: len(m.calls) + 1}
		c.action = m.kinds[c.n%len(m.kinds)]
		m.calls = append(m.calls, c)
		args, err := json.Marshal(map[string]any{"n": c.n, "url": m.tally.url + "/" + c.id, "bytes": 1 << 20})
		if err != nil {
			m.w.t.Fatal(err)
		}
		text := fmt.Sprintf(`{"transid":["t%d",%d],"action":{"path":"guest","name":%q,"version":"0.0.1"},"revision":%q,`+
			`"activationId":%q,"rootControllerIndex":{"asString":"0","instanceType":"controller"},"blocking":%t,"initArgs":[],`+
			`"lockedArgs":{},"content":%s,"user":{"subject":"guest","namespace":{"name":"guest","uuid":"u"},`+
			`"authkey":{"api_key":"u:k"},"rights":[],"limits":{}}}`,
			c.n, time.Now().UnixMilli(), c.action, m.revs[c.action], c.id, c.n%2 == 0, args)
		records = append(records, &kgo.Record{Topic: "invoker0", Value: []byte(text)})
	}
	ctx, cancel := context.WithTimeout(m.w.t.Context(), forbearance)
	defer cancel()
	if err := m.send.ProduceSync(ctx, records...).FirstErr(); err != nil {
		m.w.t.Fatal(err)
	}
	return m.calls[first:]
}

// verdict is what became of activations.
type verdict struct {
	answered, interrupted, givenUp, again int
}

// judge demands of an invoker that has ended, all of whose activations had
// their ack and their record, that each has an account of what happened that
// holds, and that none ran too often.
func (m *mix) judge(v *verdict) {
	m.w.t.Helper()
	for _, c := range m.calls {
		runs := m.tally.of("/" + c.id)
		if c.sealed {
			if runs != c.runs {
				m.w.t.Errorf("activation %d of %s had ended after %d runs and ran again: %d now", c.n, c.action, c.runs, runs)
			}
			continue
		}
		c.sealed, c.runs = true, runs
		most := 1
		if c.action == rerunAction {
			most = maxRuns
		}
		if runs > most {
			m.w.t.Errorf("activation %d of %s ran %d times", c.n, c.action, runs)
		}
		v.count(m, c, runs)
	}
}

// maxRuns is how often an action runs that may run again.
const maxRuns = 3

func (v *verdict) count(m *mix, c *call, runs int) {
	var r struct {
		Response struct {
			StatusCode int
			Result     struct {
				N      int
				Intact *bool
				Error  string
			}
		}
	}
	doc := m.w.record(c.id)
	if err := json.Unmarshal(doc, &r); err != nil {
		m.w.t.Errorf("activation %d of %s: record %q: %v", c.n, c.action, doc, err)
		return
	}
	result := r.Response.Result
	switch {
	case r.Response.StatusCode == 0 && runs > 0 && (result.N == c.n || result.Intact != nil && *result.Intact):
		v.answered++
		if runs > 1 {
			v.again++
		}
	case c.action != rerunAction && strings.HasPrefix(result.Error, "The invoker ended while the action ran."):
		v.interrupted++
	case c.action == rerunAction && strings.HasPrefix(result.Error, "The invoker ended 3 times while the action ran."):
		v.givenUp++
	default:
		m.w.t.Errorf("activation %d of %s ran %d times and has the record %s", c.n, c.action, runs, doc)
	}
}

// tally counts the runs of each activation, whichever invoker they belong to.
type tally struct {
	server *httptest.Server
	url    string // as actions reach it
	begun  chan string
	mu     sync.Mutex
	runs   map[string]int
}

// newTally listens at an address of this machine.
func newTally(t *testing.T, host string) *tally {
	a := &tally{runs: map[string]int{}, begun: make(chan string, 1<<16)}
	a.server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.runs[r.URL.Path]++
		work := time.Duration(len(a.runs)%5) * 200 * time.Millisecond
		a.mu.Unlock()
		a.begun <- r.URL.Path
		select { // so long the action works
		case <-time.After(work):
		case <-r.Context().Done():
		}
	}))
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	_ = a.server.Listener.Close()
	a.server.Listener = listener
	a.server.Start()
	a.url = a.server.URL
	t.Cleanup(a.server.Close)
	return a
}

func (a *tally) of(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs[path]
}

// await waits for so many runs to begin, or for a moment to pass.
func (a *tally) await(n int, moment <-chan time.Time) {
	for range n {
		select {
		case <-a.begun:
		case <-moment:
			return
		}
	}
}

// drop forgets what has begun.
func (a *tally) drop() {
	for {
		select {
		case <-a.begun:
		default:
			return
		}
	}
}

// spooled reports how many bytes the state of an invoker has of records that
// wait, and how many records are dead letters.
func (w *fixture) spooled() (bytes int64, dead int) {
	w.t.Helper()
	state := filepath.Join(w.dir, "state", "invoker0")
	entries, _ := os.ReadDir(filepath.Join(state, "records"))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
	}
	letters, _ := os.ReadDir(filepath.Join(state, "dead-letters"))
	return bytes, len(letters)
}
