#include "memory/swap.h"

#include <time.h>

#include "driver/resolve.h"
#include "memory/arena.h"
#include "memory/contexts.h"
#include "memory/gate.h"
#include "memory/ring.h"
#include "memory/span.h"
#include "process/state.h"

static CUresult copy(struct gw_span *s, unsigned i, bool out, CUstream stream)
{
	struct gw_copy c = {
		.device = gw_part_base(s, i), .host = gw_arena_part(s, i),
		.bytes = gw_part_bytes(s, i), .out = out, .stream = stream,
	};

	if (!c.host)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return s->part[i].pinned ? gw_copy_order(&c) : gw_ring_copy(&c);
}

static CUresult order(const struct gw_block *b, uint64_t from, uint64_t to, bool out,
		      CUstream stream)
{
	struct gw_span *s = gw_span_of(b->base);

	(void)from, (void)to;
	if (!s)
		return CUDA_ERROR_INVALID_VALUE;
	unsigned i = gw_part_at(s, b->base);
	CUresult r = out ? CUDA_SUCCESS : gw_piece_map(s, i);
	if (r != CUDA_SUCCESS)
		return r;
	for (unsigned k = i; r == CUDA_SUCCESS && k < gw_next_piece(s, i); k++)
		r = copy(s, k, out, stream);
	if (!out && r != CUDA_SUCCESS) {
		GW_REAL(cuStreamSynchronize)(stream); /* a part may be on its way */
		gw_piece_unmap(s, i);
	}
	return r;
}

/* Memory that moved out is released, and so is memory that did not come in whole. */
static void finish(uint64_t base, bool out, bool done)
{
	struct gw_span *s = gw_span_of(base);

	if (!s)
		return;
	unsigned i = gw_part_at(s, base);
	if (out == done)
		gw_piece_unmap(s, i);
	else if (done)
		gw_arena_drop(s, i, gw_next_piece(s, i));
}

/* Wait until the device has done all work of a context that is current. */
static CUresult await_context(CUcontext ctx, int64_t end)
{
	enum { DISABLE_TIMING = 2, NAP_NS = 50000 };
	void *event;
	CUresult r;

	/* Before CUDA 12.5 a context can only be waited for. */
	if (!GW_REAL(cuCtxRecordEvent))
		return GW_CALL(cuCtxSynchronize);
	r = GW_CALL(cuEventCreate, &event, DISABLE_TIMING);
	if (r != CUDA_SUCCESS)
		return r;
	r = GW_CALL(cuCtxRecordEvent, ctx, event);
	while (r == CUDA_SUCCESS && (r = GW_CALL(cuEventQuery, event)) == CUDA_ERROR_NOT_READY &&
	       gw_clock() < end) {
		nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
		r = CUDA_SUCCESS;
	}
	GW_CALL(cuEventDestroy_v2, event);
	return r;
}

CUresult gw_swap_begin(int ms)
{
	int64_t end = gw_clock() + ms * 1000000ll;
	CUresult r = CUDA_SUCCESS;

	if (gw_gate_is_closed())
		return r;
	if (!gw_gate_close(ms))
		return CUDA_ERROR_NOT_READY;
	/* The last first: a context that has ended leaves its place to the last one. */
	for (unsigned i = gw_contexts(); r == CUDA_SUCCESS && i-- > 0;) {
		CUcontext ctx = gw_context_at(i);
		if (gw_push_context(ctx) != CUDA_SUCCESS)
			continue; /* it has ended */
		r = await_context(ctx, end);
		gw_pop_context();
	}
	if (r != CUDA_SUCCESS)
		gw_gate_open();
	return r;
}

void gw_swap_settle(void)
{
	if (!gw_pieces_out() && gw_gate_is_closed())
		gw_gate_open();
}

bool gw_swap_prepare(void)
{
	uint64_t room = gw_driver_stopped() ? 0 : gw_arena_room();

	for (struct gw_span *s = room ? gw_spans() : NULL; s; s = s->next)
		for (unsigned i = 0; !s->fixed && i < s->parts; i++)
			if (!s->part[i].pinned && gw_part_bytes(s, i) <= room)
				return gw_arena_pin(s, i);
	return false;
}

const struct gw_mover gw_vmm_mover = {true, order, finish};
