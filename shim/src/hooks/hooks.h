/*
 * The wrappers: this library's exports, under the names of the driver's.
 */
#ifndef GW_HOOKS_H
#define GW_HOOKS_H

#include "driver/entries.h"

/* By id; NULL for what is not hooked. */
extern void *const gw_wrappers[GW_ENTRIES];

#define GW_EXPORT __attribute__((visibility("default")))
#define HOOK(base, export, version, flags, class, what, params, args) \
	GW_EXPORT CUresult export params;
#define NVML(export, what, params, args) GW_EXPORT int export params;
#include "../../abi.def"

#endif
