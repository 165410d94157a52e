package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestBrokerRestarts stops Apache Kafka while activations run and are on their
// way, and starts it again. Each has its ack and its record then, and work
// goes on.
func TestBrokerRestarts(t *testing.T) {
	w := realParts(t)
	k := realKafka(t)
	p := start(t, w, setup{})
	p.create("slow", "nodejs:20", "const main = p => new Promise(done => setTimeout(() => done({n: p.n}), 1500))", limits(minutes, 256, 0))
	const calls = 20 // of which eight find room at once
	ids := map[activation.ID]int{}
	for n := range calls {
		ids[p.started("slow", map[string]any{"n": n}, false)] = n
	}
	until(t, "some run", func() string {
		if n := p.status().Work.Pool.Active; n < 2 {
			return fmt.Sprint(n, " run")
		}
		return ""
	})
	if err := k.Stop(); err != nil {
		t.Fatal(err)
	}
	until(t, "the status names the broker", func() string {
		if s := p.status(); s.Healthy {
			return "healthy"
		}
		return ""
	})
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	for id, n := range ids {
		p.recording.completed(id) // twice, if the broker's answer was lost: harmless
		if got := string(p.record(id).Response.Result); got != fmt.Sprintf(`{"n":%d}`, n) {
			t.Errorf("activation %d: %s", n, got)
		}
	}
	p.create("after", "nodejs:20", nodeHello, nil)
	until(t, "the controller finds its invoker again", func() string {
		_, _, err := p.c.Actions.Invoke("after", map[string]any{"name": "Ada"}, true, true)
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// gate stands before the Docker daemon's socket. Shut, it is to the invoker as
// if the daemon had stopped.
type gate struct {
	t    *testing.T
	path string
	real string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	stands   chan struct{} // nothing passes until it is closed; nil: all does
	wg       sync.WaitGroup
}

func newGate(t *testing.T, host string) *gate {
	t.Helper()
	socket, isUnix := strings.CutPrefix(host, "unix://")
	if !isUnix {
		peertest.Missing(t, "the Docker daemon is not at a Unix socket")
	}
	dir, err := os.MkdirTemp("", "gate") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, path: filepath.Join(dir, "s"), real: socket}
	t.Cleanup(func() { g.shut(); os.RemoveAll(dir) })
	g.open()
	return g
}

func (g *gate) open() {
	g.t.Helper()
	listener, err := net.Listen("unix", g.path)
	if err != nil {
		g.t.Fatal(err)
	}
	g.listener = listener
	g.wg.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			g.join(in)
		}
	})
}

func (g *gate) join(in net.Conn) {
	out, err := net.Dial("unix", g.real)
	if err != nil {
		in.Close()
		return
	}
	g.mu.Lock()
	g.conns = append(g.conns, in, out)
	g.mu.Unlock()
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		g.wg.Go(func() {
			_, _ = io.Copy(passing{way[0], g}, way[1])
			way[0].Close()
			way[1].Close()
		})
	}
}

// passing writes what the gate lets pass.
type passing struct {
	net.Conn
	g *gate
}

func (p passing) Write(b []byte) (int, error) {
	p.g.mu.Lock()
	stands := p.g.stands
	p.g.mu.Unlock()
	if stands != nil {
		<-stands
	}
	return p.Conn.Write(b)
}

// stop has the daemon hang, as it seems: connections are taken, and nothing comes
// of them until the answer is called.
func (g *gate) stop() (goOn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	stands := make(chan struct{})
	g.stands = stands
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.stands = nil
		close(stands)
	})
}

func (g *gate) shut() {
	g.listener.Close()
	g.mu.Lock()
	for _, c := range g.conns {
		c.Close()
	}
	g.conns = nil
	g.mu.Unlock()
	g.wg.Wait()
}

// TestDockerRestarts takes the daemon away and lets its containers die, as a
// restart does. What needs a container waits until the daemon is back, and the
// status names it meanwhile; then all goes on.
func TestDockerRestarts(t *testing.T) {
	w := realParts(t)
	g := newGate(t, w.docker)
	w.docker = "unix://" + g.path
	p := start(t, w, setup{})
	p.create("idle", "nodejs:20", nodeHello, nil)
	p.create("busy", "python:3", "import time\ndef main(p):\n    time.sleep(100)\n", limits(minutes, 0, 0))
	p.create("new", "nodejs:20", nodeHello, nil)
	ada := map[string]any{"name": "Ada"}
	p.call("idle", ada).want(t, 0, "hi Ada")
	running := p.started("busy", nil, false)
	p.inside(p.container("guest_busy", "running"))
	g.shut()
	waiting := p.started("new", ada, false)
	until(t, "the status names the engine", func() string {
		if s := p.status(); s.Healthy {
			return "healthy"
		}
		return ""
	})
	for _, id := range strings.Fields(peertest.Docker(t, "ps", "-q", "--filter", "name=^/?"+p.prefix())) {
		peertest.Docker(t, "kill", id)
	}
	p.finish(running).want(t, activation.StatusDeveloperError, textExited)
	g.open()
	// A connection that rested may have lost the word of its end with the
	// container's network: the invoker must know of it from the daemon.
	p.gone("guest_idle")
	p.finish(waiting).want(t, 0, "hi Ada")
	until(t, "the controller finds its invoker again", func() string {
		if _, _, err := p.c.Actions.Invoke("idle", ada, true, true); err != nil {
			return err.Error()
		}
		return ""
	})
}

// TestDockerHangs has the daemon take requests and answer none, until it counts as
// away. What needs a container waits until it answers again.
func TestDockerHangs(t *testing.T) {
	w := realParts(t)
	g := newGate(t, w.docker)
	w.docker = "unix://" + g.path
	p := start(t, w, setup{})
	p.create("new", "nodejs:20", nodeHello, nil)
	ada := map[string]any{"name": "Ada"}
	goOn := g.stop()
	defer goOn()
	waiting := p.started("new", ada, false)
	until(t, "the status names the engine", func() string {
		if s := p.status(); s.Healthy || !strings.Contains(strings.Join(s.Reasons, " "), "engine") {
			return fmt.Sprint("healthy ", s.Healthy, s.Reasons)
		}
		return ""
	})
	goOn()
	p.finish(waiting).want(t, 0, "hi Ada")
	until(t, "the controller finds its invoker again", func() string {
		if _, _, err := p.c.Actions.Invoke("new", ada, true, true); err != nil {
			return err.Error()
		}
		return ""
	})
}
