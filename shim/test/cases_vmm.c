/*
 * Memory by handles and reserved addresses: GPUWHISK_SHIM is vmm.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "prog.h"

enum { MIB = 1 << 20 };

static const char *route = "gpa2";

static int begin(void)
{
	invoker_listen();
	cuda_open(route);
	return invoker_accept();
}

static void *kernel(const char *name)
{
	void *module, *f;

	OK(cu.cuModuleLoadData(&module, "fake"));
	OK(cu.cuModuleGetFunction(&f, module, name));
	return f;
}

static CUresult touch(CUdeviceptr at, uint64_t n)
{
	void *args[] = {&at, &n};

	return cu.cuLaunchKernel(kernel("touch"), 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
}

static CUresult spin(CUstream s, uint64_t ns)
{
	void *args[] = {&ns};

	return cu.cuLaunchKernel(kernel("spin"), 1, 1, 1, 1, 1, 1, 0, s, args, NULL);
}

static void all_out(int c, uint64_t epoch)
{
	struct shim_frame s = invoker_move(c, GW_EVICT, epoch);

	SAME(s.word[STATUS], GW_OK);
	SAME(s.number[STILL_RESIDENT], 0);
	SAME(in_use(), 0);
	SAME(counts_as_used(), 0);
}

/* Large blocks have pieces of GPUWHISK_SHIM_CHUNK, which is 4 MiB. Small blocks of one
 * size share a slab. Handles are whole pages of 2 MiB, and all of their bytes are
 * reported. */
static void vmm_moves(int argc, char **argv)
{
	enum { LARGE = 13 * MIB, SMALL = 3 * MIB / 4 };
	CUdeviceptr large, small[3], base;
	size_t bytes;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&large, LARGE));
	for (int i = 0; i < 3; i++)
		OK(cu.cuMemAlloc_v2(&small[i], SMALL));
	SAME(in_use(), (14 + 4) * MIB);
	struct shim_frame s = invoker_report(c);
	SAME(s.number[ALLOCATED], in_use());
	SAME(s.number[RESIDENT], in_use());
	SAME(s.number[FIXED], 0);
	pattern_write(large, LARGE, 1);
	for (unsigned i = 0; i < 3; i++)
		pattern_write(small[i], SMALL, 2 + i);
	for (uint64_t epoch = 1; epoch < 5; epoch += 2) {
		all_out(c, epoch);
		SAME(invoker_report(c).number[ALLOCATED], 18 * MIB);
		s = invoker_move(c, GW_PREFETCH, epoch + 1);
		SAME(s.number[MOVED], 18 * MIB);
		SAME(s.number[STILL_RESIDENT], in_use());
		pattern_check(large, LARGE, 1);
		for (unsigned i = 0; i < 3; i++)
			pattern_check(small[i], SMALL, 2 + i);
	}
	OK(cu.cuMemGetAddressRange_v2(&base, &bytes, large + 7 * MIB));
	SAME(base, large);
	SAME(bytes, LARGE);
	OK(cu.cuPointerGetAttribute(&base, POINTER_RANGE_START, small[1] + 5));
	SAME(base, small[1]);
	SAME(cu.cuMemFree_v2(large + 4 * MIB), CUDA_ERROR_INVALID_VALUE);
	SAME(cu.cuMemFree_v2(small[1] + 512), CUDA_ERROR_INVALID_VALUE);
	/* Memory that is out can be freed, too. */
	all_out(c, 5);
	OK(cu.cuMemFree_v2(large));
	for (int i = 0; i < 3; i++)
		OK(cu.cuMemFree_v2(small[i]));
	SAME(cu.cuMemFree_v2(small[0]), CUDA_ERROR_INVALID_VALUE);
	s = invoker_report(c);
	SAME(s.number[ALLOCATED], 0);
	SAME(s.number[BLOCKS], 0);
	SAME(in_use(), 0);
	SAME(touch(0, 0), CUDA_ERROR_INVALID_VALUE); /* the gate is open */
}

