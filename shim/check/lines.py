"""The common part of the workers in Python. As in worker.c, each order is a line and
each answer is a line of JSON, and a worker holds one block. Contents are words of 32 bits, i * m + b for the index
i, so every word can be checked after any number of passes."""

import json
import os
import sys
import time

M, A, C = 2654435761, 1664525, 1013904223  # as in device.c
SLICE = 1 << 24  # words that a comparison holds at a time
MARGIN = 256 << 20  # bytes left free


class Refused(Exception):
    """An order that cannot be carried out."""


def signed(v):
    """The same 32 bits as a signed number."""
    v &= 0xFFFFFFFF
    return v - (1 << 32) if v >> 31 else v


class Block:
    """Words on the device, with their expected values."""

    def __init__(self, array, words):
        self.array, self.words, self.m, self.b = array, words, 0, 0

    def seeded(self, seed):
        self.m, self.b = M, seed

    def passed(self):
        self.m = self.m * A & 0xFFFFFFFF
        self.b = self.b * A + C & 0xFFFFFFFF

    def slices(self):
        for start in range(0, self.words, SLICE):
            yield start, min(start + SLICE, self.words)


def fits(size, free):
    if size + MARGIN > free:
        raise Refused("not enough free device memory: %d bytes wanted, %d free" % (size, free))


def own_stdout():
    """Keep the pipe for answers. Output of libraries goes to standard error."""
    pipe = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return pipe


class Worker:
    """Carries out orders. A framework's worker gives memory(), make(bytes),
    expected(block, start, end) or fill(block) and compare(block), a_pass(block),
    sync() and its workloads."""

    def __init__(self):
        self.block, self.data = None, {}

    def kept(self, name, make):
        """Return the data of a workload, which is made once."""
        if name not in self.data:
            self.data[name] = make()
        return self.data[name]

    def fill(self, b):
        for start, end in b.slices():
            b.array[start:end] = self.expected(b, start, end)

    def compare(self, b):
        return sum(int((b.array[s:e] != self.expected(b, s, e)).sum()) for s, e in b.slices())

    def order_alloc(self, size):
        fits(size, self.memory()[0])
        self.block = self.make(size)
        self.sync()
        return {}

    def order_fill(self, seed):
        self.block.seeded(seed)
        self.fill(self.block)
        return {}

    def order_work(self, passes):
        for _ in range(passes):
            self.a_pass(self.block)
            self.block.passed()
        return {}

    def order_libraries(self):
        """Load the framework's libraries that functions use."""
        return {}

    def order_version(self):
        return {"note": self.version}

    def order_check(self):
        return {"mismatches": int(self.compare(self.block))}

    def order_graph(self):
        """Record a pass as a graph."""
        self.record(self.block)
        return {}

    def order_replay(self, times):
        for _ in range(times):
            self.replay(self.block)
            self.block.passed()
        return {}

    def order_pin(self):
        """Pin all threads to the last core that they may use, as worker.c does."""
        core = max(os.sched_getaffinity(0))
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), {core})
        return {}

    def order_scale(self, want, verb, *numbers):
        """Find out how often an order fits into the time. Its last number is left out."""
        self.execute(verb, [*numbers, 1])  # loads the kernels
        n, took = 1, 0
        while (took := self.execute(verb, [*numbers, n])["ns"]) < want / 4 and n < 1 << 20:
            n *= 4
        return {"times": max(1, n * want // took)}

    def execute(self, verb, numbers):
        call = getattr(self, "order_" + verb, None)
        if call is None:
            raise Refused("unknown: " + verb)
        began = time.monotonic_ns()
        answer = call(*numbers)
        self.sync()
        answer["ns"] = time.monotonic_ns() - began
        return answer


def serve(pipe, worker, version=""):
    """Carry out orders until there are none. The first line has no numbers."""
    def reply(answer):
        pipe.write(json.dumps(answer) + "\n")
        pipe.flush()

    worker.memory()  # with this the shim connects, if nothing was asked of the driver before
    worker.version = version
    reply({})
    for line in sys.stdin:
        words = line.split()
        if not words:
            continue
        try:
            reply(worker.execute(words[0], [int(w) if w.isdigit() else w for w in words[1:]]))
        except Exception as e:  # whatever a framework raises is the answer
            reply({"error": "%s: %s" % (type(e).__name__, str(e)[:400])})
