/*
 * The host memory of spans, where the bytes of a piece lie while it is out. A part is
 * pinned beforehand, so that moves take the time of the link. The caller of all functions
 * holds the driver lock.
 */
#ifndef GW_ARENA_H
#define GW_ARENA_H

#include "memory/span.h"

/* The host memory for the piece. It is made at first use; NULL if there is none. */
uint8_t *gw_arena_piece(struct gw_span *s, unsigned i);
/* The piece is on the device: give back its host memory, unless that is pinned. */
void gw_arena_drop(struct gw_span *s, unsigned i);
void gw_arena_free(struct gw_span *s);

/* Reports whether the piece's host memory should be pinned: it is not, and it fits. */
bool gw_arena_may_pin(const struct gw_span *s, unsigned i);
/* Pin the piece's host memory. False: it is not pinned. */
bool gw_arena_pin(struct gw_span *s, unsigned i);

/* In a forked child: nothing is pinned. */
void gw_arena_reset(void);

#endif
