/*
 * Reports of residency, against the fake driver's own table of pages. No run touches a
 * block partly from its start, unlike in arenas.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prog.h"

enum { MIB = 1 << 20, PAGE = 1 << 16 };

static int begin(void)
{
	invoker_listen();
	cuda_open("gpa2");
	return invoker_accept();
}

static void run_begins(int c) { invoker_send(c, GW_GATE, 0, 1, 0); }

static void run_ends(int c)
{
	invoker_send(c, GW_GATE, 7, 0, 0);
	while (invoker_receive(c, GW_USAGE).epoch != 7)
		;
}

static void *kernel(const char *name)
{
	void *module, *f;

	OK(cu.cuModuleLoadData(&module, "fake"));
	OK(cu.cuModuleGetFunction(&f, module, name));
	return f;
}

static void touch(void *f, CUstream s, CUdeviceptr at, uint64_t n)
{
	void *args[] = {&at, &n};

	OK(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
}

/* After this order not a byte of the program's is on the device. */
static void nothing_left(int c, uint64_t epoch)
{
	struct shim_frame s = invoker_move(c, GW_EVICT, epoch);

	SAME(s.word[STATUS], GW_OK);
	SAME(s.number[STILL_RESIDENT], 0);
	SAME(invoker_report(c).number[RESIDENT], 0);
	SAME(in_use(), 0);
}

/* The first run uses a quarter of a block, the second run uses the whole block. */
static void grows(int argc, char **argv)
{
	enum { ALL = 64 * MIB };
	CUdeviceptr p;
	int c = begin();
	void *f = kernel("touch");

	run_begins(c);
	OK(cu.cuMemAlloc_v2(&p, ALL));
	touch(f, NULL, p, ALL / 4);
	run_ends(c);
	/* By the device's report no more can be there. */
	SAME(invoker_report(c).number[RESIDENT], ALL / 4);
	nothing_left(c, 1);
	run_begins(c);
	pattern_write(p, ALL, 1);
	run_ends(c);
	SAME(invoker_report(c).number[RESIDENT], ALL);
	nothing_left(c, 2);
	pattern_check(p, ALL, 1);
}

/* Only the end of a block is used, and then its middle. */
static void tail(int argc, char **argv)
{
	enum { ALL = 64 * MIB, END = ALL - 8 * MIB, MIDDLE = 24 * MIB };
	CUdeviceptr p;
	int c = begin();

	run_begins(c);
	OK(cu.cuMemAlloc_v2(&p, ALL));
	pattern_write(p + END, ALL - END, 1);
	run_ends(c);
	nothing_left(c, 1);
	SAME(invoker_move(c, GW_PREFETCH, 2).word[STATUS], GW_OK);
	SAME(invoker_report(c).number[RESIDENT], in_use());
	run_begins(c);
	pattern_check(p + END, ALL - END, 1);
	pattern_write(p + MIDDLE, 4 * MIB, 2);
	run_ends(c);
	CHECK(invoker_report(c).number[RESIDENT] >= in_use());
	nothing_left(c, 3);
	pattern_check(p + END, ALL - END, 1);
	pattern_check(p + MIDDLE, 4 * MIB, 2);
}

/* Emptied memory counts as used until other memory needs the space. */
static void kept(int argc, char **argv)
{
	struct gw_memprop prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
	CUmemHandle h;
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 40 * MIB));
	pattern_write(p, 40 * MIB, 1);
	nothing_left(c, 1);
	SAME(counts_as_used(), 40 * MIB);
	/* FAKE_CUDA_MEMORY is 64 MiB: this is more than counts as free. */
	OK(cu.cuMemCreate(&h, 48 * MIB, &prop, 0));
	SAME(counts_as_used(), 64 * MIB);
	OK(cu.cuMemRelease(h));
	SAME(invoker_move(c, GW_PREFETCH, 2).number[STILL_RESIDENT], 40 * MIB);
	pattern_check(p, 40 * MIB, 1);
}

enum { BLOCKS_MAX = 6, THREADS = 3 };
static CUdeviceptr block[BLOCKS_MAX];
static size_t bytes[BLOCKS_MAX];

struct toucher {
	pthread_t thread;
	unsigned seed;
};

/* A run's work: kernels on random ranges, on a stream of its own. */
static void *touch_some(void *arg)
{
	struct toucher *t = arg;
	CUcontext ctx;
	CUstream s;

	OK(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cu.cuCtxSetCurrent(ctx));
	OK(cu.cuStreamCreate(&s, 0));
	void *f = kernel("touch");
	for (int i = 0; i < 8; i++) {
		unsigned b = rand_r(&t->seed) % BLOCKS_MAX;
		uint64_t from = (uint64_t)rand_r(&t->seed) % bytes[b];
		uint64_t n = (uint64_t)rand_r(&t->seed) % (bytes[b] - from) / 16 + 1;
		touch(f, s, block[b] + from, n);
	}
	OK(cu.cuStreamDestroy_v2(s));
	return NULL;
}

