#include "migration/work.h"

#include <time.h>

#include "driver/resolve.h"
#include "memory/backend.h"
#include "memory/contexts.h"
#include "memory/registry.h"
#include "memory/span.h"
#include "memory/swap.h"
#include "memory/vmm.h"
#include "migration/measure.h"
#include "migration/refusal.h"
#include "process/state.h"

/* Small blocks: so many calls between two interruptions. A call takes some 10 us. */
enum { CALLS = 64 };

/*
 * The size of a chunk is the number of bytes that the link moves within this time, by
 * measurement, and at most the configured size. Between two chunks the invoker's frames
 * are read and answered, and a run that begins waits for at most two chunks. The first
 * chunk is small.
 */
enum { CHUNK_NS = 250000000, FIRST_CHUNK = 4 << 20 };

static uint64_t chunk_now; /* under the driver lock; 0: nothing was moved yet */

/* The number of chunks before the lock is released for other threads. */
enum { CHUNKS = 64 };

/* A part that is on its way until the stream has drained. */
struct part {
	uint64_t base, from, to;
	uint32_t id;
	const struct gw_mover *mover;
};

/* Parts that are ordered together on one stream, all of one context. */
struct chunk {
	CUcontext ctx;
	CUstream stream;
	unsigned which; /* of the streams */
	struct part parts[CALLS];
	unsigned n;
	uint64_t bytes;
	int64_t ordered; /* when it was begun with */
};

static uint64_t chunk_most(void)
{
	return chunk_now ? chunk_now : gw_min(gw_config.chunk, FIRST_CHUNK);
}

/* Learn from the time that a chunk took on the link. A chunk that took too long, or a
 * full-sized one, determines the size of the next. */
static void learn_chunk(uint64_t bytes, int64_t took)
{
	if (took < 1)
		took = 1;
	if (took <= CHUNK_NS && bytes < chunk_most())
		return;
	uint64_t fits = (uint64_t)((double)bytes * CHUNK_NS / (double)took) / GW_PAGE * GW_PAGE;
	fits = gw_min(fits, 2 * bytes); /* parts that were there already took no time */
	if (fits < GW_PAGE)
		fits = GW_PAGE;
	chunk_now = gw_min(gw_config.chunk, fits);
}

void gw_work_begin(struct gw_work *w, const struct gw_order *order)
{
	*w = (struct gw_work){
		.out = order->out, .budget = order->bytes, .began = gw_clock(),
	};
	if (order->ns && order->ns < INT64_MAX / 2)
		w->deadline = w->began + (int64_t)order->ns;
	if (order->out) {
		gw_trim();
		gw_clear_dirty(!order->gated);
		gw_estimate_untouched();
	}
	if (gw_backend->moves)
		w->list = gw_list_movable(&w->n);
	w->closed = !order->out || !gw_vmm_in_use();
}

/* Returns the part of a block that is likely worth prefetching: all of it except the part
 * that was never used. */
static uint64_t prefetch_bytes(const struct gw_block *b)
{
	uint64_t untouched = (uint64_t)b->untouched << 20;

	return untouched < b->size ? b->size - untouched : 0;
}

/* The next part of a block to move: for an eviction all that is not known to be out, and for
 * a prefetch the useful part of the memory that is out. Returns false if there is none. */
static bool next_part(const struct gw_work *w, const struct gw_block *b, uint64_t *from,
		      uint64_t *to)
{
	uint64_t here = b->size - b->evicted;

	*from = w->out ? 0 : here;
	*to = w->out ? here : prefetch_bytes(b);
	return *from < *to;
}

/* Cut a part to the given size, at a page of the driver's. The memory that is out stays the
 * end of the block. */
static void cut(const struct gw_work *w, const struct gw_block *b, uint64_t bytes,
		uint64_t *from, uint64_t *to)
{
	if (bytes >= *to - *from)
		return;
	uint64_t at = w->out ? *to - bytes : *from + bytes, over = (b->base + at) % GW_PAGE;
	if (!w->out)
		*to = over < bytes ? at - over : at;
	else
		*from = over && GW_PAGE - over < bytes ? at + GW_PAGE - over : at;
}

static void fail(struct gw_work *w, CUresult r)
{
	gw_check_fault(r);
	if (w->code == CUDA_SUCCESS)
		w->code = r;
	w->next++;
}

/* The move of a block failed. It is no failure if the program has freed the block
 * meanwhile, or if the block's context has ended. */
