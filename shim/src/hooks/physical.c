/*
 * Physical memory. It lives as long as a handle or a mapping exists, so both are counted.
 * An import of memory that this process exported gives one more handle of the same
 * memory.
 *
 * A handle that ends may be given out again at once, to another thread. So the driver's
 * call and our record of a handle are one step, under a lock. These calls are rare and
 * slow.
 */
#include "hooks/physical.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "hooks/obtain.h"
#include "hooks/serve.h"
#include "process/state.h"

enum { FABRIC = 64 }; /* CUmemFabricHandle */

/* The memory that this process has exported, by the identity of the export. */
struct export {
	int type;
	int fd;
	dev_t dev; /* of the descriptor's file: the program may close it, and get the */
	ino_t ino; /* number again for another one */
	char fabric[FABRIC];
	uint64_t memory;
	struct export *next;
};

static pthread_mutex_t handles = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_memory;    /* guarded by handles, like all below */
static struct export *exports;

void gw_physical_reset(void)
{
	pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	handles = fresh;
	exports = NULL;
}

/* The memory that the handle stands for, 0 if it is not known. */
static uint64_t memory_of(CUmemHandle handle)
{
	struct gw_block b;

	return gw_find(GW_HANDLE, handle, &b) && b.base == handle && b.kind == GW_MAPPED ?
		       b.owner : 0;
}

/* One more reference by a handle. */
static void add_handle(CUmemHandle handle, uint64_t memory)
{
	struct gw_block b = {.base = handle, .kind = GW_MAPPED, .owner = memory, .refs = 1};

	if (memory_of(handle) == memory)
		gw_change_refs(GW_HANDLE, handle, 1);
	else if (!gw_add(GW_HANDLE, &b))
		gw_disable("no memory for the registry");
}

/* One reference less of the memory. The exports of memory that is gone are forgotten. */
static void drop(uint64_t memory)
{
	struct gw_block b;

	gw_change_refs(GW_MEMORY, memory, -1);
	if (gw_find(GW_MEMORY, memory, &b) && b.base == memory)
		return;
	for (struct export **at = &exports; *at;) {
		struct export *e = *at;
		if (e->memory == memory) {
			*at = e->next;
			free(e);
		} else {
			at = &e->next;
		}
	}
}

