/*
 * A driver whose calls fail: the program gets the driver's own code, orders are answered,
 * and the reports about memory are true.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prog.h"

enum { MIB = 1 << 20, BLOCKS_MAX = 4, LOST_DEVICE = 46, TRIES = 6 };

/* One way to fail: the nth call, every one for 0. */
struct fault {
	const char *call;
	int nth, code;
};

static struct allocated {
	CUdeviceptr at[BLOCKS_MAX], pooled;
	uint64_t bytes;
} allocated;

/* A call of the program's own fails with the driver's code or not at all. */
static bool went(CUresult r, const struct fault *f)
{
	if (r != CUDA_SUCCESS)
		SAME(r, f->code);
	return r == CUDA_SUCCESS;
}

static void allocate(const struct fault *f)
{
	for (unsigned i = 0; i < BLOCKS_MAX; i++) {
		allocated.at[i] = 0;
		if (!went(cu.cuMemAlloc_v2(&allocated.at[i], MIB), f))
			continue;
		allocated.bytes += MIB;
		pattern_write(allocated.at[i], MIB, i);
	}
	if (went(cu.cuMemAllocAsync(&allocated.pooled, MIB, NULL), f))
		allocated.bytes += MIB;
	else
		allocated.pooled = 0;
}

/* An order is answered, and no byte is on the device without being reported. */
static unsigned move(int c, unsigned type, uint64_t epoch, const struct fault *f)
{
	struct shim_frame s = invoker_move(c, type, epoch);

	CHECK(s.word[STATUS] == GW_OK || s.word[STATUS] == GW_FAILED);
	if (s.word[STATUS] == GW_FAILED)
		CHECK(s.word[CODE] == (uint32_t)f->code);
	CHECK(s.number[STILL_RESIDENT] >= in_use());
	return s.word[STATUS];
}

static void check_contents(void)
{
	for (unsigned i = 0; i < BLOCKS_MAX; i++)
		if (allocated.at[i])
			pattern_check(allocated.at[i], MIB, i);
}

/* A fault that has passed leaves nothing behind: all goes out that is managed.
 * A program whose managed memory was refused goes on with plain memory. */
static void recover(int c, uint64_t epoch, const struct fault *f)
{
	uint64_t stays = allocated.pooled ? MIB : 0;
	int tries = 0;

	if (strcmp(f->call, "cuMemAllocManaged") == 0)
		stays = invoker_report(c).number[FIXED];

	while (move(c, GW_EVICT, epoch++, f) != GW_OK)
		CHECK(++tries < TRIES);
	SAME(in_use(), stays);
	SAME(invoker_report(c).number[RESIDENT], stays);
}

static void give_back(const struct fault *f)
{
	for (int i = 0; i < BLOCKS_MAX; i++)
		for (int t = 0; allocated.at[i] && t < TRIES; t++)
			if (went(cu.cuMemFree_v2(allocated.at[i]), f)) {
				allocated.at[i] = 0;
				allocated.bytes -= MIB;
			}
	if (allocated.pooled && went(cu.cuMemFreeAsync(allocated.pooled, NULL), f)) {
		allocated.pooled = 0;
		allocated.bytes -= MIB;
	}
}

static void live_through(const struct fault *f)
{
	uint64_t epoch = 1;

	invoker_listen();
	cuda_open("dlsym");
	int c = invoker_accept();
	allocate(f);
	SAME(invoker_report(c).number[ALLOCATED], allocated.bytes);
	for (; epoch <= 4; epoch++) {
		move(c, epoch % 2 ? GW_EVICT : GW_PREFETCH, epoch, f);
		check_contents();
	}
	if (f->nth)
		recover(c, epoch, f);
	check_contents();
	give_back(f);
	move(c, GW_EVICT, 100, f); /* has the pools give back */
	uint64_t reported = invoker_report(c).number[ALLOCATED];
	/* Memory that a pool keeps for later is reported too, if the driver has it. */
	CHECK(reported == allocated.bytes || (f->nth == 0 && reported == allocated.bytes + MIB));
	if (f->nth && strcmp(f->call, "cuMemFreeAsync"))
		SAME(allocated.bytes, 0);
}

/* Each in a process of its own; true if it ended well. */
static bool survives(const struct fault *f)
{
	char rule[80];
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		snprintf(rule, sizeof rule, "%s:%d:%d", f->call, f->nth, f->code);
		setenv("FAKE_CUDA_FAIL", rule, 1);
		live_through(f);
		exit(0);
	}
	waitpid(pid, &status, 0);
	if (status)
		fprintf(stderr, "%s fails by %d at call %d: status %x\n", f->call, f->code,
			f->nth, (unsigned)status);
	return status == 0;
}

