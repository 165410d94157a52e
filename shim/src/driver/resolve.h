/*
 * How the real functions are found, of the driver, of the management library, and
 * of the C library's dlsym.
 */
#pragma once

#include <link.h>
#include <stdbool.h>

#include "driver/entries.h"

/* The library's (or the next interposer's) function, NULL if it has none. */
void *gw_real(int id);
#define GW_REAL(export) ((fn_##export *)gw_real(ID_##export))
/* Call it; the code is CUDA_ERROR_NOT_SUPPORTED where the driver lacks it. */
#define GW_CALL(export, ...) \
	(GW_REAL(export) ? GW_REAL(export)(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED)
/* The same where it was found behind us in the order of linking, else NULL. */
void *gw_real_linked(int id);
/* Find all functions of the driver. After this, GW_REAL asks the dynamic linker, and
 * waits for the linker's lock, only for functions that an older driver lacks. */
void gw_find_driver(void);
/* A program has found this function in the library itself, which it has loaded. False:
 * the library is not to be had. */
bool gw_found(int id, void *function);

/* dlsym and dlvsym as the next library in the search order has them. */
void *gw_next_dlsym(void *handle, const char *name);
void *gw_next_dlvsym(void *handle, const char *name, const char *version);
/* Where the two of tail.S jump to: set after this. */
void gw_resolve_begin(void);

/* False: the C library is none that we know, such as musl. */
bool gw_libc_supported(void);
/* The driver, held loaded, or NULL while it is not loaded. */
void *gw_driver(void);
/* The libraries that are loaded, in the order of search. */
const struct link_map *gw_libraries(void);

/*
 * Names compared without the C library, whose functions others may have replaced or
 * a sanitizer instruments.
 */
static inline bool gw_equal(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static inline bool gw_has_prefix(const char *text, const char *with)
{
	while (*with && *text == *with)
		text++, with++;
	return !*with;
}
