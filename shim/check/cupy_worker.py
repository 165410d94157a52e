"""The worker on CuPy. GPUWHISK_CHECK_POOL=async takes its stream-ordered
pool."""

import os

import lines

pipe = lines.own_stdout()

import cupy  # noqa: E402


class CuPy(lines.Worker):
    def __init__(self):
        super().__init__()
        self.graphs = {}
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def memory(self):
        return cupy.cuda.runtime.memGetInfo()

    def sync(self):
        cupy.cuda.runtime.deviceSynchronize()

    def make(self, size):
        words = size // 4
        return lines.Block(cupy.empty(words, dtype=cupy.uint32), words)

    def expected(self, b, start, end):
        i = cupy.arange(start, end, dtype=cupy.uint32)
        i *= cupy.uint32(b.m)
        i += cupy.uint32(b.b)
        return i

    def a_pass(self, b):
        cupy.multiply(b.array, cupy.uint32(lines.A), out=b.array)
        cupy.add(b.array, cupy.uint32(lines.C), out=b.array)

    def record(self, b):
        with self.stream:
            self.a_pass(b)  # the kernels must be compiled before
            b.passed()
            self.stream.synchronize()
            self.stream.begin_capture()
            self.a_pass(b)
            self.graphs[id(b)] = self.stream.end_capture()

    def replay(self, b):
        self.graphs[id(b)].launch(self.stream)

    def order_fft(self, size, times):
        x = self.kept(("fft", size), lambda: cupy.ones(size // 8, dtype=cupy.complex64))
        for _ in range(times):
            y = cupy.fft.fft(x)
        del y
        return {}

    def order_gemm(self, rows, times):
        def make():
            return [cupy.ones((rows, rows), dtype=cupy.float32) for _ in range(3)]

        a, b, c = self.kept(("gemm", rows), make)
        for _ in range(times):
            cupy.matmul(a, b, out=c)
        return {}

    def order_loop(self, launches):
        x = self.kept("loop", lambda: cupy.zeros(1024, dtype=cupy.float32))
        for _ in range(launches):
            cupy.add(x, cupy.float32(1), out=x)
        return {}


if os.environ.get("GPUWHISK_CHECK_POOL") == "async":
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
lines.serve(pipe, CuPy(), "CuPy %s, CUDA %d" % (cupy.__version__, cupy.cuda.runtime.runtimeGetVersion()))
