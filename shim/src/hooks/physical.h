/*
 * Handles of physical memory, for the hooks that share such memory.
 */
#pragma once

#include "memory/vmm.h"

/* A handle that ends may be given out again at once, to another thread. So the driver's call
 * and our record of a handle are one step, under this lock, which the caller of all functions
 * below holds. */
void gw_handles_lock(void);
void gw_handles_unlock(void);

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
