#include "memory/span.h"

#include <stdlib.h>

#include "driver/resolve.h"
#include "memory/arena.h"
#include "memory/registry.h"
#include "process/state.h"

/* Guarded by the driver lock. */
static struct gw_span *spans;
static unsigned out_pieces;

struct gw_span *gw_spans(void) { return spans; }
unsigned gw_pieces_out(void) { return out_pieces; }

struct gw_span *gw_span_of(CUdeviceptr ptr)
{
	struct gw_block b;

	return gw_find(GW_SPAN, ptr, &b) ? (struct gw_span *)(uintptr_t)b.owner : NULL;
}

/* The usage of memory for the hardware's decompression, where the device has that. */
static unsigned short decompresses(CUdevice device)
{
	enum { ALGORITHMS = 136, HW_DECOMPRESS = 2 };
	int mask = 0;

	GW_CALL(cuDeviceGetAttribute, &mask, ALGORITHMS, device);
	return mask ? HW_DECOMPRESS : 0;
}

static CUresult map_view(const struct gw_view *v, CUmemHandle h)
{
	CUresult r = GW_REAL(cuMemMap)(v->base, v->bytes, v->from, h, 0);

	if (r != CUDA_SUCCESS || !v->accesses)
		return r;
	r = GW_REAL(cuMemSetAccess)(v->base, v->bytes, v->access, v->accesses);
	if (r != CUDA_SUCCESS)
		GW_REAL(cuMemUnmap)(v->base, v->bytes);
	return r;
}

/* Unmap the views before this one; NULL is all. */
static void unmap_views(const struct gw_span *s, const struct gw_view *end)
{
	for (const struct gw_view *v = s->views; v != end; v = v->next)
		GW_REAL(cuMemUnmap)(v->base, v->bytes);
}

static CUresult map_all(const struct gw_span *s, unsigned i, CUmemHandle h)
{
	const struct gw_view own = {
		.base = gw_part_base(s, i), .bytes = gw_piece_bytes(s, i),
		.access = {{s->how.location, READ_WRITE}}, .accesses = 1,
	};
	CUresult r = map_view(&own, h);

	for (const struct gw_view *v = s->views; r == CUDA_SUCCESS && v; v = v->next) {
		r = map_view(v, h);
		if (r != CUDA_SUCCESS) {
			unmap_views(s, v);
			GW_REAL(cuMemUnmap)(own.base, own.bytes);
		}
	}
	return r;
}

/* Give the piece memory of the device. */
static CUresult map(struct gw_span *s, unsigned i)
{
	CUmemHandle h;
	CUresult r = GW_REAL(cuMemCreate)(&h, gw_piece_bytes(s, i), &s->how, 0);

	if (r != CUDA_SUCCESS)
		return r;
	r = map_all(s, i, h);
	if (r == CUDA_SUCCESS)
		s->part[i].handle = h;
	else
		GW_REAL(cuMemRelease)(h);
	return r;
}

static void unmap(struct gw_span *s, unsigned i)
{
	if (!s->part[i].handle)
		return;
	unmap_views(s, NULL);
	GW_REAL(cuMemUnmap)(gw_part_base(s, i), gw_piece_bytes(s, i));
	GW_REAL(cuMemRelease)(s->part[i].handle);
	s->part[i].handle = 0;
}

CUresult gw_piece_map(struct gw_span *s, unsigned i)
{
	CUresult r = map(s, i);

	if (r == CUDA_SUCCESS)
		out_pieces--;
	return r;
}

void gw_piece_unmap(struct gw_span *s, unsigned i)
{
	unmap(s, i);
	out_pieces++;
}

void gw_span_end(struct gw_span *s)
{
	struct gw_block b;
	struct gw_span **at = &spans;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	gw_remove(GW_SPAN, s->base, &b);
	for (unsigned i = 0; i < s->parts; i = gw_next_piece(s, i)) {
		gw_remove(GW_ADDRESS, gw_part_base(s, i), &b);
		out_pieces -= s->part[i].handle == 0;
		unmap(s, i);
	}
	GW_REAL(cuMemAddressFree)(s->base, gw_whole_granules(s->size));
	gw_arena_free(s);
	free(s);
}