/* Every sort of call that uses memory brings it back first. */
static void vmm_gate(int argc, char **argv)
{
	unsigned char byte;
	unsigned type;
	CUdeviceptr p;
	CUstream s;
	void *graph;
	route = argc ? argv[0] : route;
	int c = begin();

	OK(cu.cuStreamCreate(&s, 1));
	OK(cu.cuMemAlloc_v2(&p, 6 * MIB));
	pattern_write(p, 6 * MIB, 1);
	OK(cu.cuStreamBeginCapture_v2(s, 2));
	OK(cu.cuStreamEndCapture(s, &graph));
	for (uint64_t use = 0; use < 7; use++) {
		all_out(c, use + 1);
		switch (use) {
		case 0: OK(touch(p, 6 * MIB)); break;
		case 1: OK(cu.cuMemcpyDtoH_v2(&byte, p, 1)); break;
		case 2: OK(cu.cuMemcpyDtoDAsync_v2(p, p + 4 * MIB, 0, s)); break;
		case 3: OK(cu.cuGraphLaunch(graph, s)); break;
		case 4: OK(cu.cuPointerGetAttribute(&type, POINTER_MEMORY_TYPE, p)); break;
		case 5: OK(cu.cuMemsetD8Async(p, 1, 0, s)); break;
		default:
			OK(cu.cuStreamBeginCapture_v2(s, 2));
			OK(cu.cuStreamEndCapture(s, &graph));
		}
		SAME(in_use(), 6 * MIB);
		pattern_check(p, 6 * MIB, 1);
		SAME(invoker_report(c).number[RESIDENT], 6 * MIB);
	}
}

/* A graph that was recorded before a move finds its memory at the same addresses. Memory of
 * a pool stays. */
static void vmm_graph(int argc, char **argv)
{
	enum { BYTES = 6 * MIB, ROUNDS = 8 };
	CUdeviceptr p, other;
	CUstream s;
	void *graph, *exec;
	uint64_t n = BYTES / 4;
	uint32_t factor = 3, step = 1, want = 0, got[2];
	int c = begin();

	OK(cu.cuStreamCreate(&s, 1));
	OK(cu.cuMemAlloc_v2(&p, BYTES));
	OK(cu.cuMemAllocAsync(&other, 2 * MIB, s)); /* of a pool, which never moves */
	OK(cu.cuMemsetD8_v2(p, 0, BYTES));
	void *args[] = {&p, &n, &factor, &step};
	OK(cu.cuStreamBeginCapture_v2(s, 0));
	OK(cu.cuLaunchKernel(kernel("pass"), 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
	OK(cu.cuStreamEndCapture(s, &graph));
	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		SAME(invoker_move(c, GW_EVICT, round).word[STATUS], GW_OK);
		SAME(in_use(), 2 * MIB);
		OK(cu.cuGraphLaunch(exec, s));
		want = want * factor + step;
		OK(cu.cuMemcpyDtoH_v2(got, p, 4));
		OK(cu.cuMemcpyDtoH_v2(got + 1, p + BYTES - 4, 4));
		SAME(got[0], want);
		SAME(got[1], want);
		struct shim_frame report = invoker_report(c);
		SAME(report.number[RESIDENT], in_use());
		SAME(report.number[FIXED], 2 * MIB);
	}
	OK(cu.cuMemFreeAsync(other, s));
}

/* A run brings its memory back, whether or not an order does, and also when the invoker
 * has gone. */
static void vmm_run(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 6 * MIB));
	pattern_write(p, 6 * MIB, 1);
	invoker_send(c, GW_GATE, 0, 1, 0);
	invoker_send(c, GW_GATE, 0, 0, 0);
	all_out(c, 1);
	invoker_send(c, GW_GATE, 0, 1, 0);
	while (invoker_report(c).number[RESIDENT] != 6 * MIB)
		;
	invoker_send(c, GW_GATE, 0, 0, 0);
	all_out(c, 2);
	close(c);
	pattern_check(p, 6 * MIB, 1);
	SAME(in_use(), 6 * MIB);
}

