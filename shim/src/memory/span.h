/*
 * Reserved addresses and the handles that are mapped to them. A span is one reservation:
 * the pieces of a large block, a slab with small blocks of one size, or memory that the
 * program made by cuMemCreate. A piece is one handle and moves as a whole. The caller of all
 * functions holds the driver lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/abi.h"
#include "memory/block.h"
#include "memory/contexts.h"
#include "process/state.h"

enum {
	GW_LEAST_SLOT = 512,
	GW_SLOTS_MOST = GW_GRANULE / GW_LEAST_SLOT,
};

/* A mapping of the program's to memory that it made. It goes and comes with the memory. */
struct gw_view {
	CUdeviceptr base;
	uint64_t bytes, from; /* from: of the memory */
	struct gw_access access[2];
	size_t accesses;
	struct gw_view *next;
};

/* As much memory as is copied at once. */
struct gw_part {
	CUmemHandle handle; /* of a piece's first part; 0: the piece is out */
	bool pinned;        /* its host memory */
};

struct gw_span {
	CUdeviceptr base;
	uint64_t size;
	size_t asked;    /* by the program, for a large block */
	uint32_t slot;   /* bytes of a slab's slots; 0: a large block */
	uint32_t live;   /* slots in use */
	uint64_t used[GW_SLOTS_MOST / 64]; /* a bit for each slot */
	struct gw_memprop how; /* its handles are made */
	CUcontext ctx;   /* NULL: the memory is of no context */
	uint8_t *host;   /* where its bytes lie while they are out; NULL: not made yet */
	bool shared;     /* the host memory is of the container's file */
	struct gw_view *views; /* of memory that the program made */
	struct gw_span *next;
	bool fixed;      /* never moves again */
	bool whole;      /* one piece: the program has its handle */
	unsigned parts;
	struct gw_part part[];
};

static inline uint64_t gw_part_size(void)
{
	uint64_t size = gw_config.chunk / GW_GRANULE * GW_GRANULE;

	return size ? size : GW_GRANULE;
}

static inline uint64_t gw_part_bytes(const struct gw_span *s, unsigned i)
{
	uint64_t rest = s->size - i * gw_part_size();

	return rest < gw_part_size() ? rest : gw_part_size();
}

/* A piece goes by the number of its first part. */
static inline unsigned gw_next_piece(const struct gw_span *s, unsigned i)
{
	return s->whole ? s->parts : i + 1;
}

static inline uint64_t gw_piece_bytes(const struct gw_span *s, unsigned i)
{
	return s->whole ? s->size : gw_part_bytes(s, i);
}

static inline CUdeviceptr gw_part_base(const struct gw_span *s, unsigned i)
{
	return s->base + i * gw_part_size();
}

static inline unsigned gw_part_at(const struct gw_span *s, CUdeviceptr ptr)
{
	return (unsigned)((ptr - s->base) / gw_part_size());
}

/* A context in which its bytes can be copied, or NULL. */
static inline CUcontext gw_span_context(const struct gw_span *s)
{
	return s->ctx ? s->ctx : gw_any_context();
}

/* The first span; the others follow by next. */
struct gw_span *gw_spans(void);
/* The span that holds the address, or NULL. */
struct gw_span *gw_span_of(CUdeviceptr ptr);
/* Pieces that are out. */
unsigned gw_pieces_out(void);

/* Make a span for which its bytes are reserved. They are settled if that succeeds. how: of
 * memory that the program makes; NULL for memory in place of device memory. */
CUresult gw_span_make(struct gw_current h, uint64_t size, const struct gw_memprop *how,
		      struct gw_span **out);
/* End a span and forget its blocks. */
void gw_span_end(struct gw_span *s);
/* Take the spans of a context that has ended. */
void gw_spans_end(CUcontext ctx);

/* The span never moves again. */
void gw_span_fix(struct gw_span *s);

/* Give a piece that is out memory of the device again; the driver may refuse. */
CUresult gw_piece_map(struct gw_span *s, unsigned i);
/* Take the piece's memory of the device: it is out. */
void gw_piece_unmap(struct gw_span *s, unsigned i);

/* The size of the slots for blocks of so many bytes. */
uint32_t gw_slot_size(size_t bytes);
/* A slab of the context with a free slot of this size, or NULL. */
struct gw_span *gw_slab_with_room(CUcontext ctx, uint32_t slot);
CUdeviceptr gw_slot_take(struct gw_span *s);
/* Free the slot at the address, and the slab with its last one. False: no block begins
 * there. */
bool gw_slot_free(struct gw_span *s, CUdeviceptr ptr);
