package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

type fixture struct {
	*Engine
	t    testing.TB
	made int
}

// start returns an engine, and checks at the end of the test that its processes, files
// and goroutines are gone.
func start(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	before := runtime.NumGoroutine()
	self, err := os.Executable()
	check.NoError(t, err)
	options := DefaultOptions()
	options.StateDir = t.TempDir()
	// These waits never expire: the content that was read ends each reading.
	options.LogWaits.Idle, options.LogWaits.OtherStream = time.Minute, time.Minute
	options.Runtimes = map[string]Runtime{
		"go:":  {Argv: []string{self}, Env: []string{actAs + "=proxy"}},
		"no:1": {Argv: []string{"/nowhere/proxy"}},
	}
	if change != nil {
		change(&options)
	}
	e, err := New(options)
	check.NoError(t, err)
	f := &fixture{Engine: e, t: t}
	t.Cleanup(func() { f.end(before) })
	return f
}

func (f *fixture) end(goroutines int) {
	if err := f.Close(); err != nil {
		f.t.Error(err)
	}
	check.Equal(f.t, len(f.left()), 0, "files left")
	check.Equal(f.t, len(f.processes()), 0, "processes left")
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > goroutines; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			f.t.Errorf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), goroutines, stacks[:runtime.Stack(stacks, true)])
			return
		}
	}
}

func (f *fixture) left() []string {
	paths, _ := filepath.Glob(filepath.Join(f.options.StateDir, "*"))
	return paths
}

// processes returns the processes that run below the engine's state directory.
func (f *fixture) processes() []int {
	var pids []int
	for _, pid := range allPIDs() {
		environ, _ := os.ReadFile(procPath(pid, "environ"))
		if bytes.Contains(environ, []byte("TMPDIR="+f.options.StateDir)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitProcesses waits for the given number of processes. During exec a process briefly
// has no environment, although its parent already counts it as started.
func (f *fixture) awaitProcesses(want int) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		n := len(f.processes())
		if n == want {
			return
		}
		check.That(check.Must(f.t), !time.Now().After(deadline), "%d processes, want %d", n, want)
	}
}

func (f *fixture) spec() container.Spec {
	f.made++
	return container.Spec{Name: fmt.Sprintf("wsk00_%d_guest_hello", f.made), Kind: "go:1.26", MemoryMB: 256,
		Env: []string{"__OW_API_HOST=https://example"}}
}

func (f *fixture) create() container.Handle {
	f.t.Helper()
	h, err := f.Create(f.t.Context(), f.spec())
	check.NoError(f.t, err)
	return h
}

func (f *fixture) run(addr string, v wish) (state, error) {
	f.t.Helper()
	f.listening(addr)
	body, _ := json.Marshal(v)
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return f.Dial(ctx, "", addr) },
	}}
	defer client.CloseIdleConnections()
	resp, err := client.Post("http://localhost/run", "application/json", bytes.NewReader(body))
	if err != nil {
		return state{}, err
	}
	defer resp.Body.Close()
	var s state
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

func (f *fixture) mustRun(addr string, v wish) state {
	f.t.Helper()
	s, err := f.run(addr, v)
	check.NoError(f.t, err)
	return s
}

func (f *fixture) listening(addr string) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		conn, err := f.Dial(f.t.Context(), "", addr)
		if err == nil {
			conn.Close()
			return
		}
		check.That(check.Must(f.t), !time.Now().After(deadline), "proxy at %s does not listen: %v", addr, err)
	}
}

func (f *fixture) awaitDeath() container.ID {
	f.t.Helper()
	select {
	case id := <-f.Died():
		return id
	case <-time.After(time.Minute):
		f.t.Fatal("no death was reported")
		return ""
	}
}

func request() container.LogRequest {
	return container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20, Now: time.Now(), Alone: true}
}

func failedRequest() container.LogRequest {
	return container.LogRequest{LimitBytes: 1 << 20, Now: time.Now(), Failed: true}
}

func TestLife(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	f.mustRun(h.Addr, wish{})
	check.NoError(t, f.Pause(t.Context(), h.ID))
	client := http.Client{Timeout: 100 * time.Millisecond}
	_, err := client.Post("http://"+h.Addr+"/run", "application/json", strings.NewReader("{}"))
	check.That(t, err != nil, "a paused process answers")
	client.CloseIdleConnections()
	check.NoError(t, f.Resume(t.Context(), h.ID))
	f.mustRun(h.Addr, wish{})
	check.That(t, !f.OOMKilled(t.Context(), h.ID), "a healthy process was killed for memory")
	for range 2 {
		check.NoError(t, f.Remove(t.Context(), h.ID))
	}
	check.ErrorIs(t, f.Pause(t.Context(), h.ID), container.ErrGone, "pause of a removed process")
	check.ErrorIs(t, f.Resume(t.Context(), h.ID), container.ErrGone, "resume of a removed process")
}

