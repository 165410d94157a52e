/*
 * Physical memory, arrays, pinned memory: as far as they can be counted.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* Physical memory: held by its handle's users and its mappings. */
struct physical {
	uint64_t size;
	int device, users; /* device: CPU_DEVICE on the host */
	struct physical *next; /* of those that ended: the last is given out first */
};
static struct physical *ended;

CUresult fake_cuMemCreate(CUmemHandle *handle, size_t bytes, const struct gw_memprop *prop,
			  uint64_t flags)
{
	bool host = gw_on_host(prop->location);
	int dev = host ? CPU_DEVICE : prop->location.id;

	if (!host && (dev < 0 || dev >= fake.devices))
		return ERROR_INVALID_DEVICE;
	fake_lock();
	bool ok = host || fake_make_space(dev, bytes, false, NULL);
	if (ok) {
		struct physical *p = ended;
		if (p)
			ended = p->next;
		else
			p = calloc(1, sizeof *p);
		*p = (struct physical){bytes, dev, 1, NULL};
		if (!host)
			fake.used[dev] += bytes;
		*handle = (uintptr_t)p;
	}
	fake_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void drop(struct physical *p)
{
	if (--p->users)
		return;
	if (p->device != CPU_DEVICE) {
		fake.used[p->device] -= p->size;
		fake_release(p->device, p->size, false);
	}
	p->next = ended;
	ended = p;
}

/* What a handle stands for: an import gives one of its own for the same memory. */
static struct imported {
	struct physical *of; /* NULL: free */
} imports[64];

static struct physical *physical_of(CUmemHandle handle)
{
	struct imported *i = (struct imported *)(uintptr_t)handle;

	return i >= imports && i < imports + 64 ? i->of : (struct physical *)(uintptr_t)handle;
}

/* The descriptors by which memory was exported. */
static struct export {
	int fd;
	struct physical *of;
	struct export *next;
} *exports;

CUresult fake_cuMemExportToShareableHandle(void *shared, CUmemHandle handle, int type,
					   unsigned long long flags)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct export *e = calloc(1, sizeof *e);

	fake_lock();
	*e = (struct export){fd, physical_of(handle), exports};
	exports = e;
	fake_unlock();
	*(int *)shared = fd;
	return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A number that is no descriptor is the size of memory of another process, which keeps
 * account of it. */
CUresult fake_cuMemImportFromShareableHandle(CUmemHandle *handle, void *shared, int type)
{
	struct gw_memprop prop = {1, 0, {LOCATION_HOST, 0}};
	struct imported *i = imports;
	struct export *e;

	fake_lock();
	for (e = exports; e && e->fd != (int)(intptr_t)shared; e = e->next)
		;
	while (e && i < imports + 64 && i->of)
		i++;
	if (e) {
		i->of = e->of;
		i->of->users++;
		*handle = (uintptr_t)i;
	}
	fake_unlock();
	return e ? CUDA_SUCCESS : fake_cuMemCreate(handle, (size_t)(uintptr_t)shared, &prop, 0);
}

CUresult fake_cuMemRelease(CUmemHandle handle)
{
	fake_lock();
	struct physical *p = physical_of(handle);
	if ((CUmemHandle)(uintptr_t)p != handle)
		((struct imported *)(uintptr_t)handle)->of = NULL;
	drop(p);
	fake_unlock();
	sched_yield(); /* another thread may have the handle before this one is back */
	return CUDA_SUCCESS;
}

enum { MAPPINGS = 64 };
static struct {
	CUdeviceptr ptr;
	uint64_t bytes;
	struct physical *p;
	bool access;
} mappings[MAPPINGS];

bool fake_mapped(CUdeviceptr ptr, uint64_t bytes)
{
	for (CUdeviceptr at = ptr; at < ptr + bytes;) {
		int i = 0;
		while (i < MAPPINGS && !(mappings[i].p && mappings[i].access && at >= mappings[i].ptr &&
					 at < mappings[i].ptr + mappings[i].bytes))
			i++;
		if (i == MAPPINGS)
			return false;
		at = mappings[i].ptr + mappings[i].bytes;
	}
	return true;
}

static int mapping_at(CUdeviceptr ptr)
{
	for (int i = 0; i < MAPPINGS; i++)
		if (mappings[i].p && mappings[i].ptr == ptr)
			return i;
	return -1;
}

CUresult fake_cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemHandle handle,
		       uint64_t flags)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	fake_lock();
	for (int i = 0; i < MAPPINGS && r; i++)
		if (!mappings[i].p) {
			mappings[i].ptr = ptr;
			mappings[i].bytes = bytes;
			mappings[i].access = false;
			mappings[i].p = physical_of(handle);
			mappings[i].p->users++;
			r = CUDA_SUCCESS;
		}
	fake_unlock();
	return r;
}

