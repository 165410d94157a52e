/*
 * Where movable memory lies. The driver does not report it for managed memory. One part
 * of a block is known: our moves have brought it to the host, and it was not used since.
 * All the rest must be taken to lie on the device. The part may begin and end anywhere.
 * Where two parts would be needed the smaller one is forgotten.
 */
#ifndef GW_RESIDENCY_H
#define GW_RESIDENCY_H

#include "memory/block.h"

/* A run began or ended: the program may have used all of its memory again. */
void gw_set_dirty(void);
/* Begin an eviction: blocks that may have come back are known to be evicted no more.
 * all: runs are not reported, so any block may have come back. */
void gw_clear_dirty(bool all);
/* A part of the block has arrived on the host, or may have come to the device; from and
 * to count from the block's start. It is a no-op if the block is gone. */
void gw_set_evicted(uint64_t base, uint32_t id, uint64_t from, uint64_t to);
void gw_set_resident(uint64_t base, uint32_t id, uint64_t from, uint64_t to);
/* So much of the block was likely never used. */
void gw_set_untouched(uint64_t base, uint32_t id, uint64_t bytes);

#endif
