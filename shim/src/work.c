#include "work.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "agent.h"
#include "backend.h"
#include "context.h"
#include "hooks.h"
#include "refusal.h"
#include "state.h"

/* Small blocks: so many calls between two looks at the socket. A call takes
 * some 10 us. */
enum { CALLS = 64 };

static atomic_bool stopped;

static void guess_spare(void);
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* A part that is on its way until the stream has drained. */
struct part {
	uint64_t base, from, to;
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

	if (x->size != y->size)
		return x->size < y->size ? 1 : -1;
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
		gw_calm(!gated);
		guess_spare();
	}
	if (gw_config.backend->move)
		w->list = gw_list(&w->n);
	if (w->list)
		qsort(w->list, w->n, sizeof *w->list, larger);
}

/* What of a block is likely worth bringing in: all but what was never used. */
static uint64_t worth(const struct gw_block *b)
{
	uint64_t spare = (uint64_t)b->spare << 20;

	return spare < b->size ? b->size - spare : 0;
}

/* The next part of a block that is to be moved: all that is not known to be
 * out, or of what is out the part that is worth it. What is known to be out
 * stays one part by it. False: there is none. */
static bool next_part(const struct gw_work *w, const struct gw_block *b, uint64_t *from,
		      uint64_t *to)
{
	if (w->type == GW_PREFETCH) {
		*from = b->out_from;
		*to = least(b->out_to, worth(b));
	} else if (b->out_to < b->size) {
		*from = b->out_to;
		*to = b->size;
	} else {
		*from = 0;
		*to = b->out_from;
	}
	return *from < *to;
}

/* A part ends with a page of the driver's. */
static uint64_t whole_pages(const struct gw_block *b, uint64_t from, uint64_t bytes)
{
	uint64_t over = (b->base + from + bytes) % GW_PAGE;

	return over < bytes ? bytes - over : bytes;
}

/* Cut a part to so many bytes, at the side that is not next to what is out. */
static void cut(const struct gw_work *w, const struct gw_block *b, uint64_t bytes,
		uint64_t *from, uint64_t *to)
{
	if (bytes >= *to - *from)
		return;
	if (w->type == GW_EVICT && *to == b->out_from) {
		uint64_t at = *to - bytes, over = (b->base + at) % GW_PAGE;
		*from = over && at + GW_PAGE - over < *to ? at + GW_PAGE - over : at;
		return;
	}
	*to = *from + whole_pages(b, *from, bytes);
}

static CUresult move(const struct gw_work *w, const struct gw_block *b, const struct part *p,
		     CUstream stream)
{
	return gw_config.backend->move(b->base + p->from, p->to - p->from,
				       w->type == GW_EVICT ? CPU_DEVICE : b->device, stream);
}

/* A part that is under way to the device may be there, whatever comes of it. */
static void note_in(const struct part *p)
{
	gw_came_in(p->base, p->id, p->from, p->to);
}

static void refuse(struct gw_work *w, CUresult r)
{
	gw_judge(r);
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
	struct part *p = &s->parts[s->n];
	uint64_t room = gw_config.chunk - s->bytes, from, to;

	if (!gw_find(GW_ADDRESS, old->base, &b) || b.id != old->id || !next_part(w, &b, &from, &to)) {
		w->next++; /* freed, or there already */
		return true;
	}
	if (!in_context(w, s, &b))
		return s->ctx == NULL;
	/* The block whose next part is not its last comes again in the next step. */
	bool last = w->type == GW_PREFETCH || from == 0;
	uint64_t all = to - from;
	if (w->budget)
		room = least(room, w->budget - w->moved - s->bytes);
	cut(w, &b, room, &from, &to);
	last = last && to - from == all;
	*p = (struct part){b.base, from, to, b.id};
	if (w->type == GW_PREFETCH)
		note_in(p);
	gw_note_move(); /* a kernel may fail of it before it is done */
	CUresult r = move(w, &b, p, s->stream);
	if (r != CUDA_SUCCESS) {
		refuse(w, r);
		return true;
	}
	s->n++;
	s->bytes += to - from;
	if (last)
		w->next++;
	return last;
}

