/*
 * The exchange between the program's threads and the agent: changes and requests go to
 * the agent, answers go back. This is the agent's side; agent.h is the program's side.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* True: for the first time. */
bool gw_requests_begin(void);
/* Create the descriptor that wakes the agent. */
bool gw_requests_open(void);

/* The descriptor by which the agent is woken, -1 when it is no longer ours. */
int gw_wake_fd(void);
void gw_wake_drain(void);

/* Bytes of change since they were last taken; large: worth a USAGE at once. */
uint64_t gw_changed(bool *large);
void gw_changed_take(void);
void gw_set_large(uint64_t bytes);

/* The number of the newest WANT, 0 if that is answered; and the answer to all up to
 * one. */
uint64_t gw_wanted(void);
void gw_answer(uint64_t number);
/* The invoker has set a limit, or there is none. */
void gw_set_limit_known(void);
void gw_set_connected(bool to_invoker);
/* Threads that wait for the agent shall look again. */
void gw_made_progress(void);

/* A thread waits until a context was asked for its error. */
bool gw_check_wanted(void);
void gw_check_done(void);
