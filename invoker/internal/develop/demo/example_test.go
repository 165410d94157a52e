package demo

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/examples"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// example is a function in examples/, with its parameters and its expected answer.
type example struct {
	name, kind string
	code       func(t *testing.T) string
	needs      string // a Python module; the test goes without where there is none
	calls      []exampleCall
}

type exampleCall struct {
	args map[string]any
	want []string // parts of the answer
}

var all = []example{
	// As README.md has it; the second run finds the model that the first left on
	// the device.
	{name: "infer", kind: pythonKind, code: exampleFile("ptx/infer.py"), calls: []exampleCall{
		{map[string]any{"text": "what a lovely warm day"}, []string{"map[device:Fake GPU 0 label:friendly scores:map[friendly:15 unfriendly:0]]"}},
		{map[string]any{"text": "awful slow and cold"}, []string{"map[device:Fake GPU 0 label:unfriendly scores:map[friendly:0 unfriendly:20]]"}},
		{map[string]any{"text": ""}, []string{"label:unknown"}},
	}},
	{name: "bytes", kind: nativeKind, code: compiled("cpp/bytes.cpp"), calls: []exampleCall{
		{map[string]any{"text": "hello"}, []string{"device:Fake GPU 0", "sum:532"}},
		{map[string]any{}, []string{"sum:0"}},
	}},
	{name: "new", kind: gpuKind, code: func(*testing.T) string { return string(examples.Python()["main.py"]) }, calls: []exampleCall{
		{map[string]any{"numbers": []int{3, 4}}, []string{"norm:5"}},
		{map[string]any{"numbers": "three"}, []string{"error:numbers: want"}},
	}},
	{name: "spectrum", kind: gpuKind, code: exampleFile("cupy-fft/spectrum.py"), needs: "numpy", calls: []exampleCall{
		{map[string]any{"tones": []int{440, 1000}}, []string{"device:cpu", "tones:[440 1000]"}},
		{map[string]any{"rate": 0}, []string{"error"}},
	}},
	{name: "embed", kind: gpuKind, code: exampleFile("torch-embed/embed.py"), needs: "torch", calls: []exampleCall{
		{map[string]any{"texts": []string{"a warm day", "a warm day"}}, []string{"device:cpu", "alike:[[1 1] [1 1]]"}},
		{map[string]any{"texts": "one"}, []string{"error:texts: want"}},
	}},
	{name: "classify", kind: gpuKind, code: exampleFile("torch-classify/classify.py"), needs: "torch", calls: []exampleCall{
		{map[string]any{"draw": "circle"}, []string{"device:cpu", "label:circle"}},
		{map[string]any{"draw": "stripes"}, []string{"label:stripes"}},
		{map[string]any{"draw": "cat"}, []string{"error:draw: want one of"}},
	}},
}

func exampleFile(name string) func(t *testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		code, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "examples", name))
		check.NoError(t, err)
		return string(code)
	}
}

// compiled is an executable as wsk sends it.
func compiled(name string) func(t *testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		if _, err := exec.LookPath("c++"); err != nil {
			peertest.Missing(t, "no C++ compiler: on Debian, apt-get install g++")
		}
		to := filepath.Join(t.TempDir(), "exec")
		out, err := exec.CommandContext(t.Context(), "c++", "-O2", "-std=c++17", "-Wall", "-Wextra", "-Werror",
			"-static-libstdc++", "-static-libgcc", "-o", to, filepath.Join("..", "..", "..", "..", "examples", name), "-ldl").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		code, err := os.ReadFile(to)
		check.NoError(t, err)
		return base64.StdEncoding.EncodeToString(code)
	}
}

// TestReadmeShowsWhatInferAnswers: README.md calls infer with the text that
// TestExamples sends, and shows that answer.
func TestReadmeShowsWhatInferAnswers(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "README.md"))
	check.NoError(t, err)
	call := all[0].calls[0]
	line := fmt.Sprintf("wsk action invoke infer --result -p text %q\n", call.args["text"])
	_, after, found := strings.Cut(string(page), line)
	check.That(check.Must(t), found, "README.md has no line %q", line)
	var answer map[string]any
	check.NoError(t, json.NewDecoder(strings.NewReader(after)).Decode(&answer), "the text after that line")
	check.Equal(t, fmt.Sprint(answer), call.want[0], "README.md")
}

// TestExamples: each function in examples/ is deployed as a GPU function and called
// through a standalone. Functions that call the driver run on the fake driver. The
// others find no usable GPU and do the same work on the CPU.
func TestExamples(t *testing.T) {
	library, driver := shim(t, Here())
	s, _ := harness.Standalone(t, standalone.Options{GPUs: 1, FakeDriver: driver, Shim: library, Memory: "8192m", MemoryMax: 1 << 30})
	client, err := dial(s)
	check.NoError(t, err)
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) {
			if e.needs != "" {
				if out, err := exec.CommandContext(t.Context(), "python3", "-c", "import "+e.needs).CombinedOutput(); err != nil {
					t.Skipf("python3 has no %s: %s", e.needs, out[max(0, len(out)-100):])
				}
			}
			code, yes, memory := e.code(t), any(true), 512
			a := &whisk.Action{Name: e.name, Exec: &whisk.Exec{Kind: e.kind, Code: &code}, Limits: &whisk.Limits{Memory: &memory}}
			if e.kind == nativeKind {
				a.Exec.Binary = new(bool)
				*a.Exec.Binary = true
			}
			a.Annotations = whisk.KeyValueArr{{Key: "gpu", Value: yes}}
			_, _, err := client.Actions.Insert(a, true)
			check.NoError(t, err)
			for _, c := range e.calls {
				answer, _, err := client.Actions.Invoke(e.name, c.args, true, true)
				got := fmt.Sprint(answer)
				for _, want := range c.want {
					check.Contains(t, got, want, "%v: %v", c.args, err)
				}
			}
		})
	}
}
