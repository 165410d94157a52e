//go:build cgo && linux

package nvml

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// library builds the management library of testdata. It skips the test without a C
// compiler.
func library(t *testing.T, flags ...string) string {
	t.Helper()
	cc := peertest.Tool(t, "cc")
	out := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append([]string{"-shared", "-fPIC", "-Wall", "-Werror", "-o", out, "testdata/nvml.c"}, flags...)
	text, err := exec.Command(cc, args...).CombinedOutput()
	check.NoError(t, err, "build the library\n%s", text)
	return out
}

// child is the variable that makes a test the child of itself: a process binds
// the functions of one library only.
const child = "GPUWHISK_TEST_NVML"

// TestRealLoader uses the real loader: the library is found at run time, each function
// is bound by its newest name, and structures have the driver's layout. The old library
// lacks functions, and calling a missing function would end the process.
func TestRealLoader(t *testing.T) {
	if at := os.Getenv(child); at != "" {
		useLibrary(t, at)
		return
	}
	for _, flags := range [][]string{nil, {"-DOLD"}} {
		at := library(t, flags...)
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRealLoader$", "-test.timeout=30s")
		c.Env = append(os.Environ(), child+"="+at, "GPUWHISK_TEST_OLD="+strings.Join(flags, ""))
		text, err := c.CombinedOutput()
		check.NoError(t, err, "with %v\n%s", flags, text)
	}
}

func useLibrary(t *testing.T, at string) {
	memory := Memory{15 << 29, 5 << 30, 2 << 30}
	if os.Getenv("GPUWHISK_TEST_OLD") != "" {
		memory = Memory{8 << 30, 5 << 30, 3 << 30}
	}
	d, err := Open(Options{Library: at})
	check.NoError(t, err)
	check.Equal(t, d.Versions(), Versions{Driver: "580.95.05", CUDA: "13.0", NVML: "13.580.95.05"})
	cards, err := d.Cards()
	want := []Card{{
		Minor: 4, UUID: "GPU-c", Name: "GPU of C", Bus: "00000000:1A:00.0", Capability: "9.0", Memory: memory,
		Mode: ModeExclusive, Persistence: On, Processes: []Process{{41, 1 << 30}, {42, 2 << 30}},
	}}
	check.NoError(t, err)
	check.DeepEqual(t, cards, want)
	watchOnce(t, d, cards)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func watchOnce(t *testing.T, d *Driver, cards []Card) {
	t.Helper()
	readings, faults := make(chan Reading, 100), make(chan Fault, 100)
	w, err := d.Watch(WatchOptions{
		Devices:  Devices(cards),
		Readings: func(r []Reading) { readings <- r[0] },
		Fault:    func(f Fault) { faults <- f },
	})
	check.NoError(t, err)
	r := <-readings
	check.Equal(t, r.Utilization, 0.25)
	check.That(t, !r.Lost, "reading %+v", r)
	check.Equal(t, len(r.Processes), 2)
	f := <-faults
	check.Equal(t, f.Kind, XID)
	check.Equal(t, f.Number, 31)
	check.Equal(t, f.Severity, OfProcess)
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNoLibrary(t *testing.T) {
	_, err := Open(Options{Library: filepath.Join(t.TempDir(), "libnvidia-ml.so.1")})
	check.ErrorIs(t, err, ErrNoDriver)
}
