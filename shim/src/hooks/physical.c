/*
 * Physical memory. It lives as long as a handle or a mapping exists, so both are counted.
 * An import of memory that this process exported gives one more handle of the same
 * memory.
 *
 * A handle that ends may be given out again at once, to another thread. So the driver's
 * call and our record of a handle are one step, under the driver lock. These calls are rare
 * and slow.
 */
#include "hooks/physical.h"

#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "hooks/hooks.h"
#include "hooks/obtain.h"
#include "memory/backend.h"
#include "memory/contexts.h"
#include "memory/vmm.h"

static uint64_t last_memory; /* guarded by the driver lock */

/*
 * Memory that moves gets another handle of the driver's each time. The program's handle for
 * it is a number of ours, which no driver gives out: drivers' handles are addresses or small
 * numbers.
 */
#define OWN_HANDLE (0x6777ull << 48)

uint64_t gw_memory_of(CUmemHandle handle)
{
	struct gw_block b;

	return gw_find(GW_HANDLE, handle, &b) && b.base == handle && b.kind == GW_MAPPED ?
		       b.owner : 0;
}

static struct gw_span *span_of(CUmemHandle handle) { return gw_physical_span(gw_memory_of(handle)); }

CUmemHandle gw_driver_handle(CUmemHandle handle)
{
	struct gw_span *s = handle >= OWN_HANDLE ? span_of(handle) : NULL;

	return s ? s->part[0].handle : handle;
}

void gw_add_handle(CUmemHandle handle, uint64_t memory)
{
	struct gw_block b = {.base = handle, .kind = GW_MAPPED, .owner = memory, .refs = 1};

	if (gw_memory_of(handle) == memory)
		gw_change_refs(GW_HANDLE, handle, 1);
	else
		gw_add(GW_HANDLE, &b);
}

/* One reference less of the memory, which may end it. */
static void drop(uint64_t memory)
{
	struct gw_span *s = gw_physical_span(memory);
	struct gw_block b;

	gw_change_refs(GW_MEMORY, memory, -1);
	if (gw_find(GW_MEMORY, memory, &b) && b.base == memory)
		return;
	gw_forget_exports(memory);
	if (s)
		gw_span_end(s);
}

/* Make memory for which the bytes are reserved. */
static CUresult make(fn_cuMemCreate *real, CUmemHandle *handle, size_t bytes,
		     const struct gw_memprop *prop, uint64_t flags, enum gw_kind kind)
{
	struct gw_block b = {.size = bytes, .kind = kind, .refs = 1};
	bool moves = gw_backend == &gw_vmm_backend && !flags && gw_vmm_makes(prop);
	struct gw_span *s;
	CUresult r = moves ? gw_vmm_make(bytes, prop, &s) : real(handle, bytes, prop, flags);

	if (r == CUDA_SUCCESS) {
		b.base = ++last_memory;
		if (moves) {
			*handle = OWN_HANDLE + b.base;
			b = (struct gw_block){.base = b.base, .kind = GW_MAPPED, .refs = 1, .owner = (uintptr_t)s};
		}
		gw_add_handle(*handle, b.base);
	}
	/* A span has settled its bytes itself. */
	bool settled = moves && r == CUDA_SUCCESS;
	gw_settle(gw_account_of(kind), settled ? 0 : bytes, GW_MEMORY, r == CUDA_SUCCESS ? &b : NULL);
	return r;
}

