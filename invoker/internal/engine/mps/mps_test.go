package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const (
	first  = "GPU-a"
	second = "GPU-b"
)

// fake is a scripted control daemon that records its input.
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
	check.NoError(t, err)
	// A short path: a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", "mps")
	check.NoError(t, err)
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
	check.NoError(f.t, os.WriteFile(filepath.Join(f.home, name), []byte(text), 0o600))
}

func (f *fake) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(f.home, name)) // none yet: nothing was written
	return string(text)
}

func (f *fake) pid(device string) int {
	f.t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(f.read(device + ".pid")))
	check.NoError(f.t, err)
	return n
}

func (f *fake) start() *Daemons {
	f.t.Helper()
	d, err := Start(f.t.Context(), f.Options)
	check.NoError(f.t, err)
	f.t.Cleanup(func() {
		if err := d.Close(); err != nil {
			f.t.Error(err)
		}
		for _, device := range f.Devices {
			check.ErrorIs(f.t, syscall.Kill(f.pid(device), 0), syscall.ESRCH, "the daemon of %s is left", device)
			_, err := os.Stat(filepath.Join(f.dir, device))
			check.ErrorIs(f.t, err, os.ErrNotExist, "the directory of %s is left", device)
		}
	})
	return d
}

// await reads the next call of Lost or Back.
func (f *fake) await(want string) {
	f.t.Helper()
	select {
	case got := <-f.calls:
		check.Equal(check.Must(f.t), got, want)
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
		j, ok := d.Join(device)
		check.That(check.Must(t), ok, "join %s: %+v, %v", device, j, ok)
		check.Equal(t, j, Joint{Pipe: filepath.Join(own, "pipe")}, "join %s", device)
	}
	got := strings.Split(strings.TrimSpace(f.read("starts")), "\n")
	slices.Sort(got)
	check.EqualSlices(t, got, want)
	_, ok := d.Join("GPU-c")
	check.That(t, !ok, "a device without a daemon is joined")
	check.NoError(t, d.Close())
	check.Equal(t, strings.Count(f.read("quits"), "quit -t 1"), 2, "the daemons received")
}

// A daemon that ends is noticed and started again; the other's clients notice
// nothing.
func TestDeath(t *testing.T) {
	f := newFake(t)
	f.start()
	other := f.pid(second)
	for range 3 {
		check.NoError(t, syscall.Kill(f.pid(first), syscall.SIGKILL))
		f.await("lost " + first + ": its MPS daemon ended")
		f.await("back " + first)
	}
	check.Equal(t, f.pid(second), other, "the other daemon was started again, too")
}

// TestDeathForAWhile: the start of a dead daemon is retried until it succeeds, and
// logged once.
func TestDeathForAWhile(t *testing.T) {
	f := newFake(t)
	f.Devices = []string{first}
	f.start()
	f.reply("refuse", "no such device")
	check.NoError(t, syscall.Kill(f.pid(first), syscall.SIGKILL))
	f.await("lost " + first + ": its MPS daemon ended")
	for strings.Count(f.read("starts"), "\n") < 4 {
		<-time.After(time.Millisecond)
	}
	check.NoError(t, os.Remove(filepath.Join(f.home, "refuse")))
	f.await("back " + first)
}

// TestLeftOver: the files of a former daemon are removed, and a former daemon that
// still listens is ended.
func TestLeftOver(t *testing.T) {
	f := newFake(t)
	f.Devices = []string{first}
	pipe := filepath.Join(f.dir, first, "pipe")
	check.NoError(t, os.MkdirAll(pipe, 0o755))
	for _, name := range []string{"log", "control_lock"} {
		check.NoError(t, os.WriteFile(filepath.Join(pipe, name), nil, 0o600))
	}
	f.start()
	left, err := os.ReadDir(pipe)
	check.NoError(t, err, "in the directory")
	check.Equal(check.Must(t), len(left), 1, "in the directory")
	check.Equal(t, left[0].Name(), "control", "in the directory")
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
			check.ErrorContains(t, err, c.want)
		})
	}
}

func TestStartIsGivenUp(t *testing.T) {
	f := newFake(t)
	f.reply("silent", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, f.Options)
	check.ErrorIs(t, err, context.Canceled)
}

// A daemon that does not end when it is ordered to is killed.
func TestStubborn(t *testing.T) {
	f := newFake(t)
	f.Devices, f.EndLimit = []string{first}, 50*time.Millisecond
	f.reply("stubborn", "")
	d := f.start()
	began := time.Now()
	check.NoError(t, d.Close())
	check.AtLeast(t, time.Since(began), f.EndLimit, "it ended by itself")
}

// A daemon that hangs in the driver of a device that died, so that no signal ends it,
// holds nothing up for ever.
func TestKilledAndNotEnded(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check.NoError(t, cmd.Start())
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		d := newDaemon(first, Options{EndLimit: time.Second}.withDefaults(), stop)
		close(stop)
		check.NoError(t, d.watch(&process{cmd: cmd, ended: make(chan struct{})}))
	})
	check.That(t, cmd.Wait() != nil, "it was not killed")
}

// A daemon of its own /dev/shm uses the directory that its clients get, and the
// host's is left alone.
func TestApart(t *testing.T) {
	f := newFake(t)
	f.Apart = true
	f.reply("share", "")
	d, err := Start(t.Context(), f.Options)
	if errors.Is(err, os.ErrPermission) {
		check.ErrorContains(t, err, "CAP_SYS_ADMIN", "the error does not name the missing part")
		if os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1" && os.Getuid() == 0 {
			t.Fatal(err)
		}
		t.Skipf("no right to mount: %v", err)
	}
	check.NoError(t, err)
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, device := range f.Devices {
		j, ok := d.Join(device)
		name := fmt.Sprintf("gpuwhisk-test-%d", f.pid(device))
		text, err := os.ReadFile(filepath.Join(j.Shm, name))
		check.That(check.Must(t), ok, "%s: %q, %v in %+v", device, text, err, j)
		check.NoError(t, err, "%s: %q in %+v", device, text, j)
		check.Equal(t, strings.TrimSpace(string(text)), device, "%s: %q, %v in %+v", device, text, err, j)
		_, err = os.Stat(filepath.Join("/dev/shm", name))
		check.ErrorIs(t, err, os.ErrNotExist, "%s has written to the host's /dev/shm", device)
	}
}

// TestWhereMPSRuns: its daemon is known by its name, as the kernel cuts it.
func TestWhereMPSRuns(t *testing.T) {
	for name, want := range map[string]bool{"nvidia-cuda-mps\n": true, "nvidia-smi\n": false} {
		root := fstest.MapFS{"proc/1/comm": {Data: []byte("init\n")}, "proc/17/comm": {Data: []byte(name)}, "proc/self/comm": {Data: []byte("nvidia-cuda-mps\n")}}
		check.Equal(t, Runs(root), want, "%q", name)
	}
}
