/*
 * Stream-ordered pools and graphs keep memory for later. It counts against the
 * process and is given back on an eviction.
 */
#ifndef GW_POOLS_H
#define GW_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/abi.h"

/* The process uses memory of a pool or a graph from now on. */
void gw_pools_set_in_use(void);
bool gw_pools_in_use(void);

/* The program has made a pool, or ended one. */
void gw_add_pool(CUmemoryPool pool, bool on_host);
void gw_remove_pool(CUmemoryPool pool);
/* Its memory is the host's. */
bool gw_pool_on_host(CUmemoryPool pool);

/* Bytes that pools and graphs of the current context's device hold beyond
 * their live allocations. */
uint64_t gw_pools_slack(uint64_t live);
/* Give back what they hold for later. */
void gw_pools_trim(void);

/* Forget all, in a forked child. */
void gw_pools_reset(void);

#endif
