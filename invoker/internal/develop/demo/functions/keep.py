
# Keeps a block of device memory between calls and fails unless it is as the last
# call left it: the device adds up all its bytes and fills it anew.
size, runs = ctypes.c_uint64(SIZE), 0
block, out = allocate(SIZE), allocate(8)

def total():
    call("cuMemsetD8_v2", out, ctypes.c_ubyte(0), ctypes.c_size_t(8))
    launch("sum", block, size, out)
    found = ctypes.c_uint64()
    call("cuMemcpyDtoH_v2", ctypes.byref(found), out, ctypes.c_size_t(8))
    return found.value

def main(args):
    global runs
    attach()
    if runs and total() != runs % 251 * SIZE:
        return {"error": "device memory was lost"}
    runs += 1
    launch("fill", block, size, ctypes.c_uint32(runs % 251))
    launch("spin", ctypes.c_uint64(MS * 1000000))
    call("cuCtxSynchronize")
    return {"runs": runs}
