/*
 * cuGetProcAddress: ask the driver with the caller's own arguments, and if the
 * pointer that comes back is one that we hook, give ours instead. So versions,
 * flags and ABIs that do not exist yet are right by themselves.
 */
#include <pthread.h>
#include <stdbool.h>

#include "driver/resolve.h"
#include "hooks/hooks.h"
#include "hooks/serve.h"

/* Each hook has up to three pointers: by dlsym, by cuGetProcAddress, and that
 * of an interposer behind us. A power of two, less than half full. */
enum { BUCKETS = 1024 };
_Static_assert(BUCKETS > 6 * GW_HOOKS, "the map of pointers is too small");

static struct {
	void *pointer;
	int id;
} map[BUCKETS];
static pthread_once_t built = PTHREAD_ONCE_INIT;

static unsigned slot_of(const void *pointer)
{
	uintptr_t i = ((uintptr_t)pointer >> 4) * 2654435761u % BUCKETS;

	while (map[i].pointer && map[i].pointer != pointer)
		i = (i + 1) % BUCKETS;
	return (unsigned)i;
}

/* The first entry of a pointer stays. */
static void insert(void *pointer, int id)
{
	unsigned i;

	if (!pointer || pointer == gw_wrappers[id])
		return;
	i = slot_of(pointer);
	if (!map[i].pointer) {
		map[i].pointer = pointer;
		map[i].id = id;
	}
}

static void *lookup_by_driver(const struct gw_entry *e)
{
	fn_cuGetProcAddress_v2 *v2 = GW_REAL(cuGetProcAddress_v2);
	fn_cuGetProcAddress *v1 = GW_REAL(cuGetProcAddress);
	void *p = NULL;
	int status = 0;
	CUresult r = CUDA_ERROR_NOT_FOUND;

	if (v2)
		r = v2(e->base, &p, e->version, (uint64_t)e->flags, &status);
	else if (v1)
		r = v1(e->base, &p, e->version, (uint64_t)e->flags);
	return r == CUDA_SUCCESS ? p : NULL;
}

/*
 * Exported names have the ABI for sure, so they claim first: should a driver
 * answer an old version with a newer ABI, its pointer is taken already by the
 * hook of that ABI.
 */
static void build(void)
{
	for (int id = 0; id < GW_HOOKS; id++) {
		if (gw_driver())
			insert(gw_next_dlsym(gw_driver(), gw_entries[id].export), id);
		insert(gw_real(id), id);
	}
	for (int id = 0; id < GW_HOOKS; id++)
		insert(lookup_by_driver(&gw_entries[id]), id);
}

/* Where a looked-up pointer is one of the driver's that we hook: our own. */
static void *wrapper_of(void *pointer)
{
	unsigned i;

	pthread_once(&built, build);
	i = slot_of(pointer);
	return map[i].pointer ? gw_wrappers[map[i].id] : NULL;
}

static void substitute(CUresult r, void **pfn)
{
	void *ours;

	if (r != CUDA_SUCCESS || !pfn || !*pfn)
		return;
	ours = wrapper_of(*pfn);
	if (ours)
		*pfn = ours;
}

CUresult gw_on_lookup(fn_cuGetProcAddress *real, const char *symbol, void **pfn,
		      int version, uint64_t flags)
{
	CUresult r = real(symbol, pfn, version, flags);

	substitute(r, pfn);
	return r;
}

CUresult gw_on_lookup_status(fn_cuGetProcAddress_v2 *real, const char *symbol,
			     void **pfn, int version, uint64_t flags, int *status)
{
	CUresult r = real(symbol, pfn, version, flags, status);

	substitute(r, pfn);
	return r;
}
