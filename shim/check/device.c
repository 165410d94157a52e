#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels.h"

char trouble[512];

/* Entry points that the fake driver or an old driver may lack. */
typedef CUresult fn_load(void **, const void *, unsigned, int *, void **);
typedef CUresult fn_bus(char *, int, CUdevice);

static void *driver;
static struct {
	void *pattern, *pass, *compare, *gemm;
} kernel;
static CUdeviceptr counter;
static uint64_t unused; /* bytes of blocks that were never written */

enum {
	THREADS = 256,
	GROUPS = 1024,
	/* Bytes that stay free beside a block, for the driver and its kernels. */
	MARGIN = 256 << 20,
	ATTRIBUTE_PROCESSORS = 16,
	ATTRIBUTE_MAJOR = 75,
	ATTRIBUTE_MINOR = 76,
	ATTRIBUTE_MANAGED = 83,
	ATTRIBUTE_CONCURRENT_MANAGED = 89,
	JIT_ERROR_LOG = 5,
	JIT_ERROR_LOG_SIZE = 6,
};

int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *entry(const char *name) { return driver ? dlsym(driver, name) : NULL; }

bool fails(const char *what, CUresult r)
{
	fn_cuGetErrorName *name;
	const char *word = NULL;

	if (r == CUDA_SUCCESS)
		return false;
	name = (fn_cuGetErrorName *)entry("cuGetErrorName");
	if (name)
		name(r, &word);
	snprintf(trouble, sizeof trouble, "%s: %s (%d)", what, word ? word : "error", r);
	return true;
}

/* Call an entry point by its exported name. A missing entry point is an error, too. Each
 * one is looked up once, as programs do, because launches are timed. */
