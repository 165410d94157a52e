#include "work.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "agent.h"
#include "backend.h"
#include "context.h"
#include "hooks.h"
#include "state.h"

/* Small blocks: so many calls between two looks at the socket. A call takes
 * some 10 us. */
enum { CALLS = 64 };

static atomic_bool stopped;

/* A part that is on its way until the stream has drained. */
struct part {
	uint64_t base, resident;
	uint32_t id;
};

/* One step's parts: all of one context. */
struct step {
	CUcontext ctx;
	CUstream stream;
	struct part parts[CALLS];
	unsigned n;
	uint64_t bytes;
};

static CUresult enter(CUcontext ctx)
{
	fn_cuCtxPushCurrent_v2 *push = GW_REAL(cuCtxPushCurrent_v2);

	return push && ctx ? push(ctx) : CUDA_ERROR_NOT_SUPPORTED;
}

static void leave(void)
{
	fn_cuCtxPopCurrent_v2 *pop = GW_REAL(cuCtxPopCurrent_v2);
	CUcontext ctx;

	if (pop)
		pop(&ctx);
}

/* Largest first, of equal ones the youngest: what is young is likely in use
 * by the function itself and not by its libraries. */
static int larger(const void *a, const void *b)
{
	const struct gw_block *x = a, *y = b;

	if (x->touched != y->touched)
		return x->touched < y->touched ? 1 : -1;
	return x->id < y->id ? 1 : -1;
}

/* Make a context current to ask pools and graphs in, where the process has
 * any. The caller holds the work lock. */
static bool enter_for_pools(void)
{
	return !atomic_load(&stopped) && gw_pools_any() &&
	       enter(gw_some_context()) == CUDA_SUCCESS;
}

/* What pools and graphs keep for later would have to be made anew: it is given
 * back for an eviction only. */
static void trim(void)
{
	gw_work_lock();
	if (enter_for_pools()) {
		gw_pools_trim();
		leave();
	}
	gw_work_unlock();
}

