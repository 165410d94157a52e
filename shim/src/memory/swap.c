#include "memory/swap.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "driver/resolve.h"
#include "memory/arena.h"
#include "memory/contexts.h"
#include "memory/gate.h"
#include "memory/span.h"
#include "process/state.h"

struct copy {
	CUdeviceptr device;
	uint8_t *host;
	uint64_t bytes;
	bool out; /* to the host */
	CUstream stream;
};

/*
 * Copies to host memory that is not pinned go by a ring of small pinned buffers: while the
 * link fills or empties some, the processor copies another.
 */
enum { BUFFERS = 4, BUFFER = 4 << 20 };

static uint8_t *ring; /* NULL: not made yet */
static bool refused;

/* Order the copy, in the order of its stream. */
static CUresult order_copy(const struct copy *c)
{
	return c->out ? GW_CALL(cuMemcpyDtoHAsync_v2, c->host, c->device, c->bytes, c->stream) :
			GW_CALL(cuMemcpyHtoDAsync_v2, c->device, c->host, c->bytes, c->stream);
}

static bool make_ring(void)
{
	enum { PORTABLE = 1 };

	if (ring || refused)
		return ring;
	void *p = mmap(NULL, BUFFERS * BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (p != MAP_FAILED &&
	    GW_CALL(cuMemHostRegister_v2, p, BUFFERS * BUFFER, PORTABLE) == CUDA_SUCCESS) {
		madvise(p, BUFFERS * BUFFER, MADV_DONTFORK);
		ring = p;
	} else if (p != MAP_FAILED) {
		munmap(p, BUFFERS * BUFFER);
	}
	refused = !ring;
	return ring;
}

/* The k-th buffer's share of a copy: between the device and the ring. */
static struct copy share(const struct copy *c, uint64_t k)
{
	uint64_t from = k * BUFFER, rest = c->bytes - from;

	return (struct copy){
		.device = c->device + from, .host = ring + k % BUFFERS * BUFFER,
		.bytes = rest < BUFFER ? rest : BUFFER, .out = c->out, .stream = c->stream,
	};
}

/* Wait until a buffer's share has gone over the link, and take it on to the host. */
static CUresult end_share(const struct copy *c, uint64_t k, void *event)
{
	struct copy s = share(c, k);
	CUresult r = GW_CALL(cuEventSynchronize, event);

	if (r == CUDA_SUCCESS && c->out)
		memcpy(c->host + k * BUFFER, s.host, s.bytes);
	return r;
}

static CUresult begin_share(const struct copy *c, uint64_t k, void *event)
{
	struct copy s = share(c, k);

	if (!c->out)
		memcpy(s.host, c->host + k * BUFFER, s.bytes);
	CUresult r = order_copy(&s);
	return r == CUDA_SUCCESS ? GW_CALL(cuEventRecord, event, c->stream) : r;
}

static CUresult copy_with(const struct copy *c, void **event)
{
	uint64_t n = (c->bytes + BUFFER - 1) / BUFFER, begun = 0, ended = 0;
	CUresult r = CUDA_SUCCESS;

	while (r == CUDA_SUCCESS && ended < n) {
		if (begun < n && begun - ended < BUFFERS) {
			r = begin_share(c, begun, event[begun % BUFFERS]);
			begun++;
		} else {
			r = end_share(c, ended, event[ended % BUFFERS]);
			ended++;
		}
	}
	if (r != CUDA_SUCCESS)
		GW_CALL(cuStreamSynchronize, c->stream); /* the ring is in use until then */
	return r;
}

/* Carry the copy out by the ring. It is done at the return. Without a ring it is ordered. */
static CUresult ring_copy(const struct copy *c)
{
	enum { SLEEP_WITHOUT_TIMES = 1 | 2 }; /* flags of an event */
	void *event[BUFFERS] = {NULL};
	CUresult r = CUDA_SUCCESS;

	if (!make_ring())
		return order_copy(c);
	for (int i = 0; r == CUDA_SUCCESS && i < BUFFERS; i++)
		r = GW_CALL(cuEventCreate, &event[i], SLEEP_WITHOUT_TIMES);
	if (r == CUDA_SUCCESS)
		r = copy_with(c, event);
	for (int i = 0; i < BUFFERS && event[i]; i++)
		GW_CALL(cuEventDestroy_v2, event[i]);
	return r;
}
static CUresult copy_part(struct gw_span *s, unsigned i, bool out, CUstream stream)
{
	struct copy c = {
		.device = gw_part_base(s, i), .host = gw_arena_part(s, i),
		.bytes = gw_part_bytes(s, i), .out = out, .stream = stream,
	};

	if (!c.host)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return s->part[i].pinned ? order_copy(&c) : ring_copy(&c);
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
		r = copy_part(s, k, out, stream);
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

/* The caller holds the driver lock. */
static bool pin_one(void)
{
	uint64_t room = gw_driver_stopped() ? 0 : gw_arena_room();

	for (struct gw_span *s = room ? gw_spans() : NULL; s; s = s->next)
		for (unsigned i = 0; !s->fixed && i < s->parts; i++)
			if (!s->part[i].pinned && gw_part_bytes(s, i) <= room)
				return gw_arena_pin(s, i);
	return false;
}

bool gw_swap_prepare(void)
{
	gw_driver_lock();
	bool did = pin_one();
	gw_driver_unlock();
	return did;
}

const struct gw_mover gw_vmm_mover = {true, order, finish};
