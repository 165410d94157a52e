#include "memory/swap.h"

#include <time.h>

#include "driver/resolve.h"
#include "memory/arena.h"
#include "memory/contexts.h"
#include "memory/gate.h"
#include "memory/span.h"
#include "process/state.h"

static CUresult order(const struct gw_block *b, uint64_t from, uint64_t to, bool out,
		      CUstream stream)
{
	fn_cuMemcpyDtoHAsync_v2 *to_host = GW_REAL(cuMemcpyDtoHAsync_v2);
	fn_cuMemcpyHtoDAsync_v2 *to_device = GW_REAL(cuMemcpyHtoDAsync_v2);
	struct gw_span *s = gw_span_of(b->base);

	(void)from, (void)to;
	if (!s)
		return CUDA_ERROR_INVALID_VALUE;
	unsigned i = gw_piece_at(s, b->base);
	uint8_t *copy = gw_arena_piece(s, i);
	if (!to_host || !to_device || !copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (out)
		return to_host(copy, b->base, b->size, stream);
	CUresult r = gw_piece_map(s, i);
	if (r != CUDA_SUCCESS)
		return r;
	r = to_device(b->base, copy, b->size, stream);
	if (r != CUDA_SUCCESS)
		gw_piece_unmap(s, i);
	return r;
}

/* Memory that moved out is released, and so is memory that did not come in whole. */
static void finish(uint64_t base, bool out, bool done)
{
	struct gw_span *s = gw_span_of(base);

	if (!s)
		return;
	if (out == done)
		gw_piece_unmap(s, gw_piece_at(s, base));
	else if (done)
		gw_arena_drop(s, gw_piece_at(s, base));
}

/* Wait until the device has done all work of a context that is current. */
static CUresult await_context(CUcontext ctx, int64_t end)
{
	fn_cuCtxRecordEvent *record_event = GW_REAL(cuCtxRecordEvent);
	fn_cuEventCreate *create = GW_REAL(cuEventCreate);
	fn_cuEventDestroy_v2 *destroy = GW_REAL(cuEventDestroy_v2);
	fn_cuEventQuery *query = GW_REAL(cuEventQuery);
	fn_cuCtxSynchronize *sync = GW_REAL(cuCtxSynchronize);
	enum { DISABLE_TIMING = 2, NAP_NS = 50000 };
	void *event;
	CUresult r;

	/* Before CUDA 12.5 a context can only be waited for. */
	if (!record_event || !create || !destroy || !query)
		return sync ? sync() : CUDA_ERROR_NOT_SUPPORTED;
	r = create(&event, DISABLE_TIMING);
	if (r != CUDA_SUCCESS)
		return r;
	r = record_event(ctx, event);
	while (r == CUDA_SUCCESS && (r = query(event)) == CUDA_ERROR_NOT_READY && gw_clock() < end) {
		nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
		r = CUDA_SUCCESS;
	}
	destroy(event);
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
	if (gw_driver_stopped())
		return false;
	for (struct gw_span *s = gw_spans(); s; s = s->next)
		for (unsigned i = 0; !s->fixed && i < s->pieces; i++)
			if (s->piece[i].handle && gw_arena_may_pin(s, i))
				return gw_arena_pin(s, i);
	return false;
}

const struct gw_mover gw_vmm_mover = {true, order, finish};
