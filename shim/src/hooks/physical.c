/*
 * Physical memory by handle. It lives as long as the handle or a mapping of it,
 * so both are counted.
 *
 * A handle that ends may be given out again at once, to another thread. So the
 * driver's call and our record of a handle are one step, under a lock: these calls
 * are rare and long.
 */
#include "hooks/physical.h"

#include <pthread.h>

#include "agent/agent.h"
#include "hooks/obtain.h"
#include "hooks/serve.h"
#include "process/state.h"

static pthread_mutex_t handles = PTHREAD_MUTEX_INITIALIZER;

void gw_physical_reset(void)
{
	pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	handles = fresh;
}

CUresult gw_on_physical_create(fn_cuMemCreate *real, CUmemHandle *handle, size_t bytes,
			       const struct gw_memprop *prop, uint64_t flags)
{
	if (!handle || !prop)
		return real(handle, bytes, prop, flags);
	enum gw_kind kind = gw_on_host(prop->location) ? GW_PHYSICAL_HOST : GW_PHYSICAL;
	if (!gw_obtain(gw_account_of(kind), bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&handles);
	CUresult r = real(handle, bytes, prop, flags);
	bool made = r == CUDA_SUCCESS;
	struct gw_block b = {
		.base = *handle, .size = bytes, .kind = kind, .refs = 1,
	};
	if (!gw_settle(gw_account_of(kind), bytes, GW_HANDLE, made ? &b : NULL))
		gw_disable("no memory for the registry");
	pthread_mutex_unlock(&handles);
	gw_agent_changed(made ? bytes : 0);
	return r;
}

CUresult gw_on_physical_release(fn_cuMemRelease *real, CUmemHandle handle)
{
	pthread_mutex_lock(&handles);
	CUresult r = real(handle);
	bool known = r == CUDA_SUCCESS && gw_change_refs(handle, -1);
	pthread_mutex_unlock(&handles);
	if (known)
		gw_agent_changed(0);
	return r;
}

CUresult gw_on_physical_retain(fn_cuMemRetainAllocationHandle *real,
			       CUmemHandle *handle, void *addr)
{
	pthread_mutex_lock(&handles);
	CUresult r = real(handle, addr);
	if (r == CUDA_SUCCESS && handle)
		gw_change_refs(*handle, 1);
	pthread_mutex_unlock(&handles);
	return r;
}

CUresult gw_on_physical_map(fn_cuMemMap *real, CUdeviceptr ptr, size_t bytes,
			    size_t offset, CUmemHandle handle, uint64_t flags)
{
	struct gw_block b = {
		.base = ptr, .size = bytes, .kind = GW_MAPPED, .owner = handle,
	};

	pthread_mutex_lock(&handles);
	CUresult r = real(ptr, bytes, offset, handle, flags);
	if (r == CUDA_SUCCESS && gw_change_refs(handle, 1) && !gw_add(GW_ADDRESS, &b))
		gw_disable("no memory for the registry");
	pthread_mutex_unlock(&handles);
	return r;
}

/* One call may end several mappings, also such as are not known. */
CUresult gw_on_physical_unmap(fn_cuMemUnmap *real, CUdeviceptr ptr, size_t bytes)
{
	struct gw_block b;

	pthread_mutex_lock(&handles);
	CUresult r = real(ptr, bytes);

	while (r == CUDA_SUCCESS && gw_remove_mapping(ptr, bytes, &b))
		gw_change_refs(b.owner, -1);
	pthread_mutex_unlock(&handles);
	if (r == CUDA_SUCCESS)
		gw_agent_changed(0);
	return r;
}
