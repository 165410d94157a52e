/*
 * The session with one invoker after the other: what it commands is done, what the
 * process holds is reported. Used by the agent's thread alone.
 */
#ifndef GW_SESSION_H
#define GW_SESSION_H

#include <stdbool.h>

/* False: no invoker is at the path. */
bool gw_session_open(const char *path);
bool gw_session_is_open(void);
/* The invoker speaks another version: no session is of use. */
bool gw_session_is_refused(void);
/* Wait for the invoker or for the program's threads, and do what there is to do, or a
 * part of it. Ends the session when the connection is of no more use. */
void gw_session_serve(void);
void gw_session_close(void);
/* Wait without a session. */
void gw_session_wait(int ms);
/* In a forked child. */
void gw_session_reset(void);

#endif
