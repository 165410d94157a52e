"""Libraries that use the driver's own interface, under the shim and the fake
driver: frameworks.py bindings|numba. The shim's disguise holds for them, and
what they keep comes back as it was. Without the shim it reports that and fails.
"""

import sys

SIZE, LIMIT = 1 << 20, 1 << 30


def bindings():
    """NVIDIA's own binding (cuda-bindings), which asks cuGetProcAddress."""
    from cuda.bindings import driver

    def ok(result):
        code, *rest = result
        assert int(code) == 0, code
        return rest[0] if len(rest) == 1 else rest

    ok(driver.cuInit(0))
    context = ok(driver.cuDevicePrimaryCtxRetain(ok(driver.cuDeviceGet(0))))
    ok(driver.cuCtxSetCurrent(context))
    block = ok(driver.cuMemAlloc(SIZE))
    ok(driver.cuMemsetD8(block, 7, SIZE))
    # Only managed memory can be sent to the host: the shim made it so.
    ok(driver.cuMemPrefetchAsync(block, SIZE, -1, 0))
    managed = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED
    assert not ok(driver.cuPointerGetAttribute(managed, block)), "not disguised"
    assert ok(driver.cuMemGetInfo()) == [LIMIT - SIZE, LIMIT], "not the limit"
    back = bytearray(SIZE)
    ok(driver.cuMemcpyDtoH(back, block, SIZE))
    assert back == bytes([7]) * SIZE, "other contents"
    ok(driver.cuMemFree(block))


def numba():
    """numba.cuda, which uses ctypes: memory, no kernels (those need libnvvm)."""
    import numpy
    from numba import cuda

    assert len(cuda.gpus) == 1
    there = numpy.arange(SIZE // 4, dtype=numpy.int32)
    array = cuda.to_device(there)
    free, total = cuda.current_context().get_memory_info()
    assert (free, total) == (LIMIT - SIZE, LIMIT), (free, total)
    assert (array.copy_to_host() == there).all(), "other contents"


globals()[sys.argv[1]]()
print(sys.argv[1], "works")
