/*
 * cuGetProcAddress: ask the driver with the caller's own arguments. If the driver returns
 * a pointer to a hooked function, return our hook instead. Versions, flags and ABIs that
 * do not exist yet then work without a change here.
 */
#include <stdatomic.h>

#include "driver/resolve.h"
#include "hooks/hooks.h"
#include "memory/registry.h"

/* A hook has up to three pointers: by dlsym, by cuGetProcAddress, and that of an interposer
 * behind us. The first hook of a pointer counts. */
static void record(void *pointer, int id)
{
	uintptr_t base = (uintptr_t)pointer;
	struct gw_block b;

	if (!pointer || pointer == gw_wrappers[id] || gw_find(GW_FUNCTIONS, base, &b))
		return;
	gw_add(GW_FUNCTIONS, &(struct gw_block){
		.base = base, .size = 1, .kind = GW_MAPPED, .owner = (uint64_t)id,
	});
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
 * The ABI of an exported name is certain, so exported names claim their pointers first.
 * If a driver answers an old version with a newer ABI, the hook of that ABI already owns
 * the pointer.
 */
static void record_all(void)
{
	for (int id = 0; id < GW_HOOKS; id++) {
		if (gw_driver())
			record(gw_next_dlsym(gw_driver(), gw_entries[id].export), id);
		record(gw_real(id), id);
	}
	for (int id = 0; id < GW_HOOKS; id++)
		record(lookup_by_driver(&gw_entries[id]), id);
}

/* Our own pointer in place of the driver's; NULL if that is no hook's. The first lookup
 * records the pointers. Threads that come first together record all of them each. No thread
 * waits for another, because one may be in a library's constructor and hold the dynamic
 * linker's lock, which the other needs for its dlsym. */
static void *wrapper_of(void *pointer)
{
	static atomic_bool recorded;
	struct gw_block b;

	if (!atomic_load_explicit(&recorded, memory_order_acquire)) {
		record_all();
		atomic_store_explicit(&recorded, true, memory_order_release);
	}
	if (!gw_find(GW_FUNCTIONS, (uintptr_t)pointer, &b) || !gw_gives_wrapper((int)b.owner))
		return NULL;
	return gw_wrappers[b.owner];
}

CUresult gw_after_lookup(CUresult r, void **pfn)
{
	void *ours = r == CUDA_SUCCESS && pfn && *pfn ? wrapper_of(*pfn) : NULL;

	if (ours)
		*pfn = ours;
	return r;
}
