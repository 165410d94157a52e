/*
 * Questions to the driver about memory, for reports and for the choice of memory to move.
 */
#pragma once

#include "memory/registry.h"

/* Returns the memory of this process, including the memory that its pools keep. With
 * at_rest, the part on the device is at most the memory in use on the device. */
struct gw_totals gw_measure(bool at_rest);
/* Record how much of each block was likely never used. */
void gw_estimate_untouched(void);
/* Make pools and graphs give back the memory that they keep for later. */
void gw_trim(void);
/* Ask a context for its error: after a kernel's fault the driver gives that for every
 * call. */
void gw_check_context(void);
