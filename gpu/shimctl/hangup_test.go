package shimctl

import (
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestHungUpProcessesAreBounded: those that only hang up are watched until they end,
// which takes a descriptor of ours for each.
func TestHungUpProcessesAreBounded(t *testing.T) {
	const most = 2
	ctl, _ := openControl(t, Settings{Processes: most})
	c := openContainer(t, ctl, "a")
	for range 2 * most {
		program := exec.Command("sleep", "600")
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = program.Process.Kill()
			_ = program.Wait()
		})
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
		c.serve(conn, program.Process.Pid, nil)
		l.hello(0)
		_ = l.conn.CloseWrite()
		l.ended()
		for left := false; !left; runtime.Gosched() {
			c.mu.Lock()
			left = c.conns == 0
			c.mu.Unlock()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.disconnected); n != most {
		t.Errorf("%d processes are watched, want %d", n, most)
	}
}
