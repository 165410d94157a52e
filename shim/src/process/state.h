/*
 * Whether the shim still takes part in the process, its environment, log and clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Every call is forwarded as it came, and nothing else is done any more. */
bool gw_disabled(void);
/* Forward everything from now on, for good, and log why unless that is NULL. */
void gw_disable(const char *why);

/* Write a line to the log, if there is one. */
void gw_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Nanoseconds that only grow. */
int64_t gw_clock(void);

/* What the environment set, read once; docs/shim.md lists the variables. */
struct gw_config {
	char mode[16];
	char socket[108]; /* "" where the path is none that a socket can have */
	uint64_t limit, host_limit; /* 0 is none */
	uint64_t chunk;
	uint64_t arena; /* bytes that a container's processes may pin for moves by vmm */
	uint64_t gate_ms;
};
extern struct gw_config gw_config;

/* Fill it, and open the log. */
void gw_config_read(void);
