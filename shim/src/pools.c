/*
 * Stream-ordered pools and graphs keep memory for later. It counts against the
 * process and is given back on an eviction.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "agent.h"
#include "context.h"
#include "hooks.h"
#include "serve.h"

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

CUresult gw_on_pool_create(fn_cuMemPoolCreate *real, CUmemoryPool *pool,
			   const struct gw_memprop *props)
{
	CUresult r = real(pool, props);

	if (r == CUDA_SUCCESS && pool) {
		pthread_mutex_lock(&created.mu);
		if (created.n < POOLS) {
			created.at[created.n].pool = *pool;
			created.at[created.n++].on_host = props && gw_on_host(props->location);
		}
		pthread_mutex_unlock(&created.mu);
	}
	return r;
}

CUresult gw_on_pool_destroy(fn_cuMemPoolDestroy *real, CUmemoryPool pool)
{
	/* The agent asks pools under the work lock: none dies meanwhile. */
	gw_work_lock();
	CUresult r = real(pool);
	pthread_mutex_lock(&created.mu);
	for (unsigned i = 0; r == CUDA_SUCCESS && i < created.n; i++)
		if (created.at[i].pool == pool)
			created.at[i--] = created.at[--created.n];
	pthread_mutex_unlock(&created.mu);
	gw_work_unlock();
	return r;
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

static void graph_memory(CUresult r)
{
	if (r == CUDA_SUCCESS)
		gw_pools_set_in_use();
}

CUresult gw_on_graph_alloc(fn_cuGraphAddMemAllocNode *real, void **node, void *graph,
			   void *const *deps, size_t n, void *how)
{
	CUresult r = real(node, graph, deps, n, how);

	graph_memory(r);
	return r;
}

CUresult gw_on_graph_node(fn_cuGraphAddNode *real, void **node, void *graph,
			  void *const *deps, size_t n, int *how)
{
	CUresult r = real(node, graph, deps, n, how);

	if (how && *how == GRAPH_NODE_MEM_ALLOC)
		graph_memory(r);
	return r;
}

CUresult gw_on_graph_node_edges(fn_cuGraphAddNode_v2 *real, void **node, void *graph,
				void *const *deps, const void *edges, size_t n,
				int *how)
{
	CUresult r = real(node, graph, deps, edges, n, how);

	if (how && *how == GRAPH_NODE_MEM_ALLOC)
		graph_memory(r);
	return r;
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
