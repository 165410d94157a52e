/*
 * The fake's handles, mappings and pinned memory behave as a real driver's.
 */
#include <string.h>
#include <time.h>

#include "prog.h"

enum { MIB = 1 << 20 };

static void begin(void)
{
	invoker_listen();
	cuda_open("gpa2");
	invoker_accept();
}

static const struct gw_memprop on_device = {.type = 1, .location = {LOCATION_DEVICE, 0}};
static const struct gw_access read_write = {{LOCATION_DEVICE, 0}, 3};

static CUdeviceptr map(CUmemHandle h, size_t bytes)
{
	CUdeviceptr at;

	OK(cu.cuMemAddressReserve(&at, bytes, 0, 0, 0));
	OK(cu.cuMemMap(at, bytes, 0, h, 0));
	OK(cu.cuMemSetAccess(at, bytes, &read_write, 1));
	return at;
}

/* The fake's handles keep their contents, whichever addresses they are mapped to. */
static void handle_contents(int argc, char **argv)
{
	CUmemHandle h, other;
	CUdeviceptr first, second;

	begin();
	OK(cu.cuMemCreate(&h, 4 * MIB, &on_device, 0));
	first = map(h, 4 * MIB);
	pattern_write(first, 4 * MIB, 1);
	second = map(h, 4 * MIB);
	pattern_check(second, 4 * MIB, 1);
	SAME(cu.cuMemMap(first, 2 * MIB, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	SAME(cu.cuMemAddressFree(first, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
	SAME(cu.cuMemFree_v2(first), CUDA_ERROR_INVALID_VALUE);
	OK(cu.cuMemUnmap(first, 4 * MIB));
	OK(cu.cuMemCreate(&other, 4 * MIB, &on_device, 0));
	OK(cu.cuMemMap(first, 4 * MIB, 0, other, 0));
	OK(cu.cuMemSetAccess(first, 4 * MIB, &read_write, 1));
	OK(cu.cuMemsetD8_v2(first, 0, 4 * MIB));
	pattern_check(second, 4 * MIB, 1);
	OK(cu.cuMemUnmap(second, 4 * MIB));
	OK(cu.cuMemUnmap(first, 4 * MIB));
	OK(cu.cuMemRelease(h));
	OK(cu.cuMemRelease(other));
	OK(cu.cuMemAddressFree(first, 4 * MIB));
	SAME(in_use(), 0);
}

/* A kernel of the fake's on memory that is not mapped ends its context, and so does an
 * unmap while the device works. */
static void unmapped(int argc, char **argv)
{
	bool busy = strcmp(argv[0], "busy") == 0;
	CUmemHandle h;
	CUdeviceptr at;
	CUstream s;
	void *module, *f;
	uint64_t n = 4 * MIB, ns = 50000000;

	begin();
	OK(cu.cuStreamCreate(&s, 1));
	OK(cu.cuMemCreate(&h, n, &on_device, 0));
	at = map(h, n);
	pattern_write(at, n, 1);
	OK(cu.cuModuleLoadData(&module, "fake"));
	OK(cu.cuModuleGetFunction(&f, module, busy ? "spin" : "touch"));
	if (!busy)
		OK(cu.cuMemUnmap(at, n));
	else
		OK(cu.cuMemsetD8Async(at, 1, n, s));
	void *args[] = {busy ? (void *)&ns : &at, &n};
	OK(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
	if (busy)
		OK(cu.cuMemUnmap(at, n));
	SAME(cu.cuCtxSynchronize(), 700);
}

/* Pinning takes time by the page, and the host has a total. FAKE_CUDA_PIN_NS,
 * FAKE_CUDA_PINNABLE of 8 MiB. */
static void pins(int argc, char **argv)
{
	static char own[6 * MIB] __attribute__((aligned(4096)));
	struct timespec before, after;
	void *p;

	begin();
	clock_gettime(CLOCK_MONOTONIC, &before);
	OK(cu.cuMemHostRegister_v2(own, sizeof own, 0));
	clock_gettime(CLOCK_MONOTONIC, &after);
	/* 96 pages of 1 ms */
	CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >= 96000000);
	SAME(cu.cuMemHostAlloc(&p, 3 * MIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuMemHostUnregister(own));
	SAME(cu.cuMemHostUnregister(own), 713);
	OK(cu.cuMemHostAlloc(&p, 3 * MIB, 0));
	OK(cu.cuMemFreeHost(p));
}

const struct test_case cases_handles[] = {
	{"handle_contents", handle_contents}, {"unmapped", unmapped}, {"pins", pins}, {NULL, NULL},
};