CUresult gw_on_physical_create(fn_cuMemCreate *real, CUmemHandle *handle, size_t bytes,
			       const struct gw_memprop *prop, uint64_t flags)
{
	if (!handle || !prop)
		return real(handle, bytes, prop, flags);
	enum gw_kind kind = gw_on_host(prop->location) ? GW_PHYSICAL_HOST : GW_PHYSICAL;
	if (!gw_obtain(gw_account_of(kind), bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&handles);
	CUresult r = real(handle, bytes, prop, flags);
	bool made = r == CUDA_SUCCESS;
	struct gw_block b = {.size = bytes, .kind = kind, .refs = 1};
	if (made) {
		b.base = ++last_memory;
		add_handle(*handle, b.base);
	}
	if (!gw_settle(gw_account_of(kind), bytes, GW_MEMORY, made ? &b : NULL))
		gw_disable("no memory for the registry");
	pthread_mutex_unlock(&handles);
	gw_agent_changed(made ? bytes : 0);
	return r;
}

CUresult gw_on_physical_release(fn_cuMemRelease *real, CUmemHandle handle)
{
	pthread_mutex_lock(&handles);
	CUresult r = real(handle);
	uint64_t memory = r == CUDA_SUCCESS ? memory_of(handle) : 0;
	if (memory) {
		gw_change_refs(GW_HANDLE, handle, -1);
		drop(memory);
	}
	pthread_mutex_unlock(&handles);
	if (memory)
		gw_agent_changed(0);
	return r;
}

CUresult gw_on_physical_retain(fn_cuMemRetainAllocationHandle *real,
			       CUmemHandle *handle, void *addr)
{
	struct gw_block b;

	pthread_mutex_lock(&handles);
	CUresult r = real(handle, addr);
	if (r == CUDA_SUCCESS && handle && gw_find(GW_ADDRESS, (uintptr_t)addr, &b) &&
	    b.kind == GW_MAPPED && gw_change_refs(GW_MEMORY, b.owner, 1))
		add_handle(*handle, b.owner);
	pthread_mutex_unlock(&handles);
	return r;
}

/* Set out to the identity of the shared memory: a descriptor as it is given to an import,
 * or a fabric handle's bytes. Returns false if the memory cannot be identified. */
static bool identify(int type, const void *shared, struct export *out)
{
	struct stat st;

	*out = (struct export){.type = type};
	if (type == SHARED_BY_FABRIC) {
		memcpy(out->fabric, shared, FABRIC);
		return true;
	}
	out->fd = (int)(intptr_t)shared;
	if (type != SHARED_BY_DESCRIPTOR || fstat(out->fd, &st) < 0)
		return false;
	out->dev = st.st_dev;
	out->ino = st.st_ino;
	return true;
}

static bool same(const struct export *a, const struct export *b)
{
	return a->type == b->type && a->fd == b->fd && a->dev == b->dev && a->ino == b->ino &&
	       memcmp(a->fabric, b->fabric, FABRIC) == 0;
}

static struct export *find(const struct export *what)
{
	struct export *e = exports;

	while (e && !same(e, what))
		e = e->next;
	return e;
}

static void record_export(int type, const void *shared, uint64_t memory)
{
	struct export what, *e;

	/* An export writes the descriptor's number, an import takes it as the pointer. */
	if (type == SHARED_BY_DESCRIPTOR)
		shared = (const void *)(intptr_t)*(const int *)shared;
	if (!identify(type, shared, &what))
		return;
	e = find(&what);
	if (!e && (e = malloc(sizeof *e))) {
		what.next = exports;
		*e = what;
		exports = e;
	}
	if (e)
		e->memory = memory;
}

CUresult gw_on_physical_export(fn_cuMemExportToShareableHandle *real, void *shared,
			       CUmemHandle handle, int type, unsigned long long flags)
{
	pthread_mutex_lock(&handles);
	CUresult r = real(shared, handle, type, flags);
	uint64_t memory = memory_of(handle);
	if (r == CUDA_SUCCESS && shared && memory)
		record_export(type, shared, memory);
	pthread_mutex_unlock(&handles);
	return r;
}

/* Memory of another process is counted there. */
CUresult gw_on_physical_import(fn_cuMemImportFromShareableHandle *real, CUmemHandle *handle,
			       void *shared, int type)
{
	struct export what, *own = NULL;

	pthread_mutex_lock(&handles);
	CUresult r = real(handle, shared, type);
	if (r == CUDA_SUCCESS && handle && identify(type, shared, &what))
		own = find(&what);
	if (own && gw_change_refs(GW_MEMORY, own->memory, 1))
		add_handle(*handle, own->memory);
	pthread_mutex_unlock(&handles);
	return r;
}

CUresult gw_on_physical_map(fn_cuMemMap *real, CUdeviceptr ptr, size_t bytes,
			    size_t offset, CUmemHandle handle, uint64_t flags)
{
	struct gw_block b = {.base = ptr, .size = bytes, .kind = GW_MAPPED};

	pthread_mutex_lock(&handles);
	CUresult r = real(ptr, bytes, offset, handle, flags);
	b.owner = memory_of(handle);
	if (r == CUDA_SUCCESS && b.owner && gw_change_refs(GW_MEMORY, b.owner, 1) &&
	    !gw_add(GW_ADDRESS, &b))
		gw_disable("no memory for the registry");
	pthread_mutex_unlock(&handles);
	return r;
}

/* One call may end several mappings, also such as are not known. */
CUresult gw_on_physical_unmap(fn_cuMemUnmap *real, CUdeviceptr ptr, size_t bytes)
{
	struct gw_block b;

	pthread_mutex_lock(&handles);
	CUresult r = real(ptr, bytes);

	while (r == CUDA_SUCCESS && gw_remove_mapping(ptr, bytes, &b))
		drop(b.owner);
	pthread_mutex_unlock(&handles);
	if (r == CUDA_SUCCESS)
		gw_agent_changed(0);
	return r;
}
