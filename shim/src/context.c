#include "context.h"

#include <pthread.h>
#include <stdatomic.h>

#include "agent.h"
#include "hooks.h"
#include "registry.h"
#include "serve.h"

/* A process has one context per device, seldom a few more. Those beyond are
 * served without a stream of ours: their memory stays where it is. */
enum { CONTEXTS = 64 };

static pthread_mutex_t work = PTHREAD_MUTEX_INITIALIZER;

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

/* The context seen last: most threads of a program share one. */
static _Atomic(CUcontext) last_seen;

static atomic_uint waiting;

void gw_work_lock(void)
{
	atomic_fetch_add(&waiting, 1);
	pthread_mutex_lock(&work);
	atomic_fetch_sub(&waiting, 1);
}

bool gw_work_lock_wanted(void) { return atomic_load(&waiting) > 0; }
void gw_work_unlock(void) { pthread_mutex_unlock(&work); }

/* The caller holds contexts.mu. */
static int index_of(CUcontext ctx)
{
	for (unsigned i = 0; i < contexts.n; i++)
		if (contexts.at[i].ctx == ctx)
			return (int)i;
	return -1;
}

static void add_context(CUcontext ctx, CUdevice device, bool made)
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

static void remove_context(CUcontext ctx)
{
	pthread_mutex_lock(&contexts.mu);
	int i = index_of(ctx);
	if (i >= 0)
		contexts.at[i] = contexts.at[--contexts.n];
	pthread_mutex_unlock(&contexts.mu);
	atomic_store(&last_seen, NULL);
	gw_remove_context(ctx);
	gw_agent_changed(0);
}

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
	fn_cuCtxGetCurrent *current = GW_REAL(cuCtxGetCurrent);
	fn_cuCtxGetDevice *device = GW_REAL(cuCtxGetDevice);

	if (!current || !device || current(&h.ctx) != CUDA_SUCCESS || !h.ctx ||
	    device(&h.device) != CUDA_SUCCESS)
		return only_one();
	if (h.ctx != atomic_load_explicit(&last_seen, memory_order_relaxed))
		add_context(h.ctx, h.device, false);
	return h;
}

unsigned gw_contexts(void)
{
	pthread_mutex_lock(&contexts.mu);
	unsigned n = contexts.n;
	pthread_mutex_unlock(&contexts.mu);
	return n;
}

CUcontext gw_any_context(void)
{
	pthread_mutex_lock(&contexts.mu);
	CUcontext ctx = contexts.n ? contexts.at[0].ctx : NULL;
	pthread_mutex_unlock(&contexts.mu);
	return ctx;
}

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

/* A runtime may end a context by a table of the driver's that is not hooked. Two calls
 * must agree: what is forgotten is not counted. */
static void forget_if_ended(CUcontext ctx, CUresult r)
{
	fn_cuCtxGetApiVersion *ask = GW_REAL(cuCtxGetApiVersion);
	unsigned version;

	if (is_end(r) && ask && is_end(ask(ctx, &version)))
		remove_context(ctx);
}

CUresult gw_push_context(CUcontext ctx)
{
	fn_cuCtxPushCurrent_v2 *push = GW_REAL(cuCtxPushCurrent_v2);

	if (!push || !ctx)
		return CUDA_ERROR_NOT_SUPPORTED;
	CUresult r = push(ctx);
	forget_if_ended(ctx, r);
	return r;
}

void gw_pop_context(void)
{
	fn_cuCtxPopCurrent_v2 *pop = GW_REAL(cuCtxPopCurrent_v2);
	CUcontext ctx;

	if (pop)
		pop(&ctx);
}

void gw_forget_ended(void)
{
	for (unsigned i = gw_contexts(); i-- > 0;) {
		pthread_mutex_lock(&contexts.mu);
		CUcontext ctx = i < contexts.n ? contexts.at[i].ctx : NULL;
		pthread_mutex_unlock(&contexts.mu);
		if (gw_push_context(ctx) == CUDA_SUCCESS)
			gw_pop_context();
	}
}

