package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// Tried is what the shim reported of a program that used CUDA, in bytes: how much
// it saw, and how much went off the device and came back.
type Tried struct{ Seen, Out, Back int64 }

// errNothingToTry means that there is no program or no driver to try the shim
// with.
var errNothingToTry = errors.New("not tried")

// tryBytes is what the program allocates.
const tryBytes = 4 << 20

// tryProgram uses the driver as any program of an action does, by its public
// interface, and goes on when its input ends.
const tryProgram = `
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        sys.exit("%s answers %d" % (name, code))
call("cuInit", 0)
context, memory, size = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(int(sys.argv[1]))
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(memory), size)
call("cuMemsetD8_v2", memory, ctypes.c_ubyte(1), size)
call("cuCtxSynchronize")
print("ready", flush=True)
sys.stdin.read()
call("cuMemFree_v2", memory)
`

// hookTime is how long the shim may take to report what its program did.
const hookTime = 5 * time.Second

// tryHooks runs a program under the shim and has its memory moved. driver is
// the directory of another libcuda.so.1 than the host's, empty for that.
func tryHooks(ctx context.Context, library, driver string) (Tried, error) {
	return tryHooksFor(ctx, hookTime, library, driver)
}

func tryHooksFor(ctx context.Context, timeout time.Duration, library, driver string) (t Tried, err error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return t, fmt.Errorf("%w: no python3 here", errNothingToTry)
	}
	dir, err := os.MkdirTemp("", "gw") // short: a socket's path has room for 107 bytes
	if err != nil {
		return t, fmt.Errorf("make a directory for the shim's socket: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	seen := make(usage, 1)
	control, err := shimctl.Open(filepath.Join(dir, "s"), shimctl.Settings{MaxResident: 1 << 40, Threshold: 1}, seen, silent())
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, control.Close()) }()
	ends, err := control.Container("doctor")
	if err != nil {
		return t, err
	}
	cmd := exec.CommandContext(ctx, python, "-c", tryProgram, fmt.Sprint(tryBytes))
	cmd.Env = append(cmd.Environ(), "LD_PRELOAD="+library, "GPUWHISK_SHIM=managed", "GPUWHISK_SHIM_SOCKET="+ends.Socket())
	if driver != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+driver)
	}
	return tryGuest(ctx, timeout, cmd, ends, seen)
}

// tryGuest starts the program, follows it to its end and returns what was seen.
func tryGuest(ctx context.Context, timeout time.Duration, cmd *exec.Cmd, ends *shimctl.Container, seen usage) (t Tried, err error) {
	var output capped
	cmd.Stderr, cmd.WaitDelay = &output, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return t, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return t, err
	}
	if err := cmd.Start(); err != nil {
		return t, fmt.Errorf("start python3: %w", err)
	}
	ready := bufio.NewScanner(out).Scan() // ends with the program or its context
	if ready {
		t, err = moveGuest(ctx, timeout, ends, seen)
	}
	_ = in.Close() // it goes on, if it still can
	_, _ = io.Copy(io.Discard, out)
	if waited := cmd.Wait(); waited != nil && err == nil {
		err = fmt.Errorf("%w: %s", waited, lastLine(string(output)))
	}
	if !ready && strings.Contains(string(output), "libcuda.so.1: cannot open") {
		err = fmt.Errorf("%w: no CUDA driver here", errNothingToTry)
	}
	return t, err
}

// moveGuest waits until the shim reports the allocation, and moves it.
func moveGuest(ctx context.Context, timeout time.Duration, ends *shimctl.Container, seen usage) (t Tried, err error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case t.Seen = <-seen:
	case <-timer.C:
		return t, errors.New("the shim does not tell of its memory")
	case <-ctx.Done():
		return t, context.Cause(ctx)
	}
	out, err := ends.Evict(ctx, 1)
	if err == nil && out.Status != shimctl.OK {
		err = fmt.Errorf("%v, the driver answers %d", out.Status, out.Code)
	}
	if err != nil {
		return t, fmt.Errorf("move memory off the device: %w", err)
	}
	back, err := ends.Prefetch(ctx, 2, 0)
	if err == nil && back.Status != shimctl.OK {
		err = fmt.Errorf("%v, the driver answers %d", back.Status, back.Code)
	}
	if err != nil {
		return t, fmt.Errorf("move memory back to the device: %w", err)
	}
	t.Out, t.Back = out.Moved, back.Moved
	return t, nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// usage receives how much memory the shim sees, once it is all.
type usage chan int64

// Usage takes a process's word.
func (u usage) Usage(_ string, _ int, got gpu.Usage) {
	if got.Allocated >= tryBytes {
		select {
		case u <- got.Allocated:
		default: // it was sent already
		}
	}
}

// Exited is of no interest: the program's own end is waited for.
func (usage) Exited(string, int) {}

// Refused is of no interest: the driver itself is tried.
func (usage) Refused(string, int, shimctl.Refusal) {}

// Silent is of no interest: every order is bounded in time.
func (usage) Silent(string, int, bool) {}
