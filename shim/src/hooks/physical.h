/*
 * Handles of physical memory, for the hooks that share such memory. The caller of all
 * functions holds the driver lock.
 */
#pragma once

#include "memory/vmm.h"

/* The memory that the handle stands for, 0 if it is not known. */
uint64_t gw_memory_of(CUmemHandle handle);
/* The driver's handle for one of the program's. */
CUmemHandle gw_driver_handle(CUmemHandle handle);
/* One more reference by a handle. */
void gw_add_handle(CUmemHandle handle, uint64_t memory);
/* The memory is exported. shared: as the driver's export has written it. */
void gw_record_export(int type, const void *shared, uint64_t memory);
/* The memory that is imported this way, 0 if it is not this process's. */
uint64_t gw_exported_memory(int type, const void *shared);
/* The memory has ended, and its exports with it. */
void gw_forget_exports(uint64_t memory);
