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

/* Allocate by the backend, with the cost reserved. */
static CUresult obtain(const struct gw_request *q, struct gw_given *given, uint64_t *cost)
{
	CUresult r;

	do {
		const struct gw_backend *from = backend();
		*given = (struct gw_given){0};
		*cost = from->cost(q->bytes);
		if (!reserve(*cost)) {
			given->settled = true;
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		r = from->alloc(q, *cost, given);
	} while (r == GW_AGAIN);
	if (given->refusal != CUDA_SUCCESS)
		gw_agent_refused(GW_SIGN_ALLOC, given->refusal);
	if (given->settled)
		gw_agent_changed(*cost);
	return r;
}

CUresult gw_on_alloc(fn_cuMemAlloc_v2 *real, CUdeviceptr *out, size_t bytes)
{
	struct gw_request q = {.linear = real, .out = out, .bytes = bytes};
	struct gw_given given;
	uint64_t cost;

	if (!out)
		return real(out, bytes);
	CUresult r = obtain(&q, &given, &cost);
	if (given.settled)
		return r;
	return gw_finish_alloc(r, cost, (struct gw_block){
		.base = *out, .size = bytes, .kind = given.kind,
	});
}

/* Take back rows that the driver made wider than was foreseen. */
static CUresult too_wide(CUdeviceptr ptr)
{
	GW_CALL(cuMemFree_v2, ptr);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult gw_on_alloc_pitch(fn_cuMemAllocPitch_v2 *real, CUdeviceptr *out,
			   size_t *pitch, size_t width, size_t height,
			   unsigned element)
{
	struct gw_request q = {
		.pitched = real, .out = out, .pitch = pitch, .width = width, .height = height,
		.element = element,
	};
	struct gw_given given;
	size_t taken = 0, row = gw_row(width);
	uint64_t reserved;

	/* The driver itself shall refuse a wrong call. */
	if (!out || !pitch || !width || !height || row < width ||
	    (element != 4 && element != 8 && element != 16) ||
	    __builtin_mul_overflow(row, height, &q.bytes))
		return real(out, pitch, width, height, element);
	CUresult r = obtain(&q, &given, &reserved);
	if (r == CUDA_SUCCESS && given.kind != GW_PLAIN)
		*pitch = row;
	if (given.settled)
		return r;
	if (r == CUDA_SUCCESS)
		taken = *pitch * height;
	if (taken > reserved && !reserve(taken - reserved))
		r = too_wide(*out);
	else if (taken > reserved)
		reserved = taken;
	return gw_finish_alloc(r, reserved, (struct gw_block){
		.base = *out, .size = taken, .kind = given.kind,
	});
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
