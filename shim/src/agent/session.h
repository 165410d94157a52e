/*
 * The session with one invoker after the other: it carries out the invoker's commands and
 * reports the memory of the process. Only the agent's thread uses it.
 */
#pragma once

#include <stdbool.h>

/* False: no invoker is at the path. */
bool gw_session_open(const char *path);
bool gw_session_is_open(void);
/* The invoker speaks another version: no session is of use. */
bool gw_session_is_refused(void);
/* Wait for the invoker or for the program's threads, and do all or part of the pending
 * work. Ends the session if the connection is unusable. */
void gw_session_serve(void);
void gw_session_close(void);
/* In a forked child: the connection is the parent's. */
void gw_session_leave(void);
/* Wait without a session. */
void gw_session_wait(int ms);