static void run_at_random(int c, unsigned *seed)
{
	struct toucher t[THREADS];

	run_begins(c);
	for (int i = 0; i < THREADS; i++) {
		t[i].seed = (unsigned)rand_r(seed);
		SAME(pthread_create(&t[i].thread, NULL, touch_some, &t[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i].thread, NULL);
	run_ends(c);
}

/* Random runs, and after every order the report is true. */
static void truth(int argc, char **argv)
{
	int rounds = argc ? atoi(argv[0]) : 30, c = begin();
	unsigned seed = 1;
	uint64_t epoch = 1, all = 0;

	for (int i = 0; i < BLOCKS_MAX; i++) {
		bytes[i] = (1u + rand_r(&seed) % (i == 0 ? 512 : 64)) * PAGE;
		OK(cu.cuMemAlloc_v2(&block[i], bytes[i]));
		all += bytes[i];
	}
	for (int round = 0; round < rounds; round++) {
		run_at_random(c, &seed);
		struct shim_frame s = invoker_report(c);
		CHECK(s.number[RESIDENT] >= in_use() && s.number[RESIDENT] <= all);
		nothing_left(c, epoch++);
		for (int order = 0; order < 4; order++) {
			uint64_t budget = (1u + rand_r(&seed) % 256) * PAGE;
			unsigned way = rand_r(&seed) % 2 ? GW_EVICT : GW_PREFETCH;
			invoker_send(c, way, epoch++, rand_r(&seed) % 4 ? budget : 0, 0);
			s = invoker_receive(c, GW_DONE);
			CHECK(s.word[STATUS] == GW_OK || s.word[STATUS] == GW_PARTIAL);
			SAME(s.number[STILL_RESIDENT], in_use());
			SAME(invoker_report(c).number[RESIDENT], in_use());
		}
	}
}

/* The program's own prefetches are followed, by every way to order them. */
static void own_prefetch(int argc, char **argv)
{
	struct gw_location host = {LOCATION_HOST, 0}, device = {LOCATION_DEVICE, 0};
	size_t part = 2 * MIB, first = 0;
	CUdeviceptr p, at;
	int c = begin();

	OK(cu.cuMemAllocManaged(&p, 8 * MIB, ATTACH_GLOBAL));
	OK(cu.cuMemPrefetchAsync(p, 8 * MIB, 0, NULL));
	SAME(invoker_report(c).number[RESIDENT], 8 * MIB);
	/* Memory that the program sends away itself leaves at an unknown time. */
	OK(cu.cuMemPrefetchAsync_v2(p + 2 * MIB, 6 * MIB, host, 0, NULL));
	SAME(invoker_report(c).number[RESIDENT], 8 * MIB);
	nothing_left(c, 1);
	at = p + 4 * MIB;
	OK(cu.cuMemPrefetchAsync_v2(at, part, device, 0, NULL));
	CHECK(invoker_report(c).number[RESIDENT] >= in_use());
	nothing_left(c, 2);
	OK(cu.cuMemPrefetchBatchAsync(&at, &part, 1, &device, &first, 1, 0, NULL));
	CHECK(invoker_report(c).number[RESIDENT] >= in_use());
	SAME(in_use(), 2 * MIB);
	nothing_left(c, 3);
	SAME(invoker_move(c, GW_PREFETCH, 4).number[MOVED], 8 * MIB);
	SAME(in_use(), 8 * MIB);
}

/* The fake driver refuses the same calls as a real one. */
static void strict(int argc, char **argv)
{
	struct gw_location nowhere = {9, 0}, second = {LOCATION_DEVICE, 1},
			   device = {LOCATION_DEVICE, 0};
	CUcontext own, primary;
	CUdeviceptr p;
	CUstream s;

	begin();
	OK(cu.cuCtxGetCurrent(&primary));
	OK(cu.cuMemAllocManaged(&p, MIB, ATTACH_GLOBAL));
	SAME(cu.cuMemPrefetchAsync(p, MIB, 1, NULL), 101);
	SAME(cu.cuMemPrefetchAsync(p, MIB, -2, NULL), 101);
	SAME(cu.cuMemPrefetchAsync(p, 2 * MIB, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	SAME(cu.cuMemPrefetchAsync_v2(p, MIB, nowhere, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	SAME(cu.cuMemPrefetchAsync_v2(p, MIB, second, 0, NULL), 101);
	SAME(cu.cuMemPrefetchAsync_v2(p, MIB, device, 1, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cu.cuCtxCreate_v2(&own, 0, 0));
	OK(cu.cuStreamCreate(&s, 0));
	OK(cu.cuCtxSetCurrent(primary));
	SAME(cu.cuMemPrefetchAsync(p, MIB, 0, s), 400);
	OK(cu.cuCtxDestroy_v2(own));
	SAME(cu.cuMemPrefetchAsync(p, MIB, 0, s), 400);
	OK(cu.cuCtxSetCurrent(NULL));
	OK(cu.cuCtxSetCurrent(NULL));
	SAME(cu.cuMemPrefetchAsync(p, MIB, 0, NULL), 201);
	SAME(cu.cuMemAlloc_v2(&p, MIB), 201);
	/* A child has nothing of its parent's, and cannot begin anew. */
	int status = 1;
	pid_t pid = fork();
	if (pid == 0)
		_exit(cu.cuInit(0) == 3 && cu.cuMemAlloc_v2(&p, MIB) == 3 ? 0 : 1);
	SAME(waitpid(pid, &status, 0), pid);
	SAME(status, 0);
}

static long long moved_out_ns(int c, uint64_t epoch)
{
	long long before = link_of(0).moved_ns;

	SAME(invoker_move(c, GW_EVICT, epoch).word[STATUS], GW_OK);
	return link_of(0).moved_ns - before;
}

/* The fake's way out has a speed of its own, and is slower for pages that the host has not
 * had before: 8, 4 and 2 MiB in a tenth of a second. Discarded memory loses its contents. */
static void speeds(int argc, char **argv)
{
	enum { TENTH = 100000000, ROUNDING = 1000 };
	struct gw_location device = {LOCATION_DEVICE, 0};
	size_t all = 8 * MIB, first = 0;
	CUdeviceptr p;
	unsigned char back[2] = {0};
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, all));
	pattern_write(p, all, 1);
	CHECK(llabs(moved_out_ns(c, 1) - 4ll * TENTH) < ROUNDING);
	SAME(invoker_move(c, GW_PREFETCH, 2).word[STATUS], GW_OK);
	CHECK(llabs(link_of(1).moved_ns - TENTH) < ROUNDING);
	CHECK(llabs(moved_out_ns(c, 3) - 2ll * TENTH) < ROUNDING);
	pattern_check(p, all, 1);
	OK(cu.cuMemDiscardAndPrefetchBatchAsync(&p, &all, 1, &device, &first, 1, 0, NULL));
	OK(cu.cuMemcpyDtoH_v2(back, p, sizeof back));
	SAME(back[0], 0xa5);
	OK(cu.cuMemsetD8_v2(p, 1, all));
	SAME(cu.cuMemDiscardBatchAsync(&p, &all, 0, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cu.cuMemDiscardBatchAsync(&p, &all, 1, 0, NULL));
	OK(cu.cuMemcpyDtoH_v2(back, p, sizeof back));
	SAME(back[0], 0xa5);
	SAME(back[1], 0xa5);
}

/* A captured launch runs when its graph is launched, on the memory at that moment, also
 * after the memory was moved out and in. */
static void graph_kernels(int argc, char **argv)
{
	uint64_t words = MIB / 4;
	uint32_t a = 3, b = 5, back = 0;
	void *module, *pass, *graph, *exec, *params[] = {NULL, &words, &a, &b};
	CUdeviceptr p;
	CUstream s;
	int c = begin();

	OK(cu.cuModuleLoadData(&module, "by name"));
	OK(cu.cuModuleGetFunction(&pass, module, "pass"));
	OK(cu.cuMemAlloc_v2(&p, MIB));
	OK(cu.cuMemsetD8_v2(p, 0, MIB));
	params[0] = &p;
	OK(cu.cuStreamCreate(&s, 1));
	OK(cu.cuStreamBeginCapture_v2(s, 0));
	OK(cu.cuLaunchKernel(pass, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
	OK(cu.cuStreamEndCapture(s, &graph));
	b = 7; /* the graph has the old one */
	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cu.cuMemcpyDtoH_v2(&back, p, sizeof back));
	SAME(back, 0);
	OK(cu.cuGraphLaunch(exec, s));
	SAME(invoker_move(c, GW_EVICT, 1).word[STATUS], GW_OK);
	OK(cu.cuGraphLaunch(exec, s));
	SAME(invoker_move(c, GW_EVICT, 2).word[STATUS], GW_OK);
	SAME(invoker_move(c, GW_PREFETCH, 3).word[STATUS], GW_OK);
	OK(cu.cuMemcpyDtoH_v2(&back, p + MIB - 4, sizeof back));
	SAME(back, 3 * 5 + 5);
	OK(cu.cuGraphExecDestroy(exec));
}

/* A process that takes plain memory on command, and answers when it has. */
struct allocator {
	pid_t pid;
	int to, from;
};

static struct allocator start_allocator(size_t n)
{
	struct gw_memprop prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
	int go[2], ready[2];
	CUmemHandle h;
	char c = 0;

	SAME(pipe(go), 0);
	SAME(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		SAME(read(go[0], &c, 1), 1);
		cuda_open("dlsym");
		OK(cu.cuMemCreate(&h, n, &prop, 0));
		SAME(write(ready[1], &c, 1), 1);
		pause();
	}
	return (struct allocator){pid, go[1], ready[0]};
}

static void allocate(struct allocator t)
{
	char c = 0;

	SAME(write(t.to, &c, 1), 1);
	SAME(read(t.from, &c, 1), 1);
}

static void end(struct allocator t)
{
	kill(t.pid, SIGKILL);
	SAME(waitpid(t.pid, NULL, 0), t.pid);
}

/* Processes of a device share its memory, and the memory of a killed process is free.
 * FAKE_CUDA_STATE, FAKE_CUDA_MEMORY of 64 MiB. */
static void neighbours(int argc, char **argv)
{
	struct gw_memprop prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
	CUmemHandle h;
	CUdeviceptr p;

	invoker_listen();
	struct allocator first = start_allocator(40 * MIB);
	struct allocator second = start_allocator(24 * MIB);
	struct allocator third = start_allocator(56 * MIB);
	allocate(first);
	cuda_open("dlsym");
	SAME(counts_as_used(), 40 * MIB);
	SAME(cu.cuMemCreate(&h, 32 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuMemAlloc_v2(&p, 24 * MIB));
	pattern_write(p, 24 * MIB, 1);
	/* Another process can take emptied memory. */
	OK(cu.cuMemPrefetchAsync(p, 24 * MIB, CPU_DEVICE, NULL));
	SAME(counts_as_used(), 64 * MIB);
	allocate(second);
	SAME(counts_as_used(), 64 * MIB);
	SAME(cu.cuMemPrefetchAsync(p, 24 * MIB, 0, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	end(first);
	SAME(counts_as_used(), 24 * MIB);
	SAME(in_use(), 0);
	pattern_check(p, 24 * MIB, 1);
	SAME(counts_as_used(), 48 * MIB);
	end(second);
	SAME(counts_as_used(), 24 * MIB);
	/* Managed memory gives way to another process, whatever its own is doing. */
	allocate(third);
	SAME(counts_as_used(), 64 * MIB);
	SAME(in_use(), 8 * MIB);
	end(third);
	pattern_check(p, 24 * MIB, 1);
	SAME(in_use(), 24 * MIB);
}

/* With memory that stays, no more is shown as free than the device has. FAKE_CUDA_STATE,
 * FAKE_CUDA_MEMORY of 64 MiB, GPUWHISK_SHIM_LIMIT of 60 MiB, count. */
static void free_there(int argc, char **argv)
{
	size_t avail, total;
	CUdeviceptr p;

	struct allocator other = start_allocator(24 * MIB);
	allocate(other);
	cuda_open("dlsym");
	OK(cu.cuMemGetInfo_v2(&avail, &total));
	SAME(total, 60 * MIB);
	SAME(avail, 40 * MIB);
	OK(cu.cuMemAlloc_v2(&p, avail));
	OK(cu.cuMemGetInfo_v2(&avail, NULL));
	SAME(avail, 0);
	end(other);
	OK(cu.cuMemGetInfo_v2(&avail, NULL));
	SAME(avail, 20 * MIB);
}

/* The same where another has moved out, and its places are shown as used until asked for. */
static void free_when_asked(int argc, char **argv)
{
	char c = 0;
	int go[2], ready[2];
	size_t avail, total;

	SAME(pipe(go), 0);
	SAME(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		CUdeviceptr p;
		cuda_open("dlsym");
		OK(cu.cuMemAllocManaged(&p, 48 * MIB, ATTACH_GLOBAL));
		OK(cu.cuMemPrefetchAsync(p, 48 * MIB, 0, NULL));
		OK(cu.cuMemPrefetchAsync(p, 48 * MIB, CPU_DEVICE, NULL));
		SAME(write(ready[1], &c, 1), 1);
		pause();
	}
	SAME(read(ready[0], &c, 1), 1);
	cuda_open("dlsym");
	OK(cu.cuMemGetInfo_v2(&avail, &total));
	SAME(avail, 60 * MIB);
	SAME(kill(pid, SIGKILL), 0);
	SAME(waitpid(pid, NULL, 0), pid);
}

const struct test_case cases_truth[] = {
	{"grows", grows}, {"tail", tail}, {"kept", kept}, {"truth", truth},
	{"own_prefetch", own_prefetch}, {"strict", strict}, {"speeds", speeds},
	{"graph_kernels", graph_kernels}, {"neighbours", neighbours},
	{"free_there", free_there}, {"free_when_asked", free_when_asked},
	{NULL, NULL},
};
