/*
 * The table of entry points and how to reach the driver behind each.
 */
#ifndef GW_HOOKS_H
#define GW_HOOKS_H

#include <stdbool.h>

#include "abi.h"

#define GW_EXPORT __attribute__((visibility("default")))

/* ID_<export>: the hooks first, then the calls, then what is NVML's. */
enum gw_id {
#define HOOK(base, export, version, flags, class, what, params, args) ID_##export,
#include "../abi.def"
	GW_HOOKS,
	GW_BEFORE_CALLS = GW_HOOKS - 1,
#define CALL(base, export, version, params, args) ID_##export,
#include "../abi.def"
	GW_CUDA_ENTRIES,
	GW_BEFORE_NVML = GW_CUDA_ENTRIES - 1,
#define NVML(export, what, params, args) ID_##export,
#include "../abi.def"
	GW_ENTRIES
};

struct gw_entry {
	const char *base, *export;
	int version, flags;
	void *wrapper; /* NULL for a call */
};
extern const struct gw_entry gw_entries[GW_ENTRIES];

/* The library's (or the next interposer's) function, NULL if it has none. */
void *gw_real(int id);
#define GW_REAL(export) ((fn_##export *)gw_real(ID_##export))

/* Where a looked-up pointer is one of the driver's that we hook: our own. */
void *gw_wrapper_of(void *pointer);

/* dlsym as the next library in the search order has it. */
void *gw_next_dlsym(void *handle, const char *name);
/* False: the C library is none that we know, such as musl. */
bool gw_libc_supported(void);
/* The driver, held loaded, or NULL while it is not loaded. */
void *gw_driver(void);

#define HOOK(base, export, version, flags, class, what, params, args) \
	GW_EXPORT CUresult export params;
#define NVML(export, what, params, args) GW_EXPORT int export params;
#include "../abi.def"

#endif
