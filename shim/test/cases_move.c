/*
 * Orders to move memory.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "prog.h"

enum { MIB = 1 << 20 };

/* The way that every program goes: allocate, fill, out, in, all is there. */
static void route(int argc, char **argv)
{
	CUdeviceptr p;
	int c;

	invoker_listen();
	cuda_open(argc ? argv[0] : "dlsym");
	c = invoker_accept();
	OK(cu.cuMemAlloc_v2(&p, 8 * MIB));
	pattern_write(p, 8 * MIB, 1);
	SAME(invoker_report(c).number[ALLOCATED], 8 * MIB);
	SAME(in_use(), 8 * MIB);
	struct shim_frame s = invoker_move(c, GW_EVICT, 1);
	SAME(s.word[STATUS], GW_OK);
	SAME(s.number[MOVED], 8 * MIB);
	SAME(s.number[STILL_RESIDENT], 0);
	SAME(in_use(), 0);
	SAME(invoker_report(c).number[RESIDENT], 0);
	s = invoker_move(c, GW_PREFETCH, 2);
	SAME(s.word[STATUS], GW_OK);
	SAME(s.number[MOVED], 8 * MIB);
	SAME(in_use(), 8 * MIB);
	pattern_check(p, 8 * MIB, 1);
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuMemAlloc_v2(&p, 8 * MIB));
	OK(cu.cuMemFree_v2(p)); /* some neighbours go another way the second time */
	SAME(invoker_report(c).number[ALLOCATED], 0);
}

static int begin(void)
{
	invoker_listen();
	cuda_open("dlsym");
	return invoker_accept();
}

/* A kernel on memory that is out brings it in by itself. */
static void fault(int argc, char **argv)
{
	void *module, *f;
	CUdeviceptr p, out;
	uint64_t n = 4 * MIB, sum = 0;
	uint32_t value = 3;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, n));
	OK(cu.cuMemAlloc_v2(&out, 8));
	OK(cu.cuModuleLoadData(&module, "fake"));
	OK(cu.cuModuleGetFunction(&f, module, "fill"));
	void *fill[] = {&p, &n, &value};
	OK(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, fill, NULL));
	invoker_move(c, GW_EVICT, 1);
	SAME(in_use(), 0);
	OK(cu.cuModuleGetFunction(&f, module, "sum"));
	void *add[] = {&p, &n, &out};
	OK(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, add, NULL));
	OK(cu.cuMemcpyDtoH_v2(&sum, out, 8));
	SAME(sum, 3 * n);
	/* Without gates an eviction takes nothing for granted. */
	SAME(invoker_move(c, GW_EVICT, 2).word[STATUS], GW_OK);
	SAME(in_use(), 0);
}

/* Where runs are reported, residency follows them. */
static void gate(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 4 * MIB));
	pattern_write(p, 4 * MIB, 2);
	invoker_send(c, GW_GATE, 0, 1, 0);
	invoker_send(c, GW_GATE, 0, 0, 0);
	SAME(invoker_move(c, GW_EVICT, 1).number[MOVED], 4 * MIB);
	SAME(invoker_report(c).number[RESIDENT], 0);
	SAME(invoker_move(c, GW_EVICT, 2).number[MOVED], 0);
	invoker_send(c, GW_GATE, 0, 1, 0);
	pattern_check(p, 4 * MIB, 2);
	SAME(invoker_report(c).number[RESIDENT], 4 * MIB);
	invoker_send(c, GW_GATE, 0, 0, 0);
	SAME(invoker_move(c, GW_EVICT, 3).number[MOVED], 4 * MIB);
}

/* The device reports its memory in use. Of an arena that was hardly touched, only that
 * much is reported. All of the arena leaves, and only the used part comes back. */
static void arena(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 1024 * (size_t)MIB));
	pattern_write(p, 2 * MIB, 3);
	SAME(invoker_report(c).number[RESIDENT], 2 * MIB);
	SAME(invoker_move(c, GW_EVICT, 1).number[STILL_RESIDENT], 0);
	SAME(in_use(), 0);
	SAME(invoker_move(c, GW_PREFETCH, 2).number[MOVED], 2 * MIB);
	SAME(in_use(), 2 * MIB);
	pattern_check(p, 2 * MIB, 3);
}

