#include "migration/measure.h"

#include "driver/resolve.h"
#include "memory/contexts.h"
#include "memory/residency.h"
#include "memory/pools.h"
#include "migration/refusal.h"

static uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Make a context current to ask pools and graphs in, where the process has
 * any. The caller holds the driver lock. */
static bool push_context_for_pools(void)
{
	return !gw_driver_stopped() && gw_pools_in_use() &&
	       gw_push_context(gw_any_context()) == CUDA_SUCCESS;
}

/* What pools and graphs keep for later would have to be made anew: it is given
 * back for an eviction only. */
void gw_trim(void)
{
	gw_driver_lock();
	if (push_context_for_pools()) {
		gw_pools_trim();
		gw_pop_context();
	}
	gw_driver_unlock();
}

/* What the bytes on the device cannot exceed: what is in use there by any process.
 * No bound is known where the driver does not answer, or where the process has
 * contexts on several devices. The caller holds the driver lock. */
static uint64_t device_used(void)
{
	fn_cuMemGetInfo_v2 *info = GW_REAL(cuMemGetInfo_v2);
	size_t avail = 0, total = 0;
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (!gw_driver_stopped() && gw_push_context(gw_single_device_context()) == CUDA_SUCCESS) {
		if (info)
			r = info(&avail, &total);
		gw_pop_context();
	}
	return r == CUDA_SUCCESS && total >= avail ? total - avail : UINT64_MAX;
}

/*
 * More memory than the device has in use was never used in part: an arena, of
 * which a library gives out pieces. The surplus is taken off the largest
 * blocks. Which part of them was used is not known; arenas are mostly used from
 * their start, so that is what a prefetch brings in, and a kernel that needs
 * other parts fetches them itself. An eviction does not depend on the guess.
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
			sum += list[i].size - gw_evicted(&list[i]);
	/* No surplus proves nothing: others may use the rest of the device. */
	uint64_t surplus = sum > used ? sum - used : 0;
	for (size_t i = 0; i < n && sum > used; i++) {
		if (!gw_comes_unseen(&list[i]))
			continue;
		uint64_t off = min(list[i].size - gw_evicted(&list[i]), surplus);
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
	t.resident = t.listed + min(t.resident - t.listed, used);
	return t;
}

void gw_check_context(void)
{
	fn_cuMemGetInfo_v2 *info = GW_REAL(cuMemGetInfo_v2);
	size_t avail, total;

	gw_driver_lock();
	if (info && !gw_driver_stopped() && gw_push_context(gw_any_context()) == CUDA_SUCCESS) {
		gw_check_fault(info(&avail, &total));
		gw_pop_context();
	}
	gw_driver_unlock();
}
