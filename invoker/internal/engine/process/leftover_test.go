package process

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// strand runs an engine in a separate process that is killed while a proxy and an orphan
// run.
func strand() {
	options := DefaultOptions()
	options.StateDir = os.Getenv("GPUWHISK_TEST_DIR")
	options.Runtimes = map[string]Runtime{"go:": {Argv: []string{"/proc/self/exe"}, Env: []string{actAs + "=proxy"}}}
	e, err := New(options)
	if err == nil {
		var h container.Handle
		h, err = e.Create(context.Background(), container.Spec{Name: "wsk00_1_a", Kind: "go:1"})
		fmt.Println(h.Addr)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	select {}
}

// TestCleanUpAfterCrash: after an engine was killed, no proxy runs, and the next engine
// kills the other processes and deletes the files.
func TestCleanUpAfterCrash(t *testing.T) {
	f := start(t, nil)
	self, err := os.Executable()
	check.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = []string{actAs + "=engine", "GPUWHISK_TEST_DIR=" + f.options.StateDir}
	out, err := cmd.StdoutPipe()
	check.NoError(t, err)
	check.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadBytes('\n')
	check.NoError(t, err)
	f.mustRun(string(bytes.TrimSpace(line)), wish{Orphan: true})
	f.awaitProcesses(2) // the proxy and an orphan
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for deadline := time.Now().Add(time.Minute); len(f.processes()) > 1; <-time.After(time.Millisecond) {
		check.That(check.Must(t), !time.Now().After(deadline), "the proxy outlives its engine")
	}
	check.NoError(t, f.CleanUp(t.Context(), "wsk00_"))
	check.Equal(t, len(f.processes()), 0)
	check.Equal(t, len(f.left()), 0)
}

// TestMarkerIsSeenAtOnce: a process is found as soon as it exists.
func TestMarkerIsSeenAtOnce(t *testing.T) {
	const marker = markerVar + "=wsk00_1_a.0011"
	for i := range 500 {
		cmd := exec.Command("sleep", "60")
		cmd.Env = []string{marker}
		check.NoError(t, cmd.Start())
		seen := hasMarker(cmd.Process.Pid, marker, newRetries())
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		check.That(check.Must(t), seen, "process %d was not seen", i)
	}
	check.That(t, !hasMarker(2, marker, newRetries()), "seen in a thread of the kernel")
	check.That(t, !hasMarker(os.Getpid(), marker, newRetries()), "seen in this process")
}

func TestCleanUpByPrefix(t *testing.T) {
	f := start(t, nil)
	kept := f.spec()
	kept.Name = "wsk010_1_a"
	for _, spec := range []container.Spec{f.spec(), kept} {
		_, err := f.Create(t.Context(), spec)
		check.NoError(t, err)
	}
	check.NoError(t, os.Mkdir(filepath.Join(f.options.StateDir, "wsk00_9_b.ff"), 0o700))
	check.NoError(t, f.CleanUp(t.Context(), "wsk00_"))
	check.Equal(t, len(f.left()), 1)
}

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("12 (a) b (c) S 3 12 11 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 8 9\n"))
	check.NoError(t, err)
	check.Equal(t, got, (stat{parent: 3, session: 11}))
	for _, text := range []string{"", "12 (a", "12 (a) S 3 12", "12 (a) S x 12 11 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711"} {
		_, err := parseStat([]byte(text))
		check.That(t, err != nil, "%q is taken", text)
	}
}

// TestRetriesEnd: the retries are limited for all processes of a search together.
func TestRetriesEnd(t *testing.T) {
	tries := newRetries()
	tries.pause = 0
	n := 0
	for tries.wait() {
		n++
	}
	check.Equal(t, n, 1000)
	check.That(t, !tries.wait(), "%d looks", n)
}