static CUresult make_stream(CUstream *out)
{
	fn_cuCtxGetStreamPriorityRange *range = GW_REAL(cuCtxGetStreamPriorityRange);
	fn_cuStreamCreateWithPriority *create = GW_REAL(cuStreamCreateWithPriority);
	int least = 0, greatest = 0;

	if (range)
		range(&least, &greatest);
	if (!create)
		return CUDA_ERROR_NOT_SUPPORTED;
	return create(out, STREAM_NON_BLOCKING, least);
}

CUresult gw_stream(CUcontext ctx, unsigned which, CUstream *out)
{
	pthread_mutex_lock(&contexts.mu);
	int i = index_of(ctx);
	*out = i >= 0 ? contexts.at[i].stream[which] : NULL;
	pthread_mutex_unlock(&contexts.mu);
	if (i < 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (*out)
		return CUDA_SUCCESS;
	CUresult r = make_stream(out);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&contexts.mu);
	i = index_of(ctx);
	if (i >= 0)
		contexts.at[i].stream[which] = *out;
	pthread_mutex_unlock(&contexts.mu);
	return CUDA_SUCCESS;
}

void gw_contexts_reset(void)
{
	pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	work = fresh;
	atomic_store(&waiting, 0);
	contexts.mu = fresh;
	contexts.n = 0;
	atomic_store(&last_seen, NULL);
}

CUresult gw_on_init(fn_cuInit *real, unsigned flags)
{
	CUresult r = real(flags);

	if (r == CUDA_SUCCESS)
		gw_agent_start();
	return r;
}

CUresult gw_on_primary_retain(fn_cuDevicePrimaryCtxRetain *real, CUcontext *ctx,
			      CUdevice dev)
{
	CUresult r = real(ctx, dev);

	if (r == CUDA_SUCCESS && ctx)
		add_context(*ctx, dev, false);
	return r;
}

/* What goes with a device's primary context, one at a time. */
static CUcontext primary_of(CUdevice dev)
{
	CUcontext ctx = NULL;

	pthread_mutex_lock(&contexts.mu);
	for (unsigned i = 0; i < contexts.n; i++)
		if (!contexts.at[i].made && contexts.at[i].device == dev)
			ctx = contexts.at[i].ctx;
	pthread_mutex_unlock(&contexts.mu);
	return ctx;
}

/* Release ends the context with its last user, reset at once. */
CUresult gw_on_primary_end(fn_cuDevicePrimaryCtxRelease *real, CUdevice dev)
{
	fn_cuDevicePrimaryCtxGetState *state = GW_REAL(cuDevicePrimaryCtxGetState);
	unsigned flags;
	int active = 1;

	gw_work_lock();
	CUresult r = real(dev);
	if (r == CUDA_SUCCESS && state)
		state(dev, &flags, &active);
	for (CUcontext gone; !active && (gone = primary_of(dev));)
		remove_context(gone);
	gw_work_unlock();
	return r;
}

CUresult gw_on_ctx_create(fn_cuCtxCreate_v2 *real, CUcontext *ctx, unsigned flags,
			  CUdevice dev)
{
	CUresult r = real(ctx, flags, dev);

	if (r == CUDA_SUCCESS && ctx)
		add_context(*ctx, dev, true);
	return r;
}

CUresult gw_on_ctx_create_affinity(fn_cuCtxCreate_v3 *real, CUcontext *ctx,
				   void *affinity, int n, unsigned flags, CUdevice dev)
{
	CUresult r = real(ctx, affinity, n, flags, dev);

	if (r == CUDA_SUCCESS && ctx)
		add_context(*ctx, dev, true);
	return r;
}

CUresult gw_on_ctx_create_params(fn_cuCtxCreate_v4 *real, CUcontext *ctx, void *how,
				 unsigned flags, CUdevice dev)
{
	CUresult r = real(ctx, how, flags, dev);

	if (r == CUDA_SUCCESS && ctx)
		add_context(*ctx, dev, true);
	return r;
}

CUresult gw_on_ctx_destroy(fn_cuCtxDestroy_v2 *real, CUcontext ctx)
{
	gw_work_lock();
	CUresult r = real(ctx);
	if (r == CUDA_SUCCESS)
		remove_context(ctx);
	gw_work_unlock();
	return r;
}
