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

// program is a process that reads orders, one on each line, and answers each with a line of
// JSON. Its first line introduces it.
type program struct {
	hello     answer
	container *shimctl.Container // nil without the shim
	block     int                // number of its block of device memory

	name       string
	cmd        *exec.Cmd
	in         io.WriteCloser
	out        io.Reader
	lines      *bufio.Scanner
	stderr     bytes.Buffer // complete when the program has ended
	ended      sync.Once
	terminates bool // it ends on SIGTERM, not at the end of its input
}

// answer is a line of a worker; worker.c says which order fills which fields. A worker's
// first line fills the fields up to Total. A framework's worker fills Version and CUDA.
type answer struct {
	Device, Bus, Capability, Version, CUDA  string
	Driver, Processors, Managed, Concurrent int
	Free, Total                             int64

	Block, Took int
	Mismatches  int64
	NS, In, Out time.Duration
}

func command(ctx context.Context, args, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	return cmd
}

// newProgram prepares a process. When ctx ends, the process and its children are killed.
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

// ask sends an order and returns the answer. A refusal ends the step.
func (p *program) ask(format string, args ...any) (a answer) {
	line := fmt.Sprintf(format, args...)
	_, _ = fmt.Fprintln(p.in, line) // read reports a program that has ended
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

// decode reads an answer. A refusal is an error.
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

func (p *program) kill() error      { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
func (p *program) terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// endTime is how long a program may take to end by itself.
const endTime = 5 * time.Second

// end closes the program's input, kills the program if it has not ended after a while, and
// waits for its end.
func (p *program) end(after time.Duration) {
	p.ended.Do(func() {
		_ = p.in.Close()
		if p.terminates {
			_ = p.terminate()
			after = standaloneEnd
		}
		late := time.AfterFunc(after, func() { _ = p.kill() })
		defer late.Stop()
		_, _ = io.Copy(io.Discard, p.out)
		_ = p.cmd.Wait() // how it ended does not matter
	})
}

// last ends the program and returns the end of its standard error, for an error text.
func (p *program) last() string {
	p.end(0)
	text := strings.Join(strings.Fields(p.stderr.String()), " ")
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (it printed: %s)", strings.ToValidUTF8(text[max(0, len(text)-400):], ""))
}

// onOneCore pins all threads of the programs to this process's last core. Programs that run
// in turns are compared, and the cores of a virtual machine differ by half, because their
// neighbours may be busy.
func onOneCore(programs ...*program) {
	var own, last unix.CPUSet
	require(unix.SchedGetaffinity(0, &own))
	for cpu := range len(own) * 64 {
		if own.IsSet(cpu) {
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

func (p *program) fill(bytes int64, seed int) {
	p.block = p.ask("alloc %d", bytes).Block
	p.ask("fill %d %d", p.block, seed)
}

// running sends an order as a run of a function.
func (p *program) running(format string, args ...any) answer {
	p.container.Running(true)
	defer p.container.Running(false)
	return p.ask(format, args...)
}

// run makes passes over the block.
func (p *program) run(passes int) time.Duration { return p.running("work %d %d", p.block, passes).NS }

// verify compares the whole block by a kernel and counts the wrong words.
func (p *program) verify() answer {
	if p.container == nil {
		return p.ask("check %d", p.block)
	}
	return p.running("check %d", p.block)
}

// wrongWords sums up the mismatches of several programs.
func wrongWords(programs ...*program) (sum int64) {
	for _, p := range programs {
		sum += p.verify().Mismatches
	}
	return sum
}

// calibrate returns the number of passes that take about as long as wanted.
func (p *program) calibrate(want time.Duration) int {
	best := min(p.run(4), p.run(4), p.run(4))
	return int(min(max(4*want/max(best, 1), 1), 100_000))
}