#define CALL(export, ...)                                                     \
	do {                                                                  \
		static fn_##export *f_;                                       \
		if (!f_)                                                      \
			f_ = (fn_##export *)entry(#export);                   \
		if (fails(#export, f_ ? f_(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND)) \
			return false;                                         \
	} while (0)

static bool load(void **module)
{
	static char log[4096];
	int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE};
	void *values[] = {log, (void *)(uintptr_t)sizeof log};
	fn_load *with_log = (fn_load *)entry("cuModuleLoadDataEx");

	if (!with_log) {
		CALL(cuModuleLoadData, module, kernels);
		return true;
	}
	if (!fails("cuModuleLoadDataEx", with_log(module, kernels, 2, options, values)))
		return true;
	size_t n = strlen(trouble);
	snprintf(trouble + n, sizeof trouble - n, ": %.300s", log);
	return false;
}

bool device_open(void)
{
	CUcontext ctx;
	void *module;

	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver) {
		snprintf(trouble, sizeof trouble, "%s", dlerror());
		return false;
	}
	CALL(cuInit, 0);
	CALL(cuDevicePrimaryCtxRetain, &ctx, 0);
	CALL(cuCtxSetCurrent, ctx);
	if (!load(&module))
		return false;
	CALL(cuModuleGetFunction, &kernel.pattern, module, "pattern");
	CALL(cuModuleGetFunction, &kernel.pass, module, "pass");
	CALL(cuModuleGetFunction, &kernel.compare, module, "compare");
	CALL(cuModuleGetFunction, &kernel.gemm, module, "gemm");
	CALL(cuMemAlloc_v2, &counter, sizeof(uint64_t));
	return true;
}

static bool attribute(int *value, int which)
{
	CALL(cuDeviceGetAttribute, value, which, 0);
	return true;
}

bool device_memory(size_t *avail, size_t *total)
{
	CALL(cuMemGetInfo_v2, avail, total);
	return true;
}

bool device_about(struct about *a)
{
	fn_bus *bus = (fn_bus *)entry("cuDeviceGetPCIBusId");

	memset(a, 0, sizeof *a);
	CALL(cuDeviceGetName, a->name, sizeof a->name - 1, 0);
	CALL(cuDriverGetVersion, &a->driver);
	if (bus && bus(a->bus, sizeof a->bus - 1, 0) != CUDA_SUCCESS)
		a->bus[0] = 0;
	return attribute(&a->major, ATTRIBUTE_MAJOR) && attribute(&a->minor, ATTRIBUTE_MINOR) &&
	       attribute(&a->processors, ATTRIBUTE_PROCESSORS) &&
	       attribute(&a->managed, ATTRIBUTE_MANAGED) &&
	       attribute(&a->concurrent, ATTRIBUTE_CONCURRENT_MANAGED) &&
	       device_memory(&a->avail, &a->total);
}

/* Managed memory takes space on the device only when it is written. Blocks that were
 * allocated and not written yet count as taken. */
static bool fits(uint64_t bytes)
{
	size_t avail, total;

	if (!device_memory(&avail, &total))
		return false;
	if (bytes + unused + MARGIN <= avail)
		return true;
	snprintf(trouble, sizeof trouble,
		 "not enough free device memory: %llu bytes wanted, %llu free, %llu of them reserved",
		 (unsigned long long)bytes, (unsigned long long)avail, (unsigned long long)unused);
	return false;
}

bool block_plain(struct block *out, uint64_t bytes)
{
	CALL(cuMemAlloc_v2, &out->at, bytes);
	*out = (struct block){.at = out->at, .bytes = bytes, .words = bytes / 4};
	return true;
}

bool block_make(struct block *out, uint64_t bytes)
{
	bytes &= ~(uint64_t)3;
	if (!fits(bytes) || !block_plain(out, bytes))
		return false;
	unused += bytes;
	return true;
}

static void written(const struct block *b)
{
	if (!b->m && unused >= b->bytes)
		unused -= b->bytes;
}

bool block_free(struct block *b)
{
	written(b);
	b->m = 1;
	CALL(cuMemFree_v2, b->at);
	b->at = 0;
	return true;
}

bool block_taken(uint64_t bytes)
{
	struct block b = {0};

	CALL(cuMemAlloc_v2, &b.at, bytes);
	CALL(cuMemFree_v2, b.at);
	return true;
}

/* Launches go to this stream. NULL is the default stream. */
static CUstream stream;

static bool launch(void *f, unsigned groups, unsigned side, void **args)
{
	CALL(cuLaunchKernel, f, groups, side > 1 ? groups : 1, 1, side > 1 ? side : THREADS,
	     side, 1, 0, stream, args, NULL);
	return true;
}

static bool finish(void)
{
	CALL(cuCtxSynchronize);
	return true;
}

bool block_fill(struct block *b, uint32_t seed)
{
	written(b);
	b->m = 2654435761u; /* odd, and passes keep it odd */
	b->b = seed;
	void *args[] = {&b->at, &b->words, &b->m, &b->b};
	return launch(kernel.pattern, GROUPS, 1, args) && finish();
}

static uint32_t a = 1664525u, c = 1013904223u; /* a pass: word = word * a + c */

static bool launch_pass(struct block *b)
{
	void *args[] = {&b->at, &b->words, &a, &c};
	unsigned groups = (unsigned)(b->words / THREADS + 1);

	return launch(kernel.pass, groups < GROUPS ? groups : GROUPS, 1, args);
}

static void passed(struct block *b)
{
	b->m *= a;
	b->b = b->b * a + c;
}

bool block_work(struct block *b, unsigned passes)
{
	for (unsigned i = 0; i < passes; i++) {
		if (!launch_pass(b))
			return false;
		passed(b);
	}
	return finish();
}

static bool capture(struct block *b, void **graph)
{
	enum { THREAD_LOCAL = 1 };

	CALL(cuStreamBeginCapture_v2, stream, THREAD_LOCAL);
	if (!launch_pass(b))
		return false;
	CALL(cuStreamEndCapture, stream, graph);
	return true;
}

bool block_graph(struct block *b)
{
	enum { NON_BLOCKING = 1 };
	void *graph;

	/* The driver may load a kernel at its first launch, which breaks a capture. */
	if (!block_work(b, 1))
		return false;
	CALL(cuStreamCreate, &stream, NON_BLOCKING);
	bool ok = capture(b, &graph);
	stream = NULL;
	if (ok)
		CALL(cuGraphInstantiateWithFlags, &b->graph, graph, 0);
	return ok;
}

bool block_replay(struct block *b, unsigned times)
{
	if (!b->graph) {
		snprintf(trouble, sizeof trouble, "no graph of this block");
		return false;
	}
	while (times--) {
		CALL(cuGraphLaunch, b->graph, NULL);
		passed(b);
	}
	return finish();
}

bool block_check(struct block *b, uint64_t *mismatches)
{
	void *args[] = {&b->at, &b->words, &b->m, &b->b, &counter};

	CALL(cuMemsetD8_v2, counter, 0, sizeof(uint64_t));
	if (!launch(kernel.compare, GROUPS, 1, args) || !finish())
		return false;
	CALL(cuMemcpyDtoH_v2, mismatches, counter, sizeof *mismatches);
	return true;
}

bool gemm(unsigned n, unsigned times)
{
	static struct block m[3];
	static unsigned rows;
	void *args[] = {&m[0].at, &m[1].at, &m[2].at, &n};

	n -= n % 16;
	for (int i = 0; i < 3 && rows != n; i++) {
		if (m[i].at && !block_free(&m[i]))
			return false;
		if (!block_make(&m[i], (uint64_t)n * n * 4) || !block_fill(&m[i], 0))
			return false;
	}
	rows = n;
	while (times--)
		if (!launch(kernel.gemm, n / 16, 16, args))
			return false;
	return finish();
}

bool copy(uint64_t bytes, int64_t *in, int64_t *out)
{
	static struct block b;
	static void *pinned;

	if (b.bytes != (bytes & ~(uint64_t)3)) {
		if (!block_make(&b, bytes) || !block_fill(&b, 1))
			return false;
		CALL(cuMemHostAlloc, &pinned, bytes, 0);
		memset(pinned, 1, bytes);
	}
	int64_t began = now();
	CALL(cuMemcpyHtoD_v2, b.at, pinned, b.bytes);
	*in = now() - began;
	began = now();
	CALL(cuMemcpyDtoH_v2, pinned, b.at, b.bytes);
	*out = now() - began;
	return true;
}