/* Nothing moves during a capture, which is not spoilt. */
static void vmm_capture(int argc, char **argv)
{
	CUdeviceptr p;
	CUstream s;
	void *graph;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 4 * MIB));
	pattern_write(p, 4 * MIB, 1);
	OK(cu.cuStreamCreate(&s, 1));
	OK(cu.cuStreamBeginCapture_v2(s, 0));
	struct shim_frame done = invoker_move(c, GW_EVICT, 1);
	SAME(done.word[STATUS], GW_FAILED);
	SAME(done.word[CODE], CUDA_ERROR_NOT_READY);
	SAME(done.number[MOVED], 0);
	SAME(in_use(), 4 * MIB);
	OK(cu.cuStreamEndCapture(s, &graph));
	all_out(c, 2);
	OK(cu.cuGraphLaunch(graph, s));
	pattern_check(p, 4 * MIB, 1);
}

/* An order waits for the device's work. Work without an end makes the order fail, and the
 * program goes on. */
static void vmm_busy(int argc, char **argv)
{
	CUdeviceptr p;
	CUstream s;
	int c = begin();

	OK(cu.cuStreamCreate(&s, 1));
	OK(cu.cuMemAlloc_v2(&p, 4 * MIB));
	pattern_write(p, 4 * MIB, 1);
	OK(spin(s, 200000000));
	all_out(c, 1);
	pattern_check(p, 4 * MIB, 1);
	OK(spin(s, 60000000000));
	struct shim_frame done = invoker_move(c, GW_EVICT, 2);
	SAME(done.word[STATUS], GW_FAILED);
	SAME(done.word[CODE], CUDA_ERROR_NOT_READY);
	SAME(in_use(), 4 * MIB);
	OK(touch(p, 4 * MIB));
	pattern_check(p, 4 * MIB, 1);
}

/* Memory that another device or process has a way to never moves again. */
static void vmm_shared(int argc, char **argv)
{
	CUdeviceptr p[3];
	unsigned on = 1;
	int fd, c = begin();

	for (unsigned i = 0; i < 3; i++) {
		OK(cu.cuMemAlloc_v2(&p[i], 6 * MIB));
		pattern_write(p[i], 6 * MIB, i);
	}
	all_out(c, 1);
	OK(cu.cuMemGetHandleForAddressRange(&fd, p[0], 6 * MIB, 1, 0));
	OK(cu.cuPointerSetAttribute(&on, POINTER_SYNC_MEMOPS, p[1]));
	SAME(invoker_report(c).number[FIXED], 12 * MIB);
	SAME(invoker_move(c, GW_EVICT, 2).number[MOVED], 6 * MIB);
	SAME(in_use(), 12 * MIB);
	for (unsigned i = 0; i < 3; i++) {
		pattern_check(p[i], 6 * MIB, i);
		OK(cu.cuMemFree_v2(p[i]));
	}
	SAME(invoker_report(c).number[ALLOCATED], 0);
	SAME(in_use(), 0);
}

static void *use_block(void *at)
{
	CUcontext ctx;

	OK(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cu.cuCtxSetCurrent(ctx));
	pattern_check(*(CUdeviceptr *)at, 6 * MIB, 1);
	return NULL;
}

static const struct gw_memprop on_device = {.type = 1, .location = {LOCATION_DEVICE, 0}};

/* Moves a new block of 6 MiB out, and then fills the device so that the block has no room.
 * FAKE_CUDA_MEMORY is 16 MiB. */
static CUdeviceptr out_without_room(int c, CUmemHandle *other)
{
	CUdeviceptr p;

	OK(cu.cuMemAlloc_v2(&p, 6 * MIB));
	pattern_write(p, 6 * MIB, 1);
	all_out(c, 1);
	OK(cu.cuMemCreate(other, 12 * MIB, &on_device, 0));
	return p;
}

/* A device without room refuses the move, and nothing is lost: launches wait until there
 * is room. FAKE_CUDA_MEMORY of 16 MiB. */
static void vmm_full(int argc, char **argv)
{
	CUmemHandle other;
	pthread_t t;
	int c = begin();
	CUdeviceptr p = out_without_room(c, &other);

	struct shim_frame s = invoker_move(c, GW_PREFETCH, 2);
	SAME(s.word[STATUS], GW_FAILED);
	SAME(s.word[CODE], CUDA_ERROR_OUT_OF_MEMORY);
	SAME(s.number[STILL_RESIDENT], in_use());
	SAME(pthread_create(&t, NULL, use_block, &p), 0);
	SAME(invoker_report(c).number[RESIDENT], in_use());
	OK(cu.cuMemRelease(other));
	pthread_join(t, NULL);
	SAME(invoker_report(c).number[RESIDENT], 6 * MIB);
}

