/*
 * How many bytes the process holds, and how many it may hold. The sums follow the
 * registry's blocks. Threads that allocate reserve bytes here first, or wait until a
 * limit has room.
 */
#pragma once

#include "memory/block.h"

struct gw_totals {
	uint64_t allocated; /* device bytes, wherever they lie */
	uint64_t resident;  /* the part that must be taken to be on the device */
	uint64_t fixed;     /* the part that can never be moved */
	uint64_t managed;   /* the part that is managed memory */
	uint64_t listed;    /* the part that the driver lists for the process */
	uint64_t host;      /* pinned host bytes */
	uint64_t blocks;
};

/* Device bytes and host bytes each have a limit. Bytes of pools are device bytes, and a
 * pool may hold some of the requested bytes already. */
enum gw_account { GW_DEVICE_BYTES, GW_HOST_BYTES, GW_POOL_BYTES, GW_ACCOUNTS };

static inline enum gw_account gw_account_of(enum gw_kind kind)
{
	if (kind == GW_POOL)
		return GW_POOL_BYTES;
	return kind == GW_HOST || kind == GW_PHYSICAL_HOST ? GW_HOST_BYTES : GW_DEVICE_BYTES;
}

/* Bytes that the process may hold now, and once the invoker was asked for more. Zero
 * means no limit. */
struct gw_limit {
	uint64_t granted, most;
};
/* Set the limit of device bytes or of host bytes. */
void gw_set_limit(enum gw_account account, struct gw_limit limit);

/* By the driver's figures, pools and graphs hold so many bytes of the device: their live
 * allocations, and the memory that they keep for later. */
void gw_set_kept(uint64_t pools, uint64_t graphs);
/* Graphs will hold so many bytes once they run. So many reserved device bytes are settled
 * with them. */
void gw_set_planned(uint64_t graphs, uint64_t reserved);

/* Reserve bytes below the limit for an allocation about to be made. Each success needs
 * one gw_settle. */
enum gw_room { GW_ROOM, GW_ROOM_IF_ASKED, GW_NO_ROOM };
enum gw_room gw_reserve(enum gw_account account, uint64_t bytes);
/* An allocation that waits for a limit with room. After gw_await_room the first limit with
 * room reserves the bytes, so that no report in between takes them for free. gw_end_await
 * ends the wait and returns whether they are reserved. */
struct gw_waiter {
	enum gw_account account;
	uint64_t bytes;
	bool reserved;
	struct gw_waiter *next;
};
void gw_await_room(struct gw_waiter *w);
bool gw_end_await(struct gw_waiter *w);

struct gw_totals gw_sum(void);
/* Below a limit a device's memory is no larger than the limit, and the rest of the limit
 * is free. It returns false and changes nothing if there is no limit. */
bool gw_below_limit(uint64_t *total, uint64_t *avail);

/* The rest is for the registry and for residency. One lock guards the sums, the blocks
 * and their residency; the caller of the functions below holds it. */
void gw_books_lock(void);
void gw_books_unlock(void);
/* Add a block to the sums, or subtract it. */
void gw_count_block(const struct gw_block *b, bool in);
/* Bytes of movable blocks have left the device, or have come back if negative. */
void gw_count_evicted(const struct gw_block *b, int64_t bytes);
/* While dirty, movable memory counts as on the device. */
void gw_books_set_dirty(bool dirty);
bool gw_books_dirty(void);
/* Bytes that were reserved are reserved no more. */
void gw_unreserve(enum gw_account account, uint64_t bytes);
uint64_t gw_movable_blocks(void);
