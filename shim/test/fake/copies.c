/*
 * Copies and events. A copy is done when the call returns, as a real driver may
 * do it, too; its stream is busy for as long as missing pages take.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* The place of a copy's device side, with its pages brought in. */
static CUresult reach(CUdeviceptr ptr, size_t bytes, CUstream stream)
{
	CUresult r;
	struct fake_context *c = fake_current(&r);

	if (!c)
		return r;
	struct fake_memory *m = fake_find(ptr);
	if (!m || ptr + bytes > m->base + m->size)
		return CUDA_ERROR_INVALID_VALUE;
	/* An access to memory that is not mapped, or without access rights, ends the
	 * context. */
	if (m->addresses && !fake_mapped(m, ptr, bytes))
		return c->fault = ERROR_ILLEGAL_ADDRESS;
	fake_use(m, ptr, bytes, c, stream);
	uint64_t moved = fake_page_in(m, ptr - m->base, bytes, &r);
	fake_occupy(stream, (int64_t)(moved / PAGE * fake.fault_ns));
	return r;
}

CUresult fake_reach(CUdeviceptr ptr, size_t bytes, CUstream stream)
{
	CUresult r;
	struct fake_memory *m = fake_find(ptr);
	struct fake_context *c = fake_current(&r);

	if (c && m && m->kind == FAKE_MANAGED && fake.managed_fault)
		return c->fault = fake.managed_fault;
	if (c && m && m->moved && fake.moved_fault)
		return c->fault = fake.moved_fault;
	return reach(ptr, bytes, stream);
}

/* An asynchronous copy between host and device takes its time on the link, to and from
 * memory that is not pinned four times as long. */
static void take_link(const struct fake_context *c, bool to_device, const void *host,
		      size_t bytes, CUstream stream)
{
	double ns = fake.bandwidth ? (double)bytes / (double)fake.bandwidth * 1e9 : 0;

	if (stream && ns)
		fake_transfer(stream, c->device, to_device,
			      (int64_t)(fake_is_pinned(host, bytes) ? ns : 4 * ns), fake_now());
}

/* Both sides are reached before a byte is copied. HOST is for the side of the host. */
enum side { HOST, DEVICE };

static CUresult copy(uint64_t dst, enum side to, uint64_t src, enum side from, size_t bytes,
		     CUstream stream)
{
	CUresult r;
	struct fake_context *c = fake_current(&r);

	if (!c)
		return r;
	fake_lock();
	r = fake_stream_fits(stream, c);
	if (r == CUDA_SUCCESS && from == DEVICE)
		r = reach(src, bytes, stream);
	if (r == CUDA_SUCCESS && to == DEVICE)
		r = reach(dst, bytes, stream);
	if (r == CUDA_SUCCESS)
		memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
	if (r == CUDA_SUCCESS && to != from)
		take_link(c, to == DEVICE, (const void *)(uintptr_t)(to == HOST ? dst : src), bytes,
			  stream);
	fake_unlock();
	return r;
}

CUresult fake_cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream s)
{
	return copy(dst, DEVICE, (uintptr_t)src, HOST, bytes, s);
}
CUresult fake_cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
	return fake_cuMemcpyHtoDAsync_v2(dst, src, bytes, NULL);
}

CUresult fake_cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream s)
{
	return copy((uintptr_t)dst, HOST, src, DEVICE, bytes, s);
}
CUresult fake_cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
	return fake_cuMemcpyDtoHAsync_v2(dst, src, bytes, NULL);
}

CUresult fake_cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s)
{
	return copy(dst, DEVICE, src, DEVICE, bytes, s);
}
CUresult fake_cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return fake_cuMemcpyDtoDAsync_v2(dst, src, bytes, NULL);
}

CUresult fake_cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream s)
{
	CUresult r;
	struct fake_context *c = fake_current(&r);

	if (!c)
		return r;
	fake_lock();
	r = fake_stream_fits(s, c);
	if (r == CUDA_SUCCESS)
		r = reach(dst, bytes, s);
	if (r == CUDA_SUCCESS)
		memset((void *)(uintptr_t)dst, value, bytes);
	fake_unlock();
	return r;
}
CUresult fake_cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t bytes)
{
	return fake_cuMemsetD8Async(dst, value, bytes, NULL);
}

/* An event is the time at which its stream will have come to it. */
struct event {
	int64_t at;
};

CUresult fake_cuEventCreate(void **out, unsigned flags)
{
	CUresult why;

	if (!out || !fake_current(&why))
		return out ? why : CUDA_ERROR_INVALID_VALUE;
	*out = calloc(1, sizeof(struct event));
	return CUDA_SUCCESS;
}

CUresult fake_cuEventDestroy_v2(void *event)
{
	free(event);
	return event ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

CUresult fake_cuEventRecord(void *event, CUstream stream)
{
	struct event *e = event;
	CUresult r;
	struct fake_context *c = fake_current(&r);

	if (!c || !e)
		return c ? ERROR_INVALID_HANDLE : r;
	fake_lock();
	r = fake_stream_fits(stream, c);
	if (r == CUDA_SUCCESS)
		e->at = fake_stream_end(stream);
	fake_unlock();
	return r;
}

/* All that the context was given. A capture there is spoilt. */
CUresult fake_cuCtxRecordEvent(CUcontext ctx, void *event)
{
	struct event *e = event;

	if (!ctx || !e)
		return ERROR_INVALID_HANDLE;
	fake_lock();
	CUresult r = fake_context_end(ctx, &e->at);
	fake_unlock();
	return r;
}

CUresult fake_cuEventQuery(void *event)
{
	struct event *e = event;

	return !e ? ERROR_INVALID_HANDLE : e->at > fake_now() ? ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult fake_cuEventSynchronize(void *event)
{
	struct event *e = event;

	if (!e)
		return ERROR_INVALID_HANDLE;
	fake_sleep_until(e->at);
	return CUDA_SUCCESS;
}

CUresult fake_cuEventElapsedTime(float *ms, void *from, void *to)
{
	if (!ms || !from || !to)
		return CUDA_ERROR_INVALID_VALUE;
	*ms = (float)(((struct event *)to)->at - ((struct event *)from)->at) / 1e6f;
	return CUDA_SUCCESS;
}

CUresult fake_cuStreamWaitEvent(CUstream stream, void *event, unsigned flags)
{
	struct event *e = event;
	CUresult r;
	struct fake_context *c = fake_current(&r);

	if (!c || !e)
		return c ? ERROR_INVALID_HANDLE : r;
	fake_lock();
	r = fake_stream_fits(stream, c);
	if (r == CUDA_SUCCESS && e->at > fake_stream_end(stream))
		fake_occupy(stream, e->at - fake_stream_end(stream));
	fake_unlock();
	return r;
}
