/*
 * Device memory, of which the backend decides what it is made of.
 */
#include "agent/agent.h"
#include "driver/resolve.h"
#include "hooks/obtain.h"
#include "hooks/serve.h"
#include "memory/backend.h"
#include "migration/refusal.h"

static bool reserve(size_t bytes) { return gw_obtain(GW_DEVICE_BYTES, bytes); }

/* After a sign that managed memory does not work memory is plain. */
static const struct gw_backend *backend(void)
{
	return gw_refused_before() ? &gw_plain_backend : gw_backend;
}

static void record_refusal(const struct gw_given *given)
{
	if (given->refusal != CUDA_SUCCESS)
		gw_agent_refused(GW_SIGN_ALLOC, given->refusal);
}

CUresult gw_on_alloc(fn_cuMemAlloc_v2 *real, CUdeviceptr *out, size_t bytes)
{
	struct gw_given given = {0};

	if (!out)
		return real(out, bytes);
	if (!reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = backend()->alloc(real, out, bytes, &given);
	record_refusal(&given);
	return gw_finish_device(r, out, bytes, given.kind);
}

/* Take back rows that the driver made wider than was foreseen. */
static CUresult too_wide(CUdeviceptr ptr)
{
	fn_cuMemFree_v2 *give_back = GW_REAL(cuMemFree_v2);

	if (give_back)
		give_back(ptr);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult gw_on_alloc_pitch(fn_cuMemAllocPitch_v2 *real, CUdeviceptr *out,
			   size_t *pitch, size_t width, size_t height,
			   unsigned element)
{
	struct gw_given given = {0};
	size_t bytes, taken = 0, row = gw_row(width);

	if (!out || !pitch || row < width || __builtin_mul_overflow(row, height, &bytes))
		return real(out, pitch, width, height, element);
	if (!reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = backend()->alloc_pitch(real, out, pitch, width, height, element, &given);
	record_refusal(&given);
	if (r == CUDA_SUCCESS)
		taken = *pitch * height;
	if (taken > bytes && !reserve(taken - bytes))
		r = too_wide(*out);
	else if (taken > bytes)
		bytes = taken;
	return gw_finish_alloc(r, bytes, GW_ADDRESS, (struct gw_block){
		.base = *out, .size = taken, .kind = given.kind,
	});
}

CUresult gw_on_alloc_managed(fn_cuMemAllocManaged *real, CUdeviceptr *out,
			     size_t bytes, unsigned flags)
{
	if (!out)
		return real(out, bytes, flags);
	if (!reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return gw_finish_device(real(out, bytes, flags), out, bytes, GW_NATIVE);
}

CUresult gw_on_free(fn_cuMemFree_v2 *real, CUdeviceptr ptr)
{
	struct gw_block b;
	bool known = ptr && gw_remove(GW_ADDRESS, ptr, &b);
	CUresult r = real(ptr);

	gw_finish_free(known, GW_ADDRESS, &b, r);
	return r;
}

CUresult gw_on_external_map(fn_cuExternalMemoryGetMappedBuffer *real, CUdeviceptr *out,
			    void *memory, const struct gw_external *desc)
{
	CUresult r = real(out, memory, desc);

	if (!out || !desc)
		return r;
	return gw_finish_alloc(r, 0, GW_ADDRESS, (struct gw_block){
		.base = *out, .size = desc->size, .kind = GW_EXTERNAL,
	});
}
