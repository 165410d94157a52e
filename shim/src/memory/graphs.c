#include "memory/pools.h"
#include "process/state.h"

#include <pthread.h>
#include <stdlib.h>

struct graph {
	void *graph; /* NULL if the graph has ended and its executable graphs have not */
	CUcontext ctx;
	uint64_t live, most; /* bytes of its nodes, as they were added */
	unsigned execs;
	struct graph *next;
};
static struct {
	pthread_mutex_t mu; /* guards all below */
	struct graph *first;
} graphs = {.mu = PTHREAD_MUTEX_INITIALIZER};

void gw_graphs_lock(void) { pthread_mutex_lock(&graphs.mu); }
void gw_graphs_unlock(void) { pthread_mutex_unlock(&graphs.mu); }

/* The bytes that all take, if this one allocates more. The caller holds the lock. */
static uint64_t plan(void *graph, uint64_t more)
{
	uint64_t live = more, beyond = 0;

	for (struct graph *g = graphs.first; g; g = g->next) {
		uint64_t held = g->live + (graph && g->graph == graph ? more : 0);
		live += g->live;
		beyond = gw_max(beyond, gw_max(g->most, held) - held);
	}
	return live + beyond;
}

uint64_t gw_graph_growth(void *graph, uint64_t bytes)
{
	uint64_t now = plan(NULL, 0), then = plan(graph, bytes);

	return then > now ? then - now : 0;
}

/* The caller holds the lock. */
static struct graph **find(void *graph)
{
	struct graph **at = &graphs.first;

	while (*at && (*at)->graph != graph)
		at = &(*at)->next;
	return at;
}

void gw_graph_alloc(void *graph, const struct gw_block *b, uint64_t reserved)
{
	struct gw_block node = *b;
	struct graph **at = find(graph), *g = *at;

	if (!g && (g = *at = calloc(1, sizeof *g)))
		*g = (struct graph){.graph = graph, .ctx = b->ctx};
	if (g) {
		g->live += b->size;
		g->most = gw_max(g->most, g->live);
		node.kind = GW_GRAPH;
		node.owner = (uintptr_t)g;
		gw_add(GW_ADDRESS, &node);
	} else {
		gw_disable("no memory for the registry");
	}
	gw_set_planned(plan(NULL, 0), reserved);
}

void gw_graph_free(CUdeviceptr ptr)
{
	struct gw_block b;

	gw_graphs_lock();
	if (gw_find(GW_ADDRESS, ptr, &b) && b.base == ptr && b.kind == GW_GRAPH &&
	    gw_remove(GW_ADDRESS, ptr, &b)) {
		((struct graph *)(uintptr_t)b.owner)->live -= b.size;
		gw_set_planned(plan(NULL, 0), 0);
	}
	gw_graphs_unlock();
}

/* Remove a graph, with its nodes and executable graphs. The caller must hold the lock. */
static void remove_at(struct graph **at)
{
	struct graph *g = *at;

	*at = g->next;
	gw_remove_nodes_of((uintptr_t)g);
	free(g);
	gw_set_planned(plan(NULL, 0), 0);
}

/* Remove a graph of which nothing is left. The caller holds the lock. */
static void remove_if_over(struct graph *g)
{
	struct graph **at = &graphs.first;

	while (*at != g)
		at = &(*at)->next;
	if (!g->graph && !g->execs)
		remove_at(at);
}

void gw_graph_instantiated(void *graph, void *exec)
{
	gw_graphs_lock();
	struct graph *g = *find(graph);
	if (g) {
		gw_add(GW_EXECS, &(struct gw_block){
			.base = (uintptr_t)exec, .kind = GW_GRAPH, .owner = (uintptr_t)g,
		});
		g->execs++;
	}
	gw_graphs_unlock();
}

void gw_graph_ended(void *graph)
{
	gw_graphs_lock();
	struct graph *g = graph ? *find(graph) : NULL;
	if (g) {
		g->graph = NULL;
		remove_if_over(g);
	}
	gw_graphs_unlock();
}

void gw_graph_exec_ended(void *exec)
{
	struct gw_block b;

	gw_graphs_lock();
	if (gw_remove(GW_EXECS, (uintptr_t)exec, &b)) {
		struct graph *g = (struct graph *)(uintptr_t)b.owner;
		g->execs--;
		remove_if_over(g);
	}
	gw_graphs_unlock();
}

void gw_remove_graphs_of(CUcontext ctx)
{
	gw_graphs_lock();
	for (struct graph **at = &graphs.first; *at;)
		if ((*at)->ctx == ctx)
			remove_at(at);
		else
			at = &(*at)->next;
	gw_graphs_unlock();
}
