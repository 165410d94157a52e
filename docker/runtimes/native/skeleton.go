package native

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf16"
)

// maxArgument is the longest parameter text that is passed as an argument. Linux accepts
// no single argument of 128 KiB or more (MAX_ARG_STRLEN).
const maxArgument = 131071

// maxLine limits the line that may become the result.
const maxLine = 64 << 20

// lingerLimit is how long output is read after the executable has ended, if one of its
// descendants holds the output open.
const lingerLimit = 500 * time.Millisecond

// emptyResult is the answer of an image without an action, with the exact text of
// OpenWhisk's skeleton.
const emptyResult = `{"error":"This is a stub action. Replace it with custom logic."}`

// skeleton starts the executable for each activation.
type skeleton struct {
	proxy *proxy
	path  string
	env   []string
	empty bool
}

func (s *skeleton) close() {}

func (s *skeleton) run(ctx context.Context, req runRequest) (int, []byte) {
	if s.empty {
		return http.StatusOK, []byte(emptyResult + "\n")
	}
	if !executable(s.path) {
		return http.StatusBadGateway, failure(textNoAction)
	}
	out := &lastLine{log: s.proxy.cfg.Stdout}
	cmd := exec.CommandContext(ctx, s.path)
	if len(req.value) <= maxArgument {
		cmd.Args = append(cmd.Args, string(req.value))
	}
	cmd.Dir = filepath.Dir(s.path)
	cmd.Env = slices.Concat(s.env, req.env)
	cmd.Stdin = bytes.NewReader(req.value)
	cmd.Stdout, cmd.Stderr = out, s.proxy.cfg.Stderr
	cmd.WaitDelay = lingerLimit
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		s.proxy.log(s.proxy.cfg.Stdout, fmt.Sprintf("start action: %v", err))
		return http.StatusBadGateway, failure(textNoResult)
	}
	// The exit status does not matter: the last line is the result.
	result, ok := plainJSON(out.line())
	if !ok {
		s.proxy.log(s.proxy.cfg.Stdout, string(out.line()))
		return http.StatusBadGateway, failure(textNoResult)
	}
	return http.StatusOK, result
}

// lastLine writes output to the log, line by line, except for the last line.
type lastLine struct {
	log     *os.File
	pending []byte // whole lines and an incomplete one; only the last can be the result
}

// Write withholds the last line. A complete line remains the last one until another
// begins.
func (l *lastLine) Write(p []byte) (int, error) {
	l.pending = append(l.pending, p...)
	body := l.pending
	if n := len(body); n > 0 && body[n-1] == '\n' {
		body = body[:n-1]
	}
	if cut := bytes.LastIndexByte(body, '\n') + 1; cut > 0 {
		l.flush(cut)
	}
	if len(l.pending) > maxLine {
		l.flush(len(l.pending))
	}
	return len(p), nil
}

func (l *lastLine) flush(n int) {
	_, _ = l.log.Write(l.pending[:n]) // an error must not stop the action
	l.pending = append(l.pending[:0], l.pending[n:]...)
}

func (l *lastLine) line() []byte { return bytes.TrimSpace(l.pending) }

// plainJSON formats an object or array as the web framework of the docker skeleton does:
// compact, sorted keys, ASCII only, with a newline. The number of its bytes counts as
// the size of the response.
func plainJSON(line []byte) ([]byte, bool) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil || d.More() {
		return nil, false
	}
	switch value.(type) {
	case map[string]any, []any:
	default:
		return nil, false
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, false
	}
	return asciiOnly(b.Bytes()), true
}

// asciiOnly escapes characters outside ASCII, which occur only in the strings of JSON.
func asciiOnly(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r < 0x80:
			out = append(out, byte(r))
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		}
	}
	return out
}
