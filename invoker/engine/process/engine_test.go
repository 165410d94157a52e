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

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

type fixture struct {
	*Engine
	t    testing.TB
	made int
}

// start gives an engine whose processes, files and goroutines are counted when
// the test ends.
func start(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	before := runtime.NumGoroutine()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	options := DefaultOptions()
	options.StateDir = t.TempDir()
	// These waits are never used up: a reading ends by what it has read.
	options.LogWaits.Idle, options.LogWaits.OtherStream = time.Minute, time.Minute
	options.Runtimes = map[string]Runtime{
		"go:":  {Argv: []string{self}, Env: []string{actAs + "=proxy"}},
		"no:1": {Argv: []string{"/nowhere/proxy"}},
	}
	if change != nil {
		change(&options)
	}
	e, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Engine: e, t: t}
	t.Cleanup(func() { f.end(before) })
	return f
}

func (f *fixture) end(goroutines int) {
	if err := f.Close(); err != nil {
		f.t.Error(err)
	}
	if left := f.left(); len(left) > 0 {
		f.t.Errorf("files left: %v", left)
	}
	if pids := f.processes(); len(pids) > 0 {
		f.t.Errorf("processes left: %v", pids)
	}
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

// processes gives those that run below the engine's state directory.
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

// awaitProcesses waits until so many run. One that becomes another program shows
// no environment for a moment, and its parent takes it as started then.
func (f *fixture) awaitProcesses(want int) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		n := len(f.processes())
		if n == want {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d processes, want %d", n, want)
		}
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
	if err != nil {
		f.t.Fatal(err)
	}
	return h
}

func (f *fixture) run(addr string, v wish) (state, error) {
	f.t.Helper()
	f.listening(addr)
	body, _ := json.Marshal(v)
	client := http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	resp, err := client.Post("http://"+addr+"/run", "application/json", bytes.NewReader(body))
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
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) listening(addr string) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("proxy at %s does not listen: %v", addr, err)
		}
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
	if err := f.Pause(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: 100 * time.Millisecond}
	if _, err := client.Post("http://"+h.Addr+"/run", "application/json", strings.NewReader("{}")); err == nil {
		t.Error("a paused process answers")
	}
	client.CloseIdleConnections()
	if err := f.Resume(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	f.mustRun(h.Addr, wish{})
	if f.OOMKilled(t.Context(), h.ID) {
		t.Error("a healthy process was killed for memory")
	}
	for range 2 {
		if err := f.Remove(t.Context(), h.ID); err != nil {
			t.Error(err)
		}
	}
	if err := f.Pause(t.Context(), h.ID); !errors.Is(err, container.ErrGone) {
		t.Errorf("pause of a removed process: got %v", err)
	}
	if err := f.Resume(t.Context(), h.ID); !errors.Is(err, container.ErrGone) {
		t.Errorf("resume of a removed process: got %v", err)
	}
}

// A process may wait where no signal reaches it, such as for a child that is to
// become another program and was stopped before it had. Its pause fails in the
// end, and delays nothing else meanwhile.
func TestPauseOfAProcessThatDoesNotStop(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	if _, err := f.run(h.Addr, wish{Fork: true}); err != nil {
		t.Fatal(err)
	}
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
	f.find(h.ID).watched() // as the memory's watcher asks
	cancel()
	if err := <-paused; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := f.Remove(t.Context(), h.ID); err != nil {
		t.Error(err)
	}
}

