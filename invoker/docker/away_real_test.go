package docker

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// gate stands before the daemon's socket. Shut, it is to the engine as if the
// daemon had stopped.
type gate struct {
	t      *testing.T
	path   string
	daemon string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	wg       sync.WaitGroup
}

func newGate(t *testing.T) *gate {
	t.Helper()
	host := realHost(t)
	daemon, isUnix := strings.CutPrefix(host, "unix://")
	if host == "" {
		daemon, isUnix = strings.TrimPrefix(client.DefaultDockerHost, "unix://"), true
	}
	if !isUnix {
		missing(t, "the Docker daemon is not at a Unix socket")
	}
	dir, err := os.MkdirTemp("", "gate") // t.TempDir may be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, path: filepath.Join(dir, "s"), daemon: daemon}
	t.Cleanup(func() { g.shut(); os.RemoveAll(dir) })
	g.open()
	return g
}

func (g *gate) open() {
	listener, err := net.Listen("unix", g.path)
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	g.listener = listener
	g.mu.Unlock()
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
	out, err := net.Dial("unix", g.daemon)
	if err != nil {
		in.Close()
		return
	}
	g.mu.Lock()
	g.conns = append(g.conns, in, out)
	g.mu.Unlock()
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		g.wg.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			way[0].Close()
			way[1].Close()
		})
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	g.listener.Close()
	for _, c := range g.conns {
		c.Close()
	}
	g.conns = nil
	g.mu.Unlock()
	g.wg.Wait()
}

// While the daemon is away nothing works; when it is back, what died meanwhile
// is told, what was to be removed is removed, and the rest goes on.
func TestRealDaemonAway(t *testing.T) {
	g := newGate(t)
	direct := startReal(t, nil)
	r := startReal(t, func(o *Options) { o.Host = "unix://" + g.path })
	stays, dies, removed := r.create(), r.create(), r.create()
	mustRun(t, stays.Addr, map[string]any{"stdout": []string{"a\n"}})
	g.shut()
	if _, err := r.Create(t.Context(), r.spec()); err == nil {
		t.Error("created without a daemon")
	}
	if err := r.Remove(t.Context(), removed.ID); err == nil {
		t.Error("removed without a daemon")
	}
	if err := r.Ping(t.Context()); err == nil {
		t.Error("a daemon that is away answers")
	}
	_, err := direct.api.ContainerKill(t.Context(), string(dies.ID), client.ContainerKillOptions{Signal: "KILL"})
	if err != nil {
		t.Fatal(err)
	}
	g.open()
	if id := r.awaitDeath(); id != dies.ID {
		t.Errorf("died %s, want %s", id, dies.ID)
	}
	until(t, "the removal is made up for", func() bool {
		all, err := direct.summaries(t.Context(), r.prefix)
		_, there := all[removed.ID]
		return err == nil && !there
	})
	got := r.Logs(t.Context(), stays.ID, container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20})
	if len(got.Lines) != 1 || got.Incomplete {
		t.Errorf("logs: got %+v", got)
	}
	mustRun(t, stays.Addr, nil)
	mustRun(t, r.create().Addr, nil)
}
