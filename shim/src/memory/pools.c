#include "memory/pools.h"

#include <pthread.h>
#include <stdatomic.h>

#include "driver/resolve.h"

enum { POOLS = 32 };

/* Any of either: a stream's capture makes a graph's memory of a pool's allocation. */
static atomic_bool used;
static struct {
	pthread_mutex_t mu; /* guards all below */
	struct {
		CUmemoryPool pool;
		bool on_host;
	} at[POOLS];
	unsigned n;
} created = {.mu = PTHREAD_MUTEX_INITIALIZER};

void gw_pools_set_in_use(void)
{
	atomic_store_explicit(&used, true, memory_order_relaxed);
}

void gw_add_pool(CUmemoryPool pool, bool on_host)
{
	pthread_mutex_lock(&created.mu);
	if (created.n < POOLS) {
		created.at[created.n].pool = pool;
		created.at[created.n++].on_host = on_host;
	}
	pthread_mutex_unlock(&created.mu);
}

void gw_remove_pool(CUmemoryPool pool)
{
	pthread_mutex_lock(&created.mu);
	for (unsigned i = 0; i < created.n; i++)
		if (created.at[i].pool == pool)
			created.at[i--] = created.at[--created.n];
	pthread_mutex_unlock(&created.mu);
}

bool gw_pool_on_host(CUmemoryPool pool)
{
	bool on_host = false;

	pthread_mutex_lock(&created.mu);
	for (unsigned i = 0; i < created.n; i++)
		on_host |= created.at[i].pool == pool && created.at[i].on_host;
	pthread_mutex_unlock(&created.mu);
	return on_host;
}

/* The pools to look after: the current device's default and those made on devices. */
static unsigned pools(CUmemoryPool out[POOLS + 1], CUdevice *dev)
{
	fn_cuDeviceGetDefaultMemPool *get = GW_REAL(cuDeviceGetDefaultMemPool);
	fn_cuCtxGetDevice *device = GW_REAL(cuCtxGetDevice);
	unsigned n = 0;

	*dev = 0;
	if (!device || device(dev) != CUDA_SUCCESS)
		return 0;
	if (get && get(&out[0], *dev) == CUDA_SUCCESS)
		n = 1;
	pthread_mutex_lock(&created.mu);
	for (unsigned i = 0; i < created.n; i++)
		if (!created.at[i].on_host)
			out[n++] = created.at[i].pool;
	pthread_mutex_unlock(&created.mu);
	return n;
}

static uint64_t reserved(void)
{
	fn_cuMemPoolGetAttribute *get = GW_REAL(cuMemPoolGetAttribute);
	CUmemoryPool list[POOLS + 1];
	CUdevice dev;
	uint64_t sum = 0;
	unsigned n = pools(list, &dev);

	for (unsigned i = 0; get && i < n; i++) {
		uint64_t bytes = 0;
		if (get(list[i], POOL_RESERVED_CURRENT, &bytes) == CUDA_SUCCESS)
			sum += bytes;
	}
	return sum;
}

static uint64_t in_graphs(void)
{
	fn_cuDeviceGetGraphMemAttribute *get = GW_REAL(cuDeviceGetGraphMemAttribute);
	fn_cuCtxGetDevice *device = GW_REAL(cuCtxGetDevice);
	uint64_t bytes = 0;
	CUdevice dev;

	if (!get || !device || device(&dev) != CUDA_SUCCESS ||
	    get(dev, GRAPH_RESERVED_CURRENT, &bytes) != CUDA_SUCCESS)
		return 0;
	return bytes;
}

bool gw_pools_in_use(void)
{
	return atomic_load(&used);
}

uint64_t gw_pools_slack(uint64_t live)
{
	uint64_t total = reserved();

	return (total > live ? total - live : 0) + in_graphs();
}

void gw_pools_trim(void)
{
	fn_cuMemPoolTrimTo *trim = GW_REAL(cuMemPoolTrimTo);
	fn_cuDeviceGraphMemTrim *graphs = GW_REAL(cuDeviceGraphMemTrim);
	CUmemoryPool list[POOLS + 1];
	CUdevice dev;
	unsigned n;

	n = pools(list, &dev);
	for (unsigned i = 0; trim && i < n; i++)
		trim(list[i], 0);
	if (graphs)
		graphs(dev);
}

void gw_pools_reset(void)
{
	pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	created.mu = fresh;
	created.n = 0;
	atomic_store(&used, false);
}
