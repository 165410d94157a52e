/*
 * The memory calls of the driver.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* Allocate in the current context; pool: of this pool's memory, in a stream's order. */
static CUresult alloc(CUdeviceptr *out, size_t bytes, enum fake_kind kind,
		      struct fake_pool *pool)
{
	CUresult r;
	struct fake_context *c = fake_current(&r);
	uint64_t base = 0;

	if (!c)
		return r;
	fake_lock();
	if (kind == FAKE_DEVICE || kind == FAKE_MANAGED)
		r = fake_unsafe(); /* an operation in a stream's order is safe in a capture */
	if (r == CUDA_SUCCESS && pool && !fake_pool_take(pool, bytes))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS) {
		r = fake_new(c, bytes, kind, out ? &base : NULL);
		if (r != CUDA_SUCCESS && pool)
			fake_pool_free(pool, bytes);
	}
	if (r == CUDA_SUCCESS) {
		*out = base;
		if (pool)
			fake_find(base)->pool = pool;
	}
	fake_unlock();
	return r;
}

CUresult fake_cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
	return alloc(out, bytes, FAKE_DEVICE, NULL);
}

CUresult fake_cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags)
{
	if (flags != 1 && flags != 2)
		return CUDA_ERROR_INVALID_VALUE;
	return alloc(out, bytes, FAKE_MANAGED, NULL);
}

CUresult fake_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width,
				 size_t height, unsigned element)
{
	if (element != 4 && element != 8 && element != 16)
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = (width + fake.pitch - 1) / fake.pitch * fake.pitch;
	return alloc(out, *pitch * height, FAKE_DEVICE, NULL);
}

static CUresult release(CUdeviceptr ptr, CUstream stream, bool ordered)
{
	CUresult why;

	if (!ptr)
		return CUDA_SUCCESS;
	if (!fake_current(&why))
		return why;
	fake_lock();
	CUresult r = ordered ? CUDA_SUCCESS : fake_unsafe();
	struct fake_memory *m = fake_find(ptr);
	if (r == CUDA_SUCCESS && (!m || m->base != ptr || m->addresses))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && ordered && fake_captured(stream))
		r = fake_graph_free(ptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	else if (r == CUDA_SUCCESS)
		fake_delete(m);
	fake_unlock();
	return r;
}

CUresult fake_cuMemFree_v2(CUdeviceptr ptr) { return release(ptr, NULL, false); }

/* A captured allocation is a node of the graph: the launch takes its memory. */
static CUresult alloc_ordered(CUdeviceptr *out, size_t bytes, struct fake_pool *pool,
			      CUstream stream)
{
	fake_lock();
	bool captured = fake_captured(stream);
	fake_unlock();
	if (!captured)
		return alloc(out, bytes, FAKE_POOLED, pool);
	CUresult r = alloc(out, bytes, FAKE_VIEW, NULL);
	if (r != CUDA_SUCCESS)
		return r;
	fake_lock();
	fake_graph_alloc(stream, *out, bytes);
	fake_unlock();
	return CUDA_SUCCESS;
}

CUresult fake_cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	CUresult r;
	struct fake_context *c = fake_current(&r);

	return c ? alloc_ordered(out, bytes, fake_default_pool(c->device), stream) : r;
}
CUresult fake_cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	return fake_cuMemAllocAsync(out, bytes, stream);
}
CUresult fake_cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
				      CUstream stream)
{
	fake_lock();
	struct fake_pool *p = fake_pool_of(pool);
	fake_unlock();
	return p ? alloc_ordered(out, bytes, p, stream) : CUDA_ERROR_INVALID_VALUE;
}
CUresult fake_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes,
					   CUmemoryPool pool, CUstream stream)
{
	return fake_cuMemAllocFromPoolAsync(out, bytes, pool, stream);
}
CUresult fake_cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) { return release(ptr, stream, true); }
CUresult fake_cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
	return release(ptr, stream, true);
}

