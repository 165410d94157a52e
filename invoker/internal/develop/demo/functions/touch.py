
# Fills its memory when it is loaded. Each run has the device reach all of it
# and be busy for the warm time, and checks that the contents are still there.
size, warm = ctypes.c_uint64(SIZE), ctypes.c_uint64(int(WARM * 1e9))
block = allocate(SIZE)
call("cuMemsetD8_v2", block, ctypes.c_ubyte(7), ctypes.c_size_t(SIZE))
time.sleep(LOAD)

def main(args):
    attach()
    launch("touch", block, size)
    launch("spin", warm)
    call("cuCtxSynchronize")
    last = ctypes.c_ubyte()
    call("cuMemcpyDtoH_v2", ctypes.byref(last), ctypes.c_uint64(block.value + SIZE - 1), ctypes.c_size_t(1))
    if last.value != 7:
        return {"error": "device memory was lost"}
    return {"function": NAME}
