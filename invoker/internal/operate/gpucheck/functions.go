package gpucheck

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

const (
	// endToEndRuns is how often each of the two functions runs.
	endToEndRuns = 4
	// functionMB is the host memory of a function, beside its swapped device memory.
	functionMB = 512
	// invokerContext is a context as the invoker counts it.
	invokerContext = 400 << 20
	// ballastMargin stays free beside one and a half functions and their contexts.
	ballastMargin = 1 << 30
	// foreignTime is how long the invoker needs to find the ballast by NVML.
	foreignTime = 2 * time.Second
	// standaloneEnd is how long a standalone may take to end its functions and itself.
	standaloneEnd = 15 * time.Second
)

// checkFunctions runs two functions with kernels of their own through gpuwhisk standalone in
// process mode, one after the other, and reads their records. Under pressure the device has
// room for one and a half functions. On a card a ballast of plain memory takes the rest.
func checkFunctions(t *trial, pressure bool) {
	if _, err := exec.LookPath(t.s.Python); err != nil {
		skip("no %s here: the functions are Python", t.s.Python)
	}
	bytes := pick(t.fake(), 32<<20, t.fit(min(pick(pressure, int64(4<<30), 256<<20), t.device.Free/40)))
	t.take(2 * (bytes + t.contextBytes()))
	if pressure && !t.fake() {
		t.ballast(2*cudaContext + bytes*3/2 + ballastMargin)
	}
	client := t.standalone(2*invokerContext+pick(pressure, bytes*3/2, 4*bytes), 2*(functionMB<<20+2*bytes))
	if pressure && !t.fake() {
		t.pause(foreignTime)
	}
	names := []string{"check-first", "check-second"}
	code := string(value(os.ReadFile(t.path("check/gpufunc.py"))))
	for _, name := range names {
		_, _, err := client.Actions.Insert(&whisk.Action{ //nolint:bodyclose // the client has read it to its end
			Name: name, Exec: &whisk.Exec{Kind: "python:3", Code: &code}, Limits: &whisk.Limits{Memory: new(functionMB), Timeout: new(60000)},
			Annotations: whisk.KeyValueArr{{Key: "gpu", Value: map[string]any{"memory": fmt.Sprintf("%d B", bytes+bytes/8)}}},
		}, true)
		require(err)
	}
	table := t.table(fmt.Sprintf("gpuwhisk standalone, process mode, gpufunc.py on %s", size(bytes)),
		"action", "device", "start", "queue ms", "prefetch ms", "GPU ms", "memory", "contents")
	correct, annotated, hostWarm := 0, 0, 0
	for i := range 2 * endToEndRuns {
		r := t.invoke(client, names[i%2], map[string]int64{"bytes": bytes})
		result := as[struct {
			Correct, Intact bool
			Error           string
		}](r.Response.Result)
		right := r.Response.Success && result.Correct && result.Intact
		if result.Error != "" {
			t.remark("A function failed: %s", result.Error)
		}
		gpu := as[activation.GPURun](r.Annotations.GetValue(activation.GPUAnnotation))
		correct += pick(right, 1, 0)
		annotated += pick(gpu.Device != "", 1, 0)
		hostWarm += pick(gpu.Start == "host-warm", 1, 0)
		table.row(names[i%2], gpu.Device, gpu.Start, gpu.QueueTime, gpu.PrefetchTime, gpu.GPUTime, size(gpu.Memory), pick(right, "right", "wrong"))
	}
	t.all("runs whose kernels gave the right result and found their memory as it was", correct, 2*endToEndRuns)
	t.all("records with the annotation gpu", annotated, 2*endToEndRuns)
	if pressure {
		t.must("runs whose memory came back from the host", float64(hostWarm), "", "more than 0", hostWarm > 0)
	} else {
		t.none("runs whose memory had left a device with room for both functions", int64(hostWarm))
	}
	t.say("%d of %d runs gave the right result; the memory of %d of them came back from the host.", correct, 2*endToEndRuns, hostWarm)
}

// ballast takes plain memory so that only so many bytes of the card stay free. That fills
// the card, so it needs the operator's consent.
func (t *trial) ballast(free int64) {
	if !t.s.Reclaim {
		skip("this step fills the card for a moment: --reclaim allows it")
	}
	p := t.worker(false)
	if hold := p.ask("info").Free - free; hold > 0 {
		p.ask("alloc %d", hold)
		t.remark("Another program holds %s of plain memory, so that the functions have %s.", size(hold), size(free))
	}
}

// as gives a type to a decoded value.
func as[T any](decoded any) (out T) {
	text, _ := json.Marshal(decoded)
	_ = json.Unmarshal(text, &out) // a foreign value may have any form
	return out
}

// greeting is the line that standalone --quiet prints when it is ready.
var greeting = regexp.MustCompile(`--apihost (\S+) --auth (\S+)`)

// standalone starts gpuwhisk standalone in process mode with so much host memory, on the GPU
// or on a fake device of so much memory, and returns a client of it. On SIGTERM, which ends
// the step, it ends its functions and itself.
func (t *trial) standalone(device, host int64) *whisk.Client {
	args := []string{t.s.Self, "standalone", "--quiet", "--port", "0", "--runtime", "process", "--memory", fmt.Sprintf("%dm", max(4<<30, host)>>20),
		"--data", filepath.Join(t.dir, fmt.Sprintf("whisk%d", t.count.Add(1))), "--shim", t.path(shimFile)}
	if t.fake() {
		args = append(args, "--fake-driver", t.s.FakeDriver, "--gpus", "1", "--gpu-memory", fmt.Sprintf("%d B", device))
	} else {
		args = append(args, "--devices", "auto")
	}
	p := value(newProgram(t.ctx, "standalone", args, t.env()))
	p.terminates = true
	p.cmd.Cancel, p.cmd.WaitDelay = p.terminate, standaloneEnd
	require(p.cmd.Start())
	t.endLater(p)
	for p.lines.Scan() {
		if found := greeting.FindStringSubmatch(p.lines.Text()); found != nil {
			return value(whisk.NewClient(&http.Client{}, &whisk.Config{Host: found[1], AuthToken: found[2], Namespace: "_"}))
		}
	}
	fail("standalone ended before it was ready%s", p.last())
	return nil
}

// invoke runs an action and reads its record, which is stored a moment after the answer. A
// failed run has a record as well.
func (t *trial) invoke(client *whisk.Client, name string, params any) *whisk.Activation {
	answer, _, err := client.Actions.Invoke(name, params, true, false) //nolint:bodyclose // the client has read it to its end
	id := as[whisk.Activation](answer).ActivationID
	if id == "" {
		fail("invoke %s: the call made no activation: %w", name, err)
	}
	for {
		stored, _, err := client.Activations.Get(id) //nolint:bodyclose // as above
		if err == nil {
			return stored
		}
		t.pause(50 * time.Millisecond)
	}
}
