/*
 * Streams: each is busy until a time, and waiting for it sleeps until then. A capture in
 * global mode forbids unsafe calls of other threads, unless they are relaxed, and such a
 * call spoils the capture.
 */
#include <stdlib.h>
#include <time.h>

#include "fake.h"

static struct fake_stream *streams;
static struct fake_stream unnamed = {.alive = true};
static __thread int thread_mode;

/* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, by which a runtime selects one of the
 * streams without a name: here they are one. */
static bool nameless(CUstream s) { return (uintptr_t)s <= 2; }

static struct fake_stream *stream_of(CUstream s)
{
	return nameless(s) ? &unnamed : s;
}

static bool exists(CUstream s)
{
	for (struct fake_stream *x = streams; !nameless(s) && x; x = x->next)
		if (x == s)
			return x->alive && x->ctx->alive;
	return nameless(s);
}

CUresult fake_unsafe(void)
{
	if (!fake.captures || thread_mode == CAPTURE_RELAXED)
		return CUDA_SUCCESS;
	for (struct fake_stream *s = streams; s; s = s->next)
		if (s->capturing && s->mode == 0)
			s->spoilt = true;
	return ERROR_CAPTURE_UNSUPPORTED;
}

void fake_occupy(CUstream stream, int64_t ns)
{
	struct fake_stream *s = stream_of(stream);
	int64_t now = fake_now();

	s->busy_until = (s->busy_until > now ? s->busy_until : now) + ns;
}

/* The work of the link for this process, each way. The link idles from the end of its
 * work until the next order of a move. The fake copies the bytes within the call, while a
 * device would copy by itself. The time of copying beyond the link's own time is no idle
 * time and is counted separately. */
static struct link {
	long long moved_ns, idle_ns, late_ns;
	unsigned orders, queued; /* queued: orders that found the link still busy */
	unsigned late;           /* those whose copying outlasted all that it was given */
} link_of[2];
static int64_t returned[2]; /* the last order */

void fake_transfer(CUstream stream, int device, bool to_device, int64_t ns, int64_t asked)
{
	struct fake_stream *s = stream_of(stream);
	struct link *l = &link_of[to_device];
	int64_t until = fake_link(device, to_device, 0, 0), last = returned[to_device];
	int64_t idle_since = until > last ? until : last, begins = asked + (int64_t)fake.order_ns;

	if (l->orders && begins > idle_since)
		l->idle_ns += begins - idle_since;
	l->orders++;
	l->queued += asked < until;
	l->moved_ns += ns;
	until = fake_link(device, to_device, s->busy_until > begins ? s->busy_until : begins, ns);
	s->busy_until = until;
	returned[to_device] = fake_now();
	if (returned[to_device] > until) {
		l->late++;
		l->late_ns += returned[to_device] - until;
	}
}

/* For tests, by dlsym. */
#define EXPORT __attribute__((visibility("default")))
EXPORT void fake_report_link(int to_device, struct link *out);

void fake_report_link(int to_device, struct link *out)
{
	fake_lock();
	*out = link_of[to_device];
	fake_unlock();
}

CUresult fake_stream_fits(CUstream stream, const struct fake_context *ctx)
{
	if (!exists(stream) || (!nameless(stream) && stream_of(stream)->ctx != ctx))
		return ERROR_INVALID_HANDLE;
	return stream_of(stream)->capturing ? ERROR_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

bool fake_captured(CUstream stream)
{
	return exists(stream) && stream_of(stream)->capturing;
}

int64_t fake_stream_end(CUstream stream)
{
	int64_t now = fake_now(), end = stream_of(stream)->busy_until;

	return end > now ? end : now;
}

void fake_sleep_until(int64_t at)
{
	struct timespec t = {at / 1000000000, at % 1000000000};

	if (at > fake_now())
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
			;
}

CUresult fake_cuStreamCreate(CUstream *out, unsigned flags)
{
	CUresult why;
	struct fake_context *c = fake_current(&why);

	if (!c)
		return why;
	struct fake_stream *s = calloc(1, sizeof *s);
	s->ctx = c;
	s->alive = true;
	fake_lock();
	s->next = streams;
	streams = s;
	fake_unlock();
	*out = s;
	return CUDA_SUCCESS;
}

CUresult fake_cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
	return fake_cuStreamCreate(out, flags);
}

CUresult fake_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return CUDA_SUCCESS;
}

