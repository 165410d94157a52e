"""The worker on JAX, without graphs and workloads. XLA_PYTHON_CLIENT_PREALLOCATE
must be false: its arena would be most of the card."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import ctypes  # noqa: E402

import lines  # noqa: E402

pipe = lines.own_stdout()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


@jax.jit
def expected(i, m, b):
    return i * m + b


@jax.jit
def one_pass(x):
    return x * jnp.uint32(lines.A) + jnp.uint32(lines.C)


@jax.jit
def wrong(x, y):
    return jnp.sum(x != y, dtype=jnp.uint32)


class Jax(lines.Worker):
    def memory(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        cuda.cuCtxPushCurrent_v2(context)
        code = cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
        cuda.cuDevicePrimaryCtxRelease_v2(0)
        if code:
            raise lines.Refused("cuMemGetInfo_v2: %d" % code)
        return free.value, total.value

    def sync(self):
        if self.block is not None and self.block.array is not None:
            self.block.array.block_until_ready()

    def make(self, size):
        return lines.Block(None, size // 4)  # arrays here come to be with their contents

    def words_of(self, b):
        i = jnp.arange(b.words, dtype=jnp.uint32)
        return expected(i, jnp.uint32(b.m), jnp.uint32(b.b))

    def fill(self, b):
        b.array = self.words_of(b)

    def compare(self, b):
        return int(wrong(b.array, self.words_of(b)))

    def a_pass(self, b):
        b.array = one_pass(b.array)


jax.devices("gpu")
lines.serve(pipe, Jax(), "JAX " + jax.__version__)
