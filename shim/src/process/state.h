/*
 * Whether the shim still takes part in the process, its log and its clock.
 */
#ifndef GW_STATE_H
#define GW_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* Every call is forwarded as it came, and nothing else is done any more. */
bool gw_disabled(void);
/* Forward everything from now on, for good, and log why unless that is NULL. */
void gw_disable(const char *why);

/* Log on a copy of this descriptor: the program may close its own. */
void gw_log_open(int fd);
/* Write a line to the log, if there is one. */
void gw_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Nanoseconds that only grow. */
int64_t gw_clock(void);

#endif
