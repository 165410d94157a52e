/*
 * Stream-ordered pools, and graphs that own memory.
 *
 * A pool takes memory of the device in units of FAKE_CUDA_POOL_CHUNK and keeps freed
 * memory. It gives back the memory above its release threshold when the program
 * synchronizes, and all kept memory when it is trimmed.
 *
 * A graph takes its memory when it is launched: the largest amount that its nodes hold at
 * any time, in the order in which they were added. Graphs that run one after the other
 * share it.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

struct fake_pool {
	struct gw_memprop prop;
	int device; /* CPU_DEVICE: the host */
	uint64_t live, reserved, threshold;
	struct fake_pool *next;
};
static struct fake_pool *made, default_pool[DEVICES], host_pool = {.device = CPU_DEVICE};

static struct fake_pool *known(CUmemoryPool pool)
{
	for (int i = 0; i < DEVICES; i++)
		if (pool == &default_pool[i]) {
			default_pool[i].device = i;
			return pool;
		}
	for (struct fake_pool *p = made; p; p = p->next)
		if (p == pool)
			return p;
	return pool == &host_pool ? pool : NULL;
}

static void give_back(struct fake_pool *p, uint64_t keep)
{
	uint64_t chunk = fake.pool_chunk, least = (p->live + chunk - 1) / chunk * chunk;

	if (least < keep)
		least = keep;
	if (p->device == CPU_DEVICE || p->reserved <= least)
		return;
	fake.used[p->device] -= p->reserved - least;
	fake_release(p->device, p->reserved - least, false);
	p->reserved = least;
}

bool fake_pool_take(struct fake_pool *p, uint64_t bytes)
{
	uint64_t chunk = fake.pool_chunk;
	uint64_t lack = p->live + bytes > p->reserved ? p->live + bytes - p->reserved : 0;

	lack = (lack + chunk - 1) / chunk * chunk;
	if (p->device != CPU_DEVICE && lack) {
		if (!fake_make_space(p->device, lack, false, NULL))
			return false;
		fake.used[p->device] += lack;
		p->reserved += lack;
	}
	p->live += bytes;
	return true;
}

void fake_pool_free(struct fake_pool *p, uint64_t bytes) { p->live -= bytes; }

void fake_pools_synchronize(void)
{
	for (int i = 0; i < DEVICES; i++)
		give_back(&default_pool[i], default_pool[i].threshold);
	for (struct fake_pool *p = made; p; p = p->next)
		give_back(p, p->threshold);
}

struct fake_pool *fake_pool_of(CUmemoryPool pool) { return known(pool); }
struct fake_pool *fake_default_pool(int device)
{
	fake_lock();
	struct fake_pool *p = known(&default_pool[device]);
	fake_unlock();
	return p;
}

void fake_pool_end(int device)
{
	default_pool[device].live = 0;
	give_back(&default_pool[device], 0);
}

CUresult fake_cuMemPoolCreate(CUmemoryPool *pool, const struct gw_memprop *props)
{
	struct fake_pool *p = calloc(1, sizeof *p);

	if (props)
		p->prop = *props;
	p->device = gw_on_host(p->prop.location) ? CPU_DEVICE : 0;
	if (p->prop.location.type == LOCATION_DEVICE)
		p->device = p->prop.location.id;
	fake_lock();
	p->next = made;
	made = p;
	fake_unlock();
	*pool = p;
	return CUDA_SUCCESS;
}

CUresult fake_cuMemPoolDestroy(CUmemoryPool pool)
{
	fake_lock();
	struct fake_pool **at = &made;
	while (*at && *at != pool)
		at = &(*at)->next;
	struct fake_pool *p = *at;
	if (p) {
		*at = p->next;
		p->live = 0;
		give_back(p, 0);
	}
	fake_unlock();
	free(p);
	return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
	*pool = &default_pool[dev];
	return CUDA_SUCCESS;
}

