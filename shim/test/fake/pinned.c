/*
 * Pinned host memory. Pinning takes time by the page, and the host has only so many
 * bytes to pin for all processes.
 */
#include <stdlib.h>

#include "fake.h"

static struct pinned {
	uintptr_t ptr;
	uint64_t bytes;
	struct pinned *next;
} *all;

/* True: the range is pinned. The caller holds the lock. */
bool fake_is_pinned(const void *ptr, uint64_t bytes)
{
	uintptr_t at = (uintptr_t)ptr, end = at + bytes;

	while (at < end) {
		struct pinned *p = all;
		while (p && at - p->ptr >= p->bytes)
			p = p->next;
		if (!p)
			return false;
		at = p->ptr + p->bytes;
	}
	return true;
}

static CUresult pin(void *ptr, size_t bytes)
{
	struct pinned *p = calloc(1, sizeof *p);
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	fake_lock();
	if (fake_pin((int64_t)bytes)) {
		*p = (struct pinned){(uintptr_t)ptr, bytes, all};
		all = p;
		r = CUDA_SUCCESS;
	}
	fake_unlock();
	if (r != CUDA_SUCCESS)
		free(p);
	else
		fake_sleep_until(fake_now() + (int64_t)((bytes + PAGE - 1) / PAGE * fake.pin_ns));
	return r;
}

static CUresult unpin(void *ptr)
{
	fake_lock();
	struct pinned **at = &all, *p;
	while (*at && (*at)->ptr != (uintptr_t)ptr)
		at = &(*at)->next;
	p = *at;
	if (p) {
		*at = p->next;
		fake_pin(-(int64_t)p->bytes);
	}
	fake_unlock();
	free(p);
	return p ? CUDA_SUCCESS : ERROR_NOT_REGISTERED;
}

/* For tests, by dlsym: bytes that this process has pinned. */
__attribute__((visibility("default"))) unsigned long long fake_report_pinned(void);
unsigned long long fake_report_pinned(void)
{
	unsigned long long n = 0;

	fake_lock();
	for (struct pinned *p = all; p; p = p->next)
		n += p->bytes;
	fake_unlock();
	return n;
}

CUresult fake_cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	*out = malloc(bytes);
	CUresult r = *out ? pin(*out, bytes) : CUDA_ERROR_OUT_OF_MEMORY;

	if (r != CUDA_SUCCESS)
		free(*out);
	return r;
}
CUresult fake_cuMemAllocHost_v2(void **out, size_t bytes)
{
	return fake_cuMemHostAlloc(out, bytes, 0);
}
CUresult fake_cuMemFreeHost(void *ptr)
{
	CUresult r = unpin(ptr);

	if (r == CUDA_SUCCESS)
		free(ptr);
	return r;
}
CUresult fake_cuMemHostRegister(void *ptr, size_t bytes, unsigned flags) { return pin(ptr, bytes); }
CUresult fake_cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags)
{
	return pin(ptr, bytes);
}
CUresult fake_cuMemHostUnregister(void *ptr) { return unpin(ptr); }