static int64_t duration(uint64_t bytes, uint64_t bandwidth)
{
	return bandwidth ? (int64_t)((double)bytes / (double)bandwidth * 1e9) : 0;
}

/* dev is CPU_DEVICE for the host. */
static CUresult prefetch(CUdeviceptr ptr, size_t bytes, CUdevice dev, CUstream stream)
{
	CUresult r;
	uint64_t moved = 0, fresh = 0;
	int64_t asked = fake_now(), ns;
	struct fake_context *c = fake_current(&r);

	if (!c)
		return r;
	if (!fake.concurrent || (dev != CPU_DEVICE && (dev < 0 || dev >= fake.devices)))
		return ERROR_INVALID_DEVICE;
	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	r = fake_stream_fits(stream, c);
	if (r == CUDA_SUCCESS &&
	    (!m || m->kind != FAKE_MANAGED || !bytes || ptr + bytes > m->base + m->size))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && dev != CPU_DEVICE)
		moved = fake_page_in(m, ptr - m->base, bytes, &r);
	else if (r == CUDA_SUCCESS) {
		moved = fake_page_out(m, ptr - m->base, bytes, &fresh);
		m->moved = true;
	}
	ns = dev == CPU_DEVICE ? duration(moved - fresh, fake.bandwidth_out) +
					 duration(fresh, fake.bandwidth_first) :
				 duration(moved, fake.bandwidth);
	if (ns)
		fake_transfer(stream, m->device, dev != CPU_DEVICE, ns, asked);
	fake_unlock();
	return r;
}

CUresult fake_cuMemPrefetchAsync(CUdeviceptr ptr, size_t bytes, CUdevice dev, CUstream s)
{
	return prefetch(ptr, bytes, dev, s);
}
CUresult fake_cuMemPrefetchAsync_ptsz(CUdeviceptr ptr, size_t bytes, CUdevice dev, CUstream s)
{
	return prefetch(ptr, bytes, dev, s);
}

static CUresult prefetch_location(CUdeviceptr ptr, size_t bytes, struct gw_location to,
				  uint64_t flags, CUstream s)
{
	if (flags || to.type < LOCATION_DEVICE || to.type > LOCATION_HOST_NUMA_CURRENT ||
	    (to.type == LOCATION_DEVICE && to.id < 0))
		return CUDA_ERROR_INVALID_VALUE;
	return prefetch(ptr, bytes, to.type == LOCATION_DEVICE ? to.id : CPU_DEVICE, s);
}

CUresult fake_cuMemPrefetchAsync_v2(CUdeviceptr ptr, size_t bytes, struct gw_location to,
				    unsigned flags, CUstream s)
{
	return prefetch_location(ptr, bytes, to, flags, s);
}
CUresult fake_cuMemPrefetchAsync_v2_ptsz(CUdeviceptr ptr, size_t bytes, struct gw_location to,
					 unsigned flags, CUstream s)
{
	return prefetch_location(ptr, bytes, to, flags, s);
}

/* Range i goes to the place whose index is the last not above i. */
CUresult fake_cuMemPrefetchBatchAsync(CUdeviceptr *ptr, size_t *bytes, size_t n,
				      struct gw_location *to, size_t *first, size_t places,
				      unsigned long long flags, CUstream s)
{
	CUresult r = ptr && bytes && n && to && first && places && first[0] == 0 ?
			     CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	for (size_t i = 0, at = 0; r == CUDA_SUCCESS && i < n; i++) {
		while (at + 1 < places && first[at + 1] <= i)
			at++;
		r = prefetch_location(ptr[i], bytes[i], to[at], flags, s);
	}
	return r;
}
CUresult fake_cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *ptr, size_t *bytes, size_t n,
					   struct gw_location *to, size_t *first, size_t places,
					   unsigned long long flags, CUstream s)
{
	return fake_cuMemPrefetchBatchAsync(ptr, bytes, n, to, first, places, flags, s);
}

