"""Says whether a text is friendly, with a model that stays on the GPU.

The model is very small: for each word it has a few bytes that say how friendly the
word is, and as many that say how unfriendly. Loading puts the model into device
memory, where it stays from run to run. In a run a kernel adds up the bytes of the
words. The function needs only Python and the CUDA driver, so it also runs on the
fake driver, on a machine without a GPU.

    wsk action create infer infer.py --kind python:3 -a gpu true -a invoker-resources '["gpu"]'
    wsk action invoke infer -r -p text "what a lovely warm day"
"""

import ctypes
import zlib

ROWS, WIDTH = 1 << 16, 16  # of the model; a word's row is its checksum
LONGEST = 256  # words of a text that are looked at
CLASSES = ("friendly", "unfriendly")
KNOWN = (
    {"good": 9, "lovely": 9, "thanks": 8, "warm": 6, "fair": 5, "nice": 7},
    {"bad": 9, "awful": 9, "cold": 5, "slow": 6, "lost": 7, "unfair": 8},
)

# Adds n bytes to a 64-bit sum.
SUM = b"""
.version 6.0
.target sm_70
.address_size 64

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
loop:
    setp.ge.u64 %p1, %rd3, %rd2;
    @%p1 bra done;
    add.u64 %rd6, %rd1, %rd3;
    ld.global.u8 %rd9, [%rd6];
    add.u64 %rd8, %rd8, %rd9;
    add.u64 %rd3, %rd3, %rd5;
    bra loop;
done:
    red.global.add.u64 [%rd7], %rd8;
    ret;
}
"""


def row(word):
    return zlib.crc32(word.encode()) % ROWS


class Model:
    """The words' weights in device memory, and the kernel that adds them."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.context, module, self.kernel = (ctypes.c_void_p() for _ in range(3))
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuModuleLoadData", ctypes.byref(module), SUM)
        self.call("cuModuleGetFunction", ctypes.byref(self.kernel), module, b"sum")
        self.weights = [self.load(known) for known in KNOWN]
        self.sums = self.allocate(8 * LONGEST)

    def call(self, name, *args):
        code = getattr(self.cuda, name)(*args)
        if code != 0:
            raise RuntimeError("%s: the driver answered %d" % (name, code))

    def allocate(self, size):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def load(self, known):
        host = bytearray(ROWS * WIDTH)
        for word, weight in known.items():
            host[row(word) * WIDTH:(row(word) + 1) * WIDTH] = bytes([weight] * WIDTH)
        device = self.allocate(len(host))
        self.call("cuMemcpyHtoD_v2", device, bytes(host), ctypes.c_size_t(len(host)))
        return device

    def score(self, weights, words):
        self.call("cuMemsetD8_v2", self.sums, ctypes.c_ubyte(0), ctypes.c_size_t(8 * LONGEST))
        for i, word in enumerate(words):
            args = (ctypes.c_uint64(weights.value + row(word) * WIDTH), ctypes.c_uint64(WIDTH),
                    ctypes.c_uint64(self.sums.value + 8 * i))
            pointers = (ctypes.c_void_p * 3)(*[ctypes.addressof(a) for a in args])
            self.call("cuLaunchKernel", self.kernel, 1, 1, 1, WIDTH, 1, 1, 0, None, pointers, None)
        sums = (ctypes.c_uint64 * LONGEST)()
        self.call("cuMemcpyDtoH_v2", sums, self.sums, ctypes.c_size_t(8 * LONGEST))
        return sum(sums) // WIDTH

    def device(self):
        text = ctypes.create_string_buffer(96)
        self.call("cuDeviceGetName", text, 96, 0)
        return text.value.decode()


model = Model()  # once for each container: the cold part of its first run


def main(args):
    model.call("cuCtxSetCurrent", model.context)  # a run may come on another thread
    words = str(args.get("text", "")).lower().split()[:LONGEST]
    scores = {name: model.score(w, words) for name, w in zip(CLASSES, model.weights)}
    best = max(CLASSES, key=lambda name: scores[name])
    return {"device": model.device(), "label": best if any(scores.values()) else "unknown", "scores": scores}
