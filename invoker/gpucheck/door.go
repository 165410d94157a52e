package gpucheck

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// whisk is a gpuwhisk standalone of our own, behind its REST door.
type whisk struct {
	cmd  *exec.Cmd
	said *tail
	host string
	auth string
	read chan struct{} // closed when its output has ended
}

// greeting is the line that standalone --quiet prints when it is ready.
var greeting = regexp.MustCompile(`--apihost (\S+) --auth (\S+)`)

// startWhisk starts one in process mode, on the GPU or on the fake driver.
func (b *bed) startWhisk(ctx context.Context, more ...string) (*whisk, error) {
	if b.s.Self == "" {
		return nil, errors.New("this program cannot find itself")
	}
	args := append([]string{"standalone", "--quiet", "--port", "0", "--runtime", "process",
		"--data", filepath.Join(b.dir, "whisk"), "--shim", b.progs.shim}, more...)
	cmd := exec.CommandContext(ctx, b.s.Self, args...)
	w := &whisk{cmd: cmd, said: &tail{}, read: make(chan struct{})}
	cmd.Env, cmd.Stderr = b.env(), w.said
	// Its functions' processes end with it when it is told to leave.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start standalone: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start standalone: %w", err)
	}
	ready := make(chan []string, 1)
	go w.listen(out, ready)
	select {
	case found := <-ready:
		if found == nil {
			w.stop()
			return nil, fmt.Errorf("standalone ended before it was ready%s", w.said.said())
		}
		w.host, w.auth = found[1], found[2]
		return w, nil
	case <-ctx.Done():
		w.stop()
		return nil, fmt.Errorf("standalone was not ready: %w%s", ctx.Err(), w.said.said())
	}
}

// listen waits for the greeting and reads on until the output ends.
func (w *whisk) listen(out io.Reader, ready chan<- []string) {
	defer close(w.read)
	defer close(ready)
	told := false
	for s := bufio.NewScanner(out); s.Scan(); {
		if found := greeting.FindStringSubmatch(s.Text()); found != nil && !told {
			told = true
			ready <- found
		}
	}
}

// stop tells it to leave and awaits that.
func (w *whisk) stop() {
	_ = w.cmd.Cancel()
	late := time.AfterFunc(15*time.Second, func() { _ = w.cmd.Process.Kill() })
	<-w.read
	_ = w.cmd.Wait()
	late.Stop()
}

// call has one request answered; the answer's status is not looked at, since a
// failed activation has a record as well.
func (w *whisk) call(ctx context.Context, method, path string, body, out any) (int, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, fmt.Errorf("%s %s: %w", method, path, err)
		}
		content = bytes.NewReader(text)
	}
	url := w.host
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	req, err := http.NewRequestWithContext(ctx, method, url+"/api/v1/namespaces/_/"+path, content)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(w.auth)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return 0, fmt.Errorf("%s %s: status %d, %.200q: %w", method, path, resp.StatusCode, text, err)
	}
	return resp.StatusCode, nil
}

// record is what the check reads of an activation record.
type record struct {
	ID       string `json:"activationId"`
	Response struct {
		Success bool            `json:"success"`
		Result  json.RawMessage `json:"result"`
	} `json:"response"`
	Annotations []struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	} `json:"annotations"`
}

// gpuNote is the record's annotation about its GPU.
type gpuNote struct {
	Device       string `json:"device"`
	Start        string `json:"start"`
	QueueTime    int64  `json:"queueTime"`
	PrefetchTime int64  `json:"prefetchTime"`
	GPUTime      int64  `json:"gpuTime"`
	Memory       int64  `json:"memory"`
}

// gpu is the annotation, false without one.
func (r record) gpu() (gpuNote, bool) {
	for _, a := range r.Annotations {
		var n gpuNote
		if a.Key == "gpu" && json.Unmarshal(a.Value, &n) == nil && n.Device != "" {
			return n, true
		}
	}
	return gpuNote{}, false
}

// create makes an action of gpufunc.py.
func (w *whisk) create(ctx context.Context, b *bed, name string, memory int64) error {
	code, err := os.ReadFile(filepath.Join(b.progs.scripts, "gpufunc.py"))
	if err != nil {
		return fmt.Errorf("read function: %w", err)
	}
	body := map[string]any{
		"exec":        map[string]any{"kind": "python:3", "code": string(code)},
		"annotations": []any{map[string]any{"key": "gpu", "value": map[string]any{"memory": fmt.Sprintf("%d B", memory)}}},
		"limits":      map[string]any{"memory": 512, "timeout": 60000},
	}
	var answer struct {
		Error string `json:"error"`
	}
	status, err := w.call(ctx, http.MethodPut, "actions/"+name+"?overwrite=true", body, &answer)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("create action %s: status %d: %s", name, status, answer.Error)
	}
	return err
}

// invoke runs an action, waits for it, and reads its record back.
func (w *whisk) invoke(ctx context.Context, name string, params any) (record, error) {
	var done, stored record
	if _, err := w.call(ctx, http.MethodPost, "actions/"+name+"?blocking=true", params, &done); err != nil {
		return done, err
	}
	if done.ID == "" {
		return done, fmt.Errorf("invoke %s: no activation came of it", name)
	}
	for { // the record is stored a moment after the answer
		status, err := w.call(ctx, http.MethodGet, "activations/"+done.ID, nil, &stored)
		if err != nil || status == http.StatusOK {
			return stored, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return done, fmt.Errorf("read record of %s: status %d: %w", name, status, ctx.Err())
		}
	}
}
