/*
 * What the driver can be asked about memory, for what is reported and for the
 * choice of what is moved.
 */
#ifndef GW_MEASURE_H
#define GW_MEASURE_H

#include "memory/registry.h"

/* What this process holds, with what its pools keep. at_rest: no more of it is
 * on the device than the device has in use. */
struct gw_totals gw_measure(bool at_rest);
/* Record how much of each block was likely never used. */
void gw_estimate_untouched(void);
/* Give back what pools and graphs keep for later. */
void gw_trim(void);
/* Ask a context for its error: after a kernel's fault the driver gives that for every
 * call. */
void gw_check_context(void);

#endif
