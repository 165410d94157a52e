/*
 * Device memory made of handles that are mapped to reserved addresses (span.h). It can
 * leave the device and come back at the same addresses (swap.h).
 */
#pragma once

#include "memory/backend.h"
#include "memory/span.h"

/* Some memory was allocated this way. */
bool gw_vmm_in_use(void);
/* Free a block. False: the address is in no span, and *r is not set. */
bool gw_vmm_free(CUdeviceptr ptr, CUresult *r);
/* Find the block that holds the address, with the size that the program asked for. */
bool gw_vmm_range(CUdeviceptr ptr, CUdeviceptr *base, size_t *bytes);
/* The memory at the address is shared or registered with another device: it never moves
 * again. The caller is inside the gate. */
void gw_vmm_pin(CUdeviceptr ptr);

/* Reports whether memory that the program makes this way can move. */
bool gw_vmm_makes(const struct gw_memprop *how);
/* Make it. The caller holds the driver lock. */
CUresult gw_vmm_make(uint64_t bytes, const struct gw_memprop *how, struct gw_span **out);
/* The span of memory with this number in GW_MEMORY; NULL: it cannot move. The caller holds
 * the driver lock. */
struct gw_span *gw_physical_span(uint64_t memory);
