package harness

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// Gate is a server that actions call at the beginning of a run. It counts the runs of
// each, reports when a number of runs have begun, and lets none continue before it is
// opened.
type Gate struct {
	URL  string        // as actions reach it
	Open func()        // may be called several times
	Work time.Duration // of every fifth activation and its runs; the others take less
	// Holds reports whether runs with a path wait; nil means that all do.
	Holds func(path string) bool

	t      testing.TB
	opened chan struct{}
	begun  chan string

	mu   sync.Mutex
	runs map[string]int // by path
}

// NewGate starts a gate that the containers of the deployment can reach.
func (d *Deployment) NewGate() *Gate {
	t := d.T
	t.Helper()
	host := "127.0.0.1"
	if d.docker {
		host = peertest.Docker(t, "network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	check.NoError(t, err)
	g := &Gate{t: t, opened: make(chan struct{}), begun: make(chan string, 1<<17), runs: map[string]int{}}
	g.Open = sync.OnceFunc(func() { close(g.opened) })
	server := httptest.NewUnstartedServer(http.HandlerFunc(g.serve))
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	g.URL = server.URL
	t.Cleanup(func() {
		g.Open()
		server.Close()
	})
	return g
}

func (g *Gate) serve(_ http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.runs[r.URL.Path]++
	work := g.Work * time.Duration(len(g.runs)%5) / 4
	g.mu.Unlock()
	g.begun <- r.URL.Path
	if g.Holds == nil || g.Holds(r.URL.Path) {
		select {
		case <-g.opened:
		case <-r.Context().Done():
		}
	}
	select {
	case <-time.After(work):
	case <-r.Context().Done():
	}
}

// Runs returns the number of runs that have begun.
func (g *Gate) Runs() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, runs := range g.runs {
		n += runs
	}
	return n
}

// RunsOf returns the number of runs with a path that have begun.
func (g *Gate) RunsOf(path string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.runs[path]
}

// Await blocks until a number of further runs have begun.
func (g *Gate) Await(n int) {
	g.t.Helper()
	for range n {
		g.Next()
	}
}

// Next blocks until a further run begins, and returns the path that the run called.
func (g *Gate) Next() (path string) {
	g.t.Helper()
	return check.Receive(g.t, g.begun, "another run beside %d", g.Runs())
}

// AwaitUntil is Await, and returns at the latest at a moment.
func (g *Gate) AwaitUntil(n int, moment <-chan time.Time) {
	for range n {
		select {
		case <-g.begun:
		case <-moment:
			return
		}
	}
}

// Drop makes Await ignore the runs that have begun so far.
func (g *Gate) Drop() {
	for len(g.begun) > 0 {
		<-g.begun
	}
}
