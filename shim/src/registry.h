/*
 * The books: every allocation that lives, found by its base or by any address
 * within it. Nothing here calls the driver.
 *
 *   resident <= touched <= size, for each block
 *
 * touched is the part from the start that may ever have been used: only that
 * much is moved, since moving an untouched managed page would create it.
 * resident is the part from the start that lies on the device by our moves.
 */
#ifndef GW_REGISTRY_H
#define GW_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

enum gw_kind {
	GW_MANAGED,  /* managed in place of device memory */
	GW_NATIVE,   /* managed by the program's own wish */
	GW_PLAIN,    /* device memory as asked for */
	GW_POOL,     /* stream-ordered */
	GW_PHYSICAL, /* cuMemCreate, by handle */
	GW_MAPPED,   /* a mapping of such a handle: no bytes of its own */
	GW_ARRAY,
	GW_EXTERNAL, /* imported from another API */
	GW_HOST,     /* pinned host memory */
	GW_KINDS
};

/* Arrays and physical memory are known by handles, which are no addresses. */
enum gw_space { GW_ADDRESS, GW_HANDLE, GW_SPACES };

/* Kept small: a program may have ten thousands. */
struct gw_block {
	uint64_t base, size;
	union {
		struct { /* of a movable block */
			uint64_t touched, resident;
		};
		uint64_t owner; /* of a mapping: its handle */
	};
	CUcontext ctx;
	uint32_t id;   /* tells blocks apart that had the same address */
	uint32_t refs; /* of a handle: who keeps the memory */
	int16_t device;
	uint8_t kind; /* enum gw_kind */
	bool moved;   /* was moved by us: touched is sure */
};

struct gw_totals {
	uint64_t allocated; /* device bytes, wherever they lie */
	uint64_t resident;  /* of them, what must be assumed on the device */
	uint64_t fixed;     /* of them, what can never be moved */
	uint64_t pool;      /* of fixed, stream-ordered */
	uint64_t host;      /* pinned host bytes */
	uint64_t blocks;
};

static inline bool gw_movable(const struct gw_block *b)
{
	return b->kind == GW_MANAGED || b->kind == GW_NATIVE;
}

/* Promise bytes below the limit to an allocation about to be made. False: the
 * limit is reached. Every true is ended by one gw_settle. */
bool gw_promise(uint64_t bytes);
void gw_settle(uint64_t bytes);

/* False: no memory for the books; the block is not known then. */
bool gw_add(enum gw_space space, const struct gw_block *b);
/* Remove the block that begins there. False: unknown. */
bool gw_take(enum gw_space space, uint64_t base, struct gw_block *out);
/* The block that holds the address. */
bool gw_find(enum gw_space space, uint64_t address, struct gw_block *out);
/* References of a handle; gone, with what it was, when none is left. */
bool gw_refer(uint64_t handle, int change);

/* A run began or ended: the program may have used all of its memory again. */
void gw_stir(void);
/* Begin an eviction: what may have come back counts as resident, and from here
 * on resident is what we believe. all: nobody tells us of runs, so anything
 * may have come back. */
void gw_calm(bool all);
/* The block's resident part grew or shrank to this, unless it is gone. */
void gw_place(uint64_t base, uint32_t id, uint64_t resident);
/* Its memory beyond this was never used. */
void gw_untouched(uint64_t base, uint32_t id, uint64_t touched);

struct gw_totals gw_sum(void);
/* A copy of all movable blocks in pages of their own; free with gw_unlist. */
struct gw_block *gw_list(size_t *n);
void gw_unlist(struct gw_block *list, size_t n);
/* Forget what a dead context held. */
void gw_forget_context(CUcontext ctx);
/* Forget all, in a forked child. Takes no lock that the parent held. */
void gw_forget_all(void);

#endif
