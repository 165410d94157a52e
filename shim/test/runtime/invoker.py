"""A program with NVIDIA's CUDA runtime in it, under the shim and the fake driver:
invoker.py LIMIT COMMAND... Its memory goes out and comes back while it waits."""

import os
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from route import EVICT, HELLO, PREFETCH, frame, receive, move

SIZE = 4 << 20


def main():
    path = os.environ["GPUWHISK_SHIM_SOCKET"]
    if os.path.exists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(1)
    listener.settimeout(120)
    limit, command = sys.argv[1], sys.argv[2:] + [sys.argv[1]]
    preload = {**os.environ, "LD_PRELOAD": os.environ["SHIM"], "GPUWHISK_SHIM_LIMIT": limit}
    child = subprocess.Popen(command, env=preload, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n", "see above"
    conn, _ = listener.accept()
    conn.settimeout(120)
    receive(conn, HELLO)
    conn.sendall(frame(HELLO, 0, struct.pack("<IIQ", 2, 0, int(limit))))
    assert move(conn, EVICT, 1) == SIZE, "out"
    assert move(conn, PREFETCH, 2) == SIZE, "in"
    assert move(conn, EVICT, 3) == SIZE, "out again"
    child.stdin.write("\n")
    child.stdin.close()
    version = int(child.stdout.readline() or 0)
    assert child.wait() == 0 and version, "see above"
    print(f"CUDA runtime {version // 1000}.{version % 1000 // 10} works")


main()
