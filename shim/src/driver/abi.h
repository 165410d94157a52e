/*
 * The driver's types, as far as the shim meets them. They are written here so
 * that nothing of CUDA is needed to build.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemHandle;
typedef void *CUcontext;
typedef void *CUstream;
typedef void *CUmemoryPool;
typedef void *CUarray;

/* The parameters of a function, without their parentheses. */
#define GW_LIST(...) __VA_ARGS__

/* The codes that are distinguished, or given when there is no driver to ask. */
enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_NOT_SUPPORTED = 801,
};

/* CUmemLocation: 8 bytes, passed by value in the newer prefetch. */
struct gw_location {
	int type;
	int id;
};
enum {
	LOCATION_DEVICE = 1,
	LOCATION_HOST = 2,
	LOCATION_HOST_NUMA = 3,
	LOCATION_HOST_NUMA_CURRENT = 4,
};

/* Every location that is not the host counts as a device, including locations of later
 * drivers. */
static inline int gw_on_host(struct gw_location at)
{
	return at.type >= LOCATION_HOST && at.type <= LOCATION_HOST_NUMA_CURRENT;
}
_Static_assert(sizeof(struct gw_location) == 8, "CUmemLocation");

/* CUlaunchConfig. */
struct gw_launch {
	unsigned grid[3], block[3], shared;
	CUstream stream;
	void *attributes;
	unsigned n;
};

/* CUmemAccessDesc. */
struct gw_access {
	struct gw_location location;
	int flags;
};
_Static_assert(sizeof(struct gw_access) == 12, "CUmemAccessDesc");

/* CUmemAllocationProp, and the start of CUmemPoolProps up to the location. */
struct gw_memprop {
	int type;
	int handle_types;
	struct gw_location location;
	void *metadata;
	unsigned char compression, direct; /* direct: capable of GPUDirect */
	unsigned short usage;
	unsigned char reserved[4];
};
_Static_assert(sizeof(struct gw_memprop) == 32, "CUmemAllocationProp");

/* CUDA_ARRAY_DESCRIPTOR_v2 and CUDA_ARRAY3D_DESCRIPTOR_v2. */
struct gw_array2d {
	size_t width, height;
	int format;
	unsigned channels;
};
struct gw_array3d {
	size_t width, height, depth;
	int format;
	unsigned channels, flags;
};
_Static_assert(sizeof(struct gw_array2d) == 24, "CUDA_ARRAY_DESCRIPTOR");
_Static_assert(sizeof(struct gw_array3d) == 40, "CUDA_ARRAY3D_DESCRIPTOR");

/* CUipcMemHandle. */
struct gw_ipc {
	char reserved[64];
};

/* CUDA_MEM_ALLOC_NODE_PARAMS, and CUgraphNodeParams up to the last field that is read. */
struct gw_graph_alloc {
	char pool[88]; /* CUmemPoolProps */
	const void *access;
	size_t accesses, bytes;
	CUdeviceptr ptr;
};
struct gw_graph_node {
	int type, reserved[3];
	union {
		struct gw_graph_alloc alloc;
		CUdeviceptr freed; /* CUDA_MEM_FREE_NODE_PARAMS */
	};
};
_Static_assert(offsetof(struct gw_graph_alloc, bytes) == 104, "CUDA_MEM_ALLOC_NODE_PARAMS");
_Static_assert(offsetof(struct gw_graph_node, alloc) == 16, "CUgraphNodeParams");

/* CUDA_EXTERNAL_MEMORY_BUFFER_DESC, up to the last field that is read. */
struct gw_external {
	unsigned long long offset, size;
};

/* NVML: nvmlMemory_t and nvmlMemory_v2_t, nvmlProcessInfo_v1_t and _v2_t,
 * nvmlProcessDetail_v1_t and its list, nvmlProcessUtilizationSample_t,
 * nvmlProcessUtilizationInfo_v1_t and its list. */
