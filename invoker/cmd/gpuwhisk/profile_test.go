package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestProfileIsOfThisProgram: the compiler can read the profile of the invoker, and the
// profile contains no paths of the machine that recorded it.
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
			t.Errorf("%s is not in the profile: run make profile", name)
		}
	}
	if strings.Contains(string(out), "/home/") {
		t.Error("the profile names a directory of the machine: build with -trimpath")
	}
}
