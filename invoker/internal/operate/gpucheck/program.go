package gpucheck

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// program is a process that carries out orders, a line each, and answers each with
// a line of JSON. Its first line introduces it.
type program struct {
	hello     answer
	container *shimctl.Container // under the shim, else nil
	block     int                // of device memory, that it works on

	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Reader
	lines  *bufio.Scanner
	stderr bytes.Buffer // to be read when the program has ended
	ended  sync.Once
}

// answer is a line of a worker; worker.c has which order fills which fields. Its first
// line fills those up to Total, Version and CUDA where it is one on a framework.
type answer struct {
	Device, Bus, Capability, Version, CUDA  string
	Driver, Processors, Managed, Concurrent int
	Free, Total                             int64

	Block, Took int
	Location    int `json:"place"`
	Mismatches  int64
	NS, In, Out time.Duration
}

func command(ctx context.Context, args, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	return cmd
}

// newProgram prepares a process that is killed when ctx ends, with the processes that
// it started.
func newProgram(ctx context.Context, name string, args, env []string) (*program, error) {
	p := &program{name: name, cmd: command(ctx, args, env)}
	p.cmd.WaitDelay = 2 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel, p.cmd.Stderr = p.kill, &p.stderr
	in, inErr := p.cmd.StdinPipe()
	out, outErr := p.cmd.StdoutPipe()
	p.in, p.out, p.lines = in, out, bufio.NewScanner(out)
	p.lines.Buffer(nil, 1<<20)
	return p, errors.Join(inErr, outErr)
}

// startProgram starts a program and reads its first line.
func startProgram(ctx context.Context, name string, args, env []string) (*program, error) {
	p, err := newProgram(ctx, name, args, env)
	if err == nil {
		err = p.cmd.Start()
	}
	if err == nil {
		if err = p.read(&p.hello); err != nil {
			p.end(0)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// ask has an order carried out, and ends the step if it is refused.
func (p *program) ask(format string, args ...any) (a answer) {
	line := fmt.Sprintf(format, args...)
	_, _ = fmt.Fprintln(p.in, line) // a program that has ended does not answer either
	if err := p.read(&a); err != nil {
		fail("%s: %s: %w", p.name, line, err)
	}
	return a
}

func (p *program) read(out *answer) error {
	if !p.lines.Scan() {
		return fmt.Errorf("the program ended%s", p.last())
	}
	return decode(p.lines.Bytes(), out)
}

// decode reads an answer, which may be a refusal.
func decode(line []byte, out any) error {
	var refused struct{ Error string }
	if err := errors.Join(json.Unmarshal(line, &refused), json.Unmarshal(line, out)); err != nil {
		return fmt.Errorf("read answer %.100q: %w", line, err)
	}
	if refused.Error != "" {
		return errors.New(refused.Error)
	}
	return nil
}

func (p *program) kill() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// endTime is how long a program may take to end by itself.
const endTime = 5 * time.Second

// end closes the program's input, kills it if it has not ended after a while, and
// waits for it.
func (p *program) end(after time.Duration) {
	p.ended.Do(func() {
		_ = p.in.Close()
		late := time.AfterFunc(after, func() { _ = p.kill() })
		defer late.Stop()
		_, _ = io.Copy(io.Discard, p.out)
		_ = p.cmd.Wait() // how it ended does not matter
	})
}

// last ends the program, and is what an error says of its standard error.
func (p *program) last() string {
	p.end(0)
	text := strings.Join(strings.Fields(p.stderr.String()), " ")
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (it printed: %s)", strings.ToValidUTF8(text[max(0, len(text)-400):], ""))
}

// start runs a program until the step ends. Under the shim it has a container of its
// own, and is waited for until the shim has connected: it does so after the driver's
// start, on a thread of its own.
func (t *trial) start(name string, args []string, shim bool, env ...string) *program {
	environ := t.env(env...)
	var c *shimctl.Container
	if shim {
		c = t.container()
		environ = t.shimEnv(c, env...)
	}
	p := value(startProgram(t.ctx, name, args, environ))
	p.container = c
	t.mu.Lock()
	t.started = append(t.started, p)
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.ctx, 20*time.Second)
	defer cancel()
	for shim && c.Processes() == 0 {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			fail("%s: the shim has not connected: %w%s", name, ctx.Err(), p.last())
		}
	}
	return p
}

// onOneCore has all threads of the programs run on the last of this process's cores:
// programs that run in turns are compared, and the cores of a virtual machine differ by
// half, as their neighbours are busy or not.
func onOneCore(programs ...*program) {
	var own, last unix.CPUSet
	require(unix.SchedGetaffinity(0, &own))
	for cpu, left := 0, own.Count(); left > 0; cpu++ {
		if own.IsSet(cpu) {
			left--
			last.Zero()
			last.Set(cpu)
		}
	}
	for _, p := range programs {
		for _, thread := range value(os.ReadDir(fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid))) {
			id, _ := strconv.Atoi(thread.Name())
			_ = unix.SchedSetaffinity(id, &last) // a thread may have ended
		}
	}
}

// worker starts worker.c.
func (t *trial) worker(shim bool) *program {
	return t.start("worker", []string{t.path("check/worker")}, shim)
}

// filled starts worker.c under the shim, with a block of known contents.
func (t *trial) filled(bytes int64, seed int) *program {
	p := t.worker(true)
	p.fill(bytes, seed)
	return p
}

func (p *program) fill(bytes int64, seed int) {
	p.block = p.ask("alloc %d", bytes).Block
	p.ask("fill %d %d", p.block, seed)
}

// running carries out an order as a run of a function.
func (p *program) running(format string, args ...any) answer {
	p.container.Running(true)
	defer p.container.Running(false)
	return p.ask(format, args...)
}

// run makes passes over the block.
func (p *program) run(passes int) time.Duration { return p.running("work %d %d", p.block, passes).NS }

// verify reads all of the block by a kernel. The mismatches are the words that are
// not what they must be.
func (p *program) verify() answer { return p.running("check %d", p.block) }

// wrongWords are the mismatches of several programs.
func wrongWords(programs ...*program) (sum int64) {
	for _, p := range programs {
		sum += p.verify().Mismatches
	}
	return sum
}

// calibrate finds how many passes take about as long as wanted.
func (p *program) calibrate(want time.Duration) int {
	best := min(p.run(4), p.run(4), p.run(4))
	return int(min(max(4*want/max(best, 1), 1), 100_000))
}

// evict and prefetch carry out an order as the invoker would give it. Anything but
// a full success ends the step.
func (t *trial) evict(p *program) shimctl.Done {
	d, err := p.container.Evict(t.ctx, t.count.Add(1))
	return complete("evict", d, err)
}

func (t *trial) prefetch(p *program) shimctl.Done {
	d, err := p.container.Prefetch(t.ctx, t.count.Add(1), 0)
	return complete("prefetch", d, err)
}

func complete(order string, d shimctl.Done, err error) shimctl.Done {
	switch {
	case err != nil:
		fail("%s: %w", order, err)
	case d.Status != shimctl.OK:
		fail("%s: %s after %s, driver's answer %d", order, d.Status, size(d.Moved), d.Code)
	case d.Processes == 0:
		fail("%s: no process answered", order)
	}
	return d
}
