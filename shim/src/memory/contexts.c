#include "memory/contexts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "driver/resolve.h"
#include "memory/pools.h"
#include "memory/registry.h"
#include "process/state.h"

/* A process has one context per device, seldom a few more. Those beyond are
 * served without a stream of ours: their memory stays where it is. */
enum { CONTEXTS = 64 };

static pthread_mutex_t driver = PTHREAD_MUTEX_INITIALIZER;

static struct {
	pthread_mutex_t mu; /* guards all below */
	struct {
		CUcontext ctx;
		CUdevice device;
		CUstream stream[GW_STREAMS];
		bool made; /* by cuCtxCreate. The rest are primary, or parts of one */
	} at[CONTEXTS];
	unsigned n;
} contexts = {.mu = PTHREAD_MUTEX_INITIALIZER};

static atomic_bool any_green;

/* The context seen last: most threads of a program share one. */
static _Atomic(CUcontext) last_seen;

static atomic_uint waiting, ended;
static atomic_bool stopped;

void gw_driver_lock(void)
{
	atomic_fetch_add(&waiting, 1);
	pthread_mutex_lock(&driver);
	atomic_fetch_sub(&waiting, 1);
}

bool gw_driver_lock_wanted(void) { return atomic_load(&waiting) > 0; }
void gw_driver_unlock(void) { pthread_mutex_unlock(&driver); }

void gw_driver_stop(int ms)
{
	struct timespec until;

	atomic_store(&stopped, true);
	clock_gettime(CLOCK_REALTIME, &until);
	int64_t ns = until.tv_nsec + ms * 1000000ll;
	until.tv_sec += ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	atomic_fetch_add(&waiting, 1);
	if (pthread_mutex_timedlock(&driver, &until) == 0)
		pthread_mutex_unlock(&driver);
	atomic_fetch_sub(&waiting, 1);
}

bool gw_driver_stopped(void) { return atomic_load(&stopped); }

/* The caller holds contexts.mu. */
static int index_of(CUcontext ctx)
{
	for (unsigned i = 0; i < contexts.n; i++)
		if (contexts.at[i].ctx == ctx)
			return (int)i;
	return -1;
}

void gw_add_context(CUcontext ctx, CUdevice device, bool made)
{
	if (!ctx)
		return;
	pthread_mutex_lock(&contexts.mu);
	int i = index_of(ctx);
	if (i < 0 && contexts.n < CONTEXTS) {
		i = (int)contexts.n++;
		contexts.at[i].ctx = ctx;
		contexts.at[i].device = device;
		for (int k = 0; k < GW_STREAMS; k++)
			contexts.at[i].stream[k] = NULL;
		contexts.at[i].made = made;
	}
	pthread_mutex_unlock(&contexts.mu);
	atomic_store(&last_seen, ctx);
}

void gw_add_green(CUcontext ctx, void *green, struct gw_current primary)
{
	gw_add(GW_GREENS, &(struct gw_block){
		.base = (uintptr_t)ctx, .size = 1, .kind = GW_MAPPED, .owner = (uintptr_t)green,
		.ctx = primary.ctx, .device = (int16_t)primary.device,
	});
	atomic_store(&any_green, true);
}

bool gw_remove_green(void *green, struct gw_current *primary)
{
	bool found = false;
	struct gw_block b;

	for (uint64_t at = UINT64_MAX; gw_find_last(GW_GREENS, at, &b); at = b.base - 1)
		if (b.owner == (uintptr_t)green && gw_remove(GW_GREENS, b.base, &b)) {
			*primary = (struct gw_current){b.ctx, b.device};
			found = true;
		}
	return found;
}

/* The context that has the memory of this one. */
static CUcontext owner(CUcontext ctx)
{
	struct gw_block b;

	if (!atomic_load_explicit(&any_green, memory_order_relaxed) ||
	    !gw_find(GW_GREENS, (uintptr_t)ctx, &b))
		return ctx;
	return b.ctx;
}

void (*gw_context_ends)(CUcontext ctx);

void gw_remove_context(CUcontext ctx)
{
	pthread_mutex_lock(&contexts.mu);
	int i = index_of(ctx);
	if (i >= 0)
		contexts.at[i] = contexts.at[--contexts.n];
	pthread_mutex_unlock(&contexts.mu);
	atomic_store(&last_seen, NULL);
	if (gw_context_ends)
		gw_context_ends(ctx);
	gw_remove_graphs_of(ctx);
	gw_remove_blocks_of(ctx);
	atomic_fetch_add(&ended, 1);
}