/* Out of memory, context destroyed, device lost, invalid value: in every call about
 * movable memory, up to the nth, with the given number of these errors; or in one call,
 * by its place in the list, which bounds the work if each process takes long. */
static void failing(int argc, char **argv)
{
	static const char *const calls[] = {
		"cuMemAllocManaged", "cuMemFree_v2", "cuMemPrefetchAsync_v2",
		"cuStreamSynchronize", "cuStreamCreateWithPriority", "cuCtxPushCurrent_v2",
		"cuMemGetInfo_v2", "cuCtxGetCurrent", "cuCtxGetDevice", "cuMemAllocAsync",
		"cuMemFreeAsync", "cuMemPoolTrimTo", "cuMemPoolGetAttribute",
	};
	static const int codes[] = {
		CUDA_ERROR_OUT_OF_MEMORY, 709, LOST_DEVICE, CUDA_ERROR_INVALID_VALUE,
	};
	int most = argc > 0 ? atoi(argv[0]) : 3, failed = 0;
	size_t sorts = argc > 1 ? (size_t)atoi(argv[1]) : sizeof codes / sizeof *codes;

	size_t only = argc > 2 ? (size_t)atoi(argv[2]) : 0, last = sizeof calls / sizeof *calls;

	CHECK(only < last);
	if (argc > 2)
		last = only + 1;
	for (size_t i = only; i < last; i++)
		for (int nth = 0; nth <= most; nth++)
			for (size_t k = 0; k < sorts; k++)
				failed += !survives(&(struct fault){calls[i], nth, codes[k]});
	SAME(failed, 0);
}

static CUcontext shared;
static atomic_bool moved_enough;

static void *allocate_and_free(void *arg)
{
	CUdeviceptr at[32] = {0};
	unsigned seed = 1;

	OK(cu.cuCtxSetCurrent(shared));
	while (!moved_enough) {
		CUdeviceptr *p = &at[rand_r(&seed) % 32];
		if (*p) {
			OK(cu.cuMemFree_v2(*p));
			*p = 0;
		} else {
			OK(cu.cuMemAlloc_v2(p, 2 * MIB));
			OK(cu.cuMemsetD8_v2(*p, 1, 2 * MIB));
		}
	}
	return NULL;
}

/* An order does not fail because the program frees memory meanwhile. */
static void frees_meanwhile(int argc, char **argv)
{
	pthread_t t;

	invoker_listen();
	cuda_open("dlsym");
	int c = invoker_accept();
	OK(cu.cuCtxGetCurrent(&shared));
	SAME(pthread_create(&t, NULL, allocate_and_free, NULL), 0);
	for (uint64_t i = 1; i <= 300; i++)
		SAME(invoker_move(c, i % 2 ? GW_EVICT : GW_PREFETCH, i).word[CODE], 0);
	moved_enough = true;
	pthread_join(t, NULL);
}

/* Two evictions and a prefetch at once with a run: each order is answered
 * once, the run finds its memory. FAKE_CUDA_BANDWIDTH makes the moves last. */
static void race(int argc, char **argv)
{
	CUdeviceptr p;
	struct shim_frame s;

	invoker_listen();
	cuda_open("dlsym");
	int c = invoker_accept();
	OK(cu.cuMemAlloc_v2(&p, 16 * MIB));
	pattern_write(p, 16 * MIB, 1);
	for (uint64_t round = 0, epoch = 1; round < 10; round++, epoch += 3) {
		invoker_send(c, GW_EVICT, epoch, 0, 0);
		invoker_send(c, GW_EVICT, epoch + 1, 0, 0);
		if (round % 2)
			invoker_send(c, GW_GATE, 0, 1, 0);
		invoker_send(c, GW_PREFETCH, epoch + 2, 0, 0);
		if (round % 2 == 0)
			invoker_send(c, GW_GATE, 0, 1, 0);
		pattern_check(p, 16 * MIB, (unsigned)round + 1);
		pattern_write(p, 16 * MIB, (unsigned)round + 2);
		invoker_send(c, GW_GATE, 0, 0, 0);
		for (uint64_t e = epoch; e < epoch + 3; e++) {
			s = invoker_receive(c, GW_DONE);
			SAME(s.epoch, e);
			CHECK(s.word[STATUS] == GW_OK || s.word[STATUS] == GW_CANCELLED);
		}
	}
	SAME(invoker_move(c, GW_EVICT, 1000).word[STATUS], GW_OK);
	SAME(in_use(), 0);
	SAME(invoker_report(c).number[RESIDENT], 0);
	pattern_check(p, 16 * MIB, 11);
}

const struct test_case cases_fault[] = {
	{"failing", failing}, {"frees_meanwhile", frees_meanwhile}, {"race", race}, {NULL, NULL},
};
