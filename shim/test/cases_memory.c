/*
 * The program's view of its memory, and the counted memory.
 */
#include <pthread.h>
#include <unistd.h>

#include <string.h>

#include "prog.h"

enum { MIB = 1 << 20 };

static int begin(void)
{
	invoker_listen();
	cuda_open("gpa2");
	return invoker_accept();
}

/* Managed memory looks like the memory that the program asked for. */
static void disguise(int argc, char **argv)
{
	CUdeviceptr p, own;
	unsigned type = 0, managed = 9;
	int what[2] = {POINTER_IS_MANAGED, POINTER_MEMORY_TYPE};
	void *to[2] = {&managed, &type};

	begin();
	OK(cu.cuMemAlloc_v2(&p, MIB));
	OK(cu.cuPointerGetAttribute(&type, POINTER_MEMORY_TYPE, p + 100));
	SAME(type, MEMORYTYPE_DEVICE);
	OK(cu.cuPointerGetAttributes(2, what, to, p + MIB - 1));
	SAME(managed, 0);
	SAME(type, MEMORYTYPE_DEVICE);
	int more[2] = {POINTER_HOST, POINTER_IPC_CAPABLE};
	bool capable = true;
	void *host = &own, *into[2] = {&host, &capable};
	OK(cu.cuPointerGetAttributes(2, more, into, p));
	CHECK(host == NULL && !capable);
	SAME(cu.cuPointerGetAttribute(&host, POINTER_HOST, p), CUDA_ERROR_INVALID_VALUE);
	OK(cu.cuMemAllocManaged(&own, MIB, ATTACH_GLOBAL));
	OK(cu.cuPointerGetAttributes(2, what, to, own));
	SAME(managed, 1);
	char handle[64];
	SAME(cu.cuIpcGetMemHandle(handle, p), CUDA_ERROR_INVALID_VALUE);
}

static void pitch(int argc, char **argv)
{
	CUdeviceptr p;
	size_t row = 0;
	int c = begin();

	OK(cu.cuMemAllocPitch_v2(&p, &row, 1000, 64, 4));
	SAME(row, 1024);
	SAME(invoker_report(c).number[ALLOCATED], 64 * 1024);
	SAME(invoker_move(c, GW_EVICT, 1).number[MOVED], 64 * 1024);
	SAME(cu.cuMemAllocPitch_v2(&p, &row, 1000, 64, 5), CUDA_ERROR_INVALID_VALUE);
	CHECK(cu.cuMemAllocPitch_v2(&p, &row, SIZE_MAX / 2, 3, 4) != CUDA_SUCCESS);
	SAME(invoker_report(c).number[BLOCKS], 1);
}
/* The program gets the driver's answer to a wrong free. */
static void wrong_free(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, MIB));
	SAME(cu.cuMemFree_v2(p + 512), CUDA_ERROR_INVALID_VALUE);
	SAME(invoker_report(c).number[ALLOCATED], MIB);
	OK(cu.cuMemFree_v2(p));
	SAME(cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	SAME(cu.cuMemFree_v2(0x123456000), CUDA_ERROR_INVALID_VALUE);
	OK(cu.cuMemFree_v2(0));
	SAME(invoker_report(c).number[BLOCKS], 0);
}

/* A free that the driver refuses once leaves the block known. */
static void refused_free(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, MIB));
	SAME(cu.cuMemFree_v2(p), 719);
	SAME(invoker_report(c).number[ALLOCATED], MIB);
	OK(cu.cuMemFree_v2(p));
	SAME(invoker_report(c).number[ALLOCATED], 0);
}

/* The code of a driver out of memory passes unchanged; one without managed memory
 * serves. */
