#include "memory/pools.h"

#include <pthread.h>
#include <stdatomic.h>

#include "driver/resolve.h"
#include "memory/contexts.h"
#include "memory/registry.h"
#include "process/state.h"

/* Any of either: a stream's capture makes a graph's memory of a pool's allocation. */
static atomic_bool used;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

/* Held while known pools are used, and by a thread that ends one. */
static pthread_mutex_t known = PTHREAD_MUTEX_INITIALIZER;

void gw_pools_set_in_use(void)
{
	atomic_store_explicit(&used, true, memory_order_relaxed);
}

bool gw_pools_in_use(void)
{
	return atomic_load(&used);
}

void gw_pools_lock(void) { pthread_mutex_lock(&counting); }
void gw_pools_unlock(void) { pthread_mutex_unlock(&counting); }

void gw_add_pool(CUmemoryPool pool, bool on_host)
{
	struct gw_block b;

	if (!gw_find(GW_POOLS, (uintptr_t)pool, &b))
		gw_add(GW_POOLS, &(struct gw_block){
			.base = (uintptr_t)pool, .size = 1, .kind = GW_MAPPED, .owner = on_host,
		});
}

bool gw_remove_pool(CUmemoryPool pool, bool *on_host)
{
	struct gw_block b;

	pthread_mutex_lock(&known);
	bool found = gw_remove(GW_POOLS, (uintptr_t)pool, &b);
	pthread_mutex_unlock(&known);
	*on_host = found && b.owner;
	return found;
}

bool gw_pool_on_host(CUmemoryPool pool)
{
	struct gw_block b;

	return gw_find(GW_POOLS, (uintptr_t)pool, &b) && b.owner;
}

/* Call f for each pool of dev: the default pool of the current device and the pools that
 * the program knows. */
static void each_pool(CUdevice dev, void (*f)(CUmemoryPool, void *), void *arg)
{
	CUmemoryPool own = NULL;
	struct gw_block b;

	if (GW_CALL(cuDeviceGetDefaultMemPool, &own, dev) == CUDA_SUCCESS)
		f(own, arg);
	pthread_mutex_lock(&known);
	for (uint64_t at = UINT64_MAX; gw_find_last(GW_POOLS, at, &b); at = b.base - 1)
		if (!b.owner && b.base != (uintptr_t)own)
			f((CUmemoryPool)(uintptr_t)b.base, arg);
	pthread_mutex_unlock(&known);
}

static void add_reserved(CUmemoryPool pool, void *sum)
{
	uint64_t bytes = 0;

	if (GW_CALL(cuMemPoolGetAttribute, pool, POOL_RESERVED_CURRENT, &bytes) == CUDA_SUCCESS)
		*(uint64_t *)sum += bytes;
}

void gw_pools_count(void)
{
	uint64_t pools = 0, graphs = 0;
	struct gw_current h = gw_current();

	if (!h.ctx)
		return;
	each_pool(h.device, add_reserved, &pools);
	if (GW_CALL(cuDeviceGetGraphMemAttribute, h.device, GRAPH_RESERVED_CURRENT, &graphs) !=
	    CUDA_SUCCESS)
		graphs = 0;
	gw_set_kept(pools, graphs);
}

static void trim(CUmemoryPool pool, void *unused)
{
	(void)unused;
	GW_CALL(cuMemPoolTrimTo, pool, 0);
}

void gw_pools_trim(void)
{
	struct gw_current h = gw_current();
	int mode = CAPTURE_RELAXED;

	if (!h.ctx)
		return;
	bool relaxed = GW_CALL(cuThreadExchangeStreamCaptureMode, &mode) == CUDA_SUCCESS;
	each_pool(h.device, trim, NULL);
	GW_CALL(cuDeviceGraphMemTrim, h.device);
	if (relaxed)
		GW_CALL(cuThreadExchangeStreamCaptureMode, &mode);
}
