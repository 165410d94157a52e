/*
 * cuGetProcAddress: ask the driver with the caller's own arguments. If the driver returns
 * a pointer to a hooked function, return our hook instead. Versions, flags and ABIs that
 * do not exist yet then work without a change here.
 */
#include <stdatomic.h>
#include <sys/mman.h>

#include "driver/resolve.h"
#include "hooks/hooks.h"
#include "process/state.h"

/* Each hook has up to three pointers: by dlsym, by cuGetProcAddress, and that of an
 * interposer behind us. */
struct map {
	unsigned n;
	struct {
		void *pointer;
		int id;
	} at[3 * GW_HOOKS];
};

/* The first entry of a pointer counts. NULL if the pointer is no hook's. */
static void *find(const struct map *m, const void *pointer)
{
	unsigned i = 0;

	while (i < m->n && m->at[i].pointer != pointer)
		i++;
	return i < m->n && gw_gives_wrapper(m->at[i].id) ? gw_wrappers[m->at[i].id] : NULL;
}

static void insert(struct map *m, void *pointer, int id)
{
	if (!pointer || pointer == gw_wrappers[id])
		return;
	m->at[m->n].pointer = pointer;
	m->at[m->n++].id = id;
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
static void build(struct map *m)
{
	for (int id = 0; id < GW_HOOKS; id++) {
		if (gw_driver())
			insert(m, gw_next_dlsym(gw_driver(), gw_entries[id].export), id);
		insert(m, gw_real(id), id);
	}
	for (int id = 0; id < GW_HOOKS; id++)
		insert(m, lookup_by_driver(&gw_entries[id]), id);
}

/*
 * Returns the map, which the first lookup builds; NULL if there is not enough memory.
 * Concurrent first callers build one each, and the first finished map stays. No thread
 * waits for another, because one may be in a library's constructor and hold the dynamic
 * linker's lock, which the other needs for its dlsym.
 */
static const struct map *pointers(void)
{
	static struct map *_Atomic built;
	struct map *m = atomic_load_explicit(&built, memory_order_acquire), *none = NULL;

	if (m)
		return m;
	m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return NULL;
	build(m);
	if (atomic_compare_exchange_strong(&built, &none, m))
		return m;
	munmap(m, sizeof *m);
	return none;
}

/* Where a looked-up pointer is one of the driver's that we hook: our own. */
static void *wrapper_of(void *pointer)
{
	const struct map *m = pointers();

	if (!m) {
		gw_disable("no memory for the pointers of hooks");
		return NULL;
	}
	return find(m, pointer);
}

CUresult gw_after_lookup(CUresult r, void **pfn)
{
	void *ours = r == CUDA_SUCCESS && pfn && *pfn ? wrapper_of(*pfn) : NULL;

	if (ours)
		*pfn = ours;
	return r;
}