// TestPauseOfAProcessThatDoesNotStop: a process may wait where no signal reaches it, for
// example for a vfork child that was stopped before its exec. The pause fails in the
// end, and delays nothing else meanwhile.
func TestPauseOfAProcessThatDoesNotStop(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	_, err := f.run(h.Addr, wish{Fork: true})
	check.NoError(t, err)
	forked := 0
	for deadline := time.Now().Add(time.Minute); forked == 0 && time.Now().Before(deadline); <-time.After(time.Millisecond) {
		for _, pid := range f.processes() {
			if pid != f.find(h.ID).pid {
				forked = pid
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	paused := make(chan error, 1)
	go func() { paused <- f.Pause(ctx, h.ID) }()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if text, _ := os.ReadFile(procPath(forked, "stat")); bytes.Contains(text, []byte(") T ")) {
			break
		}
	}
	f.find(h.ID).watched() // as the memory guard does
	cancel()
	check.ErrorIs(t, check.Receive(t, paused), context.Canceled)
	check.NoError(t, f.Remove(t.Context(), h.ID))
}

func TestRemovePaused(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	f.listening(h.Addr)
	check.NoError(t, f.Pause(t.Context(), h.ID))
	check.NoError(t, f.Remove(t.Context(), h.ID))
}

// TestRemoveOfAHangingProcess: a process that hangs in the kernel delays nothing else, and is
// cleaned up when it ends.
func TestRemoveOfAHangingProcess(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	c := f.find(h.ID)
	c.wg.Add(1) // as if it did not end
	f.endTime = time.Millisecond
	err := f.Remove(t.Context(), h.ID)
	check.ErrorContains(t, err, "hangs in the kernel")
	_, err = os.Stat(c.dir)
	check.NoError(t, err, "freed before its end")
	c.wg.Done()
	for {
		if _, err := os.Stat(c.dir); errors.Is(err, os.ErrNotExist) {
			return
		}
		runtime.Gosched()
	}
}

// TestSocketIsPrivate: a proxy listens on a socket that only this user can reach, even
// with long names of actions and directories.
func TestSocketIsPrivate(t *testing.T) {
	f := start(t, func(o *Options) {
		o.StateDir = filepath.Join(o.StateDir, strings.Repeat("long", 30))
	})
	h := f.create()
	f.mustRun(h.Addr, wish{})
	check.Less(t, 107, len(h.Addr), "the path would fit into an address")
	info, err := os.Stat(filepath.Dir(h.Addr))
	check.NoError(t, err)
	check.Equal(t, info.Mode().Perm(), 0o700)
}

// TestSurroundings: the process gets its given environment, and no variable of ours.
func TestSurroundings(t *testing.T) {
	t.Setenv("GPUWHISK_TEST_SECRET", "hidden")
	f := start(t, nil)
	h := f.create()
	s := f.mustRun(h.Addr, wish{})
	dir := filepath.Join(f.options.StateDir, string(h.ID))
	want := []string{
		"CUDA_VISIBLE_DEVICES=-1", "HOME=" + dir + "/home", "LANG=C.UTF-8", "PATH=" + f.options.Path,
		"TMPDIR=" + dir + "/tmp", "__OW_API_HOST=https://example",
		"GPUWHISK_CONTAINER=" + string(h.ID), "__OW_PROXY_SOCKET=../proxy.sock", actAs + "=proxy",
	}
	slices.Sort(want)
	slices.Sort(s.Environ)
	check.EqualSlices(t, s.Environ, want)
	check.Equal(t, s.Dir, dir+"/home")
	check.Equal(t, s.Files, noFile)
}

// TestEnvironmentOfGPU: the device's variables override all others, and no other
// variable steers the driver.
func TestEnvironmentOfGPU(t *testing.T) {
	f := start(t, nil)
	spec := f.spec()
	spec.Env = append(spec.Env, "LD_PRELOAD=/lib/other.so", "NVIDIA_VISIBLE_DEVICES=all", "CUDA_MODULE_LOADING=LAZY", "GPUWHISK_SHIM=off", "A=1")
	spec.GPU = &container.GPU{Device: "GPU-8f6", Env: []string{"CUDA_VISIBLE_DEVICES=0", "LD_LIBRARY_PATH=/fake"}}
	h, err := f.Create(t.Context(), spec)
	check.NoError(t, err)
	var got []string
	for _, v := range f.mustRun(h.Addr, wish{}).Environ {
		if strings.HasPrefix(v, markerVar+"=") || strings.HasPrefix(v, "GPUWHISK_TEST_") {
			continue // set by the engine or the test
		}
		if steering(v) || v == "A=1" {
			got = append(got, v)
		}
	}
	slices.Sort(got)
	check.EqualSlices(t, got, []string{"A=1", "CUDA_VISIBLE_DEVICES=0", "LD_LIBRARY_PATH=/fake"})
	check.NoError(t, f.Remove(t.Context(), h.ID))
}

func TestUnknownKind(t *testing.T) {
	f := start(t, nil)
	for kind, want := range map[string]struct {
		blame   container.Blame
		message string
	}{
		"blackbox": {container.BlameDeveloper, "The process runtime cannot run actions of kind 'blackbox'."},
		"rust:1":   {container.BlameDeveloper, "The process runtime cannot run actions of kind 'rust:1'."},
		"no:1":     {container.BlameWhisk, "Failed to provision resources to run the action."},
	} {
		spec := f.spec()
		spec.Kind = kind
		_, err := f.Create(t.Context(), spec)
		var failed *container.CreateError
		check.That(check.Must(t), errors.As(err, &failed), "%s: got %v, want %v", kind, err, want)
		check.Equal(t, failed.Blame, want.blame, "%s: got %v, want %v", kind, err, want)
		check.Equal(t, failed.Message, want.message, "%s: got %v, want %v", kind, err, want)
	}
	check.Equal(t, len(f.left()), 0)
}

func TestOutOfMemory(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	_, err := f.run(h.Addr, wish{Allocate: 600})
	check.That(check.Must(t), err != nil, "600 MiB fit into 256")
	check.That(t, f.OOMKilled(t.Context(), h.ID), "the kill for memory is not reported")
	check.Equal(t, f.awaitDeath(), h.ID)
}

func TestExit(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	_, err := f.run(h.Addr, wish{Stdout: "last words", Exit: true})
	check.That(check.Must(t), err != nil, "an answer from the dead")
	check.Equal(t, f.awaitDeath(), h.ID)
	check.That(t, !f.OOMKilled(t.Context(), h.ID), "an exit was taken for a kill")
	got := f.Logs(t.Context(), h.ID, failedRequest())
	check.Equal(check.Must(t), len(got.Lines), 2)
	check.That(t, strings.HasSuffix(got.Lines[0], " stdout: last words"), "got %q", got.Lines)
	check.ErrorIs(t, f.Pause(t.Context(), h.ID), container.ErrGone, "pause of a dead process")
}

// TestRemoveEndsDescendants: a process ends with all its descendants, even those that
// left its group and parent.
func TestRemoveEndsDescendants(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	f.mustRun(h.Addr, wish{Sleepers: 3, Orphan: true})
	f.awaitProcesses(5) // the proxy, 3 children and an orphan
	check.NoError(t, f.Remove(t.Context(), h.ID))
	check.Equal(t, len(f.processes()), 0)
}

func TestForkBomb(t *testing.T) {
	f := start(t, func(o *Options) { o.PidsLimit = 8 })
	h := f.create()
	_, _ = f.run(h.Addr, wish{Sleepers: 40})
	check.Equal(t, f.awaitDeath(), h.ID)
}

func TestCloseRefusesLaterWork(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	check.NoError(t, f.Close())
	_, err := f.Create(t.Context(), f.spec())
	check.That(t, err != nil, "a closed engine creates")
	_, open := <-f.Died()
	check.That(t, !open, "the end of the engine is reported as a death")
	check.NoError(t, f.Remove(context.Background(), h.ID))
}

// TestOutputThatStaysOpen: the output of a process is in its log and its death is
// reported, although a descendant still has the output open.
func TestOutputThatStaysOpen(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	_, err := f.run(h.Addr, wish{Stdout: "last words", Keeper: true, Exit: true})
	check.That(t, err != nil, "a process that ended has answered")
	check.Equal(t, f.awaitDeath(), h.ID)
	got := f.Logs(t.Context(), h.ID, container.LogRequest{LimitBytes: 1 << 20, Failed: true})
	check.That(t, len(got.Lines) != 0, "log %q", got.Lines)
	check.That(t, strings.HasSuffix(got.Lines[0], "stdout: last words"), "log %q", got.Lines)
	check.NoError(t, f.Remove(t.Context(), h.ID))
}
