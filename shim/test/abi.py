"""Holds abi.def against CUDA's own typedefs: for each line the version of its ABI and
the size of each parameter, and for each hook that CUDA has no newer ABI.

    abi.py ABI.DEF CUDATYPEDEFS.H
"""

import re
import sys

# Bytes of what is passed by value; handles and pointers are 8, enumerations 4.
SIZES = {
    "int": 4, "unsigned": 4, "unsigned int": 4, "CUlogicalEndpointId": 4, "CUdevice": 4, "CUdevice_v1": 4, "unsigned char": 1,
    "size_t": 8, "uint64_t": 8, "cuuint64_t": 8, "unsigned long long": 8,
    "CUdeviceptr": 8, "CUdeviceptr_v2": 8, "CUmemHandle": 8, "CUmemGenericAllocationHandle_v1": 8, "CUmemGenericAllocationHandle": 8,
    "CUcontext": 8, "CUstream": 8, "CUarray": 8, "CUmemoryPool": 8, "CUmipmappedArray": 8,
    "CUfunction": 8, "CUmodule": 8, "CUevent": 8, "unsigned short": 2, "cuuint32_t": 4, "CUgraph": 8, "CUgraphExec": 8, "CUexternalMemory": 8, "CUgreenCtx": 8, "CUdevResourceDesc": 8,
    "struct gw_location": 8, "CUmemLocation_v1": 8, "struct gw_ipc": 64, "CUipcMemHandle_v1": 64,
}


def without_comments(path):
    with open(path, errors="ignore") as f:
        return re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)


def size(parameter):
    words = parameter.replace("const", " ").split()
    if "*" in parameter or "[" in parameter:
        return 8
    for kind in (" ".join(words), " ".join(words[:-1])):
        if kind in SIZES:
            return SIZES[kind]
    if len(words) <= 2 and words[0].startswith("CU"):
        return 4
    raise SystemExit("of unknown size: " + parameter)


def sizes(parameters):
    return [size(p) for p in parameters.split(",") if p.split() not in ([], ["void"])]


def cuda(path):
    """(base, version, per-thread suffix) -> parameters"""
    found = {}
    pattern = r"\(CUDAAPI\s*\*\s*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)\s*\(([^;]*)\);"
    for base, version, suffix, parameters in re.findall(pattern, without_comments(path)):
        found[base, int(version), suffix] = parameters
    return found


def table(path):
    """kind, base, export, version, sizes of each line"""
    pattern = r"^(HOOK|AFTER|TAKES|GIVES|NODE|SHARES|GATE|CALL|SERVE)\((\w+),\s*(\w+),\s*(\d+),(.*?)\)\s*$"
    for kind, base, export, version, rest in re.findall(pattern, without_comments(path), re.S | re.M):
        yield kind, base, export, int(version), sizes(re.search(r"\(([^()]*)\),", rest)[1])


def main():
    known, wrong, lines, newest = cuda(sys.argv[2]), [], 0, {}
    for kind, base, export, version, ours in table(sys.argv[1]):
        lines += 1
        suffix = next((s for s in ("_ptsz", "_ptds") if export.endswith(s)), "")
        theirs = known.get((base, version, suffix))
        if theirs is None:
            wrong.append("%s: CUDA has no ABI of version %d" % (export, version))
        elif sizes(theirs) != ours:
            wrong.append("%s: parameters of %s bytes, CUDA's are of %s" % (export, ours, sizes(theirs)))
        if kind not in ("CALL", "SERVE"):
            newest[base] = max(version, newest.get(base, 0))
    for base, version, _ in known:
        if version > newest.get(base, version):
            wrong.append("%s: CUDA has an ABI of version %d, which is not hooked" % (base, version))
    print("\n".join(wrong + ["%d lines agree with CUDA's typedefs" % lines] * (not wrong)))
    sys.exit(bool(wrong) or lines < 100)


if __name__ == "__main__":
    main()
