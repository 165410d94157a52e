package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestNew: the new function passes its own test, and the printed commands name existing
// files. The test of examples in invoker/internal/develop/demo runs the function itself.
func TestNew(t *testing.T) {
	c := newCmd{Name: "infer", Kind: "python-gpu", Dir: t.TempDir()}
	var printed bytes.Buffer
	check.NoError(t, c.write(&printed))
	at := filepath.Join(c.Dir, "infer")
	for _, want := range []string{
		"python3 -m unittest discover -s " + at + "\n", "wsk action create infer " + filepath.Join(at, "main.py") + " --kind python:3-gpu -a gpu true -a invoker-resources '[\"gpu\"]'\n",
		"wsk action invoke infer --result",
	} {
		check.Contains(t, printed.String(), want)
	}
	for _, name := range []string{"main.py", "test_main.py"} {
		text, err := os.ReadFile(filepath.Join(at, name))
		check.NoError(t, err)
		check.Lacks(t, string(text), "NAME", "%s", name)
		check.Lacks(t, string(text), "DIRECTORY", "%s", name)
	}
	if _, err := exec.LookPath("python3"); err == nil {
		out, err := exec.CommandContext(t.Context(), "python3", "-m", "unittest", "discover", "-s", at).CombinedOutput()
		check.NoError(t, err, "its test: %s", out)
		check.Contains(t, string(out), "Ran 2 tests")
	}
	check.ErrorContains(t, c.write(&printed), "exists already")
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"new": "<name>", "new a/b": "begins with a letter", "new .x": "begins with a letter", "new a --kind cobol": "python-gpu",
	} {
		wantOutcome(t, line, 2, want)
	}
}
