/*
 * The memory that this process has exported, by the identity of the export. An import of it
 * in this process is told by that. The caller of all functions holds gw_handles_lock.
 */
#ifndef GW_EXPORTS_H
#define GW_EXPORTS_H

#include <stdint.h>

/* shared: as the driver's export has written it. */
void gw_record_export(int type, const void *shared, uint64_t memory);
/* The memory that is imported this way, 0 if it is not this process's. */
uint64_t gw_exported_memory(int type, const void *shared);
/* The memory has ended, and its exports with it. */
void gw_forget_exports(uint64_t memory);

#endif