unsigned gw_contexts_ended(void) { return atomic_load(&ended); }

/* Where the driver does not report one: the only context that there is. */
static struct gw_current only_one(void)
{
	struct gw_current h = {NULL, 0};

	pthread_mutex_lock(&contexts.mu);
	if (contexts.n == 1)
		h = (struct gw_current){contexts.at[0].ctx, contexts.at[0].device};
	pthread_mutex_unlock(&contexts.mu);
	return h;
}

struct gw_current gw_current(void)
{
	struct gw_current h = {NULL, 0};

	if (GW_CALL(cuCtxGetCurrent, &h.ctx) != CUDA_SUCCESS || !h.ctx ||
	    GW_CALL(cuCtxGetDevice, &h.device) != CUDA_SUCCESS)
		return only_one();
	h.ctx = owner(h.ctx);
	if (h.ctx != atomic_load_explicit(&last_seen, memory_order_relaxed))
		gw_add_context(h.ctx, h.device, false);
	return h;
}

unsigned gw_contexts(void)
{
	pthread_mutex_lock(&contexts.mu);
	unsigned n = contexts.n;
	pthread_mutex_unlock(&contexts.mu);
	return n;
}

CUcontext gw_context_at(unsigned i)
{
	pthread_mutex_lock(&contexts.mu);
	CUcontext ctx = i < contexts.n ? contexts.at[i].ctx : NULL;
	pthread_mutex_unlock(&contexts.mu);
	return ctx;
}

CUcontext gw_any_context(void) { return gw_context_at(0); }

CUcontext gw_single_device_context(void)
{
	pthread_mutex_lock(&contexts.mu);
	CUcontext ctx = contexts.n ? contexts.at[0].ctx : NULL;
	for (unsigned i = 1; i < contexts.n; i++)
		if (contexts.at[i].device != contexts.at[0].device)
			ctx = NULL;
	pthread_mutex_unlock(&contexts.mu);
	return ctx;
}

static bool is_end(CUresult r)
{
	return r == CUDA_ERROR_INVALID_CONTEXT || r == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* A runtime may end a context through a table of the driver that is not hooked. Two calls
 * must agree that the context has ended, because the memory of a forgotten context is not
 * counted. */
static void forget_if_ended(CUcontext ctx, CUresult r)
{
	unsigned version;

	if (is_end(r) && is_end(GW_CALL(cuCtxGetApiVersion, ctx, &version)))
		gw_remove_context(ctx);
}

CUresult gw_push_context(CUcontext ctx)
{
	if (!ctx)
		return CUDA_ERROR_NOT_SUPPORTED;
	CUresult r = GW_CALL(cuCtxPushCurrent_v2, ctx);
	forget_if_ended(ctx, r);
	return r;
}

void gw_pop_context(void)
{
	CUcontext ctx;

	GW_CALL(cuCtxPopCurrent_v2, &ctx);
}

bool gw_forget_ended(void)
{
	unsigned before = gw_contexts_ended();

	for (unsigned i = gw_contexts(); i-- > 0;) {
		if (gw_push_context(gw_context_at(i)) == CUDA_SUCCESS)
			gw_pop_context();
	}
	return gw_contexts_ended() != before;
}

static CUresult make_stream(CUstream *out)
{
	int least = 0, greatest = 0;

	GW_CALL(cuCtxGetStreamPriorityRange, &least, &greatest);
	return GW_CALL(cuStreamCreateWithPriority, out, STREAM_NON_BLOCKING, least);
}

CUresult gw_stream(CUcontext ctx, unsigned which, CUstream *out)
{
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	pthread_mutex_lock(&contexts.mu);
	int i = index_of(ctx);
	if (i >= 0) {
		CUstream *own = &contexts.at[i].stream[which];
		r = *own ? CUDA_SUCCESS : make_stream(own);
		*out = *own;
	}
	pthread_mutex_unlock(&contexts.mu);
	return r;
}

CUcontext gw_primary_of(CUdevice dev)
{
	CUcontext ctx = NULL;

	pthread_mutex_lock(&contexts.mu);
	for (unsigned i = 0; i < contexts.n; i++)
		if (!contexts.at[i].made && contexts.at[i].device == dev)
			ctx = contexts.at[i].ctx;
	pthread_mutex_unlock(&contexts.mu);
	return ctx;
}
