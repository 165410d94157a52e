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
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestBrokerRestarts stops Apache Kafka while activations run and are on their
// way, and starts it again. Each has its ack and its record then, and work
// goes on.
func TestBrokerRestarts(t *testing.T) {
	w := realParts(t)
	k := realKafka(t)
	p := start(t, w, setup{})
	p.create("slow", "nodejs:20", "const main = p => new Promise(done => setTimeout(() => done({n: p.n}), 1500))", limits(minutes, 256, 0))
	const calls = 20 // of which eight have memory at once
	ids := map[activation.ID]int{}
	for n := range calls {
		ids[p.started("slow", map[string]any{"n": n}, false)] = n
	}
	p.admin.Await(t, "some run", func(s harness.Status) bool { return s.Work.Pool.Active >= 2 })
	check.NoError(t, k.Stop())
	p.unhealthy("")
	check.NoError(t, k.Start())
	for id, n := range ids {
		p.completed(id) // twice, if the broker's answer was lost: harmless
		check.Equal(t, string(p.db.AwaitRecord(t, id).Response.Result), fmt.Sprintf(`{"n":%d}`, n), "activation %d", n)
	}
	p.hello("after")
	p.served("after", ada)
}

// unhealthy waits until the status gives a reason why the invoker is, with a text.
func (p *platform) unhealthy(text string) {
	p.t.Helper()
	p.admin.Await(p.t, "the status has no reason with "+text, func(s harness.Status) bool {
		return !s.Healthy && strings.Contains(strings.Join(s.Reasons, " "), text)
	})
}

// served waits until the controller has its invoker for an action again.
func (p *platform) served(action string, args map[string]any) {
	p.t.Helper()
	peertest.Until(p.t, "the controller finds its invoker again", func() string {
		if _, _, err := p.c.Actions.Invoke(action, args, true, true); err != nil {
			return err.Error()
		}
		return ""
	})
}

// dockerProxy stands before the Docker daemon's socket. Shut, it is to the invoker
// as if the daemon had stopped.
type dockerProxy struct {
	t    *testing.T
	path string
	real string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	hangs    chan struct{} // nothing passes until it is closed; nil: all does
	wg       sync.WaitGroup
}

// behindProxy is an installation that has the daemon behind one.
func behindProxy(t *testing.T) (*platform, *dockerProxy) {
	t.Helper()
	w := realParts(t)
	g := newDockerProxy(t, w.engineAddress())
	if w.containerd != "" {
		w.containerd = g.path
	} else {
		w.docker = "unix://" + g.path
	}
	return start(t, w, setup{}), g
}

func newDockerProxy(t *testing.T, host string) *dockerProxy {
	t.Helper()
	socket, isUnix := strings.CutPrefix(host, "unix://")
	if !isUnix {
		peertest.Missing(t, "the Docker daemon is not at a Unix socket")
	}
	dir, err := os.MkdirTemp("", "gate") // t.TempDir may be too long for a socket
	check.NoError(t, err)
	g := &dockerProxy{t: t, path: filepath.Join(dir, "s"), real: socket}
	t.Cleanup(func() { g.shut(); os.RemoveAll(dir) })
	g.open()
	return g
}

func (g *dockerProxy) open() {
	g.t.Helper()
	listener, err := net.Listen("unix", g.path)
	check.NoError(g.t, err)
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

func (g *dockerProxy) join(in net.Conn) {
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

// passing writes while the proxy does not hang.
type passing struct {
	net.Conn
	g *dockerProxy
}

func (p passing) Write(b []byte) (int, error) {
	p.g.mu.Lock()
	hangs := p.g.hangs
	p.g.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	return p.Conn.Write(b)
}

// hang makes the daemon seem to hang: it accepts connections, and answers nothing until
// goOn is called.
func (g *dockerProxy) hang() (goOn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	hangs := make(chan struct{})
	g.hangs = hangs
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.hangs = nil
		close(hangs)
	})
}

func (g *dockerProxy) shut() {
	g.listener.Close()
	g.mu.Lock()
	for _, c := range g.conns {
		c.Close()
	}
	g.conns = nil
	g.mu.Unlock()
	g.wg.Wait()
}

// TestDockerRestarts stops the daemon and lets its containers die, as in a restart. Work
// that needs a container waits until the daemon is back, and the status says so
// meanwhile. Then everything continues.
func TestDockerRestarts(t *testing.T) {
	p, g := behindProxy(t)
	p.hello("idle")
	p.create("busy", "python:3", sleeps, limits(minutes, 0, 0))
	p.hello("new")
	p.greets("idle")
	running := p.started("busy", nil, false)
	p.inside(p.container("guest_busy", "running"))
	g.shut()
	waiting := p.started("new", ada, false)
	p.unhealthy("engine")
	for _, id := range strings.Fields(p.containers()) {
		p.parts.killContainer(t, id)
	}
	p.finish(running).want(t, activation.StatusDeveloperError, textExited)
	g.open()
	// An idle connection may not show its end, for the container's network is gone:
	// the invoker must learn of it from the daemon.
	p.gone("guest_idle")
	p.finish(waiting).want(t, 0, "hi Ada")
	p.served("idle", ada)
}

// TestDockerHangs: the daemon accepts requests and answers none, until it counts as
// unavailable. Work that needs a container waits until it answers again.
func TestDockerHangs(t *testing.T) {
	p, g := behindProxy(t)
	p.hello("new")
	goOn := g.hang()
	defer goOn()
	waiting := p.started("new", ada, false)
	p.unhealthy("engine")
	goOn()
	p.finish(waiting).want(t, 0, "hi Ada")
	p.served("new", ada)
}
