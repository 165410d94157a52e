/*
 * Pinned host memory: counted and limited.
 */
#include "hooks/hooks.h"
#include "hooks/obtain.h"

/* The end of pinned memory whose bytes are reserved. */
static CUresult finish_host(CUresult r, void *base, size_t bytes)
{
	return gw_finish_alloc(r, bytes, GW_ADDRESS, (struct gw_block){
		.base = (uintptr_t)base, .size = bytes, .kind = GW_HOST,
	});
}

CUresult gw_on_host_alloc(fn_cuMemHostAlloc *real, void **out, size_t bytes,
			  unsigned flags)
{
	if (!out)
		return real(out, bytes, flags);
	if (!gw_obtain(GW_HOST_BYTES, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = real(out, bytes, flags);
	return finish_host(r, *out, bytes);
}

CUresult gw_on_host_alloc_plain(fn_cuMemAllocHost_v2 *real, void **out, size_t bytes)
{
	if (!out)
		return real(out, bytes);
	if (!gw_obtain(GW_HOST_BYTES, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = real(out, bytes);
	return finish_host(r, *out, bytes);
}

CUresult gw_on_host_register(fn_cuMemHostRegister *real, void *ptr, size_t bytes,
			     unsigned flags)
{
	if (!gw_obtain(GW_HOST_BYTES, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return finish_host(real(ptr, bytes, flags), ptr, bytes);
}

CUresult gw_on_host_free(fn_cuMemFreeHost *real, void *ptr)
{
	struct gw_block b;
	bool known = gw_remove(GW_ADDRESS, (uintptr_t)ptr, &b);
	CUresult r = real(ptr);

	gw_finish_free(known, GW_ADDRESS, &b, r);
	return r;
}
