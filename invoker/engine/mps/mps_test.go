package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

const (
	first  = "GPU-a"
	second = "GPU-b"
)

// fake is a scripted control daemon and what was received.
type fake struct {
	t     *testing.T
	home  string // of the program
	dir   string // of the daemons
	calls chan string
	Options
}

func newFake(t *testing.T) *fake {
	t.Helper()
	home := t.TempDir()
	script, err := os.ReadFile(filepath.Join("testdata", Program))
	if err == nil {
		err = os.WriteFile(filepath.Join(home, Program), script, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	// A short path: a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", "mps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fake{t: t, home: home, dir: dir, calls: make(chan string, 64)}
	f.Options = Options{
		Devices: []string{first, second}, Program: filepath.Join(home, Program), Dir: dir,
		Lost:       func(device, why string) { f.calls <- "lost " + device + ": " + why },
		Back:       func(device string) { f.calls <- "back " + device },
		StartLimit: time.Minute, EndLimit: time.Minute, FirstPause: time.Millisecond, LongestPause: 4 * time.Millisecond,
	}
	return f
}

// reply puts a file beside the program, which reads how it is to behave.
func (f *fake) reply(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.home, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(f.home, name)) // none yet: nothing was written
	return string(text)
}

func (f *fake) pid(device string) int {
	f.t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(f.read(device + ".pid")))
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *fake) start() *Daemons {
	f.t.Helper()
	d, err := Start(f.t.Context(), f.Options)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := d.Close(); err != nil {
			f.t.Error(err)
		}
		for _, device := range f.Devices {
			if err := syscall.Kill(f.pid(device), 0); !errors.Is(err, syscall.ESRCH) {
				f.t.Errorf("the daemon of %s is left: %v", device, err)
			}
			if _, err := os.Stat(filepath.Join(f.dir, device)); !errors.Is(err, os.ErrNotExist) {
				f.t.Errorf("the directory of %s is left: %v", device, err)
			}
		}
	})
	return d
}

// await reads the next call of Lost or Back.
func (f *fake) await(want string) {
	f.t.Helper()
	select {
	case got := <-f.calls:
		if got != want {
			f.t.Fatalf("got %q, want %q", got, want)
		}
	case <-time.After(30 * time.Second):
		f.t.Fatalf("%q was not reported", want)
	}
}

// Each device has a daemon with directories of its own, and no other has one.
func TestDaemonPerDevice(t *testing.T) {
	f := newFake(t)
	d := f.start()
	var want []string
	for _, device := range []string{first, second} {
		own := filepath.Join(f.dir, device)
		want = append(want, fmt.Sprintf("%s %s %s", device, filepath.Join(own, "pipe"), filepath.Join(own, "log")))
		if j, ok := d.Join(device); !ok || j != (Joint{Pipe: filepath.Join(own, "pipe")}) {
			t.Errorf("join %s: %+v, %v", device, j, ok)
		}
	}
	got := strings.Split(strings.TrimSpace(f.read("starts")), "\n")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("starts\n got %v\nwant %v", got, want)
	}
	if _, ok := d.Join("GPU-c"); ok {
		t.Error("a device without a daemon is joined")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if quits := f.read("quits"); strings.Count(quits, "quit -t 1") != 2 {
		t.Errorf("the daemons received %q", quits)
	}
}

