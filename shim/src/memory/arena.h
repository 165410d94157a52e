/*
 * The host memory of spans, where the bytes of parts lie while they are out. It is a file in
 * memory that the processes of a container share: the invoker made it, gives each process a
 * range of it, and frees the range when the process has ended. Without that file it is memory
 * of the process. Some of it is pinned beforehand, so that moves take the time of the link.
 * The caller of all functions holds the driver lock.
 */
#pragma once

#include "memory/span.h"
#include "process/fd.h"

/* Use the container's file from now on, or close it if there is one already. The number is
 * that of the process's range and of its counter of pinned bytes. */
void gw_arena_open(struct gw_fd file, uint64_t number);

/* The host memory for the part. It is made at first use; NULL if there is none. */
uint8_t *gw_arena_part(struct gw_span *s, unsigned i);
/* Parts are on the device: give back their host memory, unless that is pinned. */
void gw_arena_drop(struct gw_span *s, unsigned from, unsigned to);
void gw_arena_free(struct gw_span *s);

/* Bytes that may still be pinned: the container has so many for all of its processes. */
uint64_t gw_arena_room(void);
/* Pin the part's host memory. False: it is not pinned. */
bool gw_arena_pin(struct gw_span *s, unsigned i);
