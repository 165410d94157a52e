/*
 * The wrappers: this library's exports, under the names of the driver's, and how the shim
 * begins and ends in a process.
 */
#pragma once

#include <stdbool.h>

#include "driver/entries.h"
#include "memory/gate.h"

/* By id; NULL for entry points that are not hooked. */
extern void *const gw_wrappers[GW_ENTRIES];

/* Reports whether a lookup gives the wrapper: a launch where nothing is gated leads to the
 * driver. Also called before a sanitizer's runtime is ready. */
static inline bool gw_gives_wrapper(int id)
{
	return gw_wrappers[id] && (id < GW_GATED || id >= GW_HOOKS ||
				   __atomic_load_n(&gw_may_gate, __ATOMIC_RELAXED));
}

/* False: every call is forwarded as it came. Reads the environment when first asked. */
bool gw_takes_part(void);
/* This is a forked child of a process that had begun with CUDA. The driver refuses all its
 * calls, so they go there as they came. */
extern bool gw_forked;
/* Calls of this thread that are within the shim. In a signal's handler that came in
 * between one the thread may hold any lock. The variable lies in the TLS block that every
 * thread begins with, so no call allocates it. */
extern __thread int gw_call_depth __attribute__((tls_model("initial-exec")));

/*
 * The wrappers, and gw_on_<what>: the work of the hooks. Each of those functions takes the
 * real function first and then the caller's arguments. ABIs that share a <what> have the
 * same type. gw_after_<what> gets the driver's result, and returns the program's.
 */
#define GW_EXPORT __attribute__((visibility("default")))
#define HOOK(base, export, version, flags, class, what, params, args) \
	GW_EXPORT CUresult export params;                             \
	CUresult gw_on_##what(fn_##export *real, GW_LIST params);
#define AFTER(base, export, version, flags, class, what, params, args, seen) \
	GW_EXPORT CUresult export params;
#define GATE(base, export, version, flags, as, params, args) \
	GW_EXPORT CUresult export params;
#define NVML(export, what, params, args) \
	GW_EXPORT int export params;     \
	int gw_on_##what(fn_##export *real, GW_LIST params);
#include "../../abi.def"
CUresult gw_after_lookup(CUresult r, void **pfn);
CUresult gw_after_context(CUresult r, const CUcontext *ctx, CUdevice dev, bool made);
CUresult gw_after_green(CUresult r, const CUcontext *ctx, void *green);
CUresult gw_after_pool(CUresult r, const CUmemoryPool *pool, const struct gw_location *at);
CUresult gw_after_graph_end(CUresult r, void *graph, void *exec);
CUresult gw_after_graph_instantiate(CUresult r, void *graph, void *const *exec);
CUresult gw_after_capture(CUresult r, int change);
CUresult gw_after_pin(CUresult r, CUdeviceptr ptr);
CUresult gw_after_share(CUresult r, CUdeviceptr ptr);
CUresult gw_after_prefetch(CUresult r, CUdeviceptr ptr, size_t bytes);
CUresult gw_after_prefetch_batch(CUresult r, const CUdeviceptr *ptr, const size_t *bytes, size_t n);
CUresult gw_after_external(CUresult r, const CUdeviceptr *out, const struct gw_external *desc);
CUresult gw_after_total_mem(CUresult r, size_t *bytes);
CUresult gw_after_pointer_attribute(CUresult r, void *data, int attribute, CUdeviceptr ptr);
CUresult gw_after_pointer_attributes(CUresult r, unsigned n, const int *attributes, void **data,
				     CUdeviceptr ptr);
