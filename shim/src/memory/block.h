/*
 * A block: one allocation of the program, or a part of one, of whatever kind.
 */
#pragma once

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
	GW_VMM,      /* a handle mapped in place of device memory */
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

/* A driver's large page: the size and alignment of handles. */
enum { GW_GRANULE = 2 << 20 };
static inline uint64_t gw_whole_granules(uint64_t bytes)
{
	return (bytes + GW_GRANULE - 1) / GW_GRANULE * GW_GRANULE;
}

static inline uint64_t gw_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t gw_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Kept small: a program may have ten thousands. */
struct gw_block {
	uint64_t base, size;
	union {
		uint64_t evicted; /* of a movable block: so many bytes at its end are out */
		uint64_t owner; /* of a handle or mapping: its memory; of a node: its graph */
	};
	CUcontext ctx;
	uint32_t id;   /* distinguishes blocks that had the same address */
	union {
		uint32_t refs;  /* of a handle or memory: how many keep it */
		uint32_t untouched; /* of a movable block: MiB that were likely never used.
				 * A guide for prefetches, and no more. */
	};
	int16_t device;
	uint8_t kind; /* enum gw_kind */
};

static inline bool gw_movable(const struct gw_block *b)
{
	return b->kind == GW_MANAGED || b->kind == GW_NATIVE || b->kind == GW_VMM;
}

/* Movable memory that a kernel brings in by touching it: it may come back unseen. */
static inline bool gw_comes_unseen(const struct gw_block *b)
{
	return b->kind == GW_MANAGED || b->kind == GW_NATIVE;
}
