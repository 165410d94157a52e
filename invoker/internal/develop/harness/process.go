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

// Process is an invoker in its own process.
type Process struct {
	Cmd    *exec.Cmd
	Output peertest.Tail // the end of its log
	Admin  Admin         // the admin page; set when Ready is closed
	Ready  chan struct{} // closed when the invoker accepts activations
	Ended  chan struct{} // closed when the process has ended
	Err    error         // the error of the process; set when Ended is closed
}

// Command returns the command that runs this test's program as an invoker. From this
// process's environment it takes only PATH.
func Command(environ []string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append([]string{RoleInvoker}, args...)...)
	cmd.Env = append(append([]string{}, environ...), "PATH="+os.Getenv("PATH"))
	return cmd
}

// Start starts an invoker and does not wait until it is ready. cmd is made by Command,
// or prints the same lines. The invoker ends at the latest with this process.
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
			default: // the released program also logs to standard output
				fmt.Fprintln(cmd.Stderr, lines.Text())
			}
		}
		_, _ = io.Copy(io.Discard, out) // drains the rest after a line that is too long
		p.Err = cmd.Wait()
	}()
	return p, nil
}

// Launch is Start for a test. The invoker ends at the latest with the test.
func Launch(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p, err := Start(cmd)
	check.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

// Await blocks until the invoker accepts activations. It returns an error if the
// invoker ends before or is not ready within peertest.WaitLimit.
func (p *Process) Await() error { return p.AwaitWithin(peertest.WaitLimit) }

// AwaitWithin is Await with another limit.
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

// Kill kills the invoker, as the loss of its machine would, and waits for its end.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.Ended
}

// Stop sends a signal to the invoker and waits for its end. After an interrupt the
// invoker removes its containers; after SIGTERM it leaves them to the next invoker.
func (p *Process) Stop(how os.Signal) error { return p.StopWithin(peertest.WaitLimit, how) }

// Terminate interrupts the invoker and fails the test unless it ends without an error.
func (p *Process) Terminate(t testing.TB) {
	t.Helper()
	if err := p.Stop(os.Interrupt); err != nil {
		t.Error(err)
	}
}

// StopWithin is Stop with another limit than peertest.WaitLimit. After the limit the
// invoker is killed.
func (p *Process) StopWithin(limit time.Duration, how os.Signal) error {
	if how == syscall.SIGKILL {
		p.Kill()
		return nil
	}
	if err := p.Cmd.Process.Signal(how); err != nil {
		return err
	}
	return p.awaitEnd(limit)
}

// AwaitEnd blocks until the end of an invoker that has received a signal.
func (p *Process) AwaitEnd() error { return p.awaitEnd(peertest.WaitLimit) }

func (p *Process) awaitEnd(limit time.Duration) error {
	select {
	case <-p.Ended:
	case <-time.After(limit):
		p.Kill()
		return fmt.Errorf("the invoker did not end within %s of a signal\n%s", limit, p.Output.String())
	}
	if p.Err != nil {
		return fmt.Errorf("the invoker ended with %w\n%s", p.Err, p.Output.String())
	}
	return nil
}
