/*
 * The table of entry points, made from abi.def: the driver's and the management
 * library's.
 */
#ifndef GW_ENTRIES_H
#define GW_ENTRIES_H

#include "driver/abi.h"

/* ID_<export>: the hooks first, then the calls, then what is NVML's. */
enum gw_id {
#define HOOK(base, export, version, flags, class, what, params, args) ID_##export,
#include "../../abi.def"
	GW_HOOKS,
	GW_BEFORE_CALLS = GW_HOOKS - 1,
#define CALL(base, export, version, params, args) ID_##export,
#include "../../abi.def"
	GW_CUDA_ENTRIES,
	GW_BEFORE_NVML = GW_CUDA_ENTRIES - 1,
#define NVML(export, what, params, args) ID_##export,
#include "../../abi.def"
	GW_ENTRIES
};

struct gw_entry {
	const char *base, *export;
	int version, flags;
};
extern const struct gw_entry gw_entries[GW_ENTRIES];

#endif
