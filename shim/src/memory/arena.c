#include "memory/arena.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "driver/resolve.h"
#include "memory/contexts.h"

/* The file begins with a page of counters. The range of a process begins behind it, and bytes
 * lie there by their addresses on the device, which have 48 bits. */
enum { RANGE_BITS = 48, COUNTERS = 512 };

/* Guarded by the driver lock, except for the counters, which other processes read. */
static struct gw_fd file = {.fd = -1};
static _Atomic uint64_t own, *counters = &own; /* pinned bytes, of each process */
static unsigned number, processes = 1;
static bool pin_refused;

void gw_arena_open(struct gw_fd shared, uint64_t at)
{
	void *page = MAP_FAILED;
	struct stat st;

	if (processes == 1 && at < COUNTERS && gw_fd_is_ours(&shared) &&
	    fstat(shared.fd, &st) == 0 && (uint64_t)st.st_size >= (at + 2) << RANGE_BITS)
		page = mmap(NULL, COUNTERS * sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED,
			    shared.fd, 0);
	if (page == MAP_FAILED) {
		gw_fd_close(&shared);
		return;
	}
	madvise(page, COUNTERS * sizeof *counters, MADV_DONTFORK);
	file = shared;
	number = (unsigned)at;
	processes = COUNTERS;
	counters = page;
	atomic_store(&counters[number], own);
}

/* A child has no use for these pages. A program may have closed our descriptor. */
static uint8_t *host_of(struct gw_span *s)
{
	if (s->host)
		return s->host;
	s->shared = gw_fd_is_ours(&file);
	void *p = mmap(NULL, s->size, PROT_READ | PROT_WRITE,
		       s->shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       s->shared ? file.fd : -1,
		       s->shared ? (off_t)((number + 1ull) << RANGE_BITS | s->base) : 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, s->size, MADV_DONTFORK);
	madvise(p, s->size, MADV_HUGEPAGE);
	return s->host = p;
}

uint8_t *gw_arena_part(struct gw_span *s, unsigned i)
{
	return host_of(s) ? s->host + i * gw_part_size() : NULL;
}

void gw_arena_drop(struct gw_span *s, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		if (!s->part[i].pinned)
			madvise(s->host + i * gw_part_size(), gw_part_bytes(s, i),
				s->shared ? MADV_REMOVE : MADV_DONTNEED);
}

void gw_arena_free(struct gw_span *s)
{
	for (unsigned i = 0; i < s->parts; i++)
		if (s->part[i].pinned) {
			GW_CALL(cuMemHostUnregister, s->host + i * gw_part_size());
			s->part[i].pinned = false;
			counters[number] -= gw_part_bytes(s, i);
		}
	if (!s->host)
		return;
	gw_arena_drop(s, 0, s->parts);
	munmap(s->host, s->size);
}

uint64_t gw_arena_room(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < processes; i++)
		sum += atomic_load_explicit(&counters[i], memory_order_relaxed);
	return pin_refused || sum > gw_config.arena ? 0 : gw_config.arena - sum;
}

bool gw_arena_pin(struct gw_span *s, unsigned i)
{
	enum { PORTABLE = 1 };
	uint64_t bytes = gw_part_bytes(s, i);
	uint8_t *host = gw_arena_part(s, i);

	if (gw_push_context(gw_span_context(s)) != CUDA_SUCCESS)
		return false; /* the context has ended, and the span with it */
	bool ok = host && GW_CALL(cuMemHostRegister_v2, host, bytes, PORTABLE) == CUDA_SUCCESS;
	gw_pop_context();
	s->part[i].pinned = ok;
	counters[number] += ok ? bytes : 0;
	pin_refused = !ok;
	return ok;
}
