/*
 * The registry: every live allocation, found by its base or by any address within
 * it. Nothing here calls the driver.
 *
 * The driver does not report where managed memory lies. What is known of a block
 * is one part that our moves have brought to the host and that was not used
 * since; all the rest must be taken to lie on the device. The part may begin
 * and end anywhere. Where two would be needed the smaller one is forgotten.
 */
#ifndef GW_REGISTRY_H
#define GW_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/abi.h"

enum gw_kind {
	GW_MANAGED,  /* managed in place of device memory */
	GW_NATIVE,   /* managed by the program's own wish */
	GW_PLAIN,    /* device memory as asked for */
	GW_POOL,     /* stream-ordered */
	GW_PHYSICAL, /* cuMemCreate */
	GW_MAPPED,   /* a handle or a mapping of such memory: no bytes of its own */
	GW_GRAPH,    /* a node of a graph: its bytes are in the figure of graphs */
	GW_ARRAY,
	GW_EXTERNAL, /* imported from another API */
	GW_HOST,     /* pinned host memory */
	GW_PHYSICAL_HOST, /* cuMemCreate on the host */
	GW_KINDS
};

/* The largest page by which a driver moves managed memory. */
enum { GW_PAGE = 1 << 16 };

/* Arrays and the handles of physical memory are no addresses. The memory itself has a
 * number: several handles may stand for it, and it may outlive them all. */
enum gw_space { GW_ADDRESS, GW_HANDLE, GW_MEMORY, GW_SPACES };

/* Kept small: a program may have ten thousands. */
struct gw_block {
	uint64_t base, size;
	union {
		struct { /* of a movable block: what is known to be evicted, if any */
			uint64_t evicted_from, evicted_to;
		};
		uint64_t owner; /* of a handle or mapping: its memory; of a node: its graph */
	};
	CUcontext ctx;
	uint32_t id;   /* distinguishes blocks that had the same address */
	union {
		uint32_t refs;  /* of a handle or memory: what keeps it */
		uint32_t untouched; /* of a movable block: MiB that were likely never used.
				 * A guide for what to bring in, and no more. */
	};
	int16_t device;
	uint8_t kind; /* enum gw_kind */
};

struct gw_totals {
	uint64_t allocated; /* device bytes, wherever they lie */
	uint64_t resident;  /* of them, what must be taken to be on the device */
	uint64_t fixed;     /* of them, what can never be moved */
	uint64_t host;      /* pinned host bytes */
	uint64_t blocks;
};

static inline uint64_t gw_evicted(const struct gw_block *b)
{
	return b->evicted_to - b->evicted_from;
}

static inline bool gw_movable(const struct gw_block *b)
{
	return b->kind == GW_MANAGED || b->kind == GW_NATIVE;
}

/* What is reserved. Device bytes and host bytes have a limit each; bytes of pools are
 * device bytes, of which a pool may hold some already. */
enum gw_account { GW_DEVICE_BYTES, GW_HOST_BYTES, GW_POOL_BYTES, GW_ACCOUNTS };

static inline enum gw_account gw_account_of(enum gw_kind kind)
{
	if (kind == GW_POOL)
		return GW_POOL_BYTES;
	return kind == GW_HOST || kind == GW_PHYSICAL_HOST ? GW_HOST_BYTES : GW_DEVICE_BYTES;
}

/* Bytes that the process may hold, now and once the invoker was asked for more; 0 is
 * no limit. */
struct gw_limit {
	uint64_t granted, most;
};
/* Of device bytes, or of host bytes. */
void gw_set_limit(enum gw_account account, struct gw_limit limit);

/* By the driver's figures, pools and graphs hold so many bytes of the device: their live
 * allocations, and what they keep for later. */
void gw_set_kept(uint64_t pools, uint64_t graphs);
/* Graphs will hold so many bytes once they run; with them, so many reserved device bytes
 * are settled. */
void gw_set_planned(uint64_t graphs, uint64_t reserved);

/* Reserve bytes below the limit for an allocation about to be made. Each success needs
 * one gw_settle. */
enum gw_room { GW_ROOM, GW_ROOM_IF_ASKED, GW_NO_ROOM };
enum gw_room gw_reserve(enum gw_account account, uint64_t bytes);
/* An allocation that waits for a limit to have room for it: from gw_await_room on the
 * first limit that has reserves the bytes, so that no report in between takes them for
 * free. gw_end_await ends the wait; true: they are reserved. */
struct gw_waiter {
	enum gw_account account;
	uint64_t bytes;
	bool reserved;
	struct gw_waiter *next;
};
void gw_await_room(struct gw_waiter *w);
bool gw_end_await(struct gw_waiter *w);
/* What was reserved becomes the block, or nothing if that is NULL, in one step: at
 * no time do both count. False as for gw_add. */
bool gw_settle(enum gw_account account, uint64_t reserved, enum gw_space space,
	       const struct gw_block *b);

/* False: no memory for the registry; the block is not known then. */
bool gw_add(enum gw_space space, const struct gw_block *b);
/* Remove the block that begins there. False: unknown. */
bool gw_remove(enum gw_space space, uint64_t base, struct gw_block *out);
/* Remove a mapping that begins within the range. False: there is none. */
bool gw_remove_mapping(uint64_t from, uint64_t bytes, struct gw_block *out);
/* The block that holds the address. */
bool gw_find(enum gw_space space, uint64_t address, struct gw_block *out);
/* References of a handle, or of memory, which is gone when none is left. False: it is not
 * known. */
bool gw_change_refs(enum gw_space space, uint64_t base, int change);

/* A run began or ended: the program may have used all of its memory again. */
void gw_set_dirty(void);
/* Begin an eviction: what may have come back is known no more. all: runs
 * are not reported, so anything may have come back. */
void gw_clear_dirty(bool all);
/* A part of the block has arrived on the host, or may have come to the device;
 * to counts from the block's start. Nothing happens if the block is gone. */
void gw_set_evicted(uint64_t base, uint32_t id, uint64_t from, uint64_t to);
void gw_set_resident(uint64_t base, uint32_t id, uint64_t from, uint64_t to);
/* So much of it was likely never used. */
void gw_set_untouched(uint64_t base, uint32_t id, uint64_t bytes);

struct gw_totals gw_sum(void);
/* Below a limit a device's memory is no larger, and what is left of the limit is free.
 * False: there is none, and nothing changes. */
bool gw_below_limit(uint64_t *total, uint64_t *avail);
/* A copy of all movable blocks in pages of their own, the largest first, of equal ones
 * the youngest: what is young is likely in use by the function itself and not by its
 * libraries. Free it with gw_free_list. */
struct gw_block *gw_list_movable(size_t *n);
void gw_free_list(struct gw_block *list, size_t n);
/* Forget the nodes of a graph. */
void gw_remove_nodes_of(uint64_t graph);
/* Forget what a dead context held. */
void gw_remove_blocks_of(CUcontext ctx);
/* Forget all, in a forked child. Takes no lock that the parent held. */
void gw_registry_reset(void);

#endif