/* FAKE_CUDA_BANDWIDTH makes a whole move last half a minute: no pause of this
 * program's lets it end before it is cancelled. */
static void cancel(int argc, char **argv)
{
	CUdeviceptr p;
	struct shim_frame s;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 64 * MIB));
	pattern_write(p, 64 * MIB, 4);
	invoker_send(c, GW_EVICT, 5, 0, 0);
	SAME(invoker_receive(c, GW_ACCEPTED).epoch, 5);
	invoker_send(c, GW_PREFETCH, 6, 0, 0);
	s = invoker_receive(c, GW_DONE);
	SAME(s.epoch, 5);
	SAME(s.word[STATUS], GW_CANCELLED);
	CHECK(s.number[MOVED] < 64 * MIB);
	s = invoker_receive(c, GW_DONE);
	SAME(s.epoch, 6);
	SAME(s.word[STATUS], GW_OK);
	SAME(in_use(), 64 * MIB);
	s = invoker_move(c, GW_EVICT, 4);
	SAME(s.word[STATUS], GW_STALE);
	pattern_check(p, 64 * MIB, 4);
	/* The begin of a run ends an eviction. */
	invoker_send(c, GW_EVICT, 7, 0, 0);
	invoker_receive(c, GW_ACCEPTED);
	invoker_send(c, GW_GATE, 0, 1, 0);
	s = invoker_receive(c, GW_DONE);
	SAME(s.word[STATUS], GW_CANCELLED);
	pattern_check(p, 64 * MIB, 4);
}

static void partial(int argc, char **argv)
{
	CUdeviceptr p;
	struct shim_frame s;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 64 * MIB));
	pattern_write(p, 64 * MIB, 5);
	invoker_send(c, GW_EVICT, 1, 16 * MIB, 0);
	s = invoker_receive(c, GW_DONE);
	SAME(s.number[MOVED], 16 * MIB);
	SAME(s.word[STATUS], GW_PARTIAL);
	SAME(in_use(), 48 * MIB);
	invoker_move(c, GW_EVICT, 2);
	invoker_send(c, GW_PREFETCH, 3, 24 * MIB, 0);
	SAME(invoker_receive(c, GW_DONE).number[MOVED], 24 * MIB);
	SAME(in_use(), 24 * MIB);
	/* A deadline that is over at once lets at most one chunk through. */
	invoker_send(c, GW_PREFETCH, 4, 0, 1);
	s = invoker_receive(c, GW_DONE);
	SAME(s.word[STATUS], GW_PARTIAL);
	invoker_move(c, GW_PREFETCH, 5);
	pattern_check(p, 64 * MIB, 5);
}

/* FAKE_CUDA_FAIL lets the driver's nth move fail with the code given. */
static void refused(int argc, char **argv)
{
	CUdeviceptr p[3];
	int code = atoi(argv[0]), c = begin();

	for (int i = 0; i < 3; i++) {
		OK(cu.cuMemAlloc_v2(&p[i], 4 * MIB));
		pattern_write(p[i], 4 * MIB, (unsigned)i);
	}
	struct shim_frame s = invoker_move(c, GW_EVICT, 1);
	SAME(s.word[STATUS], GW_FAILED);
	SAME(s.word[CODE], code);
	s = invoker_move(c, GW_EVICT, 2);
	SAME(s.word[STATUS], GW_OK);
	SAME(in_use(), 0);
	SAME(invoker_move(c, GW_PREFETCH, 3).word[STATUS], GW_OK);
	for (int i = 0; i < 3; i++)
		pattern_check(p[i], 4 * MIB, (unsigned)i);
}

static atomic_bool over;
static bool with_kept; /* threads also use pools, and graphs that own memory */

static bool of_pool(unsigned at) { return with_kept && at % 4 == 0; }

static void give_back(CUdeviceptr p, unsigned at)
{
	OK(of_pool(at) ? cu.cuMemFreeAsync(p, NULL) : cu.cuMemFree_v2(p));
}

