#include "memory/backend.h"

#include <stdatomic.h>

#include "driver/resolve.h"
#include "process/state.h"

static uint64_t asked(size_t bytes) { return bytes; }

CUresult gw_alloc_plain(struct gw_alloc *a)
{
	a->kind = GW_PLAIN;
	return a->real(a->out, a->bytes);
}

/* A device or driver without managed memory is served as without us. */
static bool unsupported(CUresult r)
{
	static atomic_bool reported;

	if (r != CUDA_ERROR_NOT_SUPPORTED)
		return false;
	if (!atomic_exchange(&reported, true))
		gw_log("managed memory is not supported here: memory stays on the device");
	return true;
}

/* Managed memory moves where the host may have it while the device works. Elsewhere,
 * such as on a vGPU or in WSL, no order can move it, so memory is plain. Asked once, of
 * the device of the first allocation: those of one host are alike. */
static bool moves(void)
{
	enum { UNKNOWN, YES, NO };
	static atomic_int known;
	CUdevice dev;
	int concurrent;

	if (!atomic_load_explicit(&known, memory_order_relaxed) &&
	    GW_CALL(cuCtxGetDevice, &dev) == CUDA_SUCCESS &&
	    GW_CALL(cuDeviceGetAttribute, &concurrent, CONCURRENT_MANAGED_ACCESS, dev) == CUDA_SUCCESS &&
	    atomic_exchange(&known, concurrent ? YES : NO) == UNKNOWN && !concurrent)
		gw_log("managed memory does not move on this device: memory stays on it");
	return atomic_load_explicit(&known, memory_order_relaxed) != NO;
}

static CUresult managed(struct gw_alloc *a)
{
	if (!moves())
		return gw_alloc_plain(a);
	CUresult r = GW_CALL(cuMemAllocManaged, a->out, a->bytes, ATTACH_GLOBAL);
	a->kind = GW_MANAGED;
	/* Out of memory is no refusal. */
	if (r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	if (unsupported(r))
		return gw_alloc_plain(a);
	CUresult of_plain = gw_alloc_plain(a);
	if (of_plain != CUDA_SUCCESS)
		return r;
	a->refusal = r;
	return CUDA_SUCCESS;
}

static CUresult prefetch(const struct gw_block *b, uint64_t from, uint64_t to, bool out,
			 CUstream stream)
{
	struct gw_location where = {LOCATION_DEVICE, b->device};

	if (out)
		where = (struct gw_location){LOCATION_HOST, 0};
	if (GW_REAL(cuMemPrefetchAsync_v2))
		return GW_CALL(cuMemPrefetchAsync_v2, b->base + from, to - from, where, 0, stream);
	return GW_CALL(cuMemPrefetchAsync, b->base + from, to - from,
		       out ? CPU_DEVICE : b->device, stream);
}

const struct gw_backend gw_managed_backend = {"managed", 0, asked, managed, moves};
const struct gw_mover gw_managed_mover = {false, prefetch, NULL};

const struct gw_backend gw_plain_backend = {"count", 1, asked, gw_alloc_plain, NULL};
