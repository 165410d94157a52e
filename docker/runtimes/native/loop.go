package native

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// startGrace is how long a looping action without acknowledgement is checked for an
// early end. The stock proxy uses the same time.
const startGrace = 5 * time.Millisecond

var (
	errExited    = errors.New("command exited")
	errAbruptly  = errors.New("command exited abruptly during initialization")
	errNotProper = errors.New("the action did not initialize properly")
)

// loop is one process that serves all activations, one at a time: a request is a line on
// its standard input, an answer a line on its descriptor 3.
type loop struct {
	mu      sync.Mutex
	input   io.WriteCloser
	answers *bufio.Reader
	pipe    *os.File
	cancel  context.CancelFunc
	ended   chan struct{}
	gone    bool
}

func (p *proxy) initLoop(env []string) (int, []byte) {
	l, err := p.startLoop(env)
	if err != nil {
		p.log(p.cfg.Stderr, err.Error())
		p.writeSentinels()
		return http.StatusBadGateway, failure("Cannot start action. Check logs for details.")
	}
	p.action = l
	return http.StatusOK, []byte("{\"ok\":true}\n")
}

func (p *proxy) startLoop(env []string) (*loop, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open result pipe: %w", err)
	}
	defer write.Close() // the process has its own copy; ours would hide its end
	ctx, cancel := context.WithCancel(p.ctx)
	cmd := exec.CommandContext(ctx, p.exec())
	ack := lookup(env, envAck) != "" || lookup(env, envStockAck) != ""
	if ack {
		env = append(env, envAck+"=1")
	}
	cmd.Dir, cmd.Env = filepath.Dir(p.exec()), env
	cmd.Stdout, cmd.Stderr = p.cfg.Stdout, p.cfg.Stderr
	cmd.ExtraFiles = []*os.File{write}
	l := &loop{answers: bufio.NewReader(read), pipe: read, cancel: cancel, ended: make(chan struct{})}
	if l.input, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		read.Close()
		return nil, fmt.Errorf("start action: %w", err)
	}
	go func() {
		defer close(l.ended)
		_ = cmd.Wait() // only its end matters
	}()
	write.Close()
	if err := l.ready(ack); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// ready blocks until the action acknowledges its start, or for startGrace, in which
// it must not end.
func (l *loop) ready(ack bool) error {
	if !ack {
		timer := time.NewTimer(startGrace)
		defer timer.Stop()
		select {
		case <-l.ended:
			return errExited
		case <-timer.C:
			return nil
		}
	}
	line, err := l.readLine()
	if err != nil {
		return errAbruptly
	}
	var started struct{ OK bool }
	if err := json.Unmarshal(line, &started); err != nil || !started.OK {
		return errNotProper
	}
	return nil
}

// close ends the process and waits for its end.
func (l *loop) close() {
	l.cancel()
	<-l.ended
	l.input.Close()
	l.pipe.Close()
}

func (l *loop) run(_ context.Context, req runRequest) (int, []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return http.StatusInternalServerError, failure("no action defined yet")
	}
	line, err := l.interact(req.whole)
	if err != nil {
		l.gone = true
		return http.StatusBadRequest, failure(errExited.Error())
	}
	var value json.RawMessage
	text := bytes.TrimSpace(line)
	if json.Unmarshal(text, &value) != nil || text[0] != '{' && text[0] != '[' {
		return http.StatusBadGateway, failure(textNoResult)
	}
	return http.StatusOK, line
}

func (l *loop) interact(request []byte) ([]byte, error) {
	// Newlines in JSON are white space only, and would end the line early.
	line := append(bytes.ReplaceAll(request, []byte("\n"), nil), '\n')
	if _, err := l.input.Write(line); err != nil {
		return nil, fmt.Errorf("send activation to action: %w", err)
	}
	return l.readLine()
}

// readLine reads an answer of limited length. The end of the process ends it, too.
func (l *loop) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := l.answers.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxLine {
			return nil, fmt.Errorf("read answer of action: %w", err)
		}
	}
}
