/*
 * The wrappers: this library's exports, under the names of the driver's.
 */
#ifndef GW_HOOKS_H
#define GW_HOOKS_H

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

#define GW_EXPORT __attribute__((visibility("default")))
#define HOOK(base, export, version, flags, class, what, params, args) \
	GW_EXPORT CUresult export params;
#define GATE(base, export, version, flags, as, params, args) \
	GW_EXPORT CUresult export params;
#define NVML(export, what, params, args) GW_EXPORT int export params;
#include "../../abi.def"

#endif