void gw_work_begin(struct gw_work *w, const struct gw_command *c, bool gated)
{
	*w = (struct gw_work){
		.type = c->type, .epoch = c->epoch, .budget = c->bytes, .began = gw_clock(),
	};
	if (c->ns && c->ns < INT64_MAX / 2)
		w->deadline = w->began + (int64_t)c->ns;
	if (c->type == GW_EVICT) {
		trim();
		gw_work_measure();
		gw_calm(!gated);
	}
	if (gw_config.backend->move)
		w->list = gw_list(&w->n);
	if (w->list)
		qsort(w->list, w->n, sizeof *w->list, larger);
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The bytes of a block that are still to be moved. An eviction goes from the
 * end to the start and a prefetch back, so that what is resident is always one
 * part from the start. */
static uint64_t rest(const struct gw_work *w, const struct gw_block *b)
{
	return w->type == GW_EVICT ? b->resident : b->touched - b->resident;
}

static CUresult move(const struct gw_work *w, const struct gw_block *b, uint64_t bytes,
		     CUstream stream, struct part *p)
{
	bool out = w->type == GW_EVICT;
	uint64_t from = out ? b->resident - bytes : b->resident;

	p->base = b->base;
	p->id = b->id;
	p->resident = out ? from : from + bytes;
	return gw_config.backend->move(b->base + from, bytes, out ? CPU_DEVICE : b->device,
				       stream);
}

static void refuse(struct gw_work *w, CUresult r)
{
	if (w->code == CUDA_SUCCESS)
		w->code = r;
	w->next++;
}

/* Make the block's context this step's. False: not in this step, or never. */
static bool in_context(struct gw_work *w, struct step *s, const struct gw_block *b)
{
	CUresult r;

	if (s->ctx)
		return s->ctx == b->ctx;
	r = enter(b->ctx);
	if (r != CUDA_SUCCESS) {
		refuse(w, r);
		return false;
	}
	r = gw_stream(b->ctx, &s->stream);
	if (r == CUDA_SUCCESS) {
		s->ctx = b->ctx;
		return true;
	}
	leave();
	refuse(w, r);
	return false;
}

/* Order one part of the next block. False: the step is full. */
static bool order(struct gw_work *w, struct step *s)
{
	struct gw_block *old = &w->list[w->next], b;
	uint64_t room = gw_config.chunk - s->bytes, left;

	if (!gw_find(GW_ADDRESS, old->base, &b) || b.id != old->id || !rest(w, &b)) {
		w->next++; /* freed, or there already */
		return true;
	}
	if (!in_context(w, s, &b))
		return s->ctx == NULL;
	left = rest(w, &b);
	uint64_t bytes = least(left, room);
	if (w->budget)
		bytes = least(bytes, w->budget - w->moved - s->bytes);
	CUresult r = move(w, &b, bytes, s->stream, &s->parts[s->n]);
	if (r != CUDA_SUCCESS) {
		refuse(w, r);
		return true;
	}
	s->n++;
	s->bytes += bytes;
	if (bytes == left)
		w->next++;
	return bytes == left;
}

static bool spent(const struct gw_work *w, uint64_t under_way)
{
	return w->budget && w->moved + under_way >= w->budget;
}

static void place(const struct step *s)
{
	for (unsigned i = 0; i < s->n; i++)
		gw_place(s->parts[i].base, s->parts[i].id, s->parts[i].resident);
}

/* Wait until the parts have arrived and note where they are. Where the wait
 * fails, they may lie on either side: on the device, as far as we tell. */
static void drain(struct gw_work *w, struct step *s)
{
	fn_cuStreamSynchronize *sync = GW_REAL(cuStreamSynchronize);
	CUresult r = sync ? sync(s->stream) : CUDA_ERROR_NOT_SUPPORTED;

	if (r != CUDA_SUCCESS) {
		refuse(w, r);
		w->next = w->n;
		if (w->type == GW_PREFETCH)
			place(s);
		return;
	}
	place(s);
	w->moved += s->bytes;
}

static bool late(const struct gw_work *w)
{
	return w->deadline && gw_clock() >= w->deadline;
}

bool gw_work_left(const struct gw_work *w)
{
	return w->type && w->next < w->n && !spent(w, 0) && !late(w);
}

bool gw_work_step(struct gw_work *w)
{
	struct step s = {0};

	if (!gw_work_left(w))
		return false;
	gw_work_lock();
	if (atomic_load(&stopped)) {
		gw_work_unlock();
		return false;
	}
	while (w->next < w->n && s.n < CALLS && s.bytes < gw_config.chunk &&
	       !spent(w, s.bytes) && order(w, &s))
		;
	if (s.n)
		drain(w, &s);
	if (s.ctx)
		leave();
	gw_work_unlock();
	return true;
}

enum gw_status gw_work_end(struct gw_work *w)
{
	bool whole = w->next >= w->n;

	gw_unlist(w->list, w->n);
	w->list = NULL;
	w->type = 0;
	if (w->code != CUDA_SUCCESS)
		return GW_FAILED;
	return whole ? GW_OK : GW_PARTIAL;
}

/* Any movable block's context serves to ask a device; 0 if none. */
static uint64_t in_use(CUcontext ctx)
{
	fn_cuMemGetInfo_v2 *info = GW_REAL(cuMemGetInfo_v2);
	size_t avail = 0, total = 0;
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (enter(ctx) == CUDA_SUCCESS) {
		if (info)
			r = info(&avail, &total);
		leave();
	}
	return r == CUDA_SUCCESS && total > avail ? total - avail : UINT64_MAX;
}

/*
 * A block that was never moved by us may be an arena of which little was ever
 * used. All such blocks together hold no more than the device has in use; what
 * goes beyond is taken off the largest, from the end.
 */
static void cut(struct gw_block *list, size_t n, uint64_t used)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += list[i].moved ? 0 : list[i].touched;
	for (size_t i = 0; i < n && sum > used; i++) {
		uint64_t off = least(list[i].touched, sum - used);
		if (list[i].moved)
			continue;
		gw_untouched(list[i].base, list[i].id, list[i].touched - off);
		sum -= off;
	}
}

void gw_work_measure(void)
{
	size_t n;
	struct gw_block *list = gw_list(&n);

	if (!list)
		return;
	qsort(list, n, sizeof *list, larger);
	gw_work_lock();
	if (!atomic_load(&stopped))
		cut(list, n, in_use(list[0].ctx));
	gw_work_unlock();
	gw_unlist(list, n);
}

struct gw_totals gw_work_totals(void)
{
	struct gw_totals t = gw_sum();
	uint64_t slack = 0;

	gw_work_lock();
	if (enter_for_pools()) {
		slack = gw_pools_slack(t.pool);
		leave();
	}
	gw_work_unlock();
	t.allocated += slack;
	t.fixed += slack;
	t.resident += slack;
	return t;
}

void gw_work_stop(void)
{
	atomic_store(&stopped, true);
	gw_work_lock();
	gw_work_unlock();
}
