/*
 * How an allocation ends, of whatever kind it is.
 */
#ifndef GW_ALLOC_H
#define GW_ALLOC_H

#include "registry.h"

/* The driver gave r for an allocation for which bytes were reserved: they become the
 * block, in the current context, or are free again. Returns r. */
CUresult gw_finish_alloc(CUresult r, uint64_t reserved, enum gw_space space,
			 struct gw_block b);

#endif