/* After GPUWHISK_SHIM_GATE_MS a call gives up, and nothing is lost: once there is room the
 * program goes on. FAKE_CUDA_MEMORY of 16 MiB. */
static void vmm_gives_up(int argc, char **argv)
{
	CUmemHandle other;
	unsigned type;
	int c = begin();
	CUdeviceptr p = out_without_room(c, &other);

	for (int tries = 0; tries < 2; tries++) {
		SAME(touch(p, 6 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
		SAME(cu.cuMemsetD8_v2(p, 2, 6 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
		SAME(cu.cuPointerGetAttribute(&type, POINTER_MEMORY_TYPE, p), CUDA_ERROR_OUT_OF_MEMORY);
	}
	SAME(invoker_report(c).number[ALLOCATED], 18 * MIB);
	OK(cu.cuMemRelease(other));
	while (touch(p, 6 * MIB) == CUDA_ERROR_OUT_OF_MEMORY) /* on a busy machine */
		;
	pattern_check(p, 6 * MIB, 1);
	OK(cu.cuMemFree_v2(p));
}

/* A context ends with its memory, which may be out. */
static void vmm_context(int argc, char **argv)
{
	CUcontext own;
	CUdeviceptr p, q;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 4 * MIB));
	pattern_write(p, 4 * MIB, 1);
	for (uint64_t i = 0; i < 2; i++) {
		OK(cu.cuCtxCreate_v2(&own, 0, 0));
		OK(cu.cuMemAlloc_v2(&q, 6 * MIB));
		OK(cu.cuMemsetD8_v2(q, 1, 6 * MIB));
		if (i)
			all_out(c, 1);
		OK(cu.cuCtxDestroy_v2(own));
		SAME(invoker_report(c).number[ALLOCATED], 4 * MIB);
		SAME(in_use(), i ? 0 : 4 * MIB);
	}
	pattern_check(p, 4 * MIB, 1);
	SAME(in_use(), 4 * MIB);
}

/* A thread that ends launches in a destructor, beside another thread that launches. The
 * gate still knows when nobody is inside. */
static pthread_key_t at_end;
static CUcontext of_threads;

static void *memsets(void *p)
{
	enum { TIMES = 200000 };

	OK(cu.cuCtxSetCurrent(of_threads));
	for (int i = 0; i < TIMES; i++)
		OK(cu.cuMemsetD8_v2(*(CUdeviceptr *)p, 1, 0));
	return NULL;
}

static void end_beside(void *p)
{
	pthread_t other;

	SAME(pthread_create(&other, NULL, memsets, p), 0);
	memsets(p);
	pthread_join(other, NULL);
}

static void *launch(void *p)
{
	OK(cu.cuCtxSetCurrent(of_threads));
	OK(cu.cuMemsetD8_v2(*(CUdeviceptr *)p, 1, 0));
	pthread_setspecific(at_end, p);
	return NULL;
}

static void vmm_thread_end(int argc, char **argv)
{
	CUdeviceptr p;
	pthread_t t;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 4 * MIB));
	OK(cu.cuCtxGetCurrent(&of_threads));
	SAME(pthread_key_create(&at_end, end_beside), 0);
	for (uint64_t epoch = 1; epoch < 4; epoch++) {
		SAME(pthread_create(&t, NULL, launch, &p), 0);
		pthread_join(t, NULL);
		all_out(c, epoch);
	}
}

const struct test_case cases_vmm[] = {
	{"vmm_moves", vmm_moves}, {"vmm_gate", vmm_gate}, {"vmm_graph", vmm_graph}, {"vmm_run", vmm_run},
	{"vmm_capture", vmm_capture}, {"vmm_busy", vmm_busy}, {"vmm_shared", vmm_shared},
	{"vmm_full", vmm_full}, {"vmm_context", vmm_context},
	{"vmm_thread_end", vmm_thread_end}, {"vmm_gives_up", vmm_gives_up},
	{NULL, NULL},
};