/* A graph allocates memory, frees it, and ends. */
static void run_graph(void *graph)
{
	struct gw_graph_alloc node = {.bytes = MIB};
	void *out;

	OK(cu.cuGraphAddMemAllocNode(&out, graph, NULL, 0, &node));
	OK(cu.cuGraphAddMemFreeNode(&out, graph, NULL, 0, node.ptr));
	OK(cu.cuGraphLaunch(graph, NULL));
	OK(cu.cuGraphDestroy(graph));
}

static void *churn(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	CUcontext ctx;
	CUdeviceptr p[16] = {0};
	size_t n[16];

	OK(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cu.cuCtxSetCurrent(ctx));
	while (!atomic_load(&over)) {
		unsigned at = rand_r(&seed) % 16;
		if (p[at]) {
			pattern_check(p[at], n[at], at);
			give_back(p[at], at);
			p[at] = 0;
			continue;
		}
		n[at] = 4u << rand_r(&seed) % 18;
		if (of_pool(at))
			OK(cu.cuMemAllocAsync(&p[at], n[at], NULL));
		else
			OK(cu.cuMemAlloc_v2(&p[at], n[at]));
		pattern_write(p[at], n[at], at);
		if (with_kept)
			run_graph(&p);
	}
	for (unsigned i = 0; i < 16; i++)
		if (p[i])
			give_back(p[i], i);
	return NULL;
}

/* storm ROUNDS [kept]: threads allocate and free while memory moves. */
static void storm(int argc, char **argv)
{
	pthread_t t[4];
	int rounds = argc ? atoi(argv[0]) : 200, c = begin();

	with_kept = argc > 1;
	for (uintptr_t i = 0; i < 4; i++)
		SAME(pthread_create(&t[i], NULL, churn, (void *)(i + 1)), 0);
	for (int i = 1; i <= rounds; i++) {
		unsigned status = invoker_move(c, i % 2 ? GW_EVICT : GW_PREFETCH,
					       (uint64_t)i).word[STATUS];
		/* The driver may refuse memory that is freed meanwhile. */
		CHECK(status == GW_OK || status == GW_FAILED);
	}
	atomic_store(&over, true);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	struct shim_frame s = invoker_report(c);
	SAME(s.number[ALLOCATED], in_use()); /* by pools and graphs */
	SAME(s.number[RESIDENT], in_use());
	SAME(s.number[BLOCKS], 0);
	if (with_kept)
		SAME(invoker_move(c, GW_EVICT, (uint64_t)rounds + 1).word[STATUS], GW_OK);
	SAME(invoker_report(c).number[ALLOCATED], 0);
	SAME(in_use(), 0);
}

/* Many small blocks, as libraries have them. */
static void many(int argc, char **argv)
{
	enum { N = 10000 };
	static CUdeviceptr p[N];
	int c = begin();

	for (int i = 0; i < N; i++)
		OK(cu.cuMemAlloc_v2(&p[i], 4096));
	SAME(invoker_report(c).number[BLOCKS], N);
	for (int i = 0; i < N; i++)
		OK(cu.cuMemsetD8_v2(p[i], (unsigned char)i, 4096));
	SAME(invoker_move(c, GW_EVICT, 1).number[MOVED], N * 4096);
	SAME(in_use(), 0);
	SAME(invoker_move(c, GW_PREFETCH, 2).number[MOVED], N * 4096);
	for (int i = 0; i < N; i += 97) {
		unsigned char byte;
		OK(cu.cuMemcpyDtoH_v2(&byte, p[i] + 4095, 1));
		SAME(byte, (unsigned char)i);
	}
	for (int i = 0; i < N; i++)
		OK(cu.cuMemFree_v2(p[i]));
	SAME(invoker_report(c).number[BLOCKS], 0);
}

const struct test_case cases_move[] = {
	{"route", route}, {"fault", fault}, {"gate", gate}, {"arena", arena},
	{"cancel", cancel}, {"partial", partial}, {"refused", refused},
	{"storm", storm}, {"many", many}, {NULL, NULL},
};
