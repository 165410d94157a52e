/*
 * gw_on_<what>: the work of the hooks. Each function takes the real function first and
 * then the caller's arguments. ABIs that share a <what> have the same type.
 */
#ifndef GW_SERVE_H
#define GW_SERVE_H

#include "driver/abi.h"

#define HOOK(base, export, version, flags, class, what, params, args) \
	CUresult gw_on_##what(fn_##export *real, GW_LIST params);
#define NVML(export, what, params, args) int gw_on_##what(fn_##export *real, GW_LIST params);
#include "../../abi.def"

#endif
