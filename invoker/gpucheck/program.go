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
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is a process that carries out orders, a line each, and answers each
// with a line of JSON.
type program struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan []byte
	errors *tail
	ended  sync.Once
}

// startProgram starts one and decodes its first line into hello. It ends with
// ctx at the latest.
func startProgram(ctx context.Context, name string, args, env []string, hello any) (*program, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	p := &program{name: name, cmd: cmd, lines: make(chan []byte), errors: &tail{}}
	cmd.Stderr = p.errors
	cmd.WaitDelay = 2 * time.Second
	// A worker's own children end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
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
	p.in = in
	go p.read(out)
	if err := p.answer(ctx, hello); err != nil {
		p.end()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// read hands answers on until the program's output ends.
func (p *program) read(out io.Reader) {
	defer close(p.lines)
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		p.lines <- bytes.Clone(s.Bytes())
	}
}

// do has an order carried out.
func (p *program) do(ctx context.Context, out any, order string, args ...any) error {
	line := fmt.Sprintf(order, args...)
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return fmt.Errorf("%s: %s: %w%s", p.name, line, err, p.errors.said())
	}
	if err := p.answer(ctx, out); err != nil {
		return fmt.Errorf("%s: %s: %w", p.name, line, err)
	}
	return nil
}

func (p *program) answer(ctx context.Context, out any) error {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return fmt.Errorf("the program ended%s", p.errors.said())
		}
		return decode(line, out)
	case <-ctx.Done():
		return fmt.Errorf("no answer: %w%s", ctx.Err(), p.errors.said())
	}
}

func decode(line []byte, out any) error {
	var refused struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(line, &refused); err != nil {
		return fmt.Errorf("read answer %.100q: %w", line, err)
	}
	if refused.Error != "" {
		return errors.New(refused.Error)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(line, out); err != nil {
		return fmt.Errorf("read answer %.100q: %w", line, err)
	}
	return nil
}

// end ends the program and awaits it.
func (p *program) end() {
	p.ended.Do(func() {
		_ = p.in.Close()
		_ = p.cmd.Cancel()
		for range p.lines { // its reader must not be left behind
		}
		_ = p.cmd.Wait()
	})
}

// leave lets the program end by itself, as one does whose input ends, and
// awaits that; after a while it is ended.
func (p *program) leave() {
	p.ended.Do(func() {
		_ = p.in.Close()
		late := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Cancel() })
		for range p.lines {
		}
		_ = p.cmd.Wait()
		late.Stop()
	})
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
	if over := len(t.text) - tailSize; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

func (t *tail) said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := strings.Join(strings.Fields(string(t.text)), " ")
	if r := []rune(s); len(r) > 400 {
		s = "..." + string(r[len(r)-400:])
	}
	if s == "" {
		return ""
	}
	return " (it said: " + s + ")"
}
