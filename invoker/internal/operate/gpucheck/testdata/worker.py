"""A worker as those on frameworks are, on the driver alone, so that the check's
way with them runs on the fake driver."""

import ctypes
import sys

sys.path.insert(0, sys.argv[1])
import lines  # noqa: E402

pipe = lines.own_stdout()
print("what a library prints is no answer")
cuda = ctypes.CDLL("libcuda.so.1")


def ok(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        raise lines.Refused("%s: %d" % (name, code))


class Driver(lines.Worker):
    def __init__(self):
        super().__init__()
        ok("cuInit", 0)
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        ok("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        ok("cuCtxSetCurrent", context)
        ok("cuModuleLoadData", ctypes.byref(module), b"known by their names")
        self.kernels = {}
        for name in (b"pattern", b"pass", b"compare"):
            self.kernels[name] = ctypes.c_void_p()
            ok("cuModuleGetFunction", ctypes.byref(self.kernels[name]), module, name)
        self.out = self.allocate(8)
        self.recorded = set()

    def allocate(self, size):
        at = ctypes.c_uint64()
        ok("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        return at

    def memory(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        ok("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def sync(self):
        ok("cuCtxSynchronize")

    def make(self, size):
        return lines.Block(self.allocate(size), size // 4)

    def launch(self, name, b, *args):
        values = [b.array, ctypes.c_uint64(b.words)] + list(args)
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        ok("cuLaunchKernel", self.kernels[name], 1, 1, 1, 1, 1, 1, 0, None, pointers, None)

    def fill(self, b):
        self.launch(b"pattern", b, ctypes.c_uint32(b.m), ctypes.c_uint32(b.b))

    def a_pass(self, b):
        self.launch(b"pass", b, ctypes.c_uint32(lines.A), ctypes.c_uint32(lines.C))

    def compare(self, b):
        ok("cuMemsetD8_v2", self.out, ctypes.c_ubyte(0), ctypes.c_size_t(8))
        self.launch(b"compare", b, ctypes.c_uint32(b.m), ctypes.c_uint32(b.b), self.out)
        wrong = ctypes.c_uint64()
        ok("cuMemcpyDtoH_v2", ctypes.byref(wrong), self.out, ctypes.c_size_t(8))
        return wrong.value

    def record(self, b):
        self.recorded.add(id(b))

    def replay(self, b):
        if id(b) not in self.recorded:
            raise lines.Refused("no graph of this block")
        self.a_pass(b)

    def order_fft(self, size, times):
        return self.busy(times)

    def order_gemm(self, rows, times):
        return self.busy(times)

    def order_loop(self, launches):
        return self.busy(launches)

    def busy(self, times):
        if self.block is None:
            self.order_alloc(4096)
            self.order_fill(1)
        return self.order_work(times)


lines.serve(pipe, Driver(), "a stand-in for a framework")
