/*
 * Contexts that end, and captures.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "prog.h"

enum { MIB = 1 << 20 };

static int begin(void)
{
	invoker_listen();
	cuda_open("dlsym");
	return invoker_accept();
}

/* A context takes its memory along. */
static void reset(int argc, char **argv)
{
	CUcontext primary, own;
	CUdeviceptr p, q;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 4 * MIB));
	SAME(invoker_move(c, GW_EVICT, 1).word[STATUS], GW_OK);
	OK(cu.cuCtxCreate_v4(&own, NULL, 0, 0));
	OK(cu.cuMemAlloc_v2(&q, 2 * MIB));
	SAME(invoker_report(c).word[0], 2);
	SAME(invoker_report(c).number[ALLOCATED], 6 * MIB);
	OK(cu.cuCtxDestroy_v2(own));
	SAME(invoker_report(c).word[0], 1);
	SAME(invoker_report(c).number[ALLOCATED], 4 * MIB);
	OK(cu.cuDevicePrimaryCtxReset_v2(0));
	SAME(invoker_report(c).number[ALLOCATED], 0);
	SAME(invoker_report(c).word[0], 0);
	SAME(invoker_move(c, GW_PREFETCH, 2).word[STATUS], GW_OK);
	OK(cu.cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cu.cuCtxSetCurrent(primary));
	OK(cu.cuMemAlloc_v2(&p, MIB));
	pattern_write(p, MIB, 1);
	SAME(invoker_move(c, GW_EVICT, 3).number[MOVED], MIB);
	pattern_check(p, MIB, 1);
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
	SAME(invoker_report(c).number[ALLOCATED], 0);
}

/* Memory allocated below a green context belongs to the primary context and outlives the
 * green one. */