func TestRemovePaused(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	f.listening(h.Addr)
	if err := f.Pause(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(t.Context(), h.ID); err != nil {
		t.Error(err)
	}
}

// What hangs in the kernel delays nothing else, and is cleaned up when it comes back.
func TestRemoveWhatHangs(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	c := f.find(h.ID)
	c.wg.Add(1) // as if it did not end
	f.endTime = time.Millisecond
	if err := f.Remove(t.Context(), h.ID); err == nil || !strings.Contains(err.Error(), "hangs in the kernel") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(c.dir); err != nil {
		t.Error("freed before its end")
	}
	c.wg.Done()
	for {
		if _, err := os.Stat(c.dir); errors.Is(err, os.ErrNotExist) {
			return
		}
		runtime.Gosched()
	}
}

// The process gets what it is given and nothing of ours.
func TestSurroundings(t *testing.T) {
	t.Setenv("GPUWHISK_TEST_SECRET", "hidden")
	f := start(t, nil)
	h := f.create()
	s := f.mustRun(h.Addr, wish{})
	dir := filepath.Join(f.options.StateDir, string(h.ID))
	_, port, _ := net.SplitHostPort(h.Addr)
	want := []string{
		"CUDA_VISIBLE_DEVICES=-1", "HOME=" + dir + "/home", "LANG=C.UTF-8", "PATH=" + f.options.Path,
		"TMPDIR=" + dir + "/tmp", "__OW_API_HOST=https://example", "__OW_PROXY_HOST=127.0.0.1",
		"GPUWHISK_CONTAINER=" + string(h.ID), "__OW_PROXY_PORT=" + port, actAs + "=proxy",
	}
	slices.Sort(want)
	slices.Sort(s.Environ)
	if !slices.Equal(s.Environ, want) {
		t.Errorf("environment\n got %q\nwant %q", s.Environ, want)
	}
	if s.Dir != dir+"/home" || s.Files != noFile {
		t.Errorf("directory %s, files %d", s.Dir, s.Files)
	}
}

// What a device sets overrides all else, and nothing else steers the driver.
func TestEnvironmentOfGPU(t *testing.T) {
	f := start(t, nil)
	spec := f.spec()
	spec.Env = append(spec.Env, "LD_PRELOAD=/lib/other.so", "NVIDIA_VISIBLE_DEVICES=all", "CUDA_MODULE_LOADING=LAZY", "GPUWHISK_SHIM=off", "A=1")
	spec.GPU = &container.GPU{Device: "GPU-8f6", Env: []string{"CUDA_VISIBLE_DEVICES=0", "LD_LIBRARY_PATH=/fake"}}
	h, err := f.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range f.mustRun(h.Addr, wish{}).Environ {
		if strings.HasPrefix(v, markerVar+"=") || strings.HasPrefix(v, "GPUWHISK_TEST_") {
			continue // the engine's own, and the test's
		}
		if steering(v) || v == "A=1" {
			got = append(got, v)
		}
	}
	slices.Sort(got)
	if want := []string{"A=1", "CUDA_VISIBLE_DEVICES=0", "LD_LIBRARY_PATH=/fake"}; !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
	if err := f.Remove(t.Context(), h.ID); err != nil {
		t.Error(err)
	}
}

func TestVisibleDevice(t *testing.T) {
	for _, c := range []struct {
		gpu  *container.GPU
		want string
	}{
		{nil, "-1"},
		{&container.GPU{Device: "0", Simulated: true}, "-1"},
		{&container.GPU{Device: "1"}, "1"},
		{&container.GPU{Device: "GPU-8f6"}, "GPU-8f6"},
		{&container.GPU{Device: "nvidia.com/gpu=3"}, "3"},
	} {
		if got := visible(c.gpu); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.gpu, got, c.want)
		}
	}
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
		if !errors.As(err, &failed) || failed.Blame != want.blame || failed.Message != want.message {
			t.Errorf("%s: got %v, want %v", kind, err, want)
		}
	}
	if left := f.left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestOutOfMemory(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	if _, err := f.run(h.Addr, wish{Allocate: 600}); err == nil {
		t.Fatal("600 MiB fit into 256")
	}
	if !f.OOMKilled(t.Context(), h.ID) {
		t.Error("the kill for memory is not reported")
	}
	if id := f.awaitDeath(); id != h.ID {
		t.Errorf("died: %s, want %s", id, h.ID)
	}
}

func TestExit(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	if _, err := f.run(h.Addr, wish{Stdout: "last words", Exit: true}); err == nil {
		t.Fatal("an answer from the dead")
	}
	if id := f.awaitDeath(); id != h.ID {
		t.Errorf("died: %s, want %s", id, h.ID)
	}
	if f.OOMKilled(t.Context(), h.ID) {
		t.Error("an exit was taken for a kill")
	}
	got := f.Logs(t.Context(), h.ID, failedRequest())
	if len(got.Lines) != 2 || !strings.HasSuffix(got.Lines[0], " stdout: last words") {
		t.Errorf("got %q", got.Lines)
	}
	if err := f.Pause(t.Context(), h.ID); !errors.Is(err, container.ErrGone) {
		t.Errorf("pause of a dead process: got %v", err)
	}
}

// A process ends with everything it has started, even what has left its group
// and its parent.
func TestRemoveEndsDescendants(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	f.mustRun(h.Addr, wish{Sleepers: 3, Orphan: true})
	f.awaitProcesses(5) // the proxy, 3 children and an orphan
	if err := f.Remove(t.Context(), h.ID); err != nil {
		t.Error(err)
	}
	if pids := f.processes(); len(pids) > 0 {
		t.Errorf("left: %v", pids)
	}
}

func TestForkBomb(t *testing.T) {
	f := start(t, func(o *Options) { o.PidsLimit = 8 })
	h := f.create()
	_, _ = f.run(h.Addr, wish{Sleepers: 40})
	if id := f.awaitDeath(); id != h.ID {
		t.Errorf("died: %s, want %s", id, h.ID)
	}
}

func TestCloseRefusesLaterWork(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Create(t.Context(), f.spec()); err == nil {
		t.Error("a closed engine creates")
	}
	if _, open := <-f.Died(); open {
		t.Error("the end of the engine is reported as a death")
	}
	if err := f.Remove(context.Background(), h.ID); err != nil {
		t.Error(err)
	}
}

// What a process has printed is in its log, and its death is reported, although
// something that it started still has its output open.
func TestOutputThatStaysOpen(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	if _, err := f.run(h.Addr, wish{Stdout: "last words", Keeper: true, Exit: true}); err == nil {
		t.Error("a process that ended has answered")
	}
	if id := f.awaitDeath(); id != h.ID {
		t.Errorf("%s died, want %s", id, h.ID)
	}
	got := f.Logs(t.Context(), h.ID, container.LogRequest{LimitBytes: 1 << 20, Failed: true})
	if len(got.Lines) == 0 || !strings.HasSuffix(got.Lines[0], "stdout: last words") {
		t.Errorf("log %q", got.Lines)
	}
	if err := f.Remove(t.Context(), h.ID); err != nil {
		t.Error(err)
	}
}