CUresult gw_on_physical_create(fn_cuMemCreate *real, CUmemHandle *handle, size_t bytes,
			       const struct gw_memprop *prop, uint64_t flags)
{
	if (!handle || !prop)
		return real(handle, bytes, prop, flags);
	enum gw_kind kind = gw_on_host(prop->location) ? GW_PHYSICAL_HOST : GW_PHYSICAL;
	if (!gw_obtain(gw_account_of(kind), bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	gw_driver_lock();
	CUresult r = make(real, handle, bytes, prop, flags, kind);
	gw_driver_unlock();
	gw_agent_changed(r == CUDA_SUCCESS ? bytes : 0);
	return r;
}

CUresult gw_on_physical_release(fn_cuMemRelease *real, CUmemHandle handle)
{
	gw_driver_lock();
	uint64_t memory = gw_memory_of(handle);
	CUresult r = memory && handle >= OWN_HANDLE ? CUDA_SUCCESS : real(handle);
	if (r == CUDA_SUCCESS && memory) {
		gw_change_refs(GW_HANDLE, handle, -1);
		drop(memory);
	}
	gw_driver_unlock();
	if (memory)
		gw_agent_changed(0);
	return r;
}

CUresult gw_on_physical_retain(fn_cuMemRetainAllocationHandle *real,
			       CUmemHandle *handle, void *addr)
{
	struct gw_block b;
	CUresult r = CUDA_SUCCESS;

	gw_driver_lock();
	bool mapped = handle && gw_find(GW_ADDRESS, (uintptr_t)addr, &b) && b.kind == GW_MAPPED;
	if (mapped && gw_physical_span(b.owner))
		*handle = OWN_HANDLE + b.owner;
	else
		r = real(handle, addr);
	if (r == CUDA_SUCCESS && mapped && gw_change_refs(GW_MEMORY, b.owner, 1))
		gw_add_handle(*handle, b.owner);
	gw_driver_unlock();
	return r;
}

CUresult gw_on_physical_properties(fn_cuMemGetAllocationPropertiesFromHandle *real,
				   struct gw_memprop *prop, CUmemHandle handle)
{
	gw_driver_lock();
	CUresult r = real(prop, gw_driver_handle(handle));
	gw_driver_unlock();
	return r;
}

static void add_view(struct gw_span *s, CUdeviceptr ptr, size_t bytes, size_t from)
{
	struct gw_view *v = calloc(1, sizeof *v);

	if (!v) {
		gw_span_fix(s);
		return;
	}
	*v = (struct gw_view){.base = ptr, .bytes = bytes, .from = from, .next = s->views};
	s->views = v;
}

CUresult gw_on_physical_map(fn_cuMemMap *real, CUdeviceptr ptr, size_t bytes,
			    size_t offset, CUmemHandle handle, uint64_t flags)
{
	struct gw_block b = {.base = ptr, .size = bytes, .kind = GW_MAPPED};

	gw_driver_lock();
	CUresult r = real(ptr, bytes, offset, gw_driver_handle(handle), flags);
	b.owner = gw_memory_of(handle);
	if (r == CUDA_SUCCESS && b.owner && gw_change_refs(GW_MEMORY, b.owner, 1)) {
		struct gw_span *s = gw_physical_span(b.owner);
		gw_add(GW_ADDRESS, &b);
		if (s)
			add_view(s, ptr, bytes, offset);
	}
	gw_driver_unlock();
	return r;
}

/* The place of a view in the list of its span, or the list's end. */
static struct gw_view **find_view(struct gw_span *s, CUdeviceptr base)
{
	struct gw_view **at = &s->views;

	while (*at && (*at)->base != base)
		at = &(*at)->next;
	return at;
}

/* Remember which devices may use a view. Rights that cannot be given again later keep the
 * memory where it is. */
static void set_access(struct gw_span *s, CUdeviceptr base, const struct gw_access *access, size_t n)
{
	struct gw_view *v = *find_view(s, base);

	if (!v || n > sizeof v->access / sizeof *access) {
		gw_span_fix(s);
		return;
	}
	memcpy(v->access, access, n * sizeof *access);
	v->accesses = n;
}

CUresult gw_on_physical_access(fn_cuMemSetAccess *real, CUdeviceptr ptr, size_t bytes,
			       const struct gw_access *access, size_t n)
{
	struct gw_block b;

	gw_driver_lock();
	CUresult r = real(ptr, bytes, access, n);
	for (CUdeviceptr at = ptr; r == CUDA_SUCCESS && at < ptr + bytes; at = b.base + b.size) {
		if (!gw_find(GW_ADDRESS, at, &b) || b.kind != GW_MAPPED)
			break;
		struct gw_span *s = gw_physical_span(b.owner);
		if (s)
			set_access(s, b.base, access, n);
	}
	gw_driver_unlock();
	return r;
}

/* Forget a view. Returns true if it is mapped now. */
static bool remove_view(struct gw_span *s, CUdeviceptr base)
{
	struct gw_view **at = find_view(s, base), *v = *at;

	if (v)
		*at = v->next;
	free(v);
	return s->part[0].handle;
}

/* The driver has no mapping to memory that is out: the others in the range are unmapped one
 * by one. */
static CUresult unmap_around(fn_cuMemUnmap *real, CUdeviceptr ptr, size_t bytes)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct gw_block b;

	while (gw_remove_mapping(ptr, bytes, &b)) {
		if (b.base + b.size > ptr + bytes) { /* not all of it */
			gw_add(GW_ADDRESS, &b);
			return CUDA_ERROR_INVALID_VALUE;
		}
		struct gw_span *s = gw_physical_span(b.owner);
		bool here = !s || remove_view(s, b.base);
		r = here ? real(b.base, b.size) : CUDA_SUCCESS;
		drop(b.owner);
	}
	return r;
}

/* One call may end several mappings, also such as are not known. */
CUresult gw_on_physical_unmap(fn_cuMemUnmap *real, CUdeviceptr ptr, size_t bytes)
{
	struct gw_block b;

	gw_driver_lock();
	bool around = gw_vmm_in_use() && gw_pieces_out();
	CUresult r = around ? unmap_around(real, ptr, bytes) : real(ptr, bytes);
	while (r == CUDA_SUCCESS && gw_remove_mapping(ptr, bytes, &b)) {
		struct gw_span *s = gw_physical_span(b.owner);
		if (s)
			remove_view(s, b.base);
		drop(b.owner);
	}
	gw_driver_unlock();
	if (r == CUDA_SUCCESS)
		gw_agent_changed(0);
	return r;
}
