package demo

import (
	"encoding/base64"
	"fmt"
	"os"
	"time"
)

// memoryScale divides the paper's memory where functions really fill it: a
// laptop's own memory stands for the device's, and for what is swapped out.
const memoryScale = 200

// calls begins functions that use the CUDA driver by ctypes: a call to it, and a
// launch of one of kernels by name. It is part of a format.
const calls = `import ctypes, time

cuda = ctypes.CDLL("libcuda.so.1")

def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        raise RuntimeError("%%s answered %%d" %% (name, code))

def launch(kernel, *args):
    pointers = (ctypes.c_void_p * len(args))(*[ctypes.addressof(a) for a in args])
    call("cuLaunchKernel", kernels[kernel], 1, 1, 1, 1, 1, 1, 0, None, pointers, None)

`

// onDriver is a GPU function of Python's standard library and the CUDA driver
// alone: it fills its memory when it is loaded, and at each run has the device
// reach all of it and be busy for the warm time, and looks whether what it
// filled it with is still there. The driver is the fake one, which knows these
// kernels by their names.
const onDriver = calls + `size, warm = ctypes.c_uint64(%d), ctypes.c_uint64(%d)
context, module, block, kernels = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(), {}
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), b"")
for name in ("touch", "spin"):
    kernels[name] = ctypes.c_void_p()
    call("cuModuleGetFunction", ctypes.byref(kernels[name]), module, name.encode())
call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(size.value))
call("cuMemsetD8_v2", block, ctypes.c_ubyte(7), ctypes.c_size_t(size.value))
time.sleep(%g)  # loading

def main(args):
    call("cuCtxSetCurrent", context)  # a run may come on another thread
    launch("touch", block, size)
    launch("spin", warm)
    call("cuCtxSynchronize")
    last = ctypes.c_ubyte()
    call("cuMemcpyDtoH_v2", ctypes.byref(last), ctypes.c_uint64(block.value + size.value - 1), ctypes.c_size_t(1))
    if last.value != 7:
        return {"error": "device memory was lost"}
    return {"function": "%s"}
`

// onDriver is the function of t for the fake driver.
func (t timed) onDriver() Function {
	warm := time.Duration(t.warm) * time.Millisecond / scale
	load := time.Duration(t.cold-t.warm) * time.Millisecond / scale
	bytes := (t.memory << 20) / memoryScale
	return Function{
		Name: t.name, Kind: gpuKind, Rate: t.rate,
		Code: fmt.Sprintf(onDriver, bytes, warm.Nanoseconds(), load.Seconds(), t.name),
		GPU:  map[string]any{"memory": fmt.Sprintf("%d KB", bytes>>10)},
	}
}

// asProgram is the function of t as an executable, which is started for each
// run and keeps nothing on the device, as ffmpeg does.
func (t timed) asProgram(path string) (Function, error) {
	program, err := os.ReadFile(path)
	if err != nil {
		return Function{}, fmt.Errorf("read program of %s: %w", t.name, err)
	}
	f := t.onDriver()
	f.Kind, f.Code = nativeKind, base64.StdEncoding.EncodeToString(program)
	f.Parameters = map[string]any{"bytes": (t.memory << 20) / memoryScale, "ms": t.warm / scale}
	return f, nil
}
