#include "memory/pools.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "driver/resolve.h"
#include "memory/contexts.h"
#include "memory/registry.h"
#include "process/state.h"

/* Any of either: a stream's capture makes a graph's memory of a pool's allocation. */
static atomic_bool used;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

struct pool {
	CUmemoryPool pool;
	bool on_host;
	struct pool *next;
};
static struct {
	pthread_mutex_t mu; /* guards all below, and keeps the pools alive */
	struct pool *first;
} known = {.mu = PTHREAD_MUTEX_INITIALIZER};

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

/* The place of the pool in the list, or the list's end. The caller holds known.mu. */
static struct pool **find(CUmemoryPool pool)
{
	struct pool **at = &known.first;

	while (*at && (*at)->pool != pool)
		at = &(*at)->next;
	return at;
}

void gw_add_pool(CUmemoryPool pool, bool on_host)
{
	pthread_mutex_lock(&known.mu);
	struct pool **at = find(pool);
	if (!*at) {
		*at = calloc(1, sizeof **at);
		if (*at)
			**at = (struct pool){pool, on_host, NULL};
	}
	pthread_mutex_unlock(&known.mu);
}

bool gw_remove_pool(CUmemoryPool pool, bool *on_host)
{
	pthread_mutex_lock(&known.mu);
	struct pool **at = find(pool), *p = *at;
	if (p) {
		*at = p->next;
		*on_host = p->on_host;
	}
	pthread_mutex_unlock(&known.mu);
	free(p);
	return p != NULL;
}

bool gw_pool_on_host(CUmemoryPool pool)
{
	pthread_mutex_lock(&known.mu);
	struct pool *p = *find(pool);
	bool on_host = p && p->on_host;
	pthread_mutex_unlock(&known.mu);
	return on_host;
}

/* Call f for each pool of dev: the default pool of the current device and the pools that
 * the program knows. */
static void each_pool(CUdevice dev, void (*f)(CUmemoryPool, void *), void *arg)
{
	CUmemoryPool own = NULL;

	if (GW_CALL(cuDeviceGetDefaultMemPool, &own, dev) == CUDA_SUCCESS)
		f(own, arg);
	pthread_mutex_lock(&known.mu);
	for (struct pool *p = known.first; p; p = p->next)
		if (!p->on_host && p->pool != own)
			f(p->pool, arg);
	pthread_mutex_unlock(&known.mu);
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
