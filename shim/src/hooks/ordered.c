/*
 * Stream-ordered memory and its pools, and graphs that own memory: counted, and given
 * back by an eviction where they only keep it.
 */
#include "agent/agent.h"
#include "driver/resolve.h"
#include "hooks/hooks.h"
#include "hooks/obtain.h"
#include "memory/contexts.h"
#include "memory/pools.h"
#include "memory/vmm.h"

/* An allocation in a stream's order, from the device's pool or a named one. */
struct request {
	fn_cuMemAllocAsync *plain;
	fn_cuMemAllocFromPoolAsync *from_pool;
	CUdeviceptr *out;
	size_t bytes;
	CUmemoryPool pool;
	CUstream stream;
};

static CUresult carry_out(const struct request *q)
{
	return q->from_pool ? q->from_pool(q->out, q->bytes, q->pool, q->stream) :
			      q->plain(q->out, q->bytes, q->stream);
}

/* The graph into which the stream is captured, or NULL. In the place of NULL the only
 * stream without a name that can be captured: the thread's own. */
static void *captured(CUstream stream)
{
	void *graph = NULL;
	uint64_t id;
	int status = 0;

	if (GW_CALL(cuStreamGetCaptureInfo_v2, stream ? stream : STREAM_PER_THREAD, &status, &id,
		    &graph, NULL, NULL) != CUDA_SUCCESS || !status)
		return NULL;
	return graph;
}

/* The driver returned r for a node that allocates: the reservation becomes part of the
 * memory that graphs will hold. */
static CUresult finish_node(CUresult r, void *graph, const CUdeviceptr *ptr, size_t bytes,
			    uint64_t reserved)
{
	struct gw_current h = gw_current();
	struct gw_block b = {.size = bytes, .ctx = h.ctx, .device = (int16_t)h.device};

	if (r == CUDA_SUCCESS) {
		b.base = *ptr;
		gw_graph_alloc(graph, &b, reserved);
		gw_pools_set_in_use();
	} else {
		gw_settle(GW_DEVICE_BYTES, reserved, GW_ADDRESS, NULL);
	}
	gw_agent_changed(reserved);
	return r;
}

/* Reserve the additional memory that graphs will hold because of a node that allocates.
 * gw_graphs_lock is held from then on. Returns false if the limit is reached. */
static bool reserve_node(void *graph, size_t bytes, uint64_t *growth)
{
	gw_graphs_lock();
	*growth = gw_graph_growth(graph, bytes);
	return gw_obtain(GW_DEVICE_BYTES, *growth);
}

static CUresult alloc_captured(const struct request *q, void *graph)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t growth;

	if (reserve_node(graph, q->bytes, &growth))
		r = finish_node(carry_out(q), graph, q->out, q->bytes, growth);
	gw_graphs_unlock();
	return r;
}

/* Undo the allocation that made the pool hold more than may be granted. */
static void undo(const struct request *q)
{
	GW_CALL(cuMemFreeAsync, *q->out, q->stream);
	GW_CALL(cuStreamSynchronize, q->stream);
	gw_pools_trim();
	gw_pools_count();
}

/* Returns true if all memory of pools is granted after they gave back the memory that
 * they keep. The caller must hold gw_pools_lock. */
static bool all_granted(void)
{
	gw_pools_count();
	if (gw_reserve(GW_POOL_BYTES, 0) == GW_ROOM)
		return true;
	gw_pools_trim();
	gw_pools_count();
	return gw_reserve(GW_POOL_BYTES, 0) == GW_ROOM;
}

/* Allocate the reserved bytes; the pool may grow by growth bytes beyond them. All
 * reservations are settled. *lack is the number of further bytes that would have to be
 * reserved, or 0. */
