package demo

import "fmt"

// keeper is a function that keeps a block of device memory between its calls and
// says whether it found it as it had left it, wherever it was in between: the
// device adds up all its bytes and fills it anew. It uses Python's standard
// library and the CUDA driver alone.
const keeper = calls + `def allocate(bytes):
    at = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(bytes))
    return at

size, runs = ctypes.c_uint64(%d), 0
context, module, kernels = ctypes.c_void_p(), ctypes.c_void_p(), {}
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), b"")
for name in ("fill", "sum", "spin"):
    kernels[name] = ctypes.c_void_p()
    call("cuModuleGetFunction", ctypes.byref(kernels[name]), module, name.encode())
block, out = allocate(size.value), allocate(8)

def total():
    call("cuMemsetD8_v2", out, ctypes.c_ubyte(0), ctypes.c_size_t(8))
    launch("sum", block, size, out)
    found = ctypes.c_uint64()
    call("cuMemcpyDtoH_v2", ctypes.byref(found), out, ctypes.c_size_t(8))
    return found.value

def main(args):
    global runs
    call("cuCtxSetCurrent", context)  # a run may come on another thread
    found = total()
    intact = runs == 0 or found == runs %% 251 * size.value
    runs += 1
    launch("fill", block, size, ctypes.c_uint32(runs %% 251))
    launch("spin", ctypes.c_uint64(int(args.get("ms", 0)) * 1000000))
    call("cuCtxSynchronize")
    return {"runs": runs, "intact": intact}
`

// keeping is a function that keeps so many MB on the device.
func keeping(name string, mb int) Function {
	return Function{
		Name: name, Kind: gpuKind, Code: fmt.Sprintf(keeper, mb<<20),
		GPU: map[string]any{"memory": fmt.Sprintf("%d MB", mb+1)},
	}
}
