package gpucheck

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// endToEndRuns is how often each of the two functions runs.
const endToEndRuns = 4

// invokerContext is a context as the invoker counts it.
const invokerContext = 400 << 20

// checkEndToEnd runs two functions with kernels of their own through gpuwhisk
// standalone in process mode, one after the other, and reads their records back.
// On the fake driver only one of them fits the device at a time.
func checkEndToEnd(t *trial) {
	if _, err := exec.LookPath(t.s.Python); err != nil {
		skip("no %s here: the functions are Python", t.s.Python)
	}
	bytes := pick(t.fake(), 32<<20, min(256<<20, t.device.Free/40))
	t.take(2 * (bytes + t.contextBytes()))
	w := t.startWhisk(bytes)
	defer w.stop()
	names := []string{"check-first", "check-second"}
	for _, name := range names {
		w.create(name, string(value(os.ReadFile(t.path("check/gpufunc.py")))), bytes+bytes/8)
	}
	table := t.table(fmt.Sprintf("gpuwhisk standalone, process mode, gpufunc.py on %s", size(bytes)),
		"action", "device", "start", "queue ms", "prefetch ms", "GPU ms", "memory", "contents")
	correct, annotated, hostWarm := 0, 0, 0
	for i := range 2 * endToEndRuns {
		name := names[i%2]
		r := w.invoke(name, map[string]int64{"bytes": bytes})
		contents := "wrong"
		switch result := r.Response.Result; {
		case r.Response.Success && result.Correct && result.Intact:
			correct++
			contents = "right"
		case result.Error != "":
			contents = result.Error
			t.remark("A function failed: %s", result.Error)
		}
		gpu, _ := r.Annotations.GPURun()
		if gpu.Device != "" {
			annotated++
		}
		if gpu.Start == "host-warm" {
			hostWarm++
		}
		table.row(name, gpu.Device, gpu.Start, gpu.QueueTime, gpu.PrefetchTime, gpu.GPUTime, size(gpu.Memory), contents)
	}
	const runs = 2 * endToEndRuns
	want := fmt.Sprint(runs)
	t.must("runs whose kernels gave the right result and found their memory as it was", float64(correct), want, correct == runs)
	t.must("records with the annotation gpu", float64(annotated), want, annotated == runs)
	if t.fake() {
		t.must("runs whose memory came back from the host", float64(hostWarm), "more than 0", hostWarm > 0)
	} else {
		t.remark("Both functions fit the card: none of them had to leave it, and %d started from the host.", hostWarm)
	}
}

// whisk is a gpuwhisk standalone of our own, reached by its REST API.
type whisk struct {
	*program
	ctx             context.Context
	api, user, auth string
}

// greeting is the line that standalone --quiet prints when it is ready.
var greeting = regexp.MustCompile(`--apihost (?:http://)?(\S+) --auth ([^:\s]+):(\S+)`)

// startWhisk starts one in process mode, on the GPU or on the fake driver. It ends by
// SIGTERM, on which it ends the processes of its functions.
func (t *trial) startWhisk(bytes int64) *whisk {
	args := []string{t.s.Self, "standalone", "--quiet", "--port", "0", "--runtime", "process",
		"--data", filepath.Join(t.dir, "whisk"), "--shim", t.path(shimFile)}
	if t.fake() { // two contexts as the invoker counts them, and one and a half functions
		args = append(args, "--fake-driver", t.s.FakeDriver, "--gpus", "1", "--gpu-memory", fmt.Sprintf("%d B", 2*invokerContext+bytes*3/2))
	} else {
		args = append(args, "--devices", "auto")
	}
	p := value(newProgram(t.ctx, "standalone", args, t.env()))
	p.cmd.Cancel, p.cmd.WaitDelay = p.terminate, 10*time.Second
	check(p.cmd.Start())
	for p.lines.Scan() {
		if found := greeting.FindStringSubmatch(p.lines.Text()); found != nil {
			return &whisk{p, t.ctx, "http://" + found[1] + "/api/v1/namespaces/_/", found[2], found[3]}
		}
	}
	fail("standalone ended before it was ready%s", p.last())
	return nil
}

func (p *program) terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// stop has it end, and waits for that.
func (w *whisk) stop() {
	_ = w.terminate()
	w.end(15 * time.Second)
}

// record is what the check reads of an activation record, or why there is none.
type record struct {
	ID       string `json:"activationId"`
	Response struct {
		Success bool
		Result  struct {
			Correct, Intact bool
			Error           string
		}
	}
	Annotations activation.Annotations
	Error       string
}

// call makes a request and decodes the answer, whatever its status: a failed
// activation has a record as well.
func (w *whisk) call(method, path string, body any) (r record, ok bool) {
	req := value(http.NewRequestWithContext(w.ctx, method, w.api+path, bytes.NewReader(value(json.Marshal(body)))))
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth(w.user, w.auth)
	res, err := http.DefaultClient.Do(req)
	check(err)
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&r); err != nil {
		fail("%s %s: status %d: %w", method, path, res.StatusCode, err)
	}
	return r, res.StatusCode == http.StatusOK
}

// create makes an action.
func (w *whisk) create(name, code string, memory int64) {
	r, ok := w.call(http.MethodPut, "actions/"+name+"?overwrite=true", map[string]any{
		"exec":        map[string]any{"kind": "python:3", "code": code},
		"annotations": []any{map[string]any{"key": "gpu", "value": map[string]any{"memory": fmt.Sprintf("%d B", memory)}}},
		"limits":      map[string]any{"memory": 512, "timeout": 60000},
	})
	if !ok {
		fail("create action %s: %s", name, r.Error)
	}
}

// invoke runs an action, waits for it, and reads its record, which is stored a
// moment after the answer.
func (w *whisk) invoke(name string, params any) record {
	done, _ := w.call(http.MethodPost, "actions/"+name+"?blocking=true", params)
	if done.ID == "" {
		fail("invoke %s: no activation came of it: %s", name, done.Error)
	}
	for {
		if stored, ok := w.call(http.MethodGet, "activations/"+done.ID, struct{}{}); ok {
			return stored
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-w.ctx.Done():
			fail("read record of %s: %w", name, w.ctx.Err())
		}
	}
}