struct gw_nvml_memory {
	uint64_t total, avail, used;
};
struct gw_nvml_memory_v2 {
	unsigned version;
	uint64_t total, reserved, avail, used;
};
struct gw_nvml_pid {
	unsigned pid;
};
struct gw_nvml_process {
	unsigned pid;
	uint64_t bytes;
};
struct gw_nvml_process_v2 {
	unsigned pid;
	uint64_t bytes;
	unsigned gpu_instance, compute_instance;
};
struct gw_nvml_detail {
	unsigned pid;
	uint64_t bytes;
	unsigned gpu_instance, compute_instance;
	uint64_t protected_bytes;
};
struct gw_nvml_details {
	unsigned version, mode, n;
	void *list;
};
struct gw_nvml_sample {
	unsigned pid;
	uint64_t at;
	unsigned percent[4];
};
struct gw_nvml_utilization {
	uint64_t at;
	unsigned pid, percent[6];
};
struct gw_nvml_utilizations {
	unsigned version, n;
	uint64_t since;
	void *list;
};
_Static_assert(sizeof(struct gw_nvml_memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct gw_nvml_process) == 16, "nvmlProcessInfo_v1_t");
_Static_assert(sizeof(struct gw_nvml_process_v2) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct gw_nvml_detail) == 32, "nvmlProcessDetail_v1_t");
_Static_assert(sizeof(struct gw_nvml_details) == 24, "nvmlProcessDetailList_t");
_Static_assert(sizeof(struct gw_nvml_sample) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(struct gw_nvml_utilization) == 40, "nvmlProcessUtilizationInfo_v1_t");
_Static_assert(sizeof(struct gw_nvml_utilizations) == 24, "nvmlProcessesUtilizationInfo_v1_t");

/* The codes of NVML that are given or distinguished. */
enum {
	NVML_SUCCESS = 0,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_MEMORY = 20,
};

enum {
	ATTACH_GLOBAL = 1,              /* cuMemAllocManaged */
	CONCURRENT_MANAGED_ACCESS = 89, /* cuDeviceGetAttribute */
	CPU_DEVICE = -1,                /* cuMemPrefetchAsync, first ABI */
	STREAM_NON_BLOCKING = 1,        /* cuStreamCreate */
	CAPTURE_RELAXED = 2,            /* cuThreadExchangeStreamCaptureMode */
	POINTER_MEMORY_TYPE = 2,        /* cuPointerGetAttribute */
	POINTER_HOST = 4,
	POINTER_SYNC_MEMOPS = 6,
	POINTER_IS_MANAGED = 8,
	POINTER_IPC_CAPABLE = 10,
	POINTER_RANGE_START = 11,
	POINTER_RANGE_SIZE = 12,
	MEMORYTYPE_DEVICE = 2,
	POOL_RESERVED_CURRENT = 5,      /* cuMemPoolGetAttribute */
	GRAPH_RESERVED_CURRENT = 2,     /* cuDeviceGetGraphMemAttribute */
	GRAPH_NODE_MEM_ALLOC = 10,      /* CUgraphNodeParams.type */
	GRAPH_NODE_MEM_FREE = 11,
	PINNED_MEMORY = 1,              /* CUmemAllocationProp.type */
	READ_WRITE = 3,                 /* CUmemAccessDesc.flags */
	TILE_POOL = 1,                  /* CUmemAllocationProp.usage */
	SHARED_BY_DESCRIPTOR = 1,       /* CUmemAllocationHandleType */
	SHARED_BY_FABRIC = 8,
	ARRAY_SPARSE = 0x40,            /* CUDA_ARRAY3D_DESCRIPTOR.Flags */
	ARRAY_DEFERRED_MAPPING = 0x80,
	STREAM = 2,                     /* cuGetProcAddress: per-thread streams */
};

/* CU_STREAM_PER_THREAD */
#define STREAM_PER_THREAD ((CUstream)2)

/* fn_<export>: the type of each entry point. */
#define HOOK(base, export, version, flags, class, what, params, args) \
	typedef CUresult fn_##export params;
#define GATE(base, export, version, flags, as, params, args) typedef CUresult fn_##export params;
#define CALL(base, export, version, params, args) typedef CUresult fn_##export params;
#define SERVE(base, export, version, params, args) typedef CUresult fn_##export params;
#define NVML(export, what, params, args) typedef int fn_##export params;
#include "../../abi.def"
