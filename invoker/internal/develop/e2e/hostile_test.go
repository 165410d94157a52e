package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Errors of the original, by which users know failures.
const (
	textExited     = "The action did not produce a valid response and exited unexpectedly."
	textNotBegun   = "The action did not initialize and exited unexpectedly."
	textInvalid    = "The action did not produce a valid JSON or JSON Array response"
	textMemory     = "The action exhausted its memory and was aborted."
	textLogsCut    = "Logs were truncated because the total bytes size exceeds the limit of 1048576 bytes."
	textTooLong    = "The action produced a response that exceeded the allowed length: "
	textIncomplete = "The action did not initialize or run as expected. Log data might be missing."
)

const sentinel = "XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX"

// hostile is an action that harms its invoker, and the expected outcome.
type hostile struct {
	name   string
	kind   string
	code   string
	limits *whisk.Limits
	status int
	text   string                                    // in the error or the result
	check  func(t *testing.T, first, second outcome) // more, after a second call
}

const (
	// An action's time limit, ms: the interpreter must have started within it,
	// on a machine that has much else to do; ample is for those of which all start
	// at once.
	brief   = 5000
	ample   = 10000
	minutes = 120000 // a time limit that no test reaches
)

// sleeps is Python code that outlasts every test.
const sleeps = "import time\ndef main(p):\n    time.sleep(100)\n"

// pids is how many processes a container may have in these tests.
const pids = 64

func hostiles() []hostile {
	return []hostile{
		{"never answers", "python:3", sleeps, limits(ample, 0, 0),
			2, "The action exceeded its time limits of 10000 milliseconds.", nil},
		{"spins", "nodejs:20", "function main() { for (;;); }", limits(ample, 0, 0),
			2, "The action exceeded its time limits of 10000 milliseconds.", nil},
		{"never begins", "python:3", "import time\ntime.sleep(100)\ndef main(p):\n    return p\n", limits(ample, 0, 0),
			2, "The action exceeded its time limits of 10000 milliseconds during initialization.", nil},
		{"answers late", "python:3", "import time\ndef main(p):\n    time.sleep(11)\n    return {'too': 'late'}\n", limits(ample, 0, 0),
			2, "The action exceeded its time limits of 10000 milliseconds.", nil},
		{"ends itself", "python:3", "import os\ndef main(p):\n    os._exit(0)\n", limits(minutes, 0, 0), 2, textExited, nil},
		{"ends itself at once", "python:3", "import os\nos._exit(0)\ndef main(p):\n    return p\n", limits(minutes, 0, 0), 2, textNotBegun, nil},
		{"kills its parent", "native:1", "#!/bin/bash\nkill -9 $PPID\n", limits(minutes, 0, 0), 2, "The action did not ", nil}, /* PID 1 of a container is immune */
		{"closes all files", "python:3", "import os\ndef main(p):\n    os.closerange(0, 1024)\n    return {}\n", limits(brief, 0, 0), 2, "The action ", nil},
		{"does not compile", "python:3", "def main(p)\n", limits(minutes, 0, 0), 2, "", nil},
		{"returns no object", "nodejs:20", "const main = () => 42", limits(minutes, 0, 0), 2, "", nil},
		{"throws", "nodejs:20", "const main = () => { throw new Error('oh no') }", limits(minutes, 0, 0), 2, "oh no", nil},
		{"exceeds memory", "python:3", "def main(p):\n    x = []\n    while True:\n        x.append(b'x' * (1 << 20))\n", limits(minutes, 128, 0), 2, textMemory, nil},
		{"exceeds memory at once", "python:3", "x = []\nwhile True:\n    x.append(b'x' * (1 << 20))\n", limits(minutes, 128, 0), 2, textMemory, nil},
		{"a result that just fits", "nodejs:20", "const main = () => ({r: 'x'.repeat((1 << 20) - 8)})", limits(minutes, 0, 0), 0, strings.Repeat("x", (1<<20)-8), nil},
		{"a result that is too long", "nodejs:20", "const main = () => ({r: 'x'.repeat((1 << 20) - 7)})", limits(minutes, 0, 0),
			1, textTooLong + "1048577 > 1048576 bytes. The truncated response was: {", nil},
		{"a result of 5 MB", "python:3", "def main(p):\n    return {'r': 'x' * (5 << 20)}\n", limits(minutes, 0, 0), 1, textTooLong, nil},
		{"an error of 2 MB", "nodejs:20", "const main = () => ({error: 'x'.repeat(2 << 20)})", limits(minutes, 0, 0), 1, textTooLong, nil},
		{"floods stdout", "python:3", "def main(p):\n    line = 'x' * 100\n    for i in range(15000):\n        print(line)\n    return {'done': 1}\n", limits(minutes, 0, 1), 0, `"done":1`, cutLogs},
		{"one line of 4 MB", "nodejs:20", "const main = () => { process.stdout.write('y'.repeat(4 << 20)); return {done: 1}; }", limits(minutes, 0, 1), 0, `"done":1`, cutLogs},
		{"floods both", "nodejs:20", "const main = () => { for (let i = 0; i < 8000; i++) { console.log('o'.repeat(50)); console.error('e'.repeat(50)); } return {done: 1}; }",
			limits(minutes, 0, 1), 0, `"done":1`, cutLogs},
		{"forges sentinels", "python:3", "import sys\ndef main(p):\n    for f in (sys.stdout, sys.stderr):\n        print('" + sentinel + "', file=f, flush=True)\n    print('behind')\n    return {'done': 1}\n",
			limits(minutes, 0, 0), 0, `"done":1`, ownLogs},
		{"forges half of a sentinel", "nodejs:20", "const main = () => { process.stdout.write('XXX_THE_END_OF_A_WHISK'); console.log('" + sentinel + " in the middle'); return {done: 1}; }",
			limits(minutes, 0, 0), 0, `"done":1`, func(t *testing.T, first, second outcome) {
				for _, o := range []outcome{first, second} {
					check.EqualSlices(t, o.logged(), []string{"stdout: XXX_THE_END_OF_A_WHISK" + sentinel + " in the middle"})
				}
			}},
		{"prints text that looks like a truncated log", "python:3", "def main(p):\n    print('" + textLogsCut + "')\n    return {'done': 1}\n", limits(minutes, 0, 0), 0, `"done":1`, warmAgain},
		{"forks", "python:3", forkBomb, limits(20000, 256, 0), -1, "", nil},
	}
}

