/*
 * Copies to host memory that is not pinned, by a ring of small pinned buffers: while the link
 * fills or empties some, the processor copies another. The caller of all functions holds the
 * driver lock, and a context is current.
 */
#ifndef GW_RING_H
#define GW_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/abi.h"

struct gw_copy {
	CUdeviceptr device;
	uint8_t *host;
	uint64_t bytes;
	bool out; /* to the host */
	CUstream stream;
};

/* Order the copy, in the order of its stream. */
CUresult gw_copy_order(const struct gw_copy *c);
/* Carry the copy out by the ring. It is done at the return. Without a ring it is ordered. */
CUresult gw_ring_copy(const struct gw_copy *c);

#endif