static bool spent(const struct gw_work *w, uint64_t under_way)
{
	return w->budget && w->moved + under_way >= w->budget;
}

/* Wait until the parts have arrived. What was on its way to the host when the
 * wait failed may lie on either side: on the device, as far as we tell. */
static void drain(struct gw_work *w, struct step *s)
{
	fn_cuStreamSynchronize *sync = GW_REAL(cuStreamSynchronize);
	CUresult r = sync ? sync(s->stream) : CUDA_ERROR_NOT_SUPPORTED;

	if (r != CUDA_SUCCESS) {
		refuse(w, r);
		w->next = w->n;
		return;
	}
	if (w->type == GW_EVICT)
		for (unsigned i = 0; i < s->n; i++)
			gw_went_out(s->parts[i].base, s->parts[i].id, s->parts[i].from,
				    s->parts[i].to);
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

/* What the bytes on the device cannot exceed: what is in use there by anybody.
 * No bound is known where the driver does not answer, or where the process has
 * contexts on several devices. The caller holds the work lock. */
static uint64_t bound(void)
{
	fn_cuMemGetInfo_v2 *info = GW_REAL(cuMemGetInfo_v2);
	size_t avail = 0, total = 0;
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (!atomic_load(&stopped) && enter(gw_lone_context()) == CUDA_SUCCESS) {
		if (info)
			r = info(&avail, &total);
		leave();
	}
	return r == CUDA_SUCCESS && total >= avail ? total - avail : UINT64_MAX;
}

/*
 * More memory than the device has in use was never used in part: an arena, of
 * which a library gives out pieces. The surplus is taken off the largest
 * blocks. Which part of them was used nobody tells; arenas are mostly used from
 * their start, so that is what a prefetch brings in, and a kernel that needs
 * other parts fetches them itself. An eviction does not depend on the guess.
 */
static void guess_spare(void)
{
	size_t n;
	struct gw_block *list = gw_list(&n);
	uint64_t sum = 0;

	if (!list)
		return;
	gw_work_lock();
	uint64_t used = bound();
	gw_work_unlock();
	for (size_t i = 0; i < n; i++)
		sum += list[i].size - gw_out(&list[i]);
	qsort(list, n, sizeof *list, larger);
	/* No surplus says nothing: others may use the rest of the device. */
	uint64_t surplus = sum > used ? sum - used : 0;
	for (size_t i = 0; i < n && sum > used; i++) {
		uint64_t off = least(list[i].size - gw_out(&list[i]), surplus);
		gw_spare(list[i].base, list[i].id, off);
		surplus -= off;
	}
	gw_unlist(list, n);
}

struct gw_totals gw_work_totals(bool at_rest)
{
	struct gw_totals t = gw_sum();
	uint64_t slack = 0, used = UINT64_MAX;

	gw_work_lock();
	if (enter_for_pools()) {
		slack = gw_pools_slack(t.pool);
		leave();
	}
	if (at_rest && t.resident > t.fixed)
		used = bound();
	gw_work_unlock();
	t.resident = t.fixed + least(t.resident - t.fixed, used) + slack;
	t.allocated += slack;
	t.fixed += slack;
	return t;
}

void gw_work_probe(void)
{
	fn_cuStreamQuery *query = GW_REAL(cuStreamQuery);
	CUcontext ctx = gw_some_context();
	CUstream stream;

	if (!query)
		return;
	gw_work_lock();
	if (gw_moved_before() && !atomic_load(&stopped) && ctx == gw_some_context() && enter(ctx) == CUDA_SUCCESS) {
		/* The program's own streams may be captured: ours is not. */
		if (gw_stream(ctx, &stream) == CUDA_SUCCESS)
			gw_judge(query(stream));
		leave();
	}
	gw_work_unlock();
}

void gw_work_stop(void)
{
	atomic_store(&stopped, true);
	gw_work_lock();
	gw_work_unlock();
}
