/*
 * Contexts that the program makes and ends.
 */
#include "memory/contexts.h"

#include "agent/agent.h"
#include "driver/resolve.h"
#include "hooks/hooks.h"

/* made: by cuCtxCreate, as of gw_add_context. */
CUresult gw_after_context(CUresult r, const CUcontext *ctx, CUdevice dev, bool made)
{
	if (r == CUDA_SUCCESS && ctx)
		gw_add_context(*ctx, dev, made);
	return r;
}

static void remove_context(CUcontext ctx)
{
	gw_remove_context(ctx);
	gw_agent_changed(0);
}

/* The device's primary context may have lost its last user. The caller holds the driver
 * lock. */
static void remove_ended_primary(CUdevice dev)
{
	unsigned flags;
	int active = 1;

	GW_CALL(cuDevicePrimaryCtxGetState, dev, &flags, &active);
	for (CUcontext gone; !active && (gone = gw_primary_of(dev));)
		remove_context(gone);
}

/* Release ends the context with its last user, reset at once. */
CUresult gw_on_primary_end(fn_cuDevicePrimaryCtxRelease *real, CUdevice dev)
{
	gw_driver_lock();
	CUresult r = real(dev);
	if (r == CUDA_SUCCESS)
		remove_ended_primary(dev);
	gw_driver_unlock();
	return r;
}

/* The primary context of the device of a context that becomes current for a moment. */
static struct gw_current primary_below(CUcontext ctx)
{
	struct gw_current h = {NULL, 0};

	if (gw_push_context(ctx) != CUDA_SUCCESS)
		return h;
	/* A green context keeps the primary one: this retains it for a moment more. */
	if (GW_CALL(cuCtxGetDevice, &h.device) == CUDA_SUCCESS &&
	    GW_CALL(cuDevicePrimaryCtxRetain, &h.ctx, h.device) == CUDA_SUCCESS)
		GW_CALL(cuDevicePrimaryCtxRelease_v2, h.device);
	gw_pop_context();
	return h;
}

CUresult gw_after_green(CUresult r, const CUcontext *ctx, void *green)
{
	if (r != CUDA_SUCCESS || !ctx)
		return r;
	gw_driver_lock();
	struct gw_current primary = primary_below(*ctx);
	gw_driver_unlock();
	if (primary.ctx) {
		gw_add_green(*ctx, green, primary);
		gw_add_context(primary.ctx, primary.device, false);
	}
	return r;
}

CUresult gw_on_green_destroy(fn_cuGreenCtxDestroy *real, void *green)
{
	struct gw_current primary;

	gw_driver_lock();
	CUresult r = real(green);
	if (r == CUDA_SUCCESS && gw_remove_green(green, &primary))
		remove_ended_primary(primary.device);
	gw_driver_unlock();
	return r;
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
