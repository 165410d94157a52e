/*
 * Moves of memory that is mapped by us: a piece leaves the device by a copy to the host,
 * an unmap and a release, and comes back at the same addresses.
 */
#pragma once

#include "memory/backend.h"

/* Close the gate, with the driver lock held, and wait for the device, together for no more than so many ms. Else the
 * reason why the memory must stay, for now. */
CUresult gw_swap_begin(int ms);
/* Open the gate unless a piece is out. The caller holds the driver lock. */
void gw_swap_settle(void);
/* Pin a part of the host memory, so that later moves are fast. False: there is nothing to
 * pin. */
bool gw_swap_prepare(void);
