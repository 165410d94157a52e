/*
 * Requests of the program's threads to the agent. The agent is the thread that is
 * connected to the invoker and moves memory by its orders.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "migration/refusal.h"

/* After a successful cuInit; once per process. */
void gw_agent_start(void);
/* Report to it that so many bytes came or went. Cheap. */
void gw_agent_changed(uint64_t bytes);
/* Wait, once, until the invoker has set a limit or there proves to be none. */
void gw_agent_await_limit(void);
/* Ask the invoker for more than was granted, and wait for its answer. False: there is
 * none. */
bool gw_agent_ask(void);
/* Record a sign, and wait a moment until the invoker has been notified, because the
 * program may end because of the error. */
void gw_agent_refused(enum gw_sign sign, CUresult code);
/* Wait that moment, where a sign is recorded and not reported. */
void gw_agent_await_reported(void);
/* The same once the agent has asked a context for its error. */
void gw_agent_await_checked(void);
/* Wake it: a thread waits at the gate. */
void gw_agent_wake(void);
/* In a forked child: the connection is the parent's. */
void gw_agent_leave(void);
