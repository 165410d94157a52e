/*
 * Moves of memory that is mapped by us: a piece leaves the device by a copy to the host,
 * an unmap and a release, and comes back at the same addresses. The caller of all
 * functions holds the driver lock.
 */
#pragma once

#include "memory/backend.h"

/* Close the gate and wait for the device, together for no more than so many ms. Else the
 * reason why the memory must stay, for now. */
CUresult gw_swap_begin(int ms);
/* Open the gate unless a piece is out. */
void gw_swap_settle(void);
/* Pin a part of the host memory for moves. False: there is nothing to pin. */
bool gw_swap_prepare(void);
