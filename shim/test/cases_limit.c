/*
 * Limits: the memory that may be allocated, the refusals, and the memory that is kept
 * free.
 */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "prog.h"

enum { MIB = 1 << 20 };

static int begin(void)
{
	invoker_listen();
	cuda_open("gpa2");
	return invoker_accept();
}

static void limit(int argc, char **argv)
{
	size_t avail, total;
	CUdeviceptr p, q;
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 64 * MIB, 0);
	invoker_report(c);
	OK(cu.cuMemGetInfo_v2(&avail, &total));
	SAME(total, 64 * MIB);
	SAME(avail, 64 * MIB);
	/* A program may ask for only one of the two. */
	avail = total = 0;
	OK(cu.cuMemGetInfo_v2(NULL, &total));
	OK(cu.cuMemGetInfo_v2(&avail, NULL));
	SAME(total, 64 * MIB);
	SAME(avail, 64 * MIB);
	OK(cu.cuDeviceTotalMem_v2(&total, 0));
	SAME(total, 64 * MIB);
	OK(cu.cuMemAlloc_v2(&p, 48 * MIB));
	OK(cu.cuMemGetInfo_v2(&avail, &total));
	SAME(avail, 16 * MIB);
	SAME(cu.cuMemAlloc_v2(&q, 17 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuMemAlloc_v2(&q, 16 * MIB));
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuMemAlloc_v2(&p, 48 * MIB));
	SAME(cu.cuMemAlloc_v2(&q, (size_t)-1), CUDA_ERROR_OUT_OF_MEMORY);
}

/* Below a limit the program gets the rest of the limit, or the driver's error if there is
 * one: FAKE_CUDA_FAIL fails the last question but one. Without a context there is no
 * answer. */
static void limit_reported(int argc, char **argv)
{
	size_t avail, total;
	CUdeviceptr p, q;
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 8 * MIB, 0);
	invoker_report(c);
	OK(cu.cuMemGetInfo_v2(&avail, &total));
	SAME(avail, 8 * MIB);
	OK(cu.cuMemAlloc_v2(&p, 3 * MIB));
	OK(cu.cuMemAllocAsync(&q, MIB, NULL));
	OK(cu.cuMemGetInfo_v2(&avail, &total));
	SAME(total, 8 * MIB);
	SAME(avail, 4 * MIB);
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuMemGetInfo_v2(&avail, &total));
	SAME(avail, 7 * MIB);
	SAME(cu.cuMemGetInfo_v2(&avail, &total), 700);
	OK(cu.cuCtxSetCurrent(NULL));
	CHECK(cu.cuMemGetInfo_v2(&avail, &total) != CUDA_SUCCESS);
}

