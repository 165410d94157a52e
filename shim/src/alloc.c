/*
 * Device memory. A block is recorded after the driver gave it and removed before
 * the driver takes it back: in between, another thread may get the same address.
 * If the driver refuses to take it, the record is restored.
 */
#include "agent.h"
#include "backend.h"
#include "context.h"
#include "hooks.h"
#include "serve.h"
#include "state.h"

static void record(CUdeviceptr ptr, size_t bytes, enum gw_kind kind)
{
	struct gw_current h = gw_current();
	struct gw_block b = {
		.base = ptr, .size = bytes, .kind = kind, .ctx = h.ctx, .device = h.device,
	};

	if (!gw_add(GW_ADDRESS, &b))
		gw_disable("no memory for the registry");
	gw_agent_changed(bytes);
}

/* The end of an allocation whose bytes are reserved: record it if it succeeded. */
static CUresult finish_alloc(CUresult r, CUdeviceptr *out, size_t reserved, size_t bytes,
			     enum gw_kind kind)
{
	if (r == CUDA_SUCCESS)
		record(*out, bytes, kind);
	gw_unreserve(reserved);
	return r;
}

CUresult gw_on_alloc(fn_cuMemAlloc_v2 *real, CUdeviceptr *out, size_t bytes)
{
	enum gw_kind kind;

	if (!out)
		return real(out, bytes);
	if (!gw_reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = gw_config.backend->alloc(real, out, bytes, &kind);
	return finish_alloc(r, out, bytes, bytes, kind);
}

CUresult gw_on_alloc_pitch(fn_cuMemAllocPitch_v2 *real, CUdeviceptr *out,
			   size_t *pitch, size_t width, size_t height,
			   unsigned element)
{
	enum gw_kind kind;
	size_t bytes;

	if (!out || !pitch || __builtin_mul_overflow(width, height, &bytes))
		return real(out, pitch, width, height, element);
	if (!gw_reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = gw_config.backend->alloc_pitch(real, out, pitch, width, height,
						    element, &kind);
	return finish_alloc(r, out, bytes, r == CUDA_SUCCESS ? *pitch * height : 0, kind);
}

CUresult gw_on_alloc_managed(fn_cuMemAllocManaged *real, CUdeviceptr *out,
			     size_t bytes, unsigned flags)
{
	if (!out)
		return real(out, bytes, flags);
	if (!gw_reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return finish_alloc(real(out, bytes, flags), out, bytes, bytes, GW_NATIVE);
}

static void finish_free(bool was_known, const struct gw_block *b, CUresult r)
{
	if (!was_known)
		return; /* not ours to judge: the driver has answered */
	if (r == CUDA_SUCCESS)
		gw_agent_changed(b->size);
	else if (!gw_add(GW_ADDRESS, b))
		gw_disable("no memory for the registry");
}

CUresult gw_on_free(fn_cuMemFree_v2 *real, CUdeviceptr ptr)
{
	struct gw_block b;
	bool known = ptr && gw_remove(GW_ADDRESS, ptr, &b);
	CUresult r = real(ptr);

	finish_free(known, &b, r);
	return r;
}

CUresult gw_on_free_async(fn_cuMemFreeAsync *real, CUdeviceptr ptr, CUstream stream)
{
	struct gw_block b;
	bool known = ptr && gw_remove(GW_ADDRESS, ptr, &b);
	CUresult r = real(ptr, stream);

	finish_free(known, &b, r);
	return r;
}

CUresult gw_on_alloc_async(fn_cuMemAllocAsync *real, CUdeviceptr *out, size_t bytes,
			   CUstream stream)
{
	if (!out)
		return real(out, bytes, stream);
	if (!gw_reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	gw_pools_set_in_use();
	return finish_alloc(real(out, bytes, stream), out, bytes, bytes, GW_POOL);
}

CUresult gw_on_alloc_from_pool(fn_cuMemAllocFromPoolAsync *real, CUdeviceptr *out,
			       size_t bytes, CUmemoryPool pool, CUstream stream)
{
	if (!out)
		return real(out, bytes, pool, stream);
	if (!gw_reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	gw_pools_set_in_use();
	return finish_alloc(real(out, bytes, pool, stream), out, bytes, bytes, GW_POOL);
}

CUresult gw_on_external_map(fn_cuExternalMemoryGetMappedBuffer *real, CUdeviceptr *out,
			    void *memory, const struct gw_external *desc)
{
	CUresult r = real(out, memory, desc);

	if (r == CUDA_SUCCESS && out && desc)
		record(*out, desc->size, GW_EXTERNAL);
	return r;
}
