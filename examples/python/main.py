"""A function on the GPU.

    wsk action create NAME main.py --kind python:3-gpu -a gpu true -a invoker-resources '["gpu"]'
    wsk action invoke NAME -r -p numbers '[3, 4]'

Objects that are made outside of main stay between runs: load a model here, once for
each container. While the function is idle, GPU Whisk may move its device memory to
the host, and brings it back before the next run. Without a GPU it runs on the CPU.
"""

import math

try:
    import cupy
    # The memory of this pool, from cudaMalloc, moves. Memory of MemoryAsyncPool does not.
    cupy.cuda.set_allocator(cupy.cuda.MemoryPool().malloc)
    cupy.zeros(1)  # the first use of the driver
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
except Exception as error:  # no CuPy, no driver, no device
    print("on the CPU:", error)
    cupy, device = None, "cpu"


def norm(numbers):
    if cupy is None:
        return math.sqrt(sum(x * x for x in numbers))
    return float(cupy.linalg.norm(cupy.asarray(numbers, dtype="f8")))


def main(args):
    numbers = args.get("numbers", [3, 4])
    if not isinstance(numbers, list) or not all(isinstance(x, (int, float)) for x in numbers):
        return {"error": "numbers: want a list of numbers"}
    return {"device": device, "norm": norm(numbers)}
