#include "driver/entries.h"

const struct gw_entry gw_entries[GW_ENTRIES] = {
#define HOOK(base, export, version, flags, class, what, params, args) \
	[ID_##export] = {#base, #export, version, flags},
#include "../../abi.def"
#define GATE(base, export, version, flags, as, params, args) \
	[ID_##export] = {#base, #export, version, flags},
#include "../../abi.def"
#define CALL(base, export, version, params, args) \
	[ID_##export] = {#base, #export, version, 0},
#include "../../abi.def"
#define NVML(export, what, params, args) \
	[ID_##export] = {NULL, #export, 0, 0},
#include "../../abi.def"
};
