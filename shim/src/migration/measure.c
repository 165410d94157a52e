#include "migration/measure.h"

#include "driver/resolve.h"
#include "memory/contexts.h"
#include "memory/pools.h"
#include "memory/registry.h"
#include "migration/refusal.h"

/* Make a context current to ask pools and graphs in, where the process has
 * any. The caller holds the driver lock. */
static bool push_context_for_pools(void)
{
	return !gw_driver_stopped() && gw_pools_in_use() &&
	       gw_push_context(gw_any_context()) == CUDA_SUCCESS;
}

/* Make pools and graphs give back the memory that they keep for later. They would have to
 * allocate it again, so this is done for an eviction only. */
void gw_trim(void)
{
	gw_driver_lock();
	if (push_context_for_pools()) {
		gw_pools_trim();
		gw_pop_context();
	}
	gw_driver_unlock();
}

/* Returns an upper bound for the bytes on the device: the memory in use there by all
 * processes. There is no bound if the driver does not answer, or if the process has
 * contexts on several devices. The caller must hold the driver lock. */
static uint64_t device_used(void)
{
	size_t avail = 0, total = 0;
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (!gw_driver_stopped() && gw_push_context(gw_single_device_context()) == CUDA_SUCCESS) {
		r = GW_CALL(cuMemGetInfo_v2, &avail, &total);
		gw_pop_context();
	}
	return r == CUDA_SUCCESS && total >= avail ? total - avail : UINT64_MAX;
}

/*
 * If the blocks are larger than the memory in use on the device, a part of them was never
 * used: an arena, from which a library gives out pieces. The surplus is subtracted from
 * the largest blocks. The used part is unknown. Arenas are mostly used from their start,
 * so a prefetch brings in the start, and a kernel that needs other parts fetches them
 * itself. An eviction does not depend on the guess.
 */
void gw_estimate_untouched(void)
{
	size_t n;
	struct gw_block *list = gw_list_movable(&n);
	uint64_t sum = 0;

	if (!list)
		return;
	gw_driver_lock();
	uint64_t used = device_used();
	gw_driver_unlock();
	for (size_t i = 0; i < n; i++)
		if (gw_comes_unseen(&list[i]))
			sum += list[i].size - list[i].evicted;
	/* No surplus proves nothing: others may use the rest of the device. */
	uint64_t surplus = sum > used ? sum - used : 0;
	for (size_t i = 0; i < n && sum > used; i++) {
		if (!gw_comes_unseen(&list[i]))
			continue;
		uint64_t off = gw_min(list[i].size - list[i].evicted, surplus);
		gw_set_untouched(list[i].base, list[i].id, off);
		surplus -= off;
	}
	gw_free_list(list, n);
}

struct gw_totals gw_measure(bool at_rest)
{
	uint64_t used = UINT64_MAX;
	struct gw_totals t;

	gw_driver_lock();
	if (!gw_driver_stopped())
		gw_forget_ended();
	bool pools = push_context_for_pools();
	gw_pools_lock();
	if (pools)
		gw_pools_count();
	t = gw_sum();
	gw_pools_unlock();
	if (pools)
		gw_pop_context();
	if (at_rest && t.resident > t.listed)
		used = device_used();
	gw_driver_unlock();
	t.resident = t.listed + gw_min(t.resident - t.listed, used);
	return t;
}

void gw_check_context(void)
{
	size_t avail, total;

	gw_driver_lock();
	if (!gw_driver_stopped() && gw_push_context(gw_any_context()) == CUDA_SUCCESS) {
		gw_check_fault(GW_CALL(cuMemGetInfo_v2, &avail, &total));
		gw_pop_context();
	}
	gw_driver_unlock();
}
