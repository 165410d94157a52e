/*
 * How an allocation begins and ends, of whatever kind it is.
 */
#ifndef GW_ALLOC_H
#define GW_ALLOC_H

#include "registry.h"

/* Reserve bytes for an allocation about to be made; the invoker is asked for them where
 * other processes of the container could have them. False: the limit is reached. Each
 * true needs one gw_settle. */
bool gw_obtain(enum gw_account account, uint64_t bytes);

/* The driver gave r for an allocation for which bytes were reserved: they become the
 * block, in the current context, or are free again. Returns r. */
CUresult gw_finish_alloc(CUresult r, uint64_t reserved, enum gw_space space,
			 struct gw_block b);

#endif
