/*
 * The memory that graphs will take. The driver takes it at a launch, which is not hooked
 * for this, so memory is granted when a node is added: each graph's memory at its end,
 * and the largest further amount that any graph needs while it runs. Graphs that run
 * concurrently may take more. That counts when the driver reports it.
 */
#ifndef GW_GRAPHS_H
#define GW_GRAPHS_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/registry.h"

/* Held from gw_graph_growth until the node is recorded. The agent never takes it. */
void gw_graphs_lock(void);
void gw_graphs_unlock(void);

/* Bytes that all graphs will take more if the graph allocates so many. The caller holds
 * gw_graphs_lock. */
uint64_t gw_graph_growth(void *graph, uint64_t bytes);
/* The graph allocates a block, for which so many device bytes were reserved: they are
 * settled. False: no memory to record the block. The caller holds gw_graphs_lock. */
bool gw_graph_alloc(void *graph, const struct gw_block *b, uint64_t reserved);
/* A node frees the allocation of a graph's node. */
void gw_graph_free(CUdeviceptr ptr);
/* A graph was made executable: its memory is taken until both have ended. */
void gw_graph_instantiated(void *graph, void *exec);
void gw_graph_ended(void *graph);
void gw_graph_exec_ended(void *exec);
/* A context ended, and with it its graphs. */
void gw_remove_graphs_of(CUcontext ctx);

#endif
