/*
 * Stream-ordered memory and its pools, and graphs that own memory: counted, and given
 * back by an eviction where they only keep it.
 */
#include "agent/agent.h"
#include "driver/resolve.h"
#include "hooks/obtain.h"
#include "hooks/serve.h"
#include "memory/contexts.h"
#include "memory/pools.h"

/* Is captured into a graph. In the place of NULL the only stream without a name that
 * can be: the thread's own. */
static bool captured(CUstream stream)
{
	fn_cuStreamIsCapturing *ask = GW_REAL(cuStreamIsCapturing);
	int status = 0;

	return ask && ask(stream ? stream : STREAM_PER_THREAD, &status) == CUDA_SUCCESS &&
	       status;
}

/* What is captured is its graph's, of whose memory the driver keeps account. */
static CUresult finish_ordered(CUresult r, const CUdeviceptr *out, size_t bytes,
			       CUstream stream)
{
	if (r != CUDA_SUCCESS || !captured(stream))
		return gw_finish_device(r, out, bytes, GW_POOL);
	gw_settle(GW_DEVICE_BYTES, bytes, GW_ADDRESS, NULL);
	gw_agent_changed(bytes);
	return r;
}

CUresult gw_on_alloc_async(fn_cuMemAllocAsync *real, CUdeviceptr *out, size_t bytes,
			   CUstream stream)
{
	if (!out)
		return real(out, bytes, stream);
	if (!gw_obtain(GW_DEVICE_BYTES, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	gw_pools_set_in_use();
	return finish_ordered(real(out, bytes, stream), out, bytes, stream);
}

static CUresult alloc_on_host(fn_cuMemAllocFromPoolAsync *real, CUdeviceptr *out,
			      size_t bytes, CUmemoryPool pool, CUstream stream)
{
	if (!gw_obtain(GW_HOST_BYTES, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return gw_finish_device(real(out, bytes, pool, stream), out, bytes, GW_HOST);
}

CUresult gw_on_alloc_from_pool(fn_cuMemAllocFromPoolAsync *real, CUdeviceptr *out,
			       size_t bytes, CUmemoryPool pool, CUstream stream)
{
	if (!out)
		return real(out, bytes, pool, stream);
	if (gw_pool_on_host(pool))
		return alloc_on_host(real, out, bytes, pool, stream);
	if (!gw_obtain(GW_DEVICE_BYTES, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	gw_pools_set_in_use();
	return finish_ordered(real(out, bytes, pool, stream), out, bytes, stream);
}

CUresult gw_on_free_async(fn_cuMemFreeAsync *real, CUdeviceptr ptr, CUstream stream)
{
	struct gw_block b;
	bool known = ptr && gw_remove(GW_ADDRESS, ptr, &b);
	CUresult r = real(ptr, stream);

	gw_finish_free(known, GW_ADDRESS, &b, r);
	return r;
}

CUresult gw_on_pool_create(fn_cuMemPoolCreate *real, CUmemoryPool *pool,
			   const struct gw_memprop *props)
{
	CUresult r = real(pool, props);

	if (r == CUDA_SUCCESS && pool)
		gw_add_pool(*pool, props && gw_on_host(props->location));
	return r;
}

CUresult gw_on_pool_destroy(fn_cuMemPoolDestroy *real, CUmemoryPool pool)
{
	/* The agent asks pools under the driver lock: none dies meanwhile. */
	gw_driver_lock();
	CUresult r = real(pool);
	if (r == CUDA_SUCCESS)
		gw_remove_pool(pool);
	gw_driver_unlock();
	return r;
}

static CUresult graph_memory(CUresult r)
{
	if (r == CUDA_SUCCESS)
		gw_pools_set_in_use();
	return r;
}

/* how begins with the node's type. */
static CUresult graph_node(CUresult r, const int *how)
{
	return how && *how == GRAPH_NODE_MEM_ALLOC ? graph_memory(r) : r;
}

CUresult gw_on_graph_alloc(fn_cuGraphAddMemAllocNode *real, void **node, void *graph,
			   void *const *deps, size_t n, void *how)
{
	return graph_memory(real(node, graph, deps, n, how));
}

CUresult gw_on_graph_node(fn_cuGraphAddNode *real, void **node, void *graph,
			  void *const *deps, size_t n, int *how)
{
	return graph_node(real(node, graph, deps, n, how), how);
}

CUresult gw_on_graph_node_edges(fn_cuGraphAddNode_v2 *real, void **node, void *graph,
				void *const *deps, const void *edges, size_t n,
				int *how)
{
	return graph_node(real(node, graph, deps, edges, n, how), how);
}
