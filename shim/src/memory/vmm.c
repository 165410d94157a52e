#include "memory/vmm.h"

#include <stdatomic.h>

#include "driver/resolve.h"
#include "memory/contexts.h"
#include "memory/span.h"
#include "process/state.h"

enum {
	SMALL = 1 << 20, /* blocks up to this size lie in slabs */
	ADDRESS_BITS = 48,
};

static atomic_bool in_use;

bool gw_vmm_in_use(void) { return atomic_load_explicit(&in_use, memory_order_relaxed); }

/* Memory of several devices would need access rights for each device, and some drivers
 * lack the calls. Memory is plain in both cases. */
static bool supported(void)
{
	enum { UNKNOWN, YES, NO, VIRTUAL_MEMORY = 102 };
	static atomic_int known;
	int n = 0, has = 0, seen = atomic_load_explicit(&known, memory_order_relaxed);

	if (seen == UNKNOWN) {
		seen = GW_CALL(cuDeviceGetCount, &n) == CUDA_SUCCESS && n == 1 &&
		       GW_CALL(cuDeviceGetAttribute, &has, VIRTUAL_MEMORY, 0) == CUDA_SUCCESS && has &&
		       GW_REAL(cuMemCreate) && GW_REAL(cuMemAddressReserve) ? YES : NO;
		if (atomic_exchange(&known, seen) == UNKNOWN && seen == NO)
			gw_log("memory cannot be mapped by handles here: it stays on the device");
	}
	return seen == YES;
}

/* The caller holds the driver lock. */
static void begin(void)
{
	if (!atomic_exchange(&in_use, true))
		gw_context_ends = gw_spans_end;
}

/* Other requests go to the driver, which itself shall refuse a wrong one. */
static bool is_ours(struct gw_current h, size_t bytes)
{
	return supported() && h.ctx && bytes && !(bytes >> ADDRESS_BITS);
}

static uint64_t cost(size_t bytes)
{
	struct gw_current h = gw_current();

	if (!is_ours(h, bytes))
		return bytes;
	if (bytes > SMALL)
		return gw_whole_granules(bytes);
	gw_driver_lock();
	bool room = gw_slab_with_room(h.ctx, gw_slot_size(bytes)) != NULL;
	gw_driver_unlock();
	return room ? 0 : GW_GRANULE;
}

static CUresult alloc_small(struct gw_alloc *a, struct gw_current h)
{
	uint32_t slot = gw_slot_size(a->bytes);
	struct gw_span *s = gw_slab_with_room(h.ctx, slot);
	CUresult r = CUDA_SUCCESS;

	a->settled = true;
	if (!s && !a->cost)
		return GW_AGAIN; /* the slot that was free is another thread's */
	if (s)
		gw_settle(GW_DEVICE_BYTES, a->cost, GW_ADDRESS, NULL);
	else if ((r = gw_span_make(h, GW_GRANULE, NULL, &s)) != CUDA_SUCCESS)
		gw_settle(GW_DEVICE_BYTES, a->cost, GW_ADDRESS, NULL);
	else
		s->slot = slot;
	if (r == CUDA_SUCCESS)
		*a->out = gw_slot_take(s);
	return r;
}

static CUresult alloc_large(struct gw_alloc *a, struct gw_current h)
{
	struct gw_span *s;
	CUresult r = gw_span_make(h, a->cost, NULL, &s);

	a->settled = r == CUDA_SUCCESS;
	if (r != CUDA_SUCCESS)
		return r;
	s->asked = a->bytes;
	*a->out = s->base;
	return r;
}

static CUresult alloc(struct gw_alloc *a)
{
	struct gw_current h = gw_current();

	if (!is_ours(h, a->bytes))
		return gw_alloc_plain(a);
	a->kind = GW_VMM;
	gw_driver_lock();
	begin();
	CUresult r = a->bytes > SMALL ? alloc_large(a, h) : alloc_small(a, h);
	gw_driver_unlock();
	return r;
}

/* Wait until no kernel can use the context's memory any more, as cuMemFree does. */
static CUresult synchronize(CUcontext ctx)
{
	CUcontext now;

	if (GW_CALL(cuCtxGetCurrent, &now) == CUDA_SUCCESS && now == ctx)
		return GW_CALL(cuCtxSynchronize);
	gw_driver_lock();
	CUresult r = gw_push_context(ctx);
	if (r == CUDA_SUCCESS) {
		r = GW_CALL(cuCtxSynchronize);
		gw_pop_context();
	}
	gw_driver_unlock();
	return r;
}

/* The caller holds the driver lock. */
static CUresult free_in(struct gw_span *s, CUdeviceptr ptr)
{
	if (s->slot)
		return gw_slot_free(s, ptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (ptr != s->base)
		return CUDA_ERROR_INVALID_VALUE;
	gw_span_end(s);
	return CUDA_SUCCESS;
}

bool gw_vmm_free(CUdeviceptr ptr, CUresult *r)
{
	if (!gw_vmm_in_use())
		return false;
	gw_driver_lock();
	struct gw_span *s = gw_span_of(ptr);
	CUcontext ctx = s ? s->ctx : NULL;
	gw_driver_unlock();
	if (!s)
		return false;
	*r = synchronize(ctx);
	if (*r != CUDA_SUCCESS)
		return true;
	gw_driver_lock();
	s = gw_span_of(ptr);
	*r = s ? free_in(s, ptr) : CUDA_ERROR_INVALID_VALUE;
	gw_driver_unlock();
	return true;
}

bool gw_vmm_range(CUdeviceptr ptr, CUdeviceptr *base, size_t *bytes)
{
	if (!gw_vmm_in_use())
		return false;
	gw_driver_lock();
	struct gw_span *s = gw_span_of(ptr);
	if (s) {
		*base = s->slot ? ptr - (ptr - s->base) % s->slot : s->base;
		*bytes = s->slot ? s->slot : s->asked;
	}
	gw_driver_unlock();
	return s != NULL;
}

void gw_vmm_pin(CUdeviceptr ptr)
{
	struct gw_block b;

	if (!gw_vmm_in_use())
		return;
	gw_driver_lock();
	struct gw_span *s = gw_span_of(ptr);
	if (!s && gw_find(GW_ADDRESS, ptr, &b) && b.kind == GW_MAPPED)
		s = gw_physical_span(b.owner);
	if (s)
		gw_span_fix(s);
	gw_driver_unlock();
}

/* The memory of a tile pool backs sparse arrays, which know it by its handle. */
bool gw_vmm_makes(const struct gw_memprop *how)
{
	return how->type == PINNED_MEMORY && how->location.type == LOCATION_DEVICE &&
	       !(how->usage & TILE_POOL) && supported();
}

CUresult gw_vmm_make(uint64_t bytes, const struct gw_memprop *how, struct gw_span **out)
{
	begin();
	return gw_span_make((struct gw_current){.device = how->location.id}, bytes, how, out);
}

struct gw_span *gw_physical_span(uint64_t memory)
{
	struct gw_block b;

	if (!gw_find(GW_MEMORY, memory, &b) || b.base != memory || b.kind != GW_MAPPED)
		return NULL;
	return (struct gw_span *)(uintptr_t)b.owner;
}

const struct gw_backend gw_vmm_backend = {"vmm", 2, cost, alloc, supported};
