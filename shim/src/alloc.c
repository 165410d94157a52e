/*
 * Device memory. A block is recorded after the driver gave it and removed before
 * the driver takes it back: in between, another thread may get the same address.
 * If the driver refuses to take it, the record is restored.
 */
#include "alloc.h"

#include "agent.h"
#include "backend.h"
#include "context.h"
#include "hooks.h"
#include "serve.h"
#include "state.h"

CUresult gw_finish_alloc(CUresult r, uint64_t reserved, enum gw_space space,
			 struct gw_block b)
{
	bool made = r == CUDA_SUCCESS;

	if (made) {
		struct gw_current h = gw_current();
		b.ctx = h.ctx;
		b.device = h.device;
	}
	if (!gw_settle(gw_account_of(b.kind), reserved, space, made ? &b : NULL))
		gw_disable("no memory for the registry");
	/* What was reserved may have been reported. */
	gw_agent_changed(made ? b.size : reserved);
	return r;
}

/* The same of device memory of which no more was reserved than was taken. */
static CUresult finish(CUresult r, const CUdeviceptr *out, size_t bytes, enum gw_kind kind)
{
	return gw_finish_alloc(r, bytes, GW_ADDRESS, (struct gw_block){
		.base = *out, .size = bytes, .kind = kind,
	});
}

bool gw_obtain(enum gw_account account, uint64_t bytes)
{
	/* Of what is granted another process may take a part before it is reserved. */
	enum { ASKS = 8 };
	enum gw_room room;

	gw_agent_await_limit();
	if (gw_reserve(account, bytes) == GW_ROOM)
		return true;
	/* What ended unseen is not what an allocation is refused for. */
	gw_work_lock();
	gw_forget_ended();
	gw_work_unlock();
	for (int i = 0; (room = gw_reserve(account, bytes)) == GW_ROOM_IF_ASKED && i < ASKS; i++)
		if (!gw_agent_ask())
			break;
	return room == GW_ROOM;
}

static bool reserve(size_t bytes) { return gw_obtain(GW_DEVICE_BYTES, bytes); }

CUresult gw_on_alloc(fn_cuMemAlloc_v2 *real, CUdeviceptr *out, size_t bytes)
{
	enum gw_kind kind;

	if (!out)
		return real(out, bytes);
	if (!reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = gw_config.backend->alloc(real, out, bytes, &kind);
	return finish(r, out, bytes, kind);
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
	enum gw_kind kind;
	size_t bytes, taken = 0, row = gw_row(width);

	if (!out || !pitch || row < width || __builtin_mul_overflow(row, height, &bytes))
		return real(out, pitch, width, height, element);
	if (!reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = gw_config.backend->alloc_pitch(real, out, pitch, width, height,
						    element, &kind);
	if (r == CUDA_SUCCESS)
		taken = *pitch * height;
	if (taken > bytes && !reserve(taken - bytes))
		r = too_wide(*out);
	else if (taken > bytes)
		bytes = taken;
	return gw_finish_alloc(r, bytes, GW_ADDRESS, (struct gw_block){
		.base = *out, .size = taken, .kind = kind,
	});
}

CUresult gw_on_alloc_managed(fn_cuMemAllocManaged *real, CUdeviceptr *out,
			     size_t bytes, unsigned flags)
{
	if (!out)
		return real(out, bytes, flags);
	if (!reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return finish(real(out, bytes, flags), out, bytes, GW_NATIVE);
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

/* Is captured into a graph. In the place of NULL the only stream without a name that
 * can be: the thread's own. */
static bool captured(CUstream stream)
{
	fn_cuStreamIsCapturing *ask = GW_REAL(cuStreamIsCapturing);
	int status = 0;

	return ask && ask(stream ? stream : STREAM_PER_THREAD, &status) == CUDA_SUCCESS &&
	       status;
}

/* What is captured is its graph's, of whose memory the driver keeps account. */
static CUresult finish_ordered(CUresult r, const CUdeviceptr *out, size_t bytes,
			       CUstream stream)
{
	if (r != CUDA_SUCCESS || !captured(stream))
		return finish(r, out, bytes, GW_POOL);
	gw_settle(GW_DEVICE_BYTES, bytes, GW_ADDRESS, NULL);
	gw_agent_changed(bytes);
	return r;
}

CUresult gw_on_alloc_async(fn_cuMemAllocAsync *real, CUdeviceptr *out, size_t bytes,
			   CUstream stream)
{
	if (!out)
		return real(out, bytes, stream);
	if (!reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	gw_pools_set_in_use();
	return finish_ordered(real(out, bytes, stream), out, bytes, stream);
}

static CUresult alloc_on_host(fn_cuMemAllocFromPoolAsync *real, CUdeviceptr *out,
			      size_t bytes, CUmemoryPool pool, CUstream stream)
{
	if (!gw_obtain(GW_HOST_BYTES, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return finish(real(out, bytes, pool, stream), out, bytes, GW_HOST);
}

CUresult gw_on_alloc_from_pool(fn_cuMemAllocFromPoolAsync *real, CUdeviceptr *out,
			       size_t bytes, CUmemoryPool pool, CUstream stream)
{
	if (!out)
		return real(out, bytes, pool, stream);
	if (gw_pool_on_host(pool))
		return alloc_on_host(real, out, bytes, pool, stream);
	if (!reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	gw_pools_set_in_use();
	return finish_ordered(real(out, bytes, pool, stream), out, bytes, stream);
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
