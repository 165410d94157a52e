/*
 * Stream-ordered pools and graphs keep memory for later. The driver's own figures about
 * it go to the registry, which grants and reports memory by them. An eviction makes pools
 * and graphs give the memory back.
 */
#pragma once

#include "memory/registry.h"

/* The process uses memory of a pool or a graph from now on. */
void gw_pools_set_in_use(void);
bool gw_pools_in_use(void);

/* The program has made a pool, or got to know one. It is a no-op if the pool is known. */
void gw_add_pool(CUmemoryPool pool, bool on_host);
/* The program ends a pool. False: the pool was not known. on_host: as it was added. */
bool gw_remove_pool(CUmemoryPool pool, bool *on_host);
/* Reports whether the pool's memory is the host's. */
bool gw_pool_on_host(CUmemoryPool pool);

/* While a thread allocates from a pool the pool may hold more than was granted for a
 * moment. The agent counts and reports only in between. */
void gw_pools_lock(void);
void gw_pools_unlock(void);
/* Ask the driver for the memory that pools and graphs of the current context's device
 * hold, and record it in the registry. The caller must hold gw_pools_lock. */
void gw_pools_count(void);
/* Make pools and graphs give back the memory that they keep for later. Allowed during a
 * stream's capture, too. */
void gw_pools_trim(void);

/*
 * The memory that graphs will take. The driver takes it at a launch, which is not hooked
 * for this, so memory is granted when a node is added: each graph's memory at its end,
 * and the largest further amount that any graph needs while it runs. Graphs that run
 * concurrently may take more. That counts when the driver reports it.
 */

/* Held from gw_graph_growth until the node is recorded. The agent never takes it. */
void gw_graphs_lock(void);
void gw_graphs_unlock(void);

/* Bytes that all graphs will take more if the graph allocates so many. The caller holds
 * gw_graphs_lock. */
uint64_t gw_graph_growth(void *graph, uint64_t bytes);
/* The graph allocates a block, for which so many device bytes were reserved: they are
 * settled. The caller holds gw_graphs_lock. */
void gw_graph_alloc(void *graph, const struct gw_block *b, uint64_t reserved);
/* A node frees the allocation of a graph's node. */
void gw_graph_free(CUdeviceptr ptr);
/* A graph was made executable: its memory is taken until both have ended. */
void gw_graph_instantiated(void *graph, void *exec);
void gw_graph_ended(void *graph);
void gw_graph_exec_ended(void *exec);
/* A context ended, and with it its graphs. */
void gw_remove_graphs_of(CUcontext ctx);