static CUresult pool_at(CUmemoryPool *pool, const struct gw_location *at)
{
	if (!pool || !at)
		return CUDA_ERROR_INVALID_VALUE;
	*pool = gw_on_host(*at) ? &host_pool : &default_pool[at->id];
	return CUDA_SUCCESS;
}
CUresult fake_cuMemGetDefaultMemPool(CUmemoryPool *pool, struct gw_location *at, int type)
{
	return pool_at(pool, at);
}
CUresult fake_cuMemGetMemPool(CUmemoryPool *pool, struct gw_location *at, int type)
{
	return pool_at(pool, at);
}

CUresult fake_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	fake_lock();
	struct fake_pool *p = known(pool);
	if (p)
		give_back(p, keep);
	fake_unlock();
	return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	fake_lock();
	struct fake_pool *p = known(pool);
	bool ok = p && attribute == POOL_RESERVED_CURRENT;
	if (ok)
		*(uint64_t *)value = p->reserved;
	fake_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	enum { RELEASE_THRESHOLD = 4 };

	fake_lock();
	struct fake_pool *p = known(pool);
	bool ok = p && attribute == RELEASE_THRESHOLD;
	if (ok)
		p->threshold = *(uint64_t *)value;
	fake_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The memory that the nodes of a graph hold, by the graph's address. */
static struct graph {
	void *graph;
	uint64_t live, most;
	bool launched; /* and its live memory not freed */
	struct graph *next;
} *graphs;
static struct node {
	CUdeviceptr ptr;
	uint64_t bytes;
	struct graph *of;
	struct node *next;
} *nodes;
static uint64_t graph_reserved;

static struct graph *graph_of(void *graph)
{
	struct graph *g = graphs;

	while (g && g->graph != graph)
		g = g->next;
	if (g)
		return g;
	g = calloc(1, sizeof *g);
	*g = (struct graph){.graph = graph, .next = graphs};
	return graphs = g;
}

void fake_graph_alloc(void *graph, CUdeviceptr ptr, uint64_t bytes)
{
	struct node *n = calloc(1, sizeof *n);
	struct graph *g = graph_of(graph);

	*n = (struct node){ptr, bytes, g, nodes};
	nodes = n;
	g->live += bytes;
	if (g->most < g->live)
		g->most = g->live;
}

bool fake_graph_free(CUdeviceptr ptr)
{
	for (struct node **at = &nodes; *at; at = &(*at)->next) {
		struct node *n = *at;
		if (n->ptr != ptr)
			continue;
		n->of->live -= n->bytes;
		*at = n->next;
		free(n);
		return true;
	}
	return false;
}

/* Returns the memory that launched graphs hold beyond their end. */
static uint64_t graphs_live(void)
{
	uint64_t sum = 0;

	for (struct graph *g = graphs; g; g = g->next)
		sum += g->launched ? g->live : 0;
	return sum;
}

static CUresult launch(void *graph)
{
	struct graph *g = graph_of(graph);
	uint64_t live = graphs_live(), need = g->most + live - (g->launched ? g->live : 0);

	if (need > graph_reserved) {
		if (!fake_make_space(0, need - graph_reserved, false, NULL))
			return CUDA_ERROR_OUT_OF_MEMORY;
		fake.used[0] += need - graph_reserved;
		graph_reserved = need;
	}
	g->launched = true;
	return CUDA_SUCCESS;
}

/* A captured graph is the stream that it was captured on. */
CUresult fake_cuGraphLaunch(void *graph, CUstream stream)
{
	CUresult why;

	if (!fake_current(&why))
		return why;
	fake_lock();
	CUresult r = graph ? launch(graph) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = fake_graph_replay(graph, stream);
	fake_unlock();
	return r;
}

