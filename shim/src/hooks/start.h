/*
 * How the shim begins in a process, and how it ends there.
 */
#ifndef GW_START_H
#define GW_START_H

#include <stdbool.h>

/* False: every call is forwarded as it came. Reads the environment when first asked. */
bool gw_takes_part(void);
/* This is a forked child of a process that had begun with CUDA. The driver refuses all its
 * calls, so they go there as they came. */
extern bool gw_forked;
/* Calls of this thread that are within the shim. In a signal's handler that came in
 * between one the thread may hold any lock. The variable lies in the TLS block that every
 * thread begins with, so no call allocates it. */
extern __thread int gw_call_depth __attribute__((tls_model("initial-exec")));

#endif
