/*
 * Memory that the program makes by cuMemCreate: with GPUWHISK_SHIM of vmm it moves, whatever
 * mappings it has, unless others may use it.
 */
#include "prog.h"

enum { MIB = 1 << 20 };

static const struct gw_memprop on_device = {.type = 1, .location = {LOCATION_DEVICE, 0}};
static const struct gw_access read_write = {{LOCATION_DEVICE, 0}, READ_WRITE};

static int begin(void)
{
	invoker_listen();
	cuda_open("gpa2");
	return invoker_accept();
}

static CUdeviceptr reserve(size_t bytes)
{
	CUdeviceptr at;

	OK(cu.cuMemAddressReserve(&at, bytes, 0, 0, 0));
	return at;
}

static void map(CUdeviceptr at, size_t bytes, size_t from, CUmemHandle h)
{
	OK(cu.cuMemMap(at, bytes, from, h, 0));
	OK(cu.cuMemSetAccess(at, bytes, &read_write, 1));
}

static CUdeviceptr make(size_t bytes, CUmemHandle *h)
{
	CUdeviceptr at = reserve(bytes);

	OK(cu.cuMemCreate(h, bytes, &on_device, 0));
	map(at, bytes, 0, *h);
	return at;
}

static void move(int c, unsigned type, uint64_t epoch, uint64_t here)
{
	struct shim_frame s = invoker_move(c, type, epoch);

	SAME(s.word[STATUS], GW_OK);
	SAME(s.number[STILL_RESIDENT], here);
	SAME(in_use(), here);
	SAME(counts_as_used(), here);
}

/* Two mappings of all, one of a part, one without access: all come back at their
 * addresses. */
static void own_moves(int argc, char **argv)
{
	enum { BYTES = 10 * MIB };
	CUmemHandle h, again;
	struct gw_memprop prop;
	int c = begin();

	CUdeviceptr first = make(BYTES, &h), second = reserve(BYTES), part = reserve(8 * MIB);
	map(second, BYTES, 0, h);
	map(part, 4 * MIB, 6 * MIB, h);
	OK(cu.cuMemMap(part + 4 * MIB, 2 * MIB, 0, h, 0));
	pattern_write(first, BYTES, 1);
	SAME(invoker_report(c).number[FIXED], 0);
	for (uint64_t epoch = 1; epoch < 7; epoch += 2) {
		move(c, GW_EVICT, epoch, 0);
		SAME(invoker_report(c).number[ALLOCATED], BYTES);
		move(c, GW_PREFETCH, epoch + 1, BYTES);
		pattern_check(first, BYTES, 1);
		pattern_check(second, BYTES, 1);
		OK(cu.cuMemcpyDtoD_v2(part, second + 6 * MIB, 4 * MIB));
	}
	/* Access that is given while the memory is out needs the memory. */
	move(c, GW_EVICT, 7, 0);
	OK(cu.cuMemSetAccess(part + 4 * MIB, 2 * MIB, &read_write, 1));
	SAME(in_use(), BYTES);
	move(c, GW_EVICT, 8, 0);
	OK(cu.cuMemGetAllocationPropertiesFromHandle(&prop, h));
	SAME(prop.location.type, LOCATION_DEVICE);
	OK(cu.cuMemcpyDtoD_v2(part + 4 * MIB, second, 2 * MIB));
	/* A handle can be had by an address, and all can end, while the memory is out. */
	move(c, GW_EVICT, 9, 0);
	OK(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)part));
	SAME(again, h);
	OK(cu.cuMemRelease(again));
	OK(cu.cuMemRelease(h));
	OK(cu.cuMemUnmap(part, 6 * MIB));
	OK(cu.cuMemUnmap(first, BYTES));
	move(c, GW_PREFETCH, 10, BYTES);
	pattern_check(second, BYTES, 1);
	move(c, GW_EVICT, 11, 0);
	SAME(cu.cuMemUnmap(second, BYTES / 2), CUDA_ERROR_INVALID_VALUE);
	OK(cu.cuMemUnmap(second, BYTES));
	SAME(invoker_report(c).number[ALLOCATED], 0);
	SAME(invoker_report(c).number[BLOCKS], 0);
	OK(cu.cuMemAddressFree(first, BYTES));
	OK(cu.cuMemAddressFree(second, BYTES));
	OK(cu.cuMemAddressFree(part, 8 * MIB));
	SAME(cu.cuMemsetD8_v2(first, 0, 1), CUDA_ERROR_INVALID_VALUE); /* the gate is open */
}

/* Memory that others may use stays, and counts as fixed. */
static void own_shared(int argc, char **argv)
{
	enum { WAYS = 8, EACH = 4 * MIB };
	CUdeviceptr at[WAYS + 1];
	CUmemHandle h[WAYS + 1];
	int fd, c = begin();

	for (unsigned i = 0; i <= WAYS; i++) {
		at[i] = make(EACH, &h[i]);
		pattern_write(at[i], EACH, i);
	}
	move(c, GW_EVICT, 1, 0);
	for (unsigned way = 0; way < WAYS; way++) {
		switch (way) {
		case 0: OK(cu.cuMemExportToShareableHandle(&fd, h[0], 1, 0)); break;
		case 1: OK(cu.cuMulticastBindMem(1, 0, h[1], 0, EACH, 0)); break;
		case 2: OK(cu.cuMulticastBindMem_v2(1, 0, 0, h[2], 0, EACH, 0)); break;
		case 3: OK(cu.cuMulticastBindAddr(1, 0, at[3], EACH, 0)); break;
		case 4: OK(cu.cuMulticastBindAddr_v2(1, 0, 0, at[4], EACH, 0)); break;
		case 5: OK(cu.cuLogicalEndpointBindMem(1, 0, 0, h[5], 0, EACH, 0)); break;
		case 6: OK(cu.cuLogicalEndpointBindAddr(1, 0, 0, (void *)(uintptr_t)at[6], EACH, 0)); break;
		default: OK(cu.cuMemGetHandleForAddressRange(&fd, at[7], EACH, 1, 0));
		}
		SAME(invoker_report(c).number[FIXED], (way + 1) * EACH);
		move(c, GW_EVICT, way + 2, (way + 1) * EACH);
	}
	for (unsigned i = 0; i <= WAYS; i++) {
		pattern_check(at[i], EACH, i);
		OK(cu.cuMemUnmap(at[i], EACH));
		OK(cu.cuMemRelease(h[i]));
	}
	SAME(invoker_report(c).number[ALLOCATED], 0);
	SAME(in_use(), 0);
}

/* Memory outlives every context. Without a context there is none to copy it in. */
static void own_no_context(int argc, char **argv)
{
	CUmemHandle h;
	CUcontext ctx;
	int c = begin();

	CUdeviceptr at = make(4 * MIB, &h);
	pattern_write(at, 4 * MIB, 1);
	OK(cu.cuDevicePrimaryCtxReset_v2(0));
	struct shim_frame s = invoker_move(c, GW_EVICT, 1);
	SAME(s.word[STATUS], GW_OK);
	SAME(s.number[STILL_RESIDENT], 4 * MIB);
	OK(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cu.cuCtxSetCurrent(ctx));
	move(c, GW_EVICT, 2, 0);
	pattern_check(at, 4 * MIB, 1);
}

const struct test_case cases_own[] = {
	{"own_moves", own_moves}, {"own_shared", own_shared}, {"own_no_context", own_no_context},
	{NULL, NULL},
};