/* The executable graph is the graph itself. */
CUresult fake_cuGraphInstantiate(void **exec, void *graph, void **failed, char *log, size_t bytes)
{
	*exec = graph;
	return graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult fake_cuGraphInstantiate_v2(void **exec, void *graph, void **failed, char *log, size_t n)
{
	return fake_cuGraphInstantiate(exec, graph, failed, log, n);
}
CUresult fake_cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
	return fake_cuGraphInstantiate(exec, graph, NULL, NULL, 0);
}
CUresult fake_cuGraphInstantiateWithParams(void **exec, void *graph, void *how)
{
	return fake_cuGraphInstantiate(exec, graph, NULL, NULL, 0);
}
CUresult fake_cuGraphInstantiateWithParams_ptsz(void **exec, void *graph, void *how)
{
	return fake_cuGraphInstantiate(exec, graph, NULL, NULL, 0);
}
/* Its memory is freed with the executable graph. */
CUresult fake_cuGraphDestroy(void *graph) { return graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult fake_cuGraphExecDestroy(void *graph)
{
	fake_lock();
	fake_graph_forget(graph);
	for (struct node **at = &nodes; *at;) {
		struct node *n = *at;
		if (n->of->graph == graph) {
			*at = n->next;
			free(n);
		} else {
			at = &n->next;
		}
	}
	for (struct graph **at = &graphs; *at;) {
		struct graph *g = *at;
		if (g->graph == graph) {
			*at = g->next;
			free(g);
		} else {
			at = &g->next;
		}
	}
	fake_unlock();
	return CUDA_SUCCESS;
}

static CUresult add_alloc(void **node, void *graph, struct gw_graph_alloc *how)
{
	CUresult r;
	struct fake_context *c = fake_current(&r);
	uint64_t base = 0;

	if (!c)
		return r;
	fake_lock();
	r = fake_new(c, how->bytes, FAKE_VIEW, &base);
	if (r == CUDA_SUCCESS)
		fake_graph_alloc(graph, base, how->bytes);
	fake_unlock();
	how->ptr = base;
	*node = (void *)(uintptr_t)base;
	return r;
}

CUresult fake_cuGraphAddMemAllocNode(void **node, void *graph, void *const *deps, size_t n,
				     struct gw_graph_alloc *how)
{
	return how ? add_alloc(node, graph, how) : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuGraphAddMemFreeNode(void **node, void *graph, void *const *deps, size_t n,
				    CUdeviceptr ptr)
{
	fake_lock();
	bool ok = fake_graph_free(ptr);
	fake_unlock();
	*node = &graphs;
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult add_node(void **node, void *graph, struct gw_graph_node *how)
{
	if (how->type == GRAPH_NODE_MEM_ALLOC)
		return add_alloc(node, graph, &how->alloc);
	if (how->type == GRAPH_NODE_MEM_FREE)
		return fake_cuGraphAddMemFreeNode(node, graph, NULL, 0, how->freed);
	return CUDA_SUCCESS;
}

CUresult fake_cuGraphAddNode(void **node, void *graph, void *const *deps, size_t n,
			     struct gw_graph_node *how)
{
	return add_node(node, graph, how);
}
CUresult fake_cuGraphAddNode_v2(void **node, void *graph, void *const *deps,
				const void *edges, size_t n, struct gw_graph_node *how)
{
	return add_node(node, graph, how);
}
CUresult fake_cuGraphAddNode_v3(void **node, void *graph, void *const *deps,
				const void *edges, size_t n, struct gw_graph_node *how)
{
	return add_node(node, graph, how);
}

CUresult fake_cuDeviceGraphMemTrim(CUdevice dev)
{
	fake_lock();
	uint64_t live = graphs_live();
	if (graph_reserved > live) {
		fake.used[0] -= graph_reserved - live;
		fake_release(0, graph_reserved - live, false);
		graph_reserved = live;
	}
	fake_unlock();
	return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGetGraphMemAttribute(CUdevice dev, int attribute, void *value)
{
	fake_lock();
	*(uint64_t *)value = graph_reserved;
	fake_unlock();
	return CUDA_SUCCESS;
}
