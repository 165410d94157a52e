package shimctl

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// connected is a connection to a container of a program that lives on.
func connected(t *testing.T, c *Container) *hostile {
	t.Helper()
	program := exec.Command("sleep", "600")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	return connectedAs(t, c, program.Process.Pid)
}

func connectedAs(t *testing.T, c *Container, pid int) *hostile {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l := dialAt(t, listener.Addr().String())
	conn, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	c.serve(conn, pid, nil)
	l.hello(0)
	return l
}

// remain waits until a container has so many connections.
func (c *Container) remain(n int) {
	for remain := false; !remain; runtime.Gosched() {
		c.mu.Lock()
		remain = c.conns == n
		c.mu.Unlock()
	}
}

// TestHungUpProcessesAreBounded: processes that only hang up are watched until they end, which
// takes one descriptor of ours per process.
func TestHungUpProcessesAreBounded(t *testing.T) {
	const most = 2
	ctl, _ := openControl(t, Settings{Processes: most})
	c := openContainer(t, ctl, "a")
	for range 2 * most {
		l := connected(t, c)
		_ = l.conn.CloseWrite()
		l.ended()
		c.remain(0)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.disconnected); n != most {
		t.Errorf("%d processes are watched, want %d", n, most)
	}
}

// TestQuestionsOfHungUpProcesses: nothing is kept for an answer that no connection waits for.
// An answer takes half a second if another process does not confirm its memory.
func TestQuestionsOfHungUpProcesses(t *testing.T) {
	ctl, _ := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	c.Limit(1<<30, 0)
	connected(t, c).receive(typeLimit)
	for range 20 { // each takes the place of the one before
		asks := connectedAs(t, c, os.Getpid())
		asks.receive(typeLimit)
		asks.send(encode(typeWant, 7))
		asks.send(encode(typeUsage, 0, 0, 0, 0, 0, 0, 0))
	}
	c.remain(2)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.questions); n > 2 {
		t.Errorf("%d questions are kept", n)
	}
}