CUresult fake_cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	fake_lock();
	for (CUdeviceptr at = ptr; at < ptr + bytes;) {
		int i = mapping_at(at);
		if (i < 0)
			break;
		at += mappings[i].p->size;
		drop(mappings[i].p);
		mappings[i].p = NULL;
	}
	fake_unlock();
	return CUDA_SUCCESS;
}

CUresult fake_cuMemRetainAllocationHandle(CUmemHandle *handle, void *addr)
{
	fake_lock();
	int i = mapping_at((uintptr_t)addr);
	if (i >= 0) {
		mappings[i].p->users++;
		*handle = (uintptr_t)mappings[i].p;
	}
	fake_unlock();
	return i >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemAddressReserve(CUdeviceptr *ptr, size_t bytes, size_t align,
				  CUdeviceptr at, uint64_t flags)
{
	CUresult r;
	struct fake_context *c = fake_current(&r);
	uint64_t base = 0;

	if (!c)
		return r;
	fake_lock();
	r = fake_new(c, bytes, FAKE_VIEW, &base);
	if (r == CUDA_SUCCESS)
		fake_find(base)->addresses = true;
	fake_unlock();
	*ptr = base;
	return r;
}

CUresult fake_cuMemAddressFree(CUdeviceptr ptr, size_t bytes)
{
	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	if (m)
		fake_delete(m);
	fake_unlock();
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const void *access, size_t n)
{
	bool any = false;

	fake_lock();
	for (int i = 0; i < MAPPINGS; i++)
		if (mappings[i].p && mappings[i].ptr >= ptr && mappings[i].ptr < ptr + bytes)
			any = mappings[i].access = true;
	fake_unlock();
	return any ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult array(CUarray *out)
{
	*out = calloc(1, 16);
	return CUDA_SUCCESS;
}
CUresult fake_cuArrayCreate_v2(CUarray *out, const struct gw_array2d *d) { return array(out); }
CUresult fake_cuArray3DCreate_v2(CUarray *out, const struct gw_array3d *d) { return array(out); }
CUresult fake_cuMipmappedArrayCreate(CUarray *out, const struct gw_array3d *d, unsigned n)
{
	return array(out);
}
CUresult fake_cuArrayDestroy(CUarray a)
{
	free(a);
	return CUDA_SUCCESS;
}
CUresult fake_cuMipmappedArrayDestroy(CUarray a) { return fake_cuArrayDestroy(a); }

CUresult fake_cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	*out = malloc(bytes);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult fake_cuMemAllocHost_v2(void **out, size_t bytes)
{
	return fake_cuMemHostAlloc(out, bytes, 0);
}
CUresult fake_cuMemFreeHost(void *ptr)
{
	free(ptr);
	return CUDA_SUCCESS;
}
CUresult fake_cuMemHostRegister(void *ptr, size_t bytes, unsigned flags) { return CUDA_SUCCESS; }
CUresult fake_cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags)
{
	return CUDA_SUCCESS;
}
CUresult fake_cuMemHostUnregister(void *ptr) { return CUDA_SUCCESS; }

CUresult fake_cuExternalMemoryGetMappedBuffer(CUdeviceptr *out, void *memory,
					      const struct gw_external *desc)
{
	return fake_cuMemAlloc_v2(out, desc->size);
}