// A daemon that ends is noticed and started again; the other's clients notice
// nothing.
func TestDeath(t *testing.T) {
	f := newFake(t)
	f.start()
	other := f.pid(second)
	for range 3 {
		if err := syscall.Kill(f.pid(first), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		f.await("lost " + first + ": its MPS daemon ended")
		f.await("back " + first)
	}
	if f.pid(second) != other {
		t.Error("the other daemon was started again, too")
	}
}

// One that cannot be started again is tried until it can, and logged once.
func TestDeathForAWhile(t *testing.T) {
	f := newFake(t)
	f.Devices = []string{first}
	f.start()
	f.reply("refuse", "no such device")
	if err := syscall.Kill(f.pid(first), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.await("lost " + first + ": its MPS daemon ended")
	for strings.Count(f.read("starts"), "\n") < 4 {
		<-time.After(time.Millisecond)
	}
	if err := os.Remove(filepath.Join(f.home, "refuse")); err != nil {
		t.Fatal(err)
	}
	f.await("back " + first)
}

// What a former daemon left in the directory is gone, and one that still
// listens there is ordered to end.
func TestLeftOver(t *testing.T) {
	f := newFake(t)
	f.Devices = []string{first}
	pipe := filepath.Join(f.dir, first, "pipe")
	if err := os.MkdirAll(pipe, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"log", "control_lock"} {
		if err := os.WriteFile(filepath.Join(pipe, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.start()
	left, err := os.ReadDir(pipe)
	if err != nil || len(left) != 1 || left[0].Name() != "control" {
		t.Errorf("in the directory: %v, %v", left, err)
	}
}

func TestStartFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fake)
		want   string
	}{
		{"no program", func(f *fake) { f.Program = filepath.Join(f.home, "none") }, "find the MPS control daemon"},
		{"refused", func(f *fake) { f.reply("refuse", "Cannot start:\n  no device") }, "exit status 3, it printed: Cannot start: no device"},
		{"never serves", func(f *fake) { f.reply("silent", ""); f.StartLimit = 300 * time.Millisecond }, "does not serve after 300ms"},
		{"a path too long", func(f *fake) { f.Dir = filepath.Join(f.dir, strings.Repeat("x", 100)) }, "a socket's path may have 107"},
		{"no directory", func(f *fake) { f.reply("file", ""); f.Dir = filepath.Join(f.home, "file") }, "make directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			c.change(f)
			_, err := Start(t.Context(), f.Options)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestStartIsGivenUp(t *testing.T) {
	f := newFake(t)
	f.reply("silent", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, f.Options); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A daemon that does not end when it is ordered to is killed.
func TestStubborn(t *testing.T) {
	f := newFake(t)
	f.Devices, f.EndLimit = []string{first}, 50*time.Millisecond
	f.reply("stubborn", "")
	d := f.start()
	began := time.Now()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < f.EndLimit {
		t.Errorf("it ended by itself after %v", took)
	}
}

// A daemon of its own /dev/shm uses the directory that its clients get, and the
// host's is left alone.
func TestApart(t *testing.T) {
	f := newFake(t)
	f.Apart = true
	f.reply("share", "")
	d, err := Start(t.Context(), f.Options)
	if errors.Is(err, os.ErrPermission) {
		if !strings.Contains(err.Error(), "CAP_SYS_ADMIN") {
			t.Errorf("the error lacks what is missing: %v", err)
		}
		if os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1" && os.Getuid() == 0 {
			t.Fatal(err)
		}
		t.Skipf("no right to mount: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, device := range f.Devices {
		j, ok := d.Join(device)
		name := fmt.Sprintf("gpuwhisk-test-%d", f.pid(device))
		text, err := os.ReadFile(filepath.Join(j.Shm, name))
		if !ok || err != nil || strings.TrimSpace(string(text)) != device {
			t.Errorf("%s: %q, %v in %+v", device, text, err, j)
		}
		if _, err := os.Stat(filepath.Join("/dev/shm", name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s has written to the host's /dev/shm: %v", device, err)
		}
	}
}

// TestWhereMPSRuns: its daemon is known by its name, as the kernel cuts it.
func TestWhereMPSRuns(t *testing.T) {
	for name, want := range map[string]bool{"nvidia-cuda-mps\n": true, "nvidia-smi\n": false} {
		root := fstest.MapFS{"proc/1/comm": {Data: []byte("init\n")}, "proc/17/comm": {Data: []byte(name)}, "proc/self/comm": {Data: []byte("nvidia-cuda-mps\n")}}
		if got := Runs(root); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