static CUresult alloc_reserved(const struct request *q, uint64_t growth, uint64_t *lack)
{
	*lack = 0;
	gw_pools_lock();
	uint64_t before = gw_sum().allocated - growth;
	CUresult r = carry_out(q);
	gw_settle(GW_DEVICE_BYTES, growth, GW_ADDRESS, NULL);
	if (r == CUDA_SUCCESS && !all_granted()) {
		*lack = gw_sum().allocated - before;
		undo(q);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = gw_finish_device(r, q->out, q->bytes, GW_POOL);
	gw_pools_unlock();
	return r;
}

/* A pool takes memory of the device by large pieces, whose size shows once it has taken
 * one. If that is more than was granted, it is granted first in a second try. */
static CUresult alloc_ordered(const struct request *q)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t growth = 0, lack = 0;

	gw_pools_set_in_use();
	for (int tries = 0; tries < 2 && (tries == 0 || lack); tries++) {
		if (!gw_obtain(GW_POOL_BYTES, q->bytes))
			return CUDA_ERROR_OUT_OF_MEMORY;
		if (lack && !gw_obtain(GW_DEVICE_BYTES, lack)) {
			gw_settle(GW_POOL_BYTES, q->bytes, GW_ADDRESS, NULL);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		growth = lack;
		r = alloc_reserved(q, growth, &lack);
	}
	return r;
}

static CUresult serve(const struct request *q)
{
	void *graph = captured(q->stream);

	return graph ? alloc_captured(q, graph) : alloc_ordered(q);
}

CUresult gw_on_alloc_async(fn_cuMemAllocAsync *real, CUdeviceptr *out, size_t bytes,
			   CUstream stream)
{
	if (!out)
		return real(out, bytes, stream);
	return serve(&(struct request){
		.plain = real, .out = out, .bytes = bytes, .stream = stream,
	});
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
	gw_add_pool(pool, false);
	return serve(&(struct request){
		.from_pool = real, .out = out, .bytes = bytes, .pool = pool, .stream = stream,
	});
}

static CUresult node_frees(CUresult r, CUdeviceptr ptr)
{
	if (r == CUDA_SUCCESS && ptr)
		gw_graph_free(ptr);
	return r;
}

CUresult gw_on_free_async(fn_cuMemFreeAsync *real, CUdeviceptr ptr, CUstream stream)
{
	struct gw_block b;

	if (gw_pools_in_use() && captured(stream))
		return node_frees(real(ptr, stream), ptr);
	CUresult of_vmm;
	if (gw_vmm_free(ptr, &of_vmm)) { /* allowed for memory of cuMemAlloc, too */
		gw_agent_changed(0);
		return of_vmm;
	}
	bool known = ptr && gw_remove(GW_ADDRESS, ptr, &b);
	CUresult r = real(ptr, stream);
	gw_finish_free(known, GW_ADDRESS, &b, r);
	return r;
}

/* The pool is made, or is the driver's for a place. */
CUresult gw_after_pool(CUresult r, const CUmemoryPool *pool, const struct gw_location *at)
{
	if (r == CUDA_SUCCESS && pool)
		gw_add_pool(*pool, at && gw_on_host(*at));
	return r;
}

CUresult gw_on_pool_destroy(fn_cuMemPoolDestroy *real, CUmemoryPool pool)
{
	bool on_host, known = gw_remove_pool(pool, &on_host);
	CUresult r = real(pool);

	if (r != CUDA_SUCCESS && known)
		gw_add_pool(pool, on_host);
	return r;
}

static struct gw_graph_alloc *gw_node_allocates(struct gw_graph_node *how)
{
	return how && how->type == GRAPH_NODE_MEM_ALLOC ? &how->alloc : NULL;
}

static CUdeviceptr gw_node_frees(const struct gw_graph_node *how)
{
	return how && how->type == GRAPH_NODE_MEM_FREE ? how->freed : 0;
}

#define NODE(base, export, version, flags, params, args, alloc, freed)                    \
	CUresult gw_on_##export(fn_##export *real, GW_LIST params)                        \
	{                                                                                 \
		struct gw_graph_alloc *a = alloc;                                         \
		CUresult r = CUDA_ERROR_OUT_OF_MEMORY;                                    \
		uint64_t growth;                                                          \
		if (!a)                                                                   \
			return node_frees(real args, freed);                              \
		if (reserve_node(graph, a->bytes, &growth))                               \
			r = finish_node(real args, graph, &a->ptr, a->bytes, growth);     \
		gw_graphs_unlock();                                                       \
		return r;                                                                 \
	}
#include "../../abi.def"

/* A graph or an executable one has ended; the other is NULL. */
CUresult gw_after_graph_end(CUresult r, void *graph, void *exec)
{
	if (r == CUDA_SUCCESS && gw_pools_in_use()) {
		if (graph)
			gw_graph_ended(graph);
		if (exec)
			gw_graph_exec_ended(exec);
		gw_agent_changed(0);
	}
	return r;
}

CUresult gw_after_graph_instantiate(CUresult r, void *graph, void *const *exec)
{
	if (r == CUDA_SUCCESS && exec && gw_pools_in_use())
		gw_graph_instantiated(graph, *exec);
	return r;
}