static void green(int argc, char **argv)
{
	CUcontext primary, part;
	CUdeviceptr p, q;
	void *h;
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 64 * MIB, 0);
	invoker_report(c);
	OK(cu.cuCtxGetCurrent(&primary));
	for (int i = 0; i < 2; i++) {
		OK(cu.cuGreenCtxCreate(&h, NULL, 0, 1));
		OK(cu.cuCtxFromGreenCtx(&part, h));
		OK(cu.cuCtxSetCurrent(part));
		OK(cu.cuMemAlloc_v2(i ? &q : &p, 24 * MIB));
		pattern_write(i ? q : p, 24 * MIB, 1);
		SAME(invoker_report(c).word[0], 1);
		SAME(invoker_move(c, GW_EVICT, 2 * i + 1).word[STATUS], GW_OK);
		SAME(in_use(), 0);
		OK(cu.cuCtxSetCurrent(primary));
		OK(cu.cuGreenCtxDestroy(h));
		SAME(invoker_report(c).number[ALLOCATED], (i + 1) * 24 * MIB);
		pattern_check(p, 24 * MIB, 1);
		SAME(invoker_move(c, GW_EVICT, 2 * i + 2).word[STATUS], GW_OK);
		SAME(in_use(), 0);
	}
	SAME(cu.cuMemAlloc_v2(&p, 24 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	/* The last user of the primary context is a green one. */
	OK(cu.cuGreenCtxCreate(&h, NULL, 0, 1));
	OK(cu.cuCtxFromGreenCtx(&part, h));
	OK(cu.cuCtxSetCurrent(part));
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
	SAME(invoker_report(c).number[ALLOCATED], 48 * MIB);
	OK(cu.cuGreenCtxDestroy(h));
	SAME(invoker_report(c).number[ALLOCATED], 0);
	SAME(invoker_report(c).word[0], 0);
}

/* The CUDA runtime gets the primary context from an export table and may end it through
 * one. The shim finds the lost memory by its own means. */
static void reset_table(int argc, char **argv)
{
	static const unsigned char id[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
					     0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
	bool unseen = argc > 0;
	const void *table;
	CUcontext ctx, own;
	CUdeviceptr p, q;
	int c = begin();

	CUresult (*reset_unseen)(int) = (CUresult(*)(int))dlsym(
		dlopen("libcuda.so.1", RTLD_NOW), "fake_reset_unseen");
	OK(cu.cuDevicePrimaryCtxReset_v2(0)); /* ends the context that begin made */
	invoker_send(c, GW_LIMIT, 0, 64 * MIB, 0);
	OK(cu.cuGetExportTable(&table, id));
	CUresult (*primary)(CUcontext *, CUdevice) =
		((CUresult(*const *)(CUcontext *, CUdevice))table)[2];
	OK(cu.cuCtxCreate_v2(&own, 0, 0));
	OK(cu.cuMemAlloc_v2(&q, MIB));
	OK(primary(&ctx, 0));
	OK(cu.cuCtxSetCurrent(ctx));
	OK(cu.cuMemAlloc_v2(&p, 40 * MIB));
	SAME(invoker_report(c).number[ALLOCATED], 41 * MIB);
	if (unseen)
		OK(reset_unseen(0));
	else
		OK(cu.cuDevicePrimaryCtxReset_v2(0));
	if (argc > 1) { /* an order, a report or the limit finds it */
		SAME(invoker_move(c, GW_EVICT, 1).word[STATUS], GW_OK);
		SAME(invoker_report(c).number[ALLOCATED], MIB);
		SAME(invoker_report(c).word[0], 1);
	}
	OK(primary(&ctx, 0));
	OK(cu.cuCtxSetCurrent(ctx));
	OK(cu.cuMemAlloc_v2(&p, 40 * MIB));
	SAME(invoker_report(c).number[ALLOCATED], 41 * MIB);
	SAME(invoker_move(c, GW_EVICT, 2).word[STATUS], GW_OK);
}

static void *order_moves(void *arg)
{
	int c = *(int *)arg;

	for (uint64_t i = 1; i <= 40; i++)
		SAME(invoker_move(c, i % 2 ? GW_EVICT : GW_PREFETCH, i).word[STATUS], GW_OK);
	return NULL;
}

/* Contexts that die while their memory moves. FAKE_CUDA_BANDWIDTH. */
static void reset_race(int argc, char **argv)
{
	int c = begin();
	pthread_t t;

	SAME(pthread_create(&t, NULL, order_moves, &c), 0);
	for (int i = 0; i < 60; i++) {
		CUcontext ctx;
		CUdeviceptr p;
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		OK(cu.cuMemAlloc_v2(&p, 4 * MIB));
		OK(cu.cuMemsetD8_v2(p, 1, 4 * MIB));
		OK(cu.cuCtxDestroy_v2(ctx));
	}
	pthread_join(t, NULL);
	SAME(invoker_report(c).number[ALLOCATED], 0);
}

/* A capture in global mode is not spoilt by the agent. */
static void capture(int argc, char **argv)
{
	CUstream s;
	CUdeviceptr p;
	void *graph;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 4 * MIB));
	pattern_write(p, 4 * MIB, 1);
	OK(cu.cuStreamCreate(&s, 0));
	OK(cu.cuStreamBeginCapture_v2(s, 0));
	SAME(invoker_move(c, GW_EVICT, 1).number[MOVED], 4 * MIB);
	SAME(invoker_move(c, GW_PREFETCH, 2).number[MOVED], 4 * MIB);
	OK(cu.cuStreamEndCapture(s, &graph));
	/* The test would notice: a call of this thread does spoil it. */
	OK(cu.cuStreamBeginCapture_v2(s, 0));
	SAME(cu.cuMemAlloc_v2(&p, MIB), 900);
	SAME(cu.cuStreamEndCapture(s, &graph), 901);
}

const struct test_case cases_context[] = {
	{"reset", reset}, {"green", green}, {"reset_table", reset_table},
	{"reset_race", reset_race}, {"capture", capture}, {NULL, NULL},
};
