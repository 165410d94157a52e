/*
 * How an allocation begins and ends, of whatever kind it is. A block is recorded after
 * the driver gave it and removed before the driver takes it back: in between, another
 * thread may get the same address. If the driver refuses to take it, the record is
 * restored.
 */
#pragma once

#include "memory/registry.h"

/* Reserve bytes for an allocation that is about to be made. At the limit, pools and
 * graphs first give back the memory that they keep for later. If other processes of the
 * container could have the bytes, the invoker is asked for them. Returns false if the
 * limit is reached all the same. Each true needs one gw_settle. */
bool gw_obtain(enum gw_account account, uint64_t bytes);

/* Record the memory that pools and graphs hold now. With trim, they first give back the
 * memory that they keep for later. The calling thread must have a context. */
void gw_count_pools(bool trim);

/* The driver gave r for an allocation for which bytes were reserved: they become the
 * block, in the current context, or are free again. Returns r. */
CUresult gw_finish_alloc(CUresult r, uint64_t reserved, struct gw_block b);
/* The same of device memory of which no more was reserved than was taken. */
CUresult gw_finish_device(CUresult r, const CUdeviceptr *out, size_t bytes,
			  enum gw_kind kind);

/* The driver gave r for the end of a block that was removed, if it was known. */
void gw_finish_free(bool known, enum gw_space space, const struct gw_block *b, CUresult r);

/* The bytes that an array takes. */
uint64_t gw_array2d_bytes(const struct gw_array2d *d);
uint64_t gw_array_bytes(const struct gw_array3d *d);
uint64_t gw_mipmap_bytes(const struct gw_array3d *d, unsigned levels);
