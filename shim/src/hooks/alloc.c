/*
 * Device memory. The backend decides how it is made.
 */
#include "agent/agent.h"
#include "driver/resolve.h"
#include "hooks/hooks.h"
#include "hooks/obtain.h"
#include "memory/backend.h"
#include "memory/vmm.h"
#include "migration/refusal.h"

static bool reserve(size_t bytes) { return gw_obtain(GW_DEVICE_BYTES, bytes); }

/* After a sign that managed memory does not work memory is plain. */
static const struct gw_backend *backend(void)
{
	return gw_refused_before() ? &gw_plain_backend : gw_backend;
}

CUresult gw_on_alloc(fn_cuMemAlloc_v2 *real, CUdeviceptr *out, size_t bytes)
{
	struct gw_alloc a;
	CUresult r;

	if (!out)
		return real(out, bytes);
	do {
		const struct gw_backend *from = backend();
		a = (struct gw_alloc){
			.real = real, .out = out, .bytes = bytes, .cost = from->cost(bytes),
		};
		if (!reserve(a.cost))
			return CUDA_ERROR_OUT_OF_MEMORY;
		r = from->alloc(&a);
	} while (r == GW_AGAIN);
	if (a.refusal != CUDA_SUCCESS)
		gw_agent_refused(GW_SIGN_ALLOC, a.refusal);
	if (!a.settled)
		return gw_finish_alloc(r, a.cost, (struct gw_block){
			.base = *out, .size = bytes, .kind = a.kind,
		});
	gw_agent_changed(a.cost);
	return r;
}

/* Take back rows that the driver made wider than was foreseen. */
static CUresult too_wide(CUdeviceptr ptr)
{
	GW_CALL(cuMemFree_v2, ptr);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The driver gave r for pitched memory of so many bytes, for which others were reserved. */
static CUresult finish_rows(CUresult r, CUdeviceptr ptr, size_t taken, uint64_t reserved)
{
	if (r == CUDA_SUCCESS && taken > reserved) {
		if (reserve(taken - reserved))
			reserved = taken;
		else
			r = too_wide(ptr);
	}
	return gw_finish_alloc(r, reserved, (struct gw_block){
		.base = ptr, .size = taken, .kind = GW_PLAIN,
	});
}

/* In place of pitched memory rows begin where those of device memory would. */
CUresult gw_on_alloc_pitch(fn_cuMemAllocPitch_v2 *real, CUdeviceptr *out,
			   size_t *pitch, size_t width, size_t height,
			   unsigned element)
{
	enum { PITCH = 512 };
	size_t row = (width + PITCH - 1) / PITCH * PITCH, bytes;

	/* The driver itself shall refuse a wrong call. */
	if (!out || !pitch || !width || !height || row < width ||
	    (element != 4 && element != 8 && element != 16) ||
	    __builtin_mul_overflow(row, height, &bytes))
		return real(out, pitch, width, height, element);
	if (backend() == &gw_plain_backend) {
		if (!reserve(bytes))
			return CUDA_ERROR_OUT_OF_MEMORY;
		CUresult r = real(out, pitch, width, height, element);
		return finish_rows(r, *out, *pitch * height, bytes);
	}
	CUresult r = gw_on_alloc(GW_REAL(cuMemAlloc_v2), out, bytes);
	if (r == CUDA_SUCCESS)
		*pitch = row;
	return r;
}

CUresult gw_on_free(fn_cuMemFree_v2 *real, CUdeviceptr ptr)
{
	struct gw_block b;
	CUresult r;

	if (gw_vmm_free(ptr, &r)) {
		gw_agent_changed(0);
		return r;
	}
	bool known = ptr && gw_remove(GW_ADDRESS, ptr, &b);
	r = real(ptr);
	gw_finish_free(known, GW_ADDRESS, &b, r);
	return r;
}

CUresult gw_after_external(CUresult r, const CUdeviceptr *out, const struct gw_external *desc)
{
	if (!out || !desc)
		return r;
	return gw_finish_alloc(r, 0, (struct gw_block){
		.base = *out, .size = desc->size, .kind = GW_EXTERNAL,
	});
}
