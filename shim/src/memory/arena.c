#include "memory/arena.h"

#include <sys/mman.h>

#include "driver/resolve.h"
#include "memory/contexts.h"

/* Guarded by the driver lock. */
static uint64_t pinned_bytes;
static bool pin_refused;

/* A child has no use for these pages. */
static uint8_t *host_of(struct gw_span *s)
{
	if (s->host)
		return s->host;
	void *p = mmap(NULL, s->size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, s->size, MADV_DONTFORK);
	madvise(p, s->size, MADV_HUGEPAGE);
	return s->host = p;
}

uint8_t *gw_arena_piece(struct gw_span *s, unsigned i)
{
	return host_of(s) ? s->host + i * gw_piece_size() : NULL;
}

void gw_arena_drop(struct gw_span *s, unsigned i)
{
	if (!s->piece[i].pinned)
		madvise(s->host + i * gw_piece_size(), gw_piece_bytes(s, i), MADV_DONTNEED);
}

void gw_arena_free(struct gw_span *s)
{
	fn_cuMemHostUnregister *unpin = GW_REAL(cuMemHostUnregister);

	for (unsigned i = 0; i < s->pieces; i++)
		if (s->piece[i].pinned && unpin) {
			unpin(s->host + i * gw_piece_size());
			pinned_bytes -= gw_piece_bytes(s, i);
		}
	if (s->host)
		munmap(s->host, s->size);
}

bool gw_arena_may_pin(const struct gw_span *s, unsigned i)
{
	return !pin_refused && !s->piece[i].pinned &&
	       pinned_bytes + gw_piece_bytes(s, i) <= gw_config.arena;
}

bool gw_arena_pin(struct gw_span *s, unsigned i)
{
	enum { PORTABLE = 1 };
	fn_cuMemHostRegister_v2 *pin = GW_REAL(cuMemHostRegister_v2);
	uint64_t bytes = gw_piece_bytes(s, i);
	uint8_t *host = gw_arena_piece(s, i);

	if (gw_push_context(s->ctx) != CUDA_SUCCESS)
		return false; /* the context has ended, and the span with it */
	bool ok = pin && host && pin(host, bytes, PORTABLE) == CUDA_SUCCESS;
	gw_pop_context();
	s->piece[i].pinned = ok;
	pinned_bytes += ok ? bytes : 0;
	pin_refused = !ok;
	return ok;
}

void gw_arena_reset(void)
{
	pinned_bytes = 0;
	pin_refused = false;
}
