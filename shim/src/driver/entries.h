/*
 * The table of entry points, made from abi.def: the driver's and the management
 * library's.
 */
#pragma once

#include "driver/abi.h"

/* ID_<export>: first the hooks, with the gated hooks last, then the calls, then the
 * functions of NVML. */
enum gw_id {
#define HOOK(base, export, version, flags, class, what, params, args) ID_##export,
#include "../../abi.def"
	GW_GATED,
	GW_BEFORE_GATED = GW_GATED - 1,
#define GATE(base, export, version, flags, as, params, args) ID_##export,
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
