package gpucheck

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is a process that carries out orders, a line each, and answers each with
// a line of JSON.
type program struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Reader
	lines  *bufio.Scanner
	stderr *tail
	ended  sync.Once
}

// patient is how long a program may take to end by itself.
const patient = 5 * time.Second

// startProgram starts one and decodes its first line into hello. It is killed when
// ctx ends, with the processes that it started.
func startProgram(ctx context.Context, name string, args, env []string, hello any) (*program, error) {
	cmd := command(ctx, args, env)
	cmd.WaitDelay = 2 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	p := &program{name: name, cmd: cmd, stderr: &tail{}}
	cmd.Stderr = p.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.in, p.out, p.lines = in, out, bufio.NewScanner(out)
	p.lines.Buffer(nil, 1<<20)
	if err := p.answer(hello); err != nil {
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

// order has an order carried out, and decodes the answer into out.
func (p *program) order(out any, format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return fmt.Errorf("%s: %s: %w%s", p.name, line, err, p.stderr)
	}
	if err := p.answer(out); err != nil {
		return fmt.Errorf("%s: %s: %w", p.name, line, err)
	}
	return nil
}

func (p *program) answer(out any) error {
	if !p.lines.Scan() {
		return fmt.Errorf("the program ended%s", p.stderr)
	}
	return decode(p.lines.Bytes(), out)
}

// decode reads an answer, which may be a refusal.
func decode(line []byte, out any) error {
	var refused struct {
		Error string `json:"error"`
	}
	err := json.Unmarshal(line, &refused)
	if err == nil && refused.Error != "" {
		return errors.New(refused.Error)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(line, out)
	}
	if err != nil {
		return fmt.Errorf("read answer %.100q: %w", line, err)
	}
	return nil
}

// end closes the program's input, kills it if it has not ended after a while, and
// waits for it.
func (p *program) end(after time.Duration) {
	p.ended.Do(func() {
		_ = p.in.Close()
		kill := time.AfterFunc(after, func() { _ = p.cmd.Cancel() })
		defer kill.Stop()
		_, _ = io.Copy(io.Discard, p.out)
		_ = p.cmd.Wait() // how it ended does not matter
	})
}

// The orders of worker.c and its likes. Each ends the step if it is refused.

// filled makes a block of known contents.
func (p *program) filled(bytes int64, seed int) (block int) {
	var a struct {
		Block int `json:"block"`
	}
	check(p.order(&a, "alloc %d", bytes))
	check(p.order(nil, "fill %d %d", a.Block, seed))
	return a.Block
}

// timed carries out an order and returns how long it took on the device.
func (p *program) timed(format string, args ...any) time.Duration {
	var a struct {
		NS int64 `json:"ns"`
	}
	check(p.order(&a, format, args...))
	return time.Duration(a.NS)
}

// info is the device's free and total memory by cuMemGetInfo.
func (p *program) info() (free, total int64) {
	var a struct {
		Free  int64 `json:"free"`
		Total int64 `json:"total"`
	}
	check(p.order(&a, "info"))
	return a.Free, a.Total
}

// run makes passes over a block, as a run of a function.
func (g *guest) run(block, passes int) time.Duration {
	g.container.Running(true)
	defer g.container.Running(false)
	return g.timed("work %d %d", block, passes)
}

// wrong counts the words of a block that are not what they must be, by a kernel
// that reads all of it.
func (g *guest) wrong(block int) (mismatches int64, took time.Duration) {
	var a struct {
		Mismatches int64 `json:"mismatches"`
		NS         int64 `json:"ns"`
	}
	g.container.Running(true)
	defer g.container.Running(false)
	check(g.order(&a, "check %d", block))
	return a.Mismatches, time.Duration(a.NS)
}

// calibrate finds how many passes take about as long as wanted.
func (g *guest) calibrate(block int, want time.Duration) int {
	best := g.run(block, 4)
	for range 2 {
		best = min(best, g.run(block, 4))
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

// files are the programs that the check runs.
type files struct {
	shim                    string // libgpuwhisk.so
	worker, pointers, trace string
	scripts                 string // directory of the workers in Python
	how                     string // where they came from
}

// findFiles takes the programs that lie beside the shim, or has the shim's Makefile
// build them into dir.
func findFiles(ctx context.Context, s Settings, dir string) (files, error) {
	shim, err := filepath.Abs(s.Shim)
	if err != nil {
		return files{}, fmt.Errorf("find shim: %w", err)
	}
	f := files{shim: filepath.Join(shim, "libgpuwhisk.so"), how: "built beforehand"}
	if !exists(f.shim) {
		return f, fmt.Errorf("%s is not there; build it with make shim: %w", f.shim, ErrCannotRun)
	}
	f.scripts = filepath.Join(shim, "check")
	if !exists(filepath.Join(f.scripts, "worker")) {
		if s.Source == "" {
			return f, fmt.Errorf("%s lacks the programs of the check; build them with make -C shim/check: %w", f.scripts, ErrCannotRun)
		}
		make := command(ctx, []string{"make", "-s", "-C", filepath.Join(s.Source, "check"), "OUT=" + dir, "CC=" + s.Compiler}, s.Environ)
		if text, err := make.CombinedOutput(); err != nil {
			return f, fmt.Errorf("build the programs of the check: %w: %s: %w", err, strings.TrimSpace(string(text)), ErrCannotRun)
		}
		f.scripts, f.how = filepath.Join(dir, "check"), "built now"
	}
	f.worker, f.pointers = filepath.Join(f.scripts, "worker"), filepath.Join(f.scripts, "pointers")
	f.trace = filepath.Join(f.scripts, "libtrace.so")
	return f, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
