package replay

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// roleInvoker is the word by which the test's program is an invoker.
const roleInvoker = "replay-invoker"

// roleClock is the word by which it tries whether its clock can be stepped.
const roleClock = "replay-clock"

// actInvoker is `gpuwhisk invoker` as far as a test needs it: configured by its
// environment and arguments, ended by SIGTERM. It says where its admin page is,
// and when it is ready.
func actInvoker(ctx context.Context, args []string) error {
	if path := os.Getenv(clockVariable); path != "" {
		if err := followClock(path); err != nil {
			return err
		}
	}
	cfg, err := config.Load(config.Input{Environ: os.Environ(), Args: args})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	sweepAtSignal()
	return assembly.Run(ctx, assembly.Options{
		LongTimeouts: true,
		Config:       cfg, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Self: self, Path: os.Getenv("PATH"),
		Listening: func(addr string) { fmt.Println(addr) },
		Ready:     func() { fmt.Println(ready) },
	})
}

// ready is the line by which an invoker says that it is ready.
const ready = "ready"

// process is an invoker in a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	admin string // of its administration
}

// spawn starts the invoker and returns when it is ready.
func (w *fixture) spawn() *process { return w.spawnAs(0) }

// spawnAs starts an invoker with another number and further environment.
func (w *fixture) spawnAs(id int, extra ...string) *process {
	w.t.Helper()
	p := &process{t: w.t, cmd: exec.Command(w.program(), roleInvoker, "--id", strconv.Itoa(id), "--uniqueName", w.unique)}
	p.cmd.Env = append(append(w.environment(), "PATH="+os.Getenv("PATH")), extra...)
	if testing.Verbose() {
		p.cmd.Stderr = os.Stderr
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = peertest.Start(p.cmd)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		p.admin = lines.Text()
	}
	if !lines.Scan() || lines.Text() != ready {
		w.t.Fatalf("the invoker did not start: %q, %v", lines.Text(), lines.Err())
	}
	return p
}

// kill ends the process as a failing machine would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// terminate asks the process to end and demands that it ends well.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the invoker ended with %v", err)
	}
}

// TestKillWithRunsInFlight: an invoker that is killed has lost nothing. What ran
// is delivered to the next one, and the containers of the dead are gone.
func TestKillWithRunsInFlight(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c := newCrowd(w)
	first := w.spawn()
	c.invoke(inFlight)
	c.gate.await(inFlight)
	first.kill()
	c.gate.open()
	killed := time.Now()
	second := w.spawn()
	ready := time.Since(killed)
	c.settled(c.ids[:1])
	t.Logf("after the kill: ready again in %v, first ack in %v", ready, time.Since(killed))
	c.settled(c.ids)
	second.terminate()
	c.check()
}

// TestKillAgainAndAgain: killed in the middle of any number of things, the
// invokers together still lose nothing.
func TestKillAgainAndAgain(t *testing.T) {
	t.Parallel()
	c := newCrowd(newFixture(t))
	c.gate.open() // runs end by themselves, the kill meets them anywhere
	c.killAgainAndAgain()
}

// TestKillInDocker is the same with containers, which outlive their invoker and
// are removed by the next.
func TestKillInDocker(t *testing.T) {
	t.Parallel()
	peertest.NeedDocker(t)
	w := newFixture(t)
	dockerEngine(t).fit(w, scenario{})
	c := newCrowd(w)
	c.far = true
	c.killAgainAndAgain()
}

func (c *crowd) killAgainAndAgain() {
	w := c.w
	w.t.Helper()
	var sent [][]string
	for round := range 4 {
		p := w.spawn()
		ids := c.invoke(inFlight)
		c.settled(ids[:1+round*inFlight/5])
		if sent = append(sent, ids); round >= 2 {
			c.settled(sent[round-2]) // a third end under it would be its last (maxAttempts)
		}
		p.kill()
	}
	last := w.spawn()
	c.settled(c.ids)
	last.terminate()
	c.check()
}