/* Discarded memory may have any contents. The fake writes contents that a test notices. */
static void discard(CUdeviceptr ptr, size_t bytes)
{
	CUresult r;

	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	if (m && ptr + bytes <= m->base + m->size) {
		fake_page_in(m, ptr - m->base, bytes, &r);
		memset((void *)(uintptr_t)ptr, 0xa5, bytes);
	}
	fake_unlock();
}

CUresult fake_cuMemDiscardBatchAsync(CUdeviceptr *ptr, size_t *bytes, size_t n,
				     unsigned long long flags, CUstream s)
{
	if (!ptr || !bytes || !n || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++)
		discard(ptr[i], bytes[i]);
	return CUDA_SUCCESS;
}

CUresult fake_cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *ptr, size_t *bytes, size_t n,
						struct gw_location *to, size_t *first,
						size_t places, unsigned long long flags, CUstream s)
{
	for (size_t i = 0; ptr && bytes && i < n; i++)
		discard(ptr[i], bytes[i]);
	return fake_cuMemPrefetchBatchAsync(ptr, bytes, n, to, first, places, flags, s);
}
CUresult fake_cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr *ptr, size_t *bytes, size_t n,
						     struct gw_location *to, size_t *first,
						     size_t places, unsigned long long flags,
						     CUstream s)
{
	return fake_cuMemDiscardAndPrefetchBatchAsync(ptr, bytes, n, to, first, places, flags, s);
}

static CUresult attribute(void *data, int what, CUdeviceptr ptr)
{
	struct fake_memory *m = fake_find(ptr);

	if (!m || (m->addresses && !fake_mapped(m, ptr, 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (what == POINTER_MEMORY_TYPE)
		*(unsigned *)data = m->kind == FAKE_MANAGED ? 4 : MEMORYTYPE_DEVICE;
	else if (what == POINTER_HOST && m->kind == FAKE_MANAGED)
		*(void **)data = (void *)(uintptr_t)ptr;
	else if (what == POINTER_IPC_CAPABLE)
		*(unsigned char *)data = m->kind == FAKE_DEVICE;
	else if (what == POINTER_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	else if (what == POINTER_RANGE_START)
		*(CUdeviceptr *)data = m->base;
	else if (what == POINTER_RANGE_SIZE)
		*(size_t *)data = m->size;
	else if (what == POINTER_IS_MANAGED)
		*(unsigned *)data = m->kind == FAKE_MANAGED;
	else
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult fake_cuPointerGetAttribute(void *data, int what, CUdeviceptr ptr)
{
	fake_lock();
	CUresult r = attribute(data, what, ptr);
	fake_unlock();
	return r;
}

CUresult fake_cuPointerGetAttributes(unsigned n, int *what, void **data, CUdeviceptr ptr)
{
	CUresult r = CUDA_SUCCESS;

	fake_lock();
	for (unsigned i = 0; i < n && r == CUDA_SUCCESS; i++)
		r = attribute(data[i], what[i], ptr);
	fake_unlock();
	return r;
}

CUresult fake_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr)
{
	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	if (m && base)
		*base = m->base;
	if (m && bytes)
		*bytes = m->size;
	fake_unlock();
	return m ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult fake_cuPointerSetAttribute(const void *value, int what, CUdeviceptr ptr)
{
	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	bool ok = m && (!m->addresses || fake_mapped(m, ptr, 1));
	fake_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_plain(CUdeviceptr ptr)
{
	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	bool ok = m && m->kind == FAKE_DEVICE;
	fake_unlock();
	return ok;
}

CUresult fake_cuIpcGetMemHandle(void *handle, CUdeviceptr ptr)
{
	memset(handle, 0, 64);
	return is_plain(ptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The fake's processes do not share memory. They share only the device's capacity. */
CUresult fake_cuIpcOpenMemHandle(CUdeviceptr *ptr, struct gw_ipc handle, unsigned flags)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult fake_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t bytes, int type,
					    unsigned long long flags)
{
	*(int *)handle = -1;
	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	bool whole = m && m->addresses && fake_mapped(m, ptr, bytes);
	fake_unlock();
	return whole || is_plain(ptr) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}
