package gpucheck

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// program is a process that reads orders, one on each line, and answers each with a line of
// JSON. Its first line introduces it.
type program struct {
	hello     []byte
	container *shimctl.Container // nil without the shim

	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Reader
	lines  *bufio.Scanner
	stderr bytes.Buffer // complete when the program has ended
	ended  sync.Once
}

// answer is a line of a program. The programs say which order has which numbers.
type answer struct {
	Error   string
	Note    string     // for the report
	Rows    [][]string // for the report's tables
	numbers map[string]float64
}

const (
	// endTime is how long a program may take to end at the end of its input.
	endTime = 5 * time.Second
	// killTime is how long a program may take to end on SIGTERM. A standalone ends its functions.
	killTime = 15 * time.Second
)

func command(ctx context.Context, args, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	return cmd
}

// startProgram starts a program and reads its first line. When ctx ends, the program and its
// children get SIGTERM.
func startProgram(ctx context.Context, name string, args, env []string) (*program, error) {
	p := &program{name: name, cmd: command(ctx, args, env)}
	p.cmd.WaitDelay = killTime
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel, p.cmd.Stderr = func() error { return p.signal(syscall.SIGTERM) }, &p.stderr
	in, inErr := p.cmd.StdinPipe()
	out, outErr := p.cmd.StdoutPipe()
	p.in, p.out, p.lines = in, out, bufio.NewScanner(out)
	p.lines.Buffer(nil, 1<<20)
	err := errors.Join(inErr, outErr)
	if err == nil {
		err = p.cmd.Start()
	}
	if err == nil {
		if _, err = p.read(); err != nil {
			p.end(0)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.hello = slices.Clone(p.lines.Bytes())
	return p, nil
}

// run sends an order and returns the answer. Orders on the block are runs of a function.
func (p *program) run(verb string, args ...string) (answer, error) {
	if p.container != nil && slices.Contains([]string{"work", "check", "replay"}, verb) {
		p.container.Running(true)
		defer p.container.Running(false)
	}
	_, _ = fmt.Fprintln(p.in, verb, strings.Join(args, " ")) // read reports a program that has ended
	return p.read()
}

func (p *program) read() (answer, error) {
	if !p.lines.Scan() {
		return answer{}, fmt.Errorf("the program ended%s", p.last())
	}
	return decode(p.lines.Bytes())
}

// decode reads an answer. A refusal is an error.
func decode(line []byte) (answer, error) {
	a, fields := answer{numbers: map[string]float64{}}, map[string]any{}
	if err := errors.Join(json.Unmarshal(line, &a), json.Unmarshal(line, &fields)); err != nil {
		return answer{}, fmt.Errorf("read answer %.100q: %w", line, err)
	}
	for name, field := range fields {
		if n, ok := field.(float64); ok {
			a.numbers[name] = n
		}
	}
	if a.Error != "" {
		return answer{}, errors.New(a.Error)
	}
	return a, nil
}

// signal sends a signal to the program and its children.
func (p *program) signal(s syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, s) }

// end closes the program's input, ends the program by signals if it has not ended after a
// while, and waits for its end. It is a no-op for nil.
func (p *program) end(after time.Duration) {
	if p == nil {
		return
	}
	p.ended.Do(func() {
		_ = p.in.Close()
		late := time.AfterFunc(after, func() { _ = p.signal(syscall.SIGTERM) })
		tooLate := time.AfterFunc(after+killTime, func() { _ = p.signal(syscall.SIGKILL) })
		defer late.Stop()
		defer tooLate.Stop()
		_, _ = io.Copy(io.Discard, p.out)
		_ = p.cmd.Wait() // how it ended does not matter
	})
}

// last ends the program and returns the end of its standard error, for an error text.
func (p *program) last() string {
	p.end(0)
	text := strings.Join(strings.Fields(p.stderr.String()), " ")
	return pick(text == "", "", fmt.Sprintf(" (it printed: %s)", strings.ToValidUTF8(text[max(0, len(text)-400):], "")))
}
