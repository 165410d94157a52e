package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNew: what is written passes its own test, and the commands that come next
// name what is there. How the function runs is invoker/develop/demo's test of examples.
func TestNew(t *testing.T) {
	c := newCmd{Name: "infer", Kind: "python-gpu", Dir: t.TempDir()}
	var printed bytes.Buffer
	if err := c.write(&printed); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(c.Dir, "infer")
	for _, want := range []string{
		"python3 -m unittest discover -s " + at + "\n", "wsk action create infer " + filepath.Join(at, "main.py") + " --kind python:3-gpu -a gpu true -a invoker-resources '[\"gpu\"]'\n",
		"wsk action invoke infer --result",
	} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("no %q in\n%s", want, &printed)
		}
	}
	for _, name := range []string{"main.py", "test_main.py"} {
		text, err := os.ReadFile(filepath.Join(at, name))
		if err != nil || bytes.Contains(text, []byte("NAME")) || bytes.Contains(text, []byte("DIRECTORY")) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	if _, err := exec.LookPath("python3"); err == nil {
		out, err := exec.CommandContext(t.Context(), "python3", "-m", "unittest", "discover", "-s", at).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("Ran 2 tests")) {
			t.Errorf("its test: %v\n%s", err, out)
		}
	}
	if err := c.write(&printed); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("again: %v", err)
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"new": "<name>", "new a/b": "begins with a letter", "new .x": "begins with a letter", "new a --kind cobol": "python-gpu",
	} {
		if status, text := outcome(t, line); status != 2 || !strings.Contains(text, want) {
			t.Errorf("%q: status %d, %q; want 2 and %q", line, status, text, want)
		}
	}
}