static void alloc_fails(int argc, char **argv)
{
	CUdeviceptr p;
	int code = atoi(argv[0]), c = begin();

	if (code != CUDA_ERROR_NOT_SUPPORTED) {
		SAME(cu.cuMemAlloc_v2(&p, MIB), code);
		SAME(invoker_report(c).number[ALLOCATED], 0);
		OK(cu.cuMemAlloc_v2(&p, MIB));
		return;
	}
	OK(cu.cuMemAlloc_v2(&p, MIB));
	SAME(invoker_report(c).number[FIXED], MIB);
	SAME(invoker_move(c, GW_EVICT, 1).number[STILL_RESIDENT], MIB);
}

/* A device whose managed memory does not move, FAKE_CUDA_CONCURRENT: memory is plain,
 * and orders find nothing to do. */
static void stays(int argc, char **argv)
{
	CUdeviceptr p, q;
	size_t row;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, MIB));
	OK(cu.cuMemAllocPitch_v2(&q, &row, 1024, 1024, 4));
	SAME(invoker_report(c).number[FIXED], 2 * MIB);
	SAME(invoker_move(c, GW_EVICT, 1).word[STATUS], GW_OK);
	SAME(invoker_move(c, GW_PREFETCH, 2).word[STATUS], GW_OK);
}

static CUmemoryPool default_pool(void)
{
	CUmemoryPool pool;

	OK(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	return pool;
}

static void pools(int argc, char **argv)
{
	CUdeviceptr p, q;
	int c = begin();

	OK(cu.cuMemAllocAsync(&p, 4 * MIB, NULL));
	OK(cu.cuMemAllocAsync_ptsz(&q, 4 * MIB, NULL));
	SAME(invoker_report(c).number[FIXED], 8 * MIB);
	OK(cu.cuMemFreeAsync(p, NULL));
	/* The pool keeps it, so it counts, however often that is asked; an
	 * eviction has it given back. */
	SAME(invoker_report(c).number[FIXED], 8 * MIB);
	SAME(invoker_report(c).number[FIXED], 8 * MIB);
	invoker_move(c, GW_EVICT, 1);
	SAME(invoker_report(c).number[FIXED], 4 * MIB);
	OK(cu.cuMemFreeAsync_ptsz(q, NULL));
	CUmemoryPool pool;
	OK(cu.cuMemPoolCreate(&pool, NULL));
	OK(cu.cuMemAllocFromPoolAsync(&p, MIB, pool, NULL));
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuMemPoolDestroy(pool));
	invoker_move(c, GW_EVICT, 2);
	SAME(invoker_report(c).number[ALLOCATED], 0);
}

/* Memory allocated in a capture belongs to its graph. The graph takes the memory when it
 * is launched. The memory counts from the capture until the graph and its executable
 * graphs have ended. */
static void captured(int argc, char **argv)
{
	CUdeviceptr p, kept;
	CUstream s;
	void *graph, *exec;
	int c = begin();

	OK(cu.cuStreamCreate(&s, 1));
	OK(cu.cuStreamBeginCapture_v2(s, 0));
	OK(cu.cuMemAllocAsync(&p, 4 * MIB, s));
	OK(cu.cuMemAllocFromPoolAsync(&kept, 2 * MIB, default_pool(), s));
	OK(cu.cuMemFreeAsync(p, s));
	OK(cu.cuStreamEndCapture(s, &graph));
	SAME(in_use(), 0);
	SAME(invoker_report(c).number[FIXED], 0);
	SAME(invoker_report(c).number[ALLOCATED], 6 * MIB);
	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cu.cuGraphDestroy(graph));
	SAME(invoker_report(c).number[ALLOCATED], 6 * MIB);
	OK(cu.cuGraphLaunch(exec, s));
	SAME(in_use(), 6 * MIB);
	SAME(invoker_report(c).number[FIXED], 6 * MIB);
	SAME(invoker_report(c).number[ALLOCATED], 6 * MIB);
	invoker_move(c, GW_EVICT, 1);
	SAME(invoker_report(c).number[FIXED], in_use());
	SAME(in_use(), 2 * MIB);
	OK(cu.cuGraphExecDestroy(exec));
	invoker_move(c, GW_EVICT, 2);
	SAME(in_use(), 0);
	SAME(invoker_report(c).number[ALLOCATED], 0);
}

