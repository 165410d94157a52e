"""A function on the GPU by the driver's own interface: nothing is needed but
Python and libcuda. It keeps a block of device memory between invocations, as a
model would be kept, and reports whether it was unchanged.

    wsk action create gpufunc gpufunc.py --kind python:3 -a gpu true
    wsk action invoke gpufunc -r -p bytes 67108864
"""

import ctypes
import time

# Two kernels: fill n bytes with a value; add n bytes to a 64-bit sum.
PTX = b"""
.version 6.0
.target sm_70
.address_size 64

.visible .entry fill(.param .u64 ptr, .param .u64 n, .param .u32 value)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [ptr];
    ld.param.u64 %rd2, [n];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mov.u32 %r5, %nctaid.x;
    mul.wide.u32 %rd3, %r2, %r3;
    cvt.u64.u32 %rd4, %r4;
    add.u64 %rd3, %rd3, %rd4;
    mul.wide.u32 %rd5, %r5, %r3;
loop:
    setp.ge.u64 %p1, %rd3, %rd2;
    @%p1 bra done;
    add.u64 %rd6, %rd1, %rd3;
    st.global.u8 [%rd6], %r1;
    add.u64 %rd3, %rd3, %rd5;
    bra loop;
done:
    ret;
}

.visible .entry sum(.param .u64 ptr, .param .u64 n, .param .u64 out)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [ptr];
    ld.param.u64 %rd2, [n];
    ld.param.u64 %rd7, [out];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd7, %rd7;
    mov.u64 %rd8, 0;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mov.u32 %r5, %nctaid.x;
    mul.wide.u32 %rd3, %r2, %r3;
    cvt.u64.u32 %rd4, %r4;
    add.u64 %rd3, %rd3, %rd4;
    mul.wide.u32 %rd5, %r5, %r3;
loop2:
    setp.ge.u64 %p1, %rd3, %rd2;
    @%p1 bra done2;
    add.u64 %rd6, %rd1, %rd3;
    ld.global.u8 %rd9, [%rd6];
    add.u64 %rd8, %rd8, %rd9;
    add.u64 %rd3, %rd3, %rd5;
    bra loop2;
done2:
    red.global.add.u64 [%rd7], %rd8;
    ret;
}
"""


class Refused(Exception):
    """The driver's answer to a call, other than success."""


class Device:
    """The driver, a context on its first device, and the two kernels."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.context = context
        self.enter()
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), PTX)
        self.kernels = {}
        for name in ("fill", "sum"):
            function = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            self.kernels[name] = function
        self.out = self.allocate(8)

    def call(self, name, *args):
        code = getattr(self.cuda, name)(*args)
        if code != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(code, ctypes.byref(text))
            raise Refused("%s: %s" % (name, (text.value or b"%d" % code).decode()))

    def enter(self):
        # Each run may come on another thread of the action's proxy.
        self.call("cuCtxSetCurrent", self.context)

    def name(self):
        text = ctypes.create_string_buffer(96)
        self.call("cuDeviceGetName", text, 96, 0)
        return text.value.decode()

    def allocate(self, size):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def free(self, pointer):
        self.call("cuMemFree_v2", pointer)

    def launch(self, name, *args):
        pointers = (ctypes.c_void_p * len(args))(*[ctypes.addressof(a) for a in args])
        self.call("cuLaunchKernel", self.kernels[name], 256, 1, 1, 256, 1, 1, 0,
                  None, pointers, None)

    def fill(self, pointer, size, value):
        self.launch("fill", pointer, ctypes.c_uint64(size), ctypes.c_uint32(value))
        self.call("cuCtxSynchronize")

    def sum(self, pointer, size):
        self.call("cuMemsetD8_v2", self.out, ctypes.c_ubyte(0), ctypes.c_size_t(8))
        self.launch("sum", pointer, ctypes.c_uint64(size), self.out)
        total = ctypes.c_uint64()
        self.call("cuMemcpyDtoH_v2", ctypes.byref(total), self.out, ctypes.c_size_t(8))
        return total.value


class Kept:
    """What stays from one invocation to the next."""

    device = None
    block = None
    size = 0
    runs = 0


def main(args):
    size = int(args.get("bytes", 64 << 20))
    if size <= 0:
        return {"error": "bytes: must be positive"}
    cold = Kept.device is None
    began = time.monotonic()
    if cold:
        Kept.device = Device()
    device = Kept.device
    device.enter()
    if size != Kept.size:
        if Kept.block is not None:
            device.free(Kept.block)
        Kept.block, Kept.size, Kept.runs = device.allocate(size), size, 0
    # The block that the previous run left, wherever it was in between.
    intact = Kept.runs == 0 or device.sum(Kept.block, size) == size * (Kept.runs % 251)
    Kept.runs += 1
    device.fill(Kept.block, size, Kept.runs % 251)
    total = device.sum(Kept.block, size)
    return {
        "device": device.name(),
        "cold": cold,
        "bytes": size,
        "runs": Kept.runs,
        "intact": intact,
        "correct": total == size * (Kept.runs % 251),
        "ms": round((time.monotonic() - began) * 1000, 3),
    }
