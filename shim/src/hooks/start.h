/*
 * How the shim begins in a process, and how it ends there.
 */
#ifndef GW_START_H
#define GW_START_H

#include <stdbool.h>

/* False: every call is forwarded as it came. Reads the environment when first asked. */
bool gw_takes_part(void);

#endif