// forkBomb starts processes until it may not, and no more than the machine of
// a test can bear.
var forkBomb = fmt.Sprintf(`import os, time
def main(p):
    n = 0
    try:
        while n < %d:
            if os.fork() == 0:
                time.sleep(300)
                os._exit(0)
            n += 1
    except OSError as e:
        return {"error": "stopped after %%d: %%s" %% (n, e)}
    time.sleep(15)
    return {"error": "not stopped after %%d processes" %% n}
`, 4*pids)

// cutLogs: the log ends at its limit with a line about it; the container serves the
// next run.
func cutLogs(t *testing.T, first, second outcome) {
	for _, o := range []outcome{first, second} {
		size := 0
		for _, line := range o.record.Logs {
			size += len(line)
		}
		o.wantLastLine(t, "stderr: "+textLogsCut)
		check.AtMost(t, size, 1<<20+200, "bytes of %d lines", len(o.record.Logs))
	}
	warmAgain(t, first, second)
}

// warmAgain: the second run was in the same container.
func warmAgain(t *testing.T, _, second outcome) {
	init, cold := second.record.Annotations.Get("initTime")
	check.That(t, !cold, "the second run was a cold start (init %s ms)", init)
}

// wantLastLine checks how the log ends. Lines may be long.
func (o outcome) wantLastLine(t *testing.T, want string) {
	t.Helper()
	last, logs := "", o.logged()
	if len(logs) > 0 {
		last = logs[len(logs)-1]
	}
	check.That(t, last == want, "the last of %d lines is %.100q, want %q", len(logs), last, want)
}

// ownLogs: after a forged end, the log contains the lines that the daemon has passed on
// by then. If the daemon is slow, later lines appear in the next run of the same
// container. They are never duplicated, and never cost the container.
func ownLogs(t *testing.T, first, second outcome) {
	all := slices.Concat(first.logged(), second.logged())
	check.AtMost(t, len(all), 2, "logs of two runs: %q, then %q", first.logged(), second.logged())
	strange := slices.ContainsFunc(all, func(line string) bool { return line != "stdout: behind" })
	check.That(t, !strange, "logs of two runs: %q, then %q", first.logged(), second.logged())
	warmAgain(t, first, second)
}

// TestHostileActions runs actions that misbehave in every way. Each ends with the
// contract's error, one ack and one record, and the invoker works as before.
func TestHostileActions(t *testing.T) {
	withEachParts(t, func(t *testing.T, w parts) {
		p := start(t, w, setup{memory: memoryForAll, env: map[string]string{"CONFIG_whisk_gpu_docker_pidsLimit": fmt.Sprint(pids)}})
		t.Run("actions", func(t *testing.T) {
			for i, h := range hostiles() {
				t.Run(h.name, func(t *testing.T) {
					t.Parallel()
					h.try(p.at(t), fmt.Sprint("hostile", i))
				})
			}
		})
		p.hello("fine")
		p.greets("fine")
	})
}

func (h hostile) try(p *platform, name string) {
	t := p.t
	p.create(name, h.kind, h.code, h.limits)
	o := p.call(name, nil)
	switch {
	case h.status < 0: // it is enough that it ended
		check.That(t, o.record.Response.StatusCode != 0, "it ended well: %.200q", o.text())
		check.Lacks(t, o.text(), "not stopped after")
	default:
		o.want(t, h.status, h.text)
	}
	if h.status == activation.StatusDeveloperError {
		o.wantLastLine(t, "stderr: "+textIncomplete)
	}
	if h.check != nil {
		h.check(t, o, p.call(name, nil))
	}
}
