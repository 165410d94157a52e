package gpucheck

import (
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

	"github.com/apache/openwhisk-client-go/whisk"

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
	w := t.startStandalone(bytes)
	defer w.stop()
	names := []string{"check-first", "check-second"}
	code := string(value(os.ReadFile(t.path("check/gpufunc.py"))))
	for _, name := range names {
		_, _, err := w.client.Actions.Insert(&whisk.Action{ //nolint:bodyclose // the client has read it to its end
			Name: name, Exec: &whisk.Exec{Kind: "python:3", Code: &code}, Limits: &whisk.Limits{Memory: new(512), Timeout: new(60000)},
			Annotations: whisk.KeyValueArr{{Key: "gpu", Value: map[string]any{"memory": fmt.Sprintf("%d B", bytes+bytes/8)}}},
		}, true)
		require(err)
	}
	table := t.table(fmt.Sprintf("gpuwhisk standalone, process mode, gpufunc.py on %s", size(bytes)),
		"action", "device", "start", "queue ms", "prefetch ms", "GPU ms", "memory", "contents")
	correct, annotated, hostWarm := 0, 0, 0
	for i := range 2 * endToEndRuns {
		name, contents := names[i%2], "wrong"
		r := w.invoke(t.ctx, name, map[string]int64{"bytes": bytes})
		result := as[struct {
			Correct, Intact bool
			Error           string
		}](r.Response.Result)
		switch {
		case r.Response.Success && result.Correct && result.Intact:
			correct++
			contents = "right"
		case result.Error != "":
			contents = result.Error
			t.remark("A function failed: %s", result.Error)
		}
		gpu := as[activation.GPURun](r.Annotations.GetValue(activation.GPUAnnotation))
		if gpu.Device != "" {
			annotated++
		}
		if gpu.Start == "host-warm" {
			hostWarm++
		}
		table.row(name, gpu.Device, gpu.Start, gpu.QueueTime, gpu.PrefetchTime, gpu.GPUTime, size(gpu.Memory), contents)
	}
	t.all("runs whose kernels gave the right result and found their memory as it was", correct, 2*endToEndRuns)
	t.all("records with the annotation gpu", annotated, 2*endToEndRuns)
	if t.fake() {
		t.must("runs whose memory came back from the host", float64(hostWarm), "more than 0", hostWarm > 0)
	} else {
		t.remark("Both functions fit the card: none of them had to leave it, and %d started from the host.", hostWarm)
	}
}

// as gives a type to what was decoded without one.
func as[T any](decoded any) (out T) {
	text, _ := json.Marshal(decoded)
	_ = json.Unmarshal(text, &out) // a foreign value may have any form
	return out
}

// standalone is a gpuwhisk standalone of our own, reached by OpenWhisk's client library.
type standalone struct {
	*program
	client *whisk.Client
}

// greeting is the line that standalone --quiet prints when it is ready.
var greeting = regexp.MustCompile(`--apihost (\S+) --auth (\S+)`)

// startStandalone starts one in process mode, on the GPU or on the fake driver. It ends by
// SIGTERM, on which it ends the processes of its functions.
func (t *trial) startStandalone(bytes int64) *standalone {
	args := []string{t.s.Self, "standalone", "--quiet", "--port", "0", "--runtime", "process",
		"--data", filepath.Join(t.dir, "whisk"), "--shim", t.path(shimFile)}
	if t.fake() { // two contexts as the invoker counts them, and one and a half functions
		args = append(args, "--fake-driver", t.s.FakeDriver, "--gpus", "1", "--gpu-memory", fmt.Sprintf("%d B", 2*invokerContext+bytes*3/2))
	} else {
		args = append(args, "--devices", "auto")
	}
	p := value(newProgram(t.ctx, "standalone", args, t.env()))
	p.cmd.Cancel, p.cmd.WaitDelay = p.terminate, 10*time.Second
	require(p.cmd.Start())
	for p.lines.Scan() {
		if found := greeting.FindStringSubmatch(p.lines.Text()); found != nil {
			return &standalone{p, value(whisk.NewClient(&http.Client{}, &whisk.Config{Host: found[1], AuthToken: found[2], Namespace: "_"}))}
		}
	}
	fail("standalone ended before it was ready%s", p.last())
	return nil
}

func (p *program) terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// stop has it end, and waits for that.
func (s *standalone) stop() {
	_ = s.terminate()
	s.end(15 * time.Second)
}

// invoke runs an action, waits for it, and reads its record, which is stored a
// moment after the answer. A failed one has a record as well.
func (s *standalone) invoke(ctx context.Context, name string, params any) *whisk.Activation {
	answer, _, err := s.client.Actions.Invoke(name, params, true, false) //nolint:bodyclose // the client has read it to its end
	id := as[whisk.Activation](answer).ActivationID
	if id == "" {
		fail("invoke %s: no activation came of it: %w", name, err)
	}
	for {
		stored, _, err := s.client.Activations.Get(id) //nolint:bodyclose // as above
		if err == nil {
			return stored
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			fail("read record of %s: %w: %w", name, ctx.Err(), err)
		}
	}
}
