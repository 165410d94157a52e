/*
 * The thread that is connected to the invoker and moves memory by its orders.
 */
#ifndef GW_AGENT_H
#define GW_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

/* After a successful cuInit; once per process. */
void gw_agent_start(void);
/* Report to it that so many bytes came or went. Cheap; from any thread. */
void gw_agent_changed(uint64_t bytes);
/* Wake it. */
void gw_agent_wake(void);
/* An invoker is connected. */
bool gw_agent_connected(void);
/* Wait, once, until the invoker has set a limit or there proves to be none. */
void gw_agent_await_limit(void);
/* Ask it for more than was granted, and wait for its answer. False: there is none. */
bool gw_agent_ask(void);

/* physical.c: in a forked child, where its lock is free. */
void gw_physical_reset(void);

/* pools.c: stream-ordered pools and memory owned by graphs. */
void gw_pools_set_in_use(void);
/* Its memory is the host's. */
bool gw_pool_on_host(CUmemoryPool pool);
/* The process has used any. */
bool gw_pools_in_use(void);
/* Bytes that pools and graphs of the current context's device hold beyond
 * their live allocations. */
uint64_t gw_pools_slack(uint64_t live);
/* Give back what they hold for later. */
void gw_pools_trim(void);

#endif