/* Reports whether memory that the program makes by cuMemCreate moves. */
static bool makes_movable(void)
{
	const char *mode = getenv("GPUWHISK_SHIM");

	return mode && strcmp(mode, "vmm") == 0;
}

static void physical(int argc, char **argv)
{
	struct gw_memprop prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
	CUmemHandle h, again;
	CUdeviceptr at;
	uint64_t fixed = makes_movable() ? 0 : 2 * MIB;
	int c = begin();

	OK(cu.cuMemCreate(&h, 2 * MIB, &prop, 0));
	SAME(invoker_report(c).number[FIXED], fixed);
	OK(cu.cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0));
	OK(cu.cuMemMap(at, 2 * MIB, 0, h, 0));
	OK(cu.cuMemRelease(h));
	SAME(invoker_report(c).number[FIXED], fixed);
	OK(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at));
	OK(cu.cuMemUnmap(at, 2 * MIB));
	SAME(invoker_report(c).number[FIXED], fixed);
	OK(cu.cuMemRelease(again));
	SAME(invoker_report(c).number[ALLOCATED], 0);
	SAME(invoker_report(c).number[BLOCKS], 0);
}

/* Physical memory and pools count where they lie; a location that is not known
 * is a device's. */
static void locations(int argc, char **argv)
{
	static const int host[] = {LOCATION_HOST, LOCATION_HOST_NUMA, LOCATION_HOST_NUMA_CURRENT};
	struct gw_memprop prop = {.type = 1, .location = {5, 0}};
	CUmemoryPool pool;
	CUmemHandle h, other;
	CUdeviceptr p, q;
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 4 * MIB, 2 * MIB);
	invoker_report(c);
	SAME(cu.cuMemCreate(&h, 5 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuMemCreate(&other, 4 * MIB, &prop, 0));
	SAME(invoker_report(c).number[FIXED], 4 * MIB);
	for (unsigned i = 0; i < sizeof host / sizeof *host; i++) {
		prop.location.type = host[i];
		OK(cu.cuMemCreate(&h, MIB, &prop, 0));
		OK(cu.cuMemPoolCreate(&pool, &prop));
		OK(cu.cuMemAllocFromPoolAsync(&p, MIB, pool, NULL));
		SAME(cu.cuMemAllocFromPoolAsync(&q, 1, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
		SAME(cu.cuMemCreate(&other, 1, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
		SAME(invoker_report(c).number[HOST], 2 * MIB);
		SAME(invoker_report(c).number[ALLOCATED], 4 * MIB);
		OK(cu.cuMemFreeAsync(p, NULL));
		OK(cu.cuMemPoolDestroy(pool));
		OK(cu.cuMemRelease(h));
		SAME(invoker_report(c).number[HOST], 0);
		/* The driver's own pool of the place. */
		OK(cu.cuMemGetMemPool(&pool, &prop.location, 1));
		OK(cu.cuMemAllocFromPoolAsync(&p, MIB, pool, NULL));
		SAME(invoker_report(c).number[HOST], MIB);
		SAME(invoker_report(c).number[ALLOCATED], 4 * MIB);
		OK(cu.cuMemFreeAsync(p, NULL));
	}
}

/* One call ends mappings on both sides of one of another process's memory. */
static void unmap_mixed(int argc, char **argv)
{
	struct gw_memprop prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
	CUmemHandle h[3];
	CUdeviceptr at;
	int c = begin();

	OK(cu.cuMemAddressReserve(&at, 3 * MIB, 0, 0, 0));
	OK(cu.cuMemCreate(&h[0], MIB, &prop, 0));
	OK(cu.cuMemImportFromShareableHandle(&h[1], (void *)MIB, 1));
	OK(cu.cuMemCreate(&h[2], MIB, &prop, 0));
	for (unsigned i = 0; i < 3; i++) {
		OK(cu.cuMemMap(at + i * MIB, MIB, 0, h[i], 0));
		OK(cu.cuMemRelease(h[i]));
	}
	OK(cu.cuMemUnmap(at, 3 * MIB));
	SAME(in_use(), 0);
	SAME(invoker_report(c).number[ALLOCATED], 0);
}

/* The fake's addresses are reached where memory with access is mapped. Elsewhere the
 * context is of no more use. */
static void mapped(int argc, char **argv)
{
	struct gw_memprop prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
	struct gw_access access = {{LOCATION_DEVICE, 0}, READ_WRITE};
	CUmemHandle h;
	CUdeviceptr at, p;
	int c = begin();

	OK(cu.cuMemCreate(&h, 2 * MIB, &prop, 0));
	OK(cu.cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0));
	OK(cu.cuMemMap(at, 2 * MIB, 0, h, 0));
	OK(cu.cuMemSetAccess(at, 2 * MIB, &access, 1));
	pattern_write(at, 2 * MIB, 1);
	pattern_check(at, 2 * MIB, 1);
	SAME(invoker_report(c).number[FIXED], 2 * MIB);
	SAME(cu.cuMemsetD8_v2(at, 1, 2 * MIB + 1), 700);
	SAME(cu.cuMemAlloc_v2(&p, MIB), 700);
}

/* Memory that is exported and imported again counts until its last handle is released,
 * once. Memory of another process is counted there. */
static void exported(int argc, char **argv)
{
	struct gw_memprop prop = {.type = 1, .handle_types = 1, .location = {LOCATION_DEVICE, 0}};
	CUmemHandle h, again, third, other;
	CUdeviceptr at;
	int fd = -1, c = begin();

	invoker_send(c, GW_LIMIT, 0, 48 * MIB, 0);
	invoker_report(c);
	OK(cu.cuMemCreate(&h, 32 * MIB, &prop, 0));
	OK(cu.cuMemExportToShareableHandle(&fd, h, 1, 0));
	OK(cu.cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, 1));
	OK(cu.cuMemImportFromShareableHandle(&third, (void *)(intptr_t)fd, 1));
	OK(cu.cuMemImportFromShareableHandle(&other, (void *)(uintptr_t)(8 * MIB), 1));
	SAME(invoker_report(c).number[ALLOCATED], 32 * MIB);
	SAME(invoker_report(c).number[BLOCKS], 1);
	OK(cu.cuMemRelease(h));
	OK(cu.cuMemRelease(third));
	OK(cu.cuMemRelease(other));
	SAME(in_use(), 32 * MIB);
	SAME(invoker_report(c).number[ALLOCATED], 32 * MIB);
	SAME(cu.cuMemCreate(&h, 32 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuMemAddressReserve(&at, 32 * MIB, 0, 0, 0));
	OK(cu.cuMemMap(at, 32 * MIB, 0, again, 0));
	OK(cu.cuMemRelease(again));
	SAME(invoker_report(c).number[ALLOCATED], 32 * MIB);
	OK(cu.cuMemUnmap(at, 32 * MIB));
	SAME(in_use(), 0);
	SAME(invoker_report(c).number[ALLOCATED], 0);
}

enum { HANDLES = 32, ROUNDS = 2500 };

/* Handles end and are given out again among threads. */
static void *make_and_end(void *arg)
{
	struct gw_memprop prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
	CUmemHandle *own = arg;
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		CUmemHandle *h = &own[rand_r(&seed) % HANDLES];
		if (*h)
			OK(cu.cuMemRelease(*h));
		OK(cu.cuMemCreate(h, 4096, &prop, 0));
	}
	return NULL;
}

static void handles(int argc, char **argv)
{
	static CUmemHandle own[4][HANDLES];
	pthread_t t[4];
	uint64_t live = 0;
	int c = begin();

	/* No invoker would read the frames sent meanwhile. */
	invoker_close_listener();
	close(c);
	for (int i = 0; i < 4; i++)
		SAME(pthread_create(&t[i], NULL, make_and_end, own[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	invoker_listen();
	c = invoker_accept();
	for (int i = 0; i < 4 * HANDLES; i++)
		live += own[i / HANDLES][i % HANDLES] != 0;
	SAME(invoker_report(c).number[BLOCKS], live);
	SAME(invoker_report(c).number[ALLOCATED], live * 4096);
	SAME(invoker_report(c).number[FIXED], makes_movable() ? 0 : live * 4096);
}

/* Arrays count by the size of an element of their format. */
static void formats(int argc, char **argv)
{
	static const struct {
		int format;
		unsigned channels;
		uint64_t kib; /* of 1024 times 1024 elements */
	} want[] = {
		{0x01, 4, 4096}, {0x03, 2, 8192}, {0x10, 4, 8192}, {0x20, 4, 16384},
		{0x91, 4, 512},  {0x97, 1, 512},  {0x9d, 4, 1024}, {0xb0, 3, 1536},
		{0x9f, 3, 3072}, {0xa2, 3, 2048}, {0xc0, 1, 1024}, {0xc5, 4, 8192},
		{0xc8, 4, 4096}, {0x50, 4, 4096}, {0x5e, 3, 6144}, {0x53, 3, 1536},
		{0x7f, 4, 16384}, /* none that is known */
	};
	CUarray a;
	int c = begin();

	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		struct gw_array3d d = {1024, 1024, 0, want[i].format, want[i].channels, 0};
		OK(cu.cuArray3DCreate_v2(&a, &d));
		SAME(invoker_report(c).number[FIXED], want[i].kib << 10);
		OK(cu.cuArrayDestroy(a));
	}
}

static void others(int argc, char **argv)
{
	struct gw_array2d flat = {256, 128, 0x20, 4};
	struct gw_array3d deep = {16, 16, 16, 0x01, 1, 0};
	struct gw_external ext = {0, 3 * MIB};
	CUarray a, b, m;
	void *host, *node;
	CUdeviceptr p;
	struct gw_graph_node how = {.type = GRAPH_NODE_MEM_ALLOC, .alloc.bytes = MIB};
	int c = begin();

	OK(cu.cuArrayCreate_v2(&a, &flat));
	OK(cu.cuArray3DCreate_v2(&b, &deep));
	SAME(invoker_report(c).number[FIXED], 256 * 128 * 16 + 4096);
	OK(cu.cuMipmappedArrayCreate(&m, &deep, 4));
	OK(cu.cuArrayDestroy(a));
	OK(cu.cuArrayDestroy(b));
	OK(cu.cuMipmappedArrayDestroy(m));
	OK(cu.cuMemHostAlloc(&host, MIB, 0));
	SAME(invoker_report(c).number[HOST], MIB);
	OK(cu.cuMemFreeHost(host));
	OK(cu.cuMemHostRegister_v2(&flat, 4096, 0));
	SAME(invoker_report(c).number[HOST], 4096);
	OK(cu.cuMemHostUnregister(&flat));
	OK(cu.cuExternalMemoryGetMappedBuffer(&p, NULL, &ext));
	SAME(invoker_report(c).number[FIXED], 3 * MIB);
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuGraphAddNode_v2(&node, &how, NULL, NULL, 0, &how));
	SAME(invoker_report(c).number[ALLOCATED], MIB);
	OK(cu.cuGraphDestroy(&how));
	SAME(invoker_report(c).number[ALLOCATED], 0);
}

const struct test_case cases_memory[] = {
	{"disguise", disguise}, {"pitch", pitch}, {"captured", captured},
	{"locations", locations}, {"unmap_mixed", unmap_mixed}, {"wrong_free", wrong_free},
	{"refused_free", refused_free}, {"alloc_fails", alloc_fails}, {"pools", pools},
	{"stays", stays}, {"physical", physical}, {"exported", exported}, {"mapped", mapped}, {"formats", formats}, {"others", others}, {"handles", handles},
	{NULL, NULL},
};