CUresult fake_cuStreamDestroy_v2(CUstream stream)
{
	fake_lock();
	bool ok = !nameless(stream) && exists(stream);
	if (ok)
		stream_of(stream)->alive = false;
	fake_unlock();
	return ok ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

CUresult fake_cuStreamSynchronize(CUstream stream)
{
	CUresult why;

	if (!fake_current(&why))
		return why;
	fake_lock();
	bool ok = exists(stream);
	CUresult r = ok ? fake_unsafe() : ERROR_INVALID_HANDLE;
	int64_t until = ok ? stream_of(stream)->busy_until : 0;
	if (r == CUDA_SUCCESS)
		fake_pools_synchronize();
	fake_unlock();
	if (r == CUDA_SUCCESS)
		fake_sleep_until(until);
	return r;
}

CUresult fake_cuStreamQuery(CUstream stream)
{
	CUresult r;

	if (!fake_current(&r))
		return r;
	fake_lock();
	bool ok = exists(stream);
	bool busy = ok && stream_of(stream)->busy_until > fake_now();
	fake_unlock();
	return !ok ? ERROR_INVALID_HANDLE : busy ? ERROR_NOT_READY : CUDA_SUCCESS;
}

void fake_fault_busy(struct fake_context *c, CUstream stream)
{
	if (exists(stream) && stream_of(stream)->busy_until > fake_now())
		c->fault = ERROR_ILLEGAL_ADDRESS;
}

CUresult fake_context_end(const struct fake_context *ctx, int64_t *at)
{
	CUresult r = CUDA_SUCCESS;

	*at = unnamed.busy_until;
	for (struct fake_stream *s = streams; s; s = s->next) {
		if (!s->alive || s->ctx != ctx)
			continue;
		if (s->capturing) {
			s->spoilt = true;
			r = ERROR_CAPTURE_UNSUPPORTED;
		}
		if (s->busy_until > *at)
			*at = s->busy_until;
	}
	return r;
}

CUresult fake_cuCtxSynchronize(void)
{
	CUresult why;
	int64_t until;

	if (!fake_current(&why))
		return why;
	fake_lock();
	until = unnamed.busy_until;
	for (struct fake_stream *s = streams; s; s = s->next)
		if (s->alive && s->busy_until > until)
			until = s->busy_until;
	fake_pools_synchronize();
	fake_unlock();
	fake_sleep_until(until);
	return CUDA_SUCCESS;
}

CUresult fake_cuThreadExchangeStreamCaptureMode(int *mode)
{
	int old = thread_mode;

	thread_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

CUresult fake_cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	fake_lock();
	bool ok = !nameless(stream) && exists(stream);
	if (ok) {
		struct fake_stream *s = stream_of(stream);
		s->capturing = true;
		s->spoilt = false;
		fake_graph_forget(s);
		s->mode = mode;
		fake.captures += mode == 0;
	}
	fake_unlock();
	return ok ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

CUresult fake_cuStreamBeginCapture(CUstream stream)
{
	return fake_cuStreamBeginCapture_v2(stream, 0);
}
CUresult fake_cuStreamBeginCapture_ptsz(CUstream stream)
{
	return fake_cuStreamBeginCapture_v2(stream, 0);
}
CUresult fake_cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
	return fake_cuStreamBeginCapture_v2(stream, mode);
}
CUresult fake_cuStreamBeginCaptureToGraph(CUstream stream, void *graph, void *const *deps,
					  const void *edges, size_t n, int mode)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult fake_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, void *graph, void *const *deps,
					       const void *edges, size_t n, int mode)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult fake_cuStreamEndCapture(CUstream stream, void **graph)
{
	struct fake_stream *s = stream;
	CUresult r = ERROR_INVALID_HANDLE;

	fake_lock();
	if (!nameless(stream) && exists(stream) && s->capturing) {
		s->capturing = false;
		fake.captures -= s->mode == 0;
		r = s->spoilt ? ERROR_CAPTURE_INVALIDATED : CUDA_SUCCESS;
		*graph = r ? NULL : s;
	}
	fake_unlock();
	return r;
}

CUresult fake_cuStreamEndCapture_ptsz(CUstream stream, void **graph)
{
	return fake_cuStreamEndCapture(stream, graph);
}

/* The graph that a capture makes is known by its stream. */
CUresult fake_cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, void **graph,
					void *const **deps, size_t *n)
{
	fake_lock();
	*status = fake_captured(stream);
	if (*status && graph)
		*graph = stream;
	fake_unlock();
	return CUDA_SUCCESS;
}
