package harness

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// The lines that an invoker prints (Act).
const (
	listening = "listening "
	ready     = "ready"
)

// Process is an invoker in a process of its own.
type Process struct {
	Cmd    *exec.Cmd
	Output peertest.Tail // the end of its log
	Admin  Admin         // its page, once it is ready
	Ready  chan struct{} // closed when it takes activations
	Ended  chan struct{} // closed when it has ended
	Err    error         // of its end, afterwards
}

// Command is this test's program as an invoker. It takes nothing from this
// process's environment but the PATH.
func Command(environ []string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append([]string{RoleInvoker}, args...)...)
	cmd.Env = append(append([]string{}, environ...), "PATH="+os.Getenv("PATH"))
	return cmd
}

// Start starts an invoker, by Command or by another one that prints the same, and
// does not wait until it is ready. It ends with this process at the latest.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{Cmd: cmd, Admin: AdminOf(cmd.Env), Ready: make(chan struct{}), Ended: make(chan struct{})}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.Output
	} else {
		cmd.Stderr = io.MultiWriter(&p.Output, cmd.Stderr)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = peertest.Start(cmd)
	}
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(p.Ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			switch addr, ok := strings.CutPrefix(lines.Text(), listening); {
			case ok:
				p.Admin.URL = "http://127.0.0.1" + addr[strings.LastIndex(addr, ":"):]
			case lines.Text() == ready:
				close(p.Ready)
			default: // the program as it ships logs here
				fmt.Fprintln(cmd.Stderr, lines.Text())
			}
		}
		_, _ = io.Copy(io.Discard, out) // behind a line that is too long
		p.Err = cmd.Wait()
	}()
	return p, nil
}

// Launch is Start for a test, with which the invoker ends at the latest.
func Launch(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p, err := Start(cmd)
	check.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

// Await returns when the invoker takes activations, and an error where it ends
// before, or takes too long.
func (p *Process) Await() error { return p.AwaitWithin(peertest.WaitLimit) }

// AwaitWithin is Await with another limit than peertest.WaitLimit.
func (p *Process) AwaitWithin(limit time.Duration) error {
	select {
	case <-p.Ready:
		return nil
	case <-p.Ended:
		return fmt.Errorf("the invoker ended before it was ready: %w\n%s", cmp.Or(p.Err, errors.New("without an error")), p.Output.String())
	case <-time.After(limit):
		return fmt.Errorf("the invoker is not ready\n%s", p.Output.String())
	}
}

// Kill ends the invoker as a failing machine would, and waits for that.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.Ended
}

// Stop asks the invoker to end, and waits for that. It ends for good after an
// interrupt; after SIGTERM it leaves its containers to the next one.
func (p *Process) Stop(how os.Signal) error { return p.StopWithin(peertest.WaitLimit, how) }

// Terminate asks the invoker to end for good, and demands that it ends well.
func (p *Process) Terminate(t testing.TB) {
	t.Helper()
	if err := p.Stop(os.Interrupt); err != nil {
		t.Error(err)
	}
}

// StopWithin is Stop with another limit than peertest.WaitLimit. An invoker that
// does not end is killed.
func (p *Process) StopWithin(limit time.Duration, how os.Signal) error {
	if how == syscall.SIGKILL {
		p.Kill()
		return nil
	}
	if err := p.Cmd.Process.Signal(how); err != nil {
		return err
	}
	select {
	case <-p.Ended:
	case <-time.After(limit):
		p.Kill()
		return fmt.Errorf("the invoker did not end within %s of %v\n%s", limit, how, p.Output.String())
	}
	if p.Err != nil {
		return fmt.Errorf("the invoker ended with %w\n%s", p.Err, p.Output.String())
	}
	return nil
}
