//go:build cgo && linux

package nvml

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// library builds the management library of testdata, and skips the test where
// there is no C compiler.
func library(t *testing.T, flags ...string) string {
	t.Helper()
	cc := peertest.Tool(t, "cc")
	out := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append([]string{"-shared", "-fPIC", "-Wall", "-Werror", "-o", out, "testdata/nvml.c"}, flags...)
	if text, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("build the library: %v\n%s", err, text)
	}
	return out
}

// child is the variable that makes a test the child of itself: a process binds
// the functions of one library only.
const child = "GPUWHISK_TEST_NVML"

// TestRealLoader goes the whole way by the loader: found at run time, each
// function under its newest name, structures as the driver lays them out. The
// old library lacks functions, and calling one of those would end the process.
func TestRealLoader(t *testing.T) {
	if at := os.Getenv(child); at != "" {
		useLibrary(t, at)
		return
	}
	for _, flags := range [][]string{nil, {"-DOLD"}} {
		at := library(t, flags...)
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRealLoader$", "-test.timeout=30s")
		c.Env = append(os.Environ(), child+"="+at, "GPUWHISK_TEST_OLD="+strings.Join(flags, ""))
		if text, err := c.CombinedOutput(); err != nil {
			t.Errorf("with %v: %v\n%s", flags, err, text)
		}
	}
}

func useLibrary(t *testing.T, at string) {
	memory := Memory{15 << 29, 5 << 30, 2 << 30}
	if os.Getenv("GPUWHISK_TEST_OLD") != "" {
		memory = Memory{8 << 30, 5 << 30, 3 << 30}
	}
	d, err := Open(Options{Library: at})
	if err != nil {
		t.Fatal(err)
	}
	if v := d.Versions(); v != (Versions{Driver: "580.95.05", CUDA: "13.0", NVML: "13.580.95.05"}) {
		t.Errorf("versions %+v", v)
	}
	cards, err := d.Cards()
	want := []Card{{
		Minor: 4, UUID: "GPU-c", Name: "GPU of C", Bus: "00000000:1A:00.0", Capability: "9.0", Memory: memory,
		Mode: ModeExclusive, Persistence: On, Processes: []Process{{41, 1 << 30}, {42, 2 << 30}},
	}}
	if err != nil || !reflect.DeepEqual(cards, want) {
		t.Errorf("error %v, cards\n got %+v\nwant %+v", err, cards, want)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if r := <-readings; r.Utilization != 0.25 || r.Lost || len(r.Processes) != 2 {
		t.Errorf("reading %+v", r)
	}
	if f := <-faults; f.Kind != XID || f.Number != 31 || f.Severity != OfProcess {
		t.Errorf("fault %+v", f)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNoLibrary(t *testing.T) {
	_, err := Open(Options{Library: filepath.Join(t.TempDir(), "libnvidia-ml.so.1")})
	if !errors.Is(err, ErrNoDriver) {
		t.Errorf("error %v", err)
	}
}