void gw_span_fix(struct gw_span *s)
{
	struct gw_block b;

	for (unsigned i = 0; !s->fixed && i < s->parts; i = gw_next_piece(s, i))
		if (gw_find(GW_ADDRESS, gw_part_base(s, i), &b)) {
			b.kind = GW_PLAIN;
			gw_add(GW_ADDRESS, &b); /* in the place of the movable one */
		}
	s->fixed = true;
}

void gw_spans_end(CUcontext ctx)
{
	for (struct gw_span *s = spans, *next; s; s = next) {
		next = s->next;
		if (s->ctx == ctx)
			gw_span_end(s);
	}
}

/* Record a span and its pieces: the reserved bytes become the pieces. */
static void record(struct gw_span *s)
{
	struct gw_block all = {
		.base = s->base, .size = s->size, .kind = GW_MAPPED, .ctx = s->ctx,
		.owner = (uintptr_t)s,
	};

	s->next = spans;
	spans = s;
	gw_add(GW_SPAN, &all);
	for (unsigned i = 0; i < s->parts; i = gw_next_piece(s, i))
		gw_settle(GW_DEVICE_BYTES, gw_piece_bytes(s, i), GW_ADDRESS, &(struct gw_block){
			.base = gw_part_base(s, i), .size = gw_piece_bytes(s, i), .kind = GW_VMM,
			.ctx = s->ctx, .device = (int16_t)s->how.location.id,
		});
}

CUresult gw_span_make(struct gw_current h, uint64_t size, const struct gw_memprop *how,
		      struct gw_span **out)
{
	unsigned n = (unsigned)((size + gw_part_size() - 1) / gw_part_size()), i;
	struct gw_span *s = calloc(1, sizeof *s + n * sizeof *s->part);
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (!s)
		return r;
	s->size = size;
	s->ctx = h.ctx;
	s->parts = n;
	s->whole = how;
	s->how = how ? *how : (struct gw_memprop){
		.type = PINNED_MEMORY, .location = {LOCATION_DEVICE, h.device},
		.direct = 1, .usage = decompresses(h.device), /* as plain memory is */
	};
	r = GW_REAL(cuMemAddressReserve)(&s->base, gw_whole_granules(size), GW_GRANULE, 0, 0);
	for (i = 0; r == CUDA_SUCCESS && i < n; i = gw_next_piece(s, i))
		r = map(s, i);
	if (r == CUDA_SUCCESS) {
		record(s);
		*out = s;
		return r;
	}
	for (i = 0; i < n; i++)
		unmap(s, i);
	if (s->base)
		GW_REAL(cuMemAddressFree)(s->base, gw_whole_granules(size));
	free(s);
	return r;
}

uint32_t gw_slot_size(size_t bytes)
{
	uint32_t slot = GW_LEAST_SLOT;

	while (slot < bytes)
		slot *= 2;
	return slot;
}

struct gw_span *gw_slab_with_room(CUcontext ctx, uint32_t slot)
{
	struct gw_span *s = spans;

	while (s && !(s->slot == slot && s->ctx == ctx && s->live < GW_GRANULE / slot && !s->fixed))
		s = s->next;
	return s;
}

CUdeviceptr gw_slot_take(struct gw_span *s)
{
	unsigned word = 0;

	while (s->used[word] == UINT64_MAX)
		word++;
	unsigned bit = (unsigned)__builtin_ctzll(~s->used[word]);
	s->used[word] |= 1ull << bit;
	s->live++;
	return s->base + (uint64_t)(64 * word + bit) * s->slot;
}

bool gw_slot_free(struct gw_span *s, CUdeviceptr ptr)
{
	uint64_t i = (ptr - s->base) / s->slot;

	if ((ptr - s->base) % s->slot || !(s->used[i / 64] >> i % 64 & 1))
		return false;
	s->used[i / 64] &= ~(1ull << i % 64);
	if (--s->live == 0)
		gw_span_end(s);
	return true;
}
