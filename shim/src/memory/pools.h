/*
 * Stream-ordered pools and graphs keep memory for later. The driver's own figures about
 * it go to the registry, which grants and reports memory by them. An eviction makes pools
 * and graphs give the memory back.
 */
#ifndef GW_POOLS_H
#define GW_POOLS_H

#include <stdbool.h>

#include "driver/abi.h"

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

#endif