static void fail_of(struct gw_work *w, const struct gw_block *b, CUresult r)
{
	struct gw_block now;

	if (gw_find(GW_ADDRESS, b->base, &now) && now.id == b->id)
		fail(w, r);
	else
		w->next++;
}

/* Make the block's context this chunk's. False: not in this one, or never. */
static bool in_context(struct gw_work *w, struct chunk *s, const struct gw_block *b)
{
	CUresult r;

	/* Memory of no context is copied in any. */
	CUcontext ctx = b->ctx ? b->ctx : gw_any_context();
	if (s->ctx)
		return s->ctx == ctx;
	if (!ctx) {
		w->next++;
		return false;
	}
	r = gw_push_context(ctx);
	if (r != CUDA_SUCCESS) {
		fail_of(w, b, r);
		return false;
	}
	r = gw_stream(ctx, s->which, &s->stream);
	if (r == CUDA_SUCCESS) {
		s->ctx = ctx;
		return true;
	}
	gw_pop_context();
	fail(w, r);
	return false;
}

/* The block as it is now, where memory that is still on its way out counts as out. False:
 * the block is gone. */
static bool find_again(const struct gw_work *w, const struct chunk *ahead, struct gw_block *b)
{
	const struct gw_block *old = &w->list[w->next];

	if (!gw_find(GW_ADDRESS, old->base, b) || b->id != old->id)
		return false;
	for (unsigned i = 0; w->out && i < ahead->n; i++)
		if (ahead->parts[i].id == b->id)
			b->evicted = b->size - ahead->parts[i].from;
	return true;
}

/* Order one part of the next block. False: the chunk is full. */
static bool order(struct gw_work *w, struct chunk *s, const struct chunk *ahead)
{
	struct gw_block b;
	struct part *p = &s->parts[s->n];
	uint64_t space = chunk_most() - s->bytes, from, to;

	if (!find_again(w, ahead, &b) || !next_part(w, &b, &from, &to)) {
		w->next++; /* freed, or there already */
		return true;
	}
	const struct gw_mover *mover = gw_mover_of(b.kind);
	uint64_t left = w->budget ? w->budget - w->moved - s->bytes - ahead->bytes : UINT64_MAX;
	if (mover->whole && b.size > left) {
		w->next++;
		return true;
	}
	if (mover->whole && s->n && b.size > space)
		return false;
	if (!in_context(w, s, &b))
		return s->ctx == NULL;
	uint64_t all = to - from;
	if (!mover->whole)
		cut(w, &b, gw_min(space, left), &from, &to);
	/* A block that is not moved whole comes again in the next chunk. */
	bool last = to - from == all;
	*p = (struct part){b.base, from, to, b.id, mover};
	if (!w->out) /* it may be there, whatever the result of the move */
		gw_set_resident(p->base, p->id, p->to);
	gw_record_move(); /* a kernel may fail because of the move before it is done */
	CUresult r = mover->order(&b, from, to, w->out, s->stream);
	if (r != CUDA_SUCCESS) {
		if (!w->out && mover->whole) /* it did not come */
			gw_set_evicted(b.base, b.id, from, to);
		fail_of(w, &b, r);
		return true;
	}
	s->n++;
	s->bytes += to - from;
	if (last)
		w->next++;
	return last;
}

static bool budget_spent(const struct gw_work *w, uint64_t under_way)
{
	return w->budget && w->moved + under_way >= w->budget;
}

/* Wait for the stream, and report now and then that the shim is alive, because a link may
 * be slower than the invoker's timeout. A short wait does not sleep. */
static CUresult wait_for_stream(CUstream stream, const struct gw_watch *watch)
{
	enum { SHORTEST_NS = 5000, LONGEST_NS = 20000000, REPORT_NS = 1000000000 };
	int64_t began = gw_clock(), reported = began, now = began;

	while (GW_CALL(cuStreamQuery, stream) == CUDA_ERROR_NOT_READY) {
		int64_t nap = (now - began) / 8;
		nap = nap < SHORTEST_NS ? SHORTEST_NS : nap > LONGEST_NS ? LONGEST_NS : nap;
		nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
		now = gw_clock();
		if (now - reported >= REPORT_NS) {
			watch->heartbeat();
			reported = now;
		}
	}
	return GW_CALL(cuStreamSynchronize, stream);
}

/* The parts have arrived, or have failed. Managed memory that was on its way to the host
 * may lie on either side then: on the device, as far as is known. */
