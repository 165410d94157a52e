/*
 * Managed memory in place of device memory. The driver moves it by prefetches, and brings
 * in the pages that a kernel touches.
 */
#ifndef GW_MANAGED_H
#define GW_MANAGED_H

#include "memory/backend.h"

extern const struct gw_backend gw_managed_backend;
extern const struct gw_mover gw_managed_mover;

#endif