/* Pinned host memory has a limit of its own, by whatever call it is asked for. */
static void limit_host(int argc, char **argv)
{
	static char own[2 * MIB];
	void *p, *q;
	CUdeviceptr d;
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 64 * MIB, 4 * MIB);
	invoker_report(c);
	OK(cu.cuMemHostAlloc(&p, 3 * MIB, 0));
	SAME(cu.cuMemAllocHost_v2(&q, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(cu.cuMemHostAlloc(&q, 2 * MIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(cu.cuMemHostRegister_v2(own, sizeof own, 0), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuMemAllocHost_v2(&q, MIB));
	SAME(invoker_report(c).number[HOST], 4 * MIB);
	OK(cu.cuMemAlloc_v2(&d, 64 * MIB)); /* device memory is another matter */
	OK(cu.cuMemFreeHost(p));
	OK(cu.cuMemHostRegister_v2(own, sizeof own, 0));
	SAME(cu.cuMemHostAlloc(&p, 2 * MIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuMemHostUnregister(own));
	OK(cu.cuMemHostAlloc(&p, 2 * MIB, 0));
	SAME(invoker_report(c).number[HOST], 3 * MIB);
	invoker_send(c, GW_LIMIT, 0, 64 * MIB, 0);
	invoker_report(c);
	OK(cu.cuMemHostAlloc(&q, 32 * MIB, 0));
}

/* Arrays count for the limit, too. For arrays that get their memory from handles later
 * (sparse or of deferred mapping), the handles' memory counts. */
static void limit_array(int argc, char **argv)
{
	struct gw_array2d flat = {1024, 1024, 0x01, 4}; /* 4 MiB */
	struct gw_array3d sparse = {1024, 1024, 1024, 0x01, 4, 0x40},
			  deferred = {1024, 1024, 0, 0x01, 4, 0x80};
	CUarray a, b, empty;
	CUmemHandle pages;
	struct gw_memprop prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 6 * MIB, 0);
	invoker_report(c);
	OK(cu.cuArrayCreate_v2(&a, &flat));
	SAME(cu.cuArrayCreate_v2(&b, &flat), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuArrayDestroy(a));
	OK(cu.cuArrayCreate_v2(&b, &flat));
	OK(cu.cuArray3DCreate_v2(&a, &sparse));
	OK(cu.cuArray3DCreate_v2(&empty, &deferred));
	OK(cu.cuMipmappedArrayCreate(&empty, &sparse, 3));
	SAME(invoker_report(c).number[ALLOCATED], 4 * MIB);
	OK(cu.cuMemCreate(&pages, 2 * MIB, &prop, 0));
	SAME(invoker_report(c).number[ALLOCATED], 6 * MIB);
	OK(cu.cuArrayDestroy(a));
	SAME(invoker_report(c).number[ALLOCATED], 6 * MIB);
}

/* Rows narrower than the pitch: their real size counts for the limit, by the driver's
 * pitch, FAKE_CUDA_PITCH. */
static void pitch_limit(int argc, char **argv)
{
	size_t row;
	CUdeviceptr p;
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 64 * MIB, 0);
	invoker_report(c);
	SAME(cu.cuMemAllocPitch_v2(&p, &row, 1, MIB, 4), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(cu.cuMemAllocPitch_v2(&p, &row, 1, 128 * 1024 + 1, 4), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(in_use(), 0);
	SAME(invoker_report(c).number[ALLOCATED], 0);
	OK(cu.cuMemAllocPitch_v2(&p, &row, 1, 64 * MIB / atol(argv[0]), 4));
	SAME(invoker_report(c).number[ALLOCATED], 64 * MIB);
	SAME(cu.cuMemAlloc_v2(&p, MIB), CUDA_ERROR_OUT_OF_MEMORY);
}

static CUcontext shared;

/* A LIMIT of so many bytes granted, and so many that a WANT could bring. */
static size_t put_limit(uint8_t *at, uint64_t answers, uint64_t granted, uint64_t most)
{
	struct {
		uint32_t length;
		uint16_t type, flags;
		uint64_t epoch, granted, host, most, host_most;
	} f = {sizeof f, GW_LIMIT, 0, answers, granted, 0, most, 0};

	memcpy(at, &f, sizeof f);
	return sizeof f;
}

static void *tries_to_allocate_ordered(void *code)
{
	CUdeviceptr p;

	OK(cu.cuCtxSetCurrent(shared));
	*(CUresult *)code = cu.cuMemAllocAsync(&p, MIB, NULL);
	return NULL;
}

/* The report equals the memory on the device, and is at most the limit. */
static void counts(int c, uint64_t limit)
{
	uint64_t reported = invoker_report(c).number[ALLOCATED];
	size_t avail, total;

	SAME(reported, in_use());
	CHECK(reported <= limit);
	OK(cu.cuMemGetInfo_v2(&avail, &total));
	SAME(avail, limit - reported);
}

/* Memory that pools keep counts for the limit, and gives way to other memory. The pool
 * takes memory in units of FAKE_CUDA_POOL_CHUNK, 32 MiB, and keeps freed memory. */
static void limit_pools(int argc, char **argv)
{
	uint64_t all = UINT64_MAX;
	CUdeviceptr p, q, more;
	CUmemoryPool own;
	struct gw_memprop prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
	CUmemHandle h;
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 100 * MIB, 0);
	invoker_report(c);
	OK(cu.cuDeviceGetDefaultMemPool(&own, 0));
	OK(cu.cuMemPoolSetAttribute(own, 4, &all));
	OK(cu.cuMemAllocAsync(&p, 60 * MIB, NULL));
	SAME(in_use(), 64 * MIB);
	counts(c, 100 * MIB);
	/* From memory that the pool has taken already. */
	OK(cu.cuMemAllocAsync(&q, 4 * MIB, NULL));
	counts(c, 100 * MIB);
	/* Its next piece, which is no longer below the limit with this. */
	OK(cu.cuMemCreate(&h, 20 * MIB, &prop, 0));
	SAME(cu.cuMemAllocAsync(&more, MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	counts(c, 100 * MIB);
	OK(cu.cuMemRelease(h));
	OK(cu.cuMemAllocAsync(&more, MIB, NULL));
	counts(c, 100 * MIB);
	OK(cu.cuMemFreeAsync(more, NULL));
	OK(cu.cuMemFreeAsync(q, NULL));
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuCtxSynchronize());
	SAME(in_use(), 96 * MIB);
	counts(c, 100 * MIB);
	OK(cu.cuMemCreate(&h, 60 * MIB, &prop, 0));
	SAME(in_use(), 60 * MIB);
	counts(c, 100 * MIB);
	/* A program's own pool is followed like the device's, whatever their number. */
	for (int i = 0; i < 40; i++)
		OK(cu.cuMemPoolCreate(&own, &prop));
	OK(cu.cuMemPoolSetAttribute(own, 4, &all));
	OK(cu.cuMemAllocFromPoolAsync(&p, 30 * MIB, own, NULL));
	counts(c, 100 * MIB);
	OK(cu.cuMemFreeAsync(p, NULL));
	counts(c, 100 * MIB);
	OK(cu.cuMemAllocAsync(&p, 30 * MIB, NULL));
	counts(c, 100 * MIB);
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuMemPoolDestroy(own));
	counts(c, 100 * MIB);
}

/* A pool's piece is more than is granted and less than could be: it is asked for. */
static void limit_pool_asked(int argc, char **argv)
{
	uint8_t frame[64];
	CUresult code = CUDA_SUCCESS;
	pthread_t t;
	int c = begin();

	OK(cu.cuCtxGetCurrent(&shared));
	invoker_send_raw(c, frame, put_limit(frame, 0, 20 * MIB, 64 * MIB));
	invoker_report(c);
	SAME(pthread_create(&t, NULL, tries_to_allocate_ordered, &code), 0);
	uint64_t asked = invoker_receive(c, GW_WANT).epoch;
	invoker_send_raw(c, frame, put_limit(frame, asked, 64 * MIB, 64 * MIB));
	pthread_join(t, NULL);
	SAME(code, CUDA_SUCCESS);
	SAME(invoker_report(c).number[ALLOCATED], 32 * MIB);
	SAME(in_use(), 32 * MIB);
}

static struct gw_graph_node node_of(uint64_t bytes)
{
	return (struct gw_graph_node){.type = GRAPH_NODE_MEM_ALLOC, .alloc.bytes = bytes};
}

/* Graphs that are launched one after the other hold no more than the limit: their nodes
 * are granted when they are added. */
static void limit_graphs(int argc, char **argv)
{
	struct gw_graph_node a = node_of(40 * MIB), b = node_of(20 * MIB), d = node_of(40 * MIB);
	void *first = &a, *second = &b, *third = &d, *node;
	CUdeviceptr p;
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 64 * MIB, 0);
	invoker_report(c);
	OK(cu.cuGraphAddNode_v2(&node, first, NULL, NULL, 0, &a));
	OK(cu.cuGraphAddMemFreeNode(&node, first, NULL, 0, a.alloc.ptr));
	/* A node of a graph in the place of a freed one, and a node of another graph. */
	OK(cu.cuGraphAddMemAllocNode(&node, first, NULL, 0, &a.alloc));
	OK(cu.cuGraphAddMemFreeNode(&node, first, NULL, 0, a.alloc.ptr));
	OK(cu.cuGraphAddMemAllocNode(&node, second, NULL, 0, &b.alloc));
	SAME(cu.cuGraphAddMemAllocNode(&node, second, NULL, 0, &d.alloc), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(cu.cuMemAlloc_v2(&p, 30 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuGraphAddMemFreeNode(&node, second, NULL, 0, b.alloc.ptr));
	OK(cu.cuGraphLaunch(first, NULL));
	OK(cu.cuGraphLaunch(second, NULL));
	counts(c, 64 * MIB);
	SAME(in_use(), 40 * MIB);
	SAME(cu.cuGraphAddMemAllocNode(&node, third, NULL, 0, &(struct gw_graph_alloc){.bytes = 65 * MIB}),
	     CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuGraphDestroy(first));
	OK(cu.cuGraphDestroy(second));
	/* The memory that they left is given back for this. */
	OK(cu.cuMemAlloc_v2(&p, 60 * MIB));
	SAME(invoker_report(c).number[ALLOCATED], 60 * MIB);
}

enum { BELOW = 4, TURNS = 10000 };

static void *take_turns(void *arg)
{
	CUdeviceptr p;

	OK(cu.cuCtxSetCurrent(shared));
	for (int i = 0; i < TURNS; i++) {
		OK(cu.cuMemAlloc_v2(&p, 200 * MIB));
		OK(cu.cuMemFree_v2(p));
	}
	return NULL;
}

/* Threads that in all never hold more than the limit, of blocks that the agent is
 * woken for. */
static void limit_threads(int argc, char **argv)
{
	pthread_t t[BELOW];
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 800 * MIB, 0);
	invoker_report(c);
	OK(cu.cuCtxGetCurrent(&shared));
	invoker_close_listener(); /* no invoker would read the frames sent meanwhile */
	close(c);
	for (int i = 0; i < BELOW; i++)
		SAME(pthread_create(&t[i], NULL, take_turns, NULL), 0);
	for (int i = 0; i < BELOW; i++)
		pthread_join(t[i], NULL);
}

static bool all_returned;

static void *cancelled(void *arg)
{
	CUdeviceptr p;

	OK(cu.cuCtxSetCurrent(shared));
	SAME(pthread_cancel(pthread_self()), 0);
	for (int i = 0; i < 100; i++) {
		OK(cu.cuMemAlloc_v2(&p, 48 * MIB));
		OK(cu.cuMemFree_v2(p));
	}
	all_returned = true;
	pthread_testcancel();
	return NULL;
}

static void *tries_to_allocate(void *code)
{
	CUdeviceptr p;

	OK(cu.cuCtxSetCurrent(shared));
	*(CUresult *)code = cu.cuMemAlloc_v2(&p, 17 * MIB);
	return NULL;
}

/* An invoker that takes more than a second to answer has its limit kept all the same. */
static void limit_late(int argc, char **argv)
{
	CUresult code = CUDA_SUCCESS;
	pthread_t t;

	invoker_listen();
	cuda_open("gpa2");
	OK(cu.cuCtxGetCurrent(&shared));
	int c = invoker_accept_within(HANG_MS);
	CHECK(c >= 0);
	SAME(pthread_create(&t, NULL, tries_to_allocate, &code), 0);
	poll(NULL, 0, 1200);
	invoker_send(c, GW_LIMIT, 0, 16 * MIB, 0);
	invoker_hello(c, GW_VERSION);
	pthread_join(t, NULL);
	SAME(code, CUDA_ERROR_OUT_OF_MEMORY);
}

/* Memory that is granted to a process on request belongs to the process at once. It is
 * not reported as free, whatever arrives right after the grant, and however late the
 * asking thread wakes. */
static void limit_asked(int argc, char **argv)
{
	struct shim_frame s;
	struct {
		uint32_t length;
		uint16_t type, flags;
		uint64_t epoch;
	} report = {sizeof report, GW_REPORT, 0, 9};
	CUresult code = CUDA_SUCCESS;
	uint8_t all[256];
	pthread_t t;
	int c = begin();

	OK(cu.cuCtxGetCurrent(&shared));
	invoker_send_raw(c, all, put_limit(all, 0, 1, 32 * MIB));
	invoker_report(c);
	SAME(pthread_create(&t, NULL, tries_to_allocate, &code), 0);
	uint64_t asked = invoker_receive(c, GW_WANT).epoch;
	size_t n = put_limit(all, asked, 32 * MIB, 32 * MIB);
	n += put_limit(all + n, 0, 1, 32 * MIB);
	memcpy(all + n, &report, sizeof report);
	invoker_send_raw(c, all, n + sizeof report);
	do
		s = invoker_receive(c, GW_USAGE);
	while (s.epoch != report.epoch);
	SAME(s.number[ALLOCATED], 17 * MIB);
	pthread_join(t, NULL);
	SAME(code, CUDA_SUCCESS);
	/* The next invoker is not asked for memory that the first has granted. */
	close(c);
	c = invoker_accept();
	for (int answers = 0; answers < 2; answers++) {
		invoker_send(c, GW_REPORT, report.epoch, 0, 0);
		do {
			CHECK(invoker_receive_any(c, &s));
			CHECK(s.type != GW_WANT);
		} while (s.type != GW_USAGE || s.epoch != report.epoch);
	}
}

/* A thread ends between the driver's calls, which are no cancellation points. */
static void cancels(int argc, char **argv)
{
	CUdeviceptr p;
	pthread_t t;
	void *how;
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 64 * MIB, 0);
	invoker_report(c);
	OK(cu.cuCtxGetCurrent(&shared));
	SAME(pthread_create(&t, NULL, cancelled, NULL), 0);
	pthread_join(t, &how);
	CHECK(how == PTHREAD_CANCELED && all_returned);
	OK(cu.cuMemAlloc_v2(&p, 64 * MIB));
}

const struct test_case cases_limit[] = {
	{"limit", limit}, {"limit_reported", limit_reported}, {"limit_host", limit_host},
	{"limit_array", limit_array}, {"pitch_limit", pitch_limit},
	{"limit_threads", limit_threads}, {"limit_late", limit_late}, {"limit_asked", limit_asked},
	{"limit_pools", limit_pools}, {"limit_pool_asked", limit_pool_asked},
	{"limit_graphs", limit_graphs}, {"cancels", cancels}, {NULL, NULL},
};
