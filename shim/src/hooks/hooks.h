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
 * same type.
 */
#define GW_EXPORT __attribute__((visibility("default")))
#define HOOK(base, export, version, flags, class, what, params, args) \
	GW_EXPORT CUresult export params;                             \
	CUresult gw_on_##what(fn_##export *real, GW_LIST params);
#define GATE(base, export, version, flags, as, params, args) \
	GW_EXPORT CUresult export params;
#define NVML(export, what, params, args) \
	GW_EXPORT int export params;     \
	int gw_on_##what(fn_##export *real, GW_LIST params);
#include "../../abi.def"