static void finish_parts(const struct gw_work *w, const struct chunk *s, bool done)
{
	for (unsigned i = 0; i < s->n; i++) {
		const struct part *p = &s->parts[i];
		if (p->mover->finish)
			p->mover->finish(p->base, w->out, done);
		if (w->out ? done : !done && p->mover->whole)
			gw_set_evicted(p->base, p->id, p->from, p->to);
	}
}

/* Wait until the parts have arrived. */
static void drain(struct gw_work *w, const struct chunk *s, const struct gw_watch *watch)
{
	CUresult r = gw_push_context(s->ctx);

	if (r == CUDA_SUCCESS) {
		r = wait_for_stream(s->stream, watch);
		gw_pop_context();
	}
	finish_parts(w, s, r == CUDA_SUCCESS);
	if (r != CUDA_SUCCESS) {
		fail(w, r);
		w->next = w->n;
		return;
	}
	w->moved += s->bytes;
}

static bool late(const struct gw_work *w)
{
	return w->deadline && gw_clock() >= w->deadline;
}

bool gw_work_remains(const struct gw_work *w)
{
	return w->next < w->n && !budget_spent(w, 0) && !late(w);
}

/* Order a chunk behind the chunk in flight. */
static void fill(struct gw_work *w, struct chunk *s, const struct chunk *ahead)
{
	*s = (struct chunk){.which = !ahead->which, .ordered = gw_clock()};
	while (gw_work_remains(w) && s->n < CALLS && s->bytes < chunk_most() &&
	       !budget_spent(w, s->bytes + ahead->bytes) && order(w, s, ahead))
		;
	if (s->ctx)
		gw_pop_context();
}

/* Close the gate before memory that moves as a whole goes out. The program may be within
 * a launch, or the device at work: it is tried for a while. False: not now. */
static bool close_gate(struct gw_work *w)
{
	enum { TRY_MS = 20, TRIES_MS = 2000, PAUSE_NS = 1000000 };

	if (w->closed)
		return true;
	CUresult r = gw_swap_begin(TRY_MS);
	w->closed = r == CUDA_SUCCESS;
	if (w->closed)
		return true;
	if (late(w) || gw_clock() - w->began > TRIES_MS * 1000000ll) {
		w->code = r;
		w->next = w->n;
	}
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	return false;
}

bool gw_work_step(struct gw_work *w, const struct gw_watch *watch)
{
	struct chunk s[2] = {{.which = 1}, {.which = 0}};
	unsigned now = 1;
	int64_t free = 0; /* when the link was done with the chunk before */

	if (!gw_work_remains(w))
		return false;
	gw_driver_lock();
	if (gw_driver_stopped()) {
		gw_driver_unlock();
		return false;
	}
	if (!close_gate(w)) {
		gw_driver_unlock();
		return true;
	}
	fill(w, &s[now], &s[!now]);
	for (int i = 1; s[now].n; i++, now = !now) {
		s[!now].n = 0;
		s[!now].bytes = 0;
		if (i < CHUNKS && !watch->interrupted())
			fill(w, &s[!now], &s[now]);
		drain(w, &s[now], watch);
		int64_t began = s[now].ordered > free ? s[now].ordered : free;
		free = gw_clock();
		learn_chunk(s[now].bytes, free - began);
	}
	gw_driver_unlock();
	return true;
}

enum gw_outcome gw_work_end(struct gw_work *w)
{
	bool whole = w->next >= w->n;

	gw_driver_lock();
	gw_swap_settle();
	gw_driver_unlock();
	gw_free_list(w->list, w->n);
	w->list = NULL;
	w->n = w->next = 0;
	if (w->code != CUDA_SUCCESS)
		return GW_REFUSED_BY_DRIVER;
	return whole ? GW_MOVED : GW_LIMITED;
}

bool gw_work_owed(void)
{
	if (!gw_vmm_in_use())
		return false;
	gw_driver_lock();
	bool owed = gw_pieces_out() > 0;
	gw_swap_settle(); /* the program may have freed memory that was out */
	gw_driver_unlock();
	return owed;
}

static bool never(void) { return false; }
static void silent(void) {}

void gw_work_restore(void)
{
	static const struct gw_watch watch = {never, silent};
	struct gw_work w;

	if (!gw_work_owed())
		return;
	gw_work_begin(&w, &gw_restore);
	while (gw_work_step(&w, &watch))
		;
	gw_work_end(&w);
}
