/*
 * Contexts that the program makes and ends.
 */
#include "memory/contexts.h"

#include "agent/agent.h"
#include "driver/resolve.h"
#include "hooks/serve.h"

/* made: by cuCtxCreate, as of gw_add_context. */
static CUresult add_context(CUresult r, const CUcontext *ctx, CUdevice dev, bool made)
{
	if (r == CUDA_SUCCESS && ctx)
		gw_add_context(*ctx, dev, made);
	return r;
}

CUresult gw_on_primary_retain(fn_cuDevicePrimaryCtxRetain *real, CUcontext *ctx,
			      CUdevice dev)
{
	return add_context(real(ctx, dev), ctx, dev, false);
}

static void remove_context(CUcontext ctx)
{
	gw_remove_context(ctx);
	gw_agent_changed(0);
}

/* Release ends the context with its last user, reset at once. */
CUresult gw_on_primary_end(fn_cuDevicePrimaryCtxRelease *real, CUdevice dev)
{
	fn_cuDevicePrimaryCtxGetState *state = GW_REAL(cuDevicePrimaryCtxGetState);
	unsigned flags;
	int active = 1;

	gw_driver_lock();
	CUresult r = real(dev);
	if (r == CUDA_SUCCESS && state)
		state(dev, &flags, &active);
	for (CUcontext gone; !active && (gone = gw_primary_of(dev));)
		remove_context(gone);
	gw_driver_unlock();
	return r;
}

CUresult gw_on_ctx_create(fn_cuCtxCreate_v2 *real, CUcontext *ctx, unsigned flags,
			  CUdevice dev)
{
	return add_context(real(ctx, flags, dev), ctx, dev, true);
}

CUresult gw_on_ctx_create_affinity(fn_cuCtxCreate_v3 *real, CUcontext *ctx,
				   void *affinity, int n, unsigned flags, CUdevice dev)
{
	return add_context(real(ctx, affinity, n, flags, dev), ctx, dev, true);
}

CUresult gw_on_ctx_create_params(fn_cuCtxCreate_v4 *real, CUcontext *ctx, void *how,
				 unsigned flags, CUdevice dev)
{
	return add_context(real(ctx, how, flags, dev), ctx, dev, true);
}

CUresult gw_on_ctx_destroy(fn_cuCtxDestroy_v2 *real, CUcontext ctx)
{
	gw_driver_lock();
	CUresult r = real(ctx);
	if (r == CUDA_SUCCESS)
		remove_context(ctx);
	gw_driver_unlock();
	return r;
}
