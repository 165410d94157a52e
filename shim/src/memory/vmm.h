/*
 * Device memory made of handles that are mapped to reserved addresses. It leaves the
 * device by a copy to the host, an unmap and a release, and comes back at the same
 * addresses. A span is one reservation: the pieces of a large block, or a slab with small
 * blocks of one size. A piece is one handle and moves as a whole.
 */
#ifndef GW_VMM_H
#define GW_VMM_H

#include "memory/backend.h"

/* A driver's large page: the size and alignment of handles. */
enum { GW_GRANULE = 2 << 20 };

extern const struct gw_backend gw_vmm_backend;

/* Some memory was allocated this way. */
bool gw_vmm_in_use(void);
/* Free a block. False: the address is in no span, and *r is not set. */
bool gw_vmm_free(CUdeviceptr ptr, CUresult *r);
/* Find the block that holds the address, with the size that the program asked for. */
bool gw_vmm_range(CUdeviceptr ptr, CUdeviceptr *base, size_t *bytes);
/* The memory at the address is shared or registered with another device: it never moves
 * again. The caller is inside the gate. */
void gw_vmm_pin(CUdeviceptr ptr);

/* The rest is for the agent. The caller holds the driver lock. */
/* Close the gate and wait for the device, together for no more than so many ms. Else the
 * reason why the memory must stay, for now. */
CUresult gw_vmm_close(int ms);
/* Open the gate unless a piece is out. */
void gw_vmm_settle(void);
/* Pieces that are out. */
unsigned gw_vmm_out(void);
/* Pin a part of the host memory for moves. False: there is nothing to pin. */
bool gw_vmm_prepare(void);

/* In a forked child: there are no spans. */
void gw_vmm_reset(void);

#endif
