"""Python's way to the driver and to the management library (ctypes), with an invoker written apart from the C
one: it holds the protocol as src/agent/frame.h describes it."""

import ctypes
import os
import socket
import struct

HELLO, LIMIT, PREFETCH, EVICT, REPORT, GATE, PING = range(1, 8)
ACCEPTED, DONE, USAGE, PONG = range(16, 20)
MIB = 1 << 20


def frame(kind, epoch=0, payload=b""):
    return struct.pack("<IHHQ", 16 + len(payload), kind, 0, epoch) + payload


def read(conn, n):
    data = b""
    while len(data) < n:
        part = conn.recv(n - len(data))
        assert part, "the shim hung up"
        data += part
    return data


def receive(conn, wanted):
    while True:
        length, kind, flags, epoch = struct.unpack("<IHHQ", read(conn, 16))
        payload = read(conn, length - 16)
        if kind == wanted:
            return epoch, payload


def move(conn, kind, epoch):
    conn.sendall(frame(kind, epoch, struct.pack("<QQ", 0, 0)))
    answered, payload = receive(conn, DONE)
    assert answered == epoch
    command, status, code, _, moved, ns, resident = struct.unpack("<IiiIQQQ", payload)
    assert (command, status, code) == (kind, 0, 0), (command, status, code)
    return moved


def main():
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(os.environ["GPUWHISK_SHIM_SOCKET"])
    listener.listen(1)
    listener.settimeout(120)
    cuda = ctypes.CDLL("libcuda.so.1")

    def ok(result):
        assert result == 0, result

    ok(cuda.cuInit(0))
    context = ctypes.c_void_p()
    ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    ok(cuda.cuCtxSetCurrent(context))
    conn, _ = listener.accept()
    conn.settimeout(120)
    _, payload = receive(conn, HELLO)
    version, pid, backend, hooks = struct.unpack("<IIII", payload)
    assert version == 2 and pid == os.getpid() and backend == 0 and hooks > 40
    conn.sendall(frame(HELLO, 0, struct.pack("<IIQ", 2, 0, MIB)))

    pointer = ctypes.c_uint64()
    ok(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4 * MIB)))
    content = os.urandom(4 * MIB)
    ok(cuda.cuMemcpyHtoD_v2(pointer, content, ctypes.c_size_t(len(content))))
    assert move(conn, EVICT, 1) == 4 * MIB
    assert move(conn, PREFETCH, 2) == 4 * MIB
    back = ctypes.create_string_buffer(len(content))
    ok(cuda.cuMemcpyDtoH_v2(back, pointer, ctypes.c_size_t(len(content))))
    assert back.raw == content

    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    device, memory = ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
    ok(nvml.nvmlInit_v2())
    ok(nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)))
    conn.sendall(frame(LIMIT, 0, struct.pack("<QQ", 16 * MIB, 0)) + frame(REPORT, 3))
    while receive(conn, USAGE)[0] != 3:
        pass
    ok(nvml.nvmlDeviceGetMemoryInfo(device, memory))
    assert list(memory) == [16 * MIB, 12 * MIB, 4 * MIB], list(memory)


if __name__ == "__main__":
    main()
