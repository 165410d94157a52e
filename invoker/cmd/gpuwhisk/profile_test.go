package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestProfileIsOfThisProgram: the compiler can read where the invoker's time
// goes, and has nothing of the machine that it was taken on.
func TestProfileIsOfThisProgram(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	out, err := exec.Command("go", "tool", "pprof", "-raw", "invoker.pgo").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"invoker.(*worker).do", "activation/kafka.(*partition).run", "activation/records.(*Queue).run"} {
		if !strings.Contains(string(out), "github.com/gpuwhisk/gpuwhisk/"+name) {
			t.Errorf("%s is not in it: make profile", name)
		}
	}
	if strings.Contains(string(out), "/home/") {
		t.Error("it names a directory of the machine: build with -trimpath")
	}
}
