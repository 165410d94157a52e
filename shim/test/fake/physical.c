/*
 * Physical memory and reserved addresses. A handle has pages of its own, and its mappings
 * show the same pages. Addresses can be reached only where memory with access is mapped;
 * a kernel or copy elsewhere ends its context, and so does an unmap while the device
 * works.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake.h"

/* Handles and mappings keep their memory alive. */
struct physical {
	uint64_t size;
	uint8_t *bytes;
	int device, users; /* device: CPU_DEVICE on the host */
	struct physical *next; /* of the ended: the last to end is given out first */
};
static struct physical *ended;

enum { GRANULARITY = 2 << 20 };

CUresult fake_cuMemGetAllocationGranularity(size_t *bytes, const struct gw_memprop *prop,
					    int option)
{
	*bytes = GRANULARITY;
	return CUDA_SUCCESS;
}

CUresult fake_cuMemCreate(CUmemHandle *handle, size_t bytes, const struct gw_memprop *prop,
			  uint64_t flags)
{
	bool host = gw_on_host(prop->location);
	int dev = host ? CPU_DEVICE : prop->location.id;

	if (!host && (dev < 0 || dev >= fake.devices))
		return ERROR_INVALID_DEVICE;
	/* Shared, so that it can be mapped more than once. */
	void *pages = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (pages == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fake_lock();
	bool ok = host || fake_make_space(dev, bytes, false, NULL);
	if (ok) {
		struct physical *p = ended;
		if (p)
			ended = p->next;
		else
			p = calloc(1, sizeof *p);
		*p = (struct physical){bytes, pages, dev, 1, NULL};
		if (!host)
			fake.used[dev] += bytes;
		*handle = (uintptr_t)p;
	}
	fake_unlock();
	if (!ok)
		munmap(pages, bytes ? bytes : 1);
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
	munmap(p->bytes, p->size ? p->size : 1);
	p->next = ended;
	ended = p;
}

/* An import gives a handle of its own for the same memory. */
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

/* A number that is not a descriptor is the size of memory of another process, which
 * accounts for it. */
CUresult fake_cuMemImportFromShareableHandle(CUmemHandle *handle, void *shared, int type)
{
	struct gw_memprop prop = {.type = 1, .location = {LOCATION_HOST, 0}};
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

struct fake_mapping {
	CUdeviceptr ptr;
	uint64_t bytes;
	struct physical *p;
	bool access;
	struct fake_context *user; /* the last context that accessed it, and the stream */
	CUstream stream;
	struct fake_mapping *next;
};

/* The mapping that holds the address. */
static struct fake_mapping *mapping_of(const struct fake_memory *m, CUdeviceptr ptr)
{
	struct fake_mapping *x = m && m->addresses ? m->mappings : NULL;

	while (x && ptr - x->ptr >= x->bytes)
		x = x->next;
	return x;
}

bool fake_mapped(const struct fake_memory *m, CUdeviceptr ptr, uint64_t bytes)
{
	for (CUdeviceptr at = ptr; at < ptr + bytes;) {
		struct fake_mapping *x = mapping_of(m, at);
		if (!x || !x->access)
			return false;
		at = x->ptr + x->bytes;
	}
	return true;
}

void fake_use(const struct fake_memory *m, CUdeviceptr ptr, uint64_t bytes,
	      struct fake_context *c, CUstream stream)
{
	for (struct fake_mapping *x = m->mappings; x; x = x->next)
		if (x->ptr < ptr + bytes && ptr < x->ptr + x->bytes) {
			x->user = c;
			x->stream = stream;
		}
}

/* Overlapping mappings, and mappings beyond the reserved addresses or the memory, are
 * refused. */
CUresult fake_cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemHandle handle,
		       uint64_t flags)
{
	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	struct physical *p = physical_of(handle);
	bool ok = m && m->addresses && bytes && ptr + bytes <= m->base + m->size &&
		  offset + bytes <= p->size;
	for (struct fake_mapping *x = ok ? m->mappings : NULL; x; x = x->next)
		ok = ok && (ptr + bytes <= x->ptr || ptr >= x->ptr + x->bytes);
	/* A length of 0 maps the same shared pages once more. */
	ok = ok && mremap(p->bytes + offset, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
			  (void *)(uintptr_t)ptr) != MAP_FAILED;
	if (ok) {
		struct fake_mapping *x = calloc(1, sizeof *x);
		*x = (struct fake_mapping){.ptr = ptr, .bytes = bytes, .p = p, .next = m->mappings};
		m->mappings = x;
		p->users++;
	}
	fake_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The range is whole mappings. */
CUresult fake_cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	for (CUdeviceptr at = ptr; at < ptr + bytes; r = CUDA_SUCCESS) {
		struct fake_mapping **x = m ? &m->mappings : NULL, *gone;
		while (x && *x && (*x)->ptr != at)
			x = &(*x)->next;
		if (!x || !*x || at + (*x)->bytes > ptr + bytes) {
			r = CUDA_ERROR_INVALID_VALUE;
			break;
		}
		gone = *x;
		*x = gone->next;
		if (gone->user)
			fake_fault_busy(gone->user, gone->stream);
		mmap((void *)(uintptr_t)at, gone->bytes, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		at += gone->bytes;
		drop(gone->p);
		free(gone);
	}
	fake_unlock();
	return r;
}

CUresult fake_cuMemRetainAllocationHandle(CUmemHandle *handle, void *addr)
{
	fake_lock();
	struct fake_mapping *x = mapping_of(fake_find((uintptr_t)addr), (uintptr_t)addr);
	if (x) {
		x->p->users++;
		*handle = (uintptr_t)x->p;
	}
	fake_unlock();
	return x ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemGetAllocationPropertiesFromHandle(struct gw_memprop *prop, CUmemHandle handle)
{
	fake_lock();
	int dev = physical_of(handle)->device;
	fake_unlock();
	*prop = (struct gw_memprop){
		.type = PINNED_MEMORY,
		.location = {dev == CPU_DEVICE ? LOCATION_HOST : LOCATION_DEVICE, dev < 0 ? 0 : dev},
	};
	return CUDA_SUCCESS;
}

/* Nothing is sent to the other devices, but memory that is bound must lie where it says. */
CUresult fake_cuMulticastBindMem_v2(CUmemHandle to, CUdevice dev, size_t at, CUmemHandle handle,
				    size_t from, size_t bytes, unsigned long long flags)
{
	return from + bytes <= physical_of(handle)->size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult fake_cuMulticastBindMem(CUmemHandle to, size_t at, CUmemHandle handle, size_t from,
				 size_t bytes, unsigned long long flags)
{
	return fake_cuMulticastBindMem_v2(to, 0, at, handle, from, bytes, flags);
}
CUresult fake_cuMulticastBindAddr_v2(CUmemHandle to, CUdevice dev, size_t at, CUdeviceptr ptr,
				     size_t bytes, unsigned long long flags)
{
	fake_lock();
	bool ok = mapping_of(fake_find(ptr), ptr);
	fake_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult fake_cuMulticastBindAddr(CUmemHandle to, size_t at, CUdeviceptr ptr, size_t bytes,
				  unsigned long long flags)
{
	return fake_cuMulticastBindAddr_v2(to, 0, at, ptr, bytes, flags);
}

CUresult fake_cuLogicalEndpointBindMem(unsigned to, CUdevice dev, uint64_t at, CUmemHandle handle,
				       uint64_t from, uint64_t bytes, unsigned long long flags)
{
	return fake_cuMulticastBindMem_v2(to, dev, at, handle, from, bytes, flags);
}
CUresult fake_cuLogicalEndpointBindAddr(unsigned to, CUdevice dev, uint64_t at, void *ptr,
					uint64_t bytes, unsigned long long flags)
{
	return fake_cuMulticastBindAddr_v2(to, dev, at, (uintptr_t)ptr, bytes, flags);
}

/* They belong to the process, and outlive every context. */
CUresult fake_cuMemAddressReserve(CUdeviceptr *ptr, size_t bytes, size_t align,
				  CUdeviceptr at, uint64_t flags)
{
	CUresult r;
	struct fake_context none = {0};
	uint64_t base = 0;

	fake_lock();
	r = fake_new(&none, bytes, FAKE_VIEW, &base);
	if (r == CUDA_SUCCESS) {
		struct fake_memory *m = fake_find(base);
		m->addresses = true;
		m->ctx = NULL;
		mprotect((void *)(uintptr_t)base, m->slot, PROT_NONE);
	}
	fake_unlock();
	*ptr = base;
	return r;
}

/* Addresses with mappings are refused. */
CUresult fake_cuMemAddressFree(CUdeviceptr ptr, size_t bytes)
{
	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	bool ok = m && m->addresses && m->base == ptr && m->size == bytes && !m->mappings;
	if (ok) {
		mprotect((void *)(uintptr_t)ptr, m->slot, PROT_READ | PROT_WRITE);
		fake_delete(m);
	}
	fake_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const struct gw_access *a, size_t n)
{
	bool any = false;

	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	for (struct fake_mapping *x = m ? m->mappings : NULL; x; x = x->next)
		if (x->ptr >= ptr && x->ptr < ptr + bytes) {
			x->access = n && a->flags == READ_WRITE;
			any = true;
		}
	fake_unlock();
	return any ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
