/*
 * The registry: every live allocation, found by its base or by any address within
 * it. Nothing here calls the driver.
 */
#pragma once

#include "memory/block.h"
#include "memory/limits.h"

/* Arrays and the handles of physical memory are no addresses. The memory itself has a
 * number: several handles may refer to it, and it may outlive all its handles. A span is
 * a range of addresses that we reserved. The others are no memory: the driver's functions,
 * executable graphs, stream-ordered pools, and green contexts. */
enum gw_space {
	GW_ADDRESS,
	GW_HANDLE,
	GW_MEMORY,
	GW_SPAN,
	GW_FUNCTIONS,
	GW_EXECS,
	GW_POOLS,
	GW_GREENS,
	GW_SPACES
};

/* The reserved bytes become the block, or nothing if that is NULL, in one step: at no
 * time do both count. */
void gw_settle(enum gw_account account, uint64_t reserved, enum gw_space space,
	       const struct gw_block *b);

/* Record a block. Without memory for the record the shim steps aside. */
void gw_add(enum gw_space space, const struct gw_block *b);
/* Remove the block that begins there. False: unknown. */
bool gw_remove(enum gw_space space, uint64_t base, struct gw_block *out);
/* Remove a mapping that begins within the range. False: there is none. */
bool gw_remove_mapping(uint64_t from, uint64_t bytes, struct gw_block *out);
/* The block that holds the address. */
bool gw_find(enum gw_space space, uint64_t address, struct gw_block *out);
/* The block that begins at the address or is the last one before it. */
bool gw_find_last(enum gw_space space, uint64_t address, struct gw_block *out);
/* References of a handle, or of memory, which is gone when none is left. False: it is not
 * known. */
bool gw_change_refs(enum gw_space space, uint64_t base, int change);

/* A copy of all movable blocks in pages of their own, the largest first, of equal ones
 * the youngest: young ones are likely in use by the function itself and not by its
 * libraries. Free it with gw_free_list. */
struct gw_block *gw_list_movable(size_t *n);
void gw_free_list(struct gw_block *list, size_t n);
/* Forget the nodes of a graph, and its executable graphs. */
void gw_remove_nodes_of(uint64_t graph);
/* Forget the blocks of a dead context. */
void gw_remove_blocks_of(CUcontext ctx);

/* For residency: the caller holds gw_books_lock. The movable block at the base, if it is still the one with this id. */
struct gw_block *gw_movable_at(uint64_t base, uint32_t id);
/* Call f for each block of an address. */
void gw_each_block(void (*f)(struct gw_block *));

/*
 * Where movable memory lies. The driver does not report it for managed memory. The end of a
 * block is known to be out if our moves have brought it to the host and it was not used
 * since. All the rest must be taken to lie on the device. So moves take a block from its end
 * and bring it back from its start.
 */

/* A run began or ended: the program may have used all of its memory again. */
void gw_set_dirty(void);
/* Begin an eviction: blocks that may have come back are known to be evicted no more.
 * all: runs are not reported, so any block may have come back. */
void gw_clear_dirty(bool all);
/* A part of the block has arrived on the host; from and to count from the block's start. It
 * is a no-op if the block is gone, or if memory behind the part may have come back. */
void gw_set_evicted(uint64_t base, uint32_t id, uint64_t from, uint64_t to);
/* The block's bytes before to may have come to the device. It is a no-op if the block is
 * gone. */
void gw_set_resident(uint64_t base, uint32_t id, uint64_t to);
/* So much of the block was likely never used. */
void gw_set_untouched(uint64_t base, uint32_t id, uint64_t bytes);
