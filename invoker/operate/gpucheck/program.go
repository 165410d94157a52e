package gpucheck

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is a process that carries out orders, a line each, and answers each with
// a line of JSON. Its first line introduces it.
type program struct {
	name   string
	hello  hello
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Reader
	lines  *bufio.Scanner
	stderr tail
	ended  sync.Once
}

// hello is the first line of a worker: the first fields are worker.c's, Version and
// CUDA those of the workers on frameworks.
type hello struct {
	Device     string `json:"device"`
	Bus        string `json:"bus"`
	Driver     int    `json:"driver"`
	Capability string `json:"capability"`
	Processors int    `json:"processors"`
	Managed    int    `json:"managed"`
	Concurrent int    `json:"concurrent"`
	Free       int64  `json:"free"`
	Total      int64  `json:"total"`
	Version    string `json:"version"`
	CUDA       string `json:"cuda"`
}

// answer is the answer to an order; each order fills some of its fields.
type answer struct {
	Block      int     `json:"block"`
	NS         int64   `json:"ns"`
	Mismatches int64   `json:"mismatches"`
	Free       int64   `json:"free"`
	Total      int64   `json:"total"`
	In         []int64 `json:"in"`
	Out        []int64 `json:"out"`
	Took       int     `json:"took"`
	Location   int     `json:"place"`
}

// endTime is how long a program may take to end by itself.
const endTime = 5 * time.Second

// newProgram prepares a process that is killed when ctx ends, with the processes that
// it started.
func newProgram(ctx context.Context, name string, args, env []string) (*program, error) {
	cmd := command(ctx, args, env)
	cmd.WaitDelay = 2 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &program{name: name, cmd: cmd}
	cmd.Cancel, cmd.Stderr = p.kill, &p.stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
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
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.read(&p.hello); err != nil {
		p.end(0)
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func command(ctx context.Context, args, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	return cmd
}

// order has an order carried out.
func (p *program) order(format string, args ...any) (a answer, err error) {
	line := fmt.Sprintf(format, args...)
	if _, err = fmt.Fprintln(p.in, line); err != nil {
		err = fmt.Errorf("%w%s", err, &p.stderr)
	} else {
		err = p.read(&a)
	}
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", p.name, line, err)
	}
	return a, err
}

func (p *program) read(out any) error {
	if !p.lines.Scan() {
		return fmt.Errorf("the program ended%s", &p.stderr)
	}
	return decode(p.lines.Bytes(), out)
}

// decode reads an answer, which may be a refusal.
func decode(line []byte, out any) error {
	var refused struct {
		Error string `json:"error"`
	}
	if err := errors.Join(json.Unmarshal(line, &refused), json.Unmarshal(line, out)); err != nil {
		return fmt.Errorf("read answer %.100q: %w", line, err)
	}
	if refused.Error != "" {
		return errors.New(refused.Error)
	}
	return nil
}

func (p *program) kill() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

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

// The orders of worker.c and its likes. Each ends the step if it is refused.

// ask carries out an order that must not be refused.
func (p *program) ask(format string, args ...any) answer { return value(p.order(format, args...)) }

// timed carries out an order and returns how long it took on the device.
func (p *program) timed(format string, args ...any) time.Duration {
	return time.Duration(p.ask(format, args...).NS)
}

// fill gives the program a block of known contents.
func (g *guest) fill(bytes int64, seed int) {
	g.block = g.ask("alloc %d", bytes).Block
	g.ask("fill %d %d", g.block, seed)
}

// running carries out an order as a run of a function.
func (g *guest) running(format string, args ...any) answer {
	g.container.Running(true)
	defer g.container.Running(false)
	return g.ask(format, args...)
}

// run makes passes over the block.
func (g *guest) run(passes int) time.Duration {
	return time.Duration(g.running("work %d %d", g.block, passes).NS)
}

// verify reads all of the block by a kernel. The mismatches are the words that are
// not what they must be.
func (g *guest) verify() answer { return g.running("check %d", g.block) }

// wrongWords are the mismatches of several programs.
func wrongWords(guests ...*guest) (sum int64) {
	for _, g := range guests {
		sum += g.verify().Mismatches
	}
	return sum
}

// calibrate finds how many passes take about as long as wanted.
func (g *guest) calibrate(want time.Duration) int {
	best := g.run(4)
	for range 2 {
		best = min(best, g.run(4))
	}
	return int(min(max(4*want/max(best, 1), 1), 100_000))
}

// tail keeps the end of what a program printed on its standard error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 2000

// Write keeps the end of the text.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(b), nil
}

// String is what is appended to an error's text.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := []rune(strings.Join(strings.Fields(string(t.text)), " "))
	if len(s) == 0 {
		return ""
	}
	return " (it printed: " + string(s[max(0, len(s)-400):]) + ")"
}
