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

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// Tried is the shim's report on a program that used CUDA: the bytes that it counted,
// moved off the device, and moved back.
type Tried struct{ Seen, Out, Back int64 }

// errNothingToTry means that there is no program or no driver for a trial of the shim.
var errNothingToTry = errors.New("not tried")

// tryBytes is the size of the program's allocation.
const tryBytes = 4 << 20

// tryProgram uses the public interface of the driver, as the program of an action does.
// It continues at the end of its input.
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

// tryHooks runs a program under the shim and moves its memory. driver is the directory
// of a libcuda.so.1, empty for the host's. timeout is how long the shim may take to
// report the allocation.
func tryHooks(ctx context.Context, timeout time.Duration, library, driver string) (t Tried, err error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return t, fmt.Errorf("%w: no python3 here", errNothingToTry)
	}
	dir, err := os.MkdirTemp("", "gw") // short, because a socket's path is limited to 107 bytes
	if err != nil {
		return t, fmt.Errorf("make a directory for the shim's socket: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	control, err := shimctl.Open(filepath.Join(dir, "s"), shimctl.Settings{MaxResident: 1 << 40, Threshold: 1}, nil, silent())
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, control.Close()) }()
	container, err := control.Container("doctor")
	if err != nil {
		return t, err
	}
	cmd := exec.CommandContext(ctx, python, "-c", tryProgram, fmt.Sprint(tryBytes))
	cmd.Env = append(cmd.Environ(), "LD_PRELOAD="+library, "GPUWHISK_SHIM=managed", "GPUWHISK_SHIM_SOCKET="+container.Socket())
	if driver != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+driver)
	}
	var output capped
	cmd.Stderr, cmd.WaitDelay = &output, time.Second
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	err = errors.Join(inErr, outErr)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return t, fmt.Errorf("start python3: %w", err)
	}
	if bufio.NewScanner(out).Scan() { // the program is ready, or has ended with its context
		t, err = moveMemory(ctx, timeout, container)
	}
	_ = in.Close() // the program continues, if it still can
	_, _ = io.Copy(io.Discard, out)
	ended, printed := cmd.Wait(), strings.TrimSpace(string(output))
	switch {
	case err == nil && strings.Contains(printed, "libcuda.so.1: cannot open"):
		return t, fmt.Errorf("%w: no CUDA driver here", errNothingToTry)
	case err == nil && ended != nil:
		return t, fmt.Errorf("%w: %s", ended, printed[strings.LastIndexByte(printed, '\n')+1:])
	}
	return t, err
}

// moveMemory waits for the shim to report the allocation, and moves the memory.
func moveMemory(ctx context.Context, timeout time.Duration, container *shimctl.Container) (t Tried, err error) {
	late := time.After(timeout)
	for t.Seen < tryBytes {
		select {
		case <-ctx.Done():
			return t, ctx.Err()
		case <-late:
			return t, errors.New("the shim does not report its memory")
		case <-time.After(5 * time.Millisecond): // the shim connects on its own thread
		}
		processes, _ := container.Report(ctx) // a missing report is requested again
		for _, u := range processes {
			t.Seen = max(t.Seen, u.Allocated)
		}
	}
	out, err := container.Evict(ctx, 1)
	if t.Out, err = out.Moved, refused(out, err); err != nil {
		return t, fmt.Errorf("move memory off the device: %w", err)
	}
	back, err := container.Prefetch(ctx, 2, 0)
	if t.Back, err = back.Moved, refused(back, err); err != nil {
		return t, fmt.Errorf("move memory back to the device: %w", err)
	}
	return t, nil
}

func refused(d shimctl.Done, err error) error {
	if err == nil && d.Status != shimctl.OK {
		return fmt.Errorf("%v, the driver answers %d", d.Status, d.Code)
	}
	return err
}
