/*
 * Random allocations, frees, kernels, graphs, runs and orders, with any GPUWHISK_SHIM. After
 * each order the report is true, and no byte changes.
 */
#include <string.h>

#include "prog.h"

enum { MIB = 1 << 20, PAGE = 1 << 16, SLOTS = 12, GRANULE = 2 << 20 };

/* Memory is made by cuMemAlloc; by cuMemAllocAsync, which never moves; or by cuMemCreate, with
 * a mapping of all, or with two mappings of its halves and one of all elsewhere. */
enum kind { PLAIN, POOLED, WHOLE, HALVES, KINDS };

static struct slot {
	enum kind kind;
	CUdeviceptr at, also; /* at is 0: the slot is free */
	size_t bytes;
	CUmemHandle handle;
} slots[SLOTS];

static int c;
static unsigned seed = 1;
static uint64_t epoch = 1, pooled;
static bool vmm;
static void *adds_nothing; /* an executable graph with a kernel on the memory of slot 0 */
static CUdeviceptr of_graph;

static unsigned any(unsigned below) { return (unsigned)rand_r(&seed) % below; }

static void *kernel(const char *name)
{
	void *module, *f;

	OK(cu.cuModuleLoadData(&module, "fake"));
	OK(cu.cuModuleGetFunction(&f, module, name));
	return f;
}

static void map(CUdeviceptr at, size_t bytes, size_t from, CUmemHandle h)
{
	static const struct gw_access access = {{LOCATION_DEVICE, 0}, READ_WRITE};

	OK(cu.cuMemMap(at, bytes, from, h, 0));
	OK(cu.cuMemSetAccess(at, bytes, &access, 1));
}

static void make_own(struct slot *s)
{
	static const struct gw_memprop on_device = {.type = 1, .location = {LOCATION_DEVICE, 0}};

	s->bytes = (s->bytes + 2 * GRANULE - 1) / (2 * GRANULE) * 2 * GRANULE;
	OK(cu.cuMemCreate(&s->handle, s->bytes, &on_device, 0));
	OK(cu.cuMemAddressReserve(&s->at, s->bytes, 0, 0, 0));
	if (s->kind == WHOLE) {
		map(s->at, s->bytes, 0, s->handle);
		OK(cu.cuMemRelease(s->handle)); /* its mapping keeps it */
		return;
	}
	map(s->at, s->bytes / 2, s->bytes / 2, s->handle);
	map(s->at + s->bytes / 2, s->bytes / 2, 0, s->handle);
	OK(cu.cuMemAddressReserve(&s->also, s->bytes, 0, 0, 0));
	map(s->also, s->bytes, 0, s->handle);
}

static void make(struct slot *s, unsigned i)
{
	s->kind = (enum kind)any(vmm ? KINDS : WHOLE);
	s->bytes = 4 * (1 + (size_t)any(any(4) ? 16384 : MIB / 2));
	if (!vmm || s->kind == POOLED) /* which count by whole pages */
		s->bytes = (s->bytes + PAGE - 1) / PAGE * PAGE;
	if (s->kind == PLAIN)
		OK(cu.cuMemAlloc_v2(&s->at, s->bytes));
	else if (s->kind == POOLED)
		OK(cu.cuMemAllocAsync(&s->at, s->bytes, NULL));
	else
		make_own(s);
	pooled += s->kind == POOLED ? s->bytes : 0;
	pattern_write(s->at, s->bytes, i);
}

static void end(struct slot *s)
{
	if (s->kind == PLAIN) {
		OK(cu.cuMemFree_v2(s->at));
	} else if (s->kind == POOLED) {
		OK(cu.cuMemFreeAsync(s->at, NULL));
		pooled -= s->bytes;
	} else {
		OK(cu.cuMemUnmap(s->at, s->bytes));
		OK(cu.cuMemAddressFree(s->at, s->bytes));
	}
	if (s->kind == HALVES) {
		OK(cu.cuMemRelease(s->handle));
		OK(cu.cuMemUnmap(s->also, s->bytes));
		OK(cu.cuMemAddressFree(s->also, s->bytes));
	}
	s->at = 0;
}

static void check(const struct slot *s, unsigned i)
{
	unsigned char here, there;

	pattern_check(s->at, s->bytes, i);
	if (s->kind != HALVES)
		return;
	size_t at = any((unsigned)s->bytes / 2);
	OK(cu.cuMemcpyDtoH_v2(&here, s->at + at, 1));
	OK(cu.cuMemcpyDtoH_v2(&there, s->also + s->bytes / 2 + at, 1));
	SAME(here, there);
}

static void touch(const struct slot *s)
{
	CUdeviceptr at = s->at;
	uint64_t n = s->bytes;
	void *args[] = {&at, &n};

	OK(cu.cuLaunchKernel(kernel("touch"), 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
}

/* A kernel that multiplies all words by one. */
static void record_graph(void)
{
	uint64_t n = MIB;
	uint32_t factor = 1, step = 0;
	CUstream s;
	void *graph, *args[] = {&of_graph, &n, &factor, &step};

	OK(cu.cuMemAlloc_v2(&of_graph, 4 * MIB));
	pattern_write(of_graph, 4 * MIB, 99);
	OK(cu.cuStreamCreate(&s, 1));
	OK(cu.cuStreamBeginCapture_v2(s, 0));
	OK(cu.cuLaunchKernel(kernel("pass"), 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
	OK(cu.cuStreamEndCapture(s, &graph));
	OK(cu.cuGraphInstantiateWithFlags(&adds_nothing, graph, 0));
}

static void order(bool out)
{
	uint64_t budget = any(2) ? 0 : (1 + any(128)) * PAGE;
	struct shim_frame s;

	invoker_send(c, out ? GW_EVICT : GW_PREFETCH, ++epoch, budget, 0);
	do
		s = invoker_receive(c, GW_DONE);
	while (s.epoch != epoch);
	CHECK(s.word[STATUS] == GW_OK || s.word[STATUS] == GW_PARTIAL);
	CHECK(s.number[STILL_RESIDENT] >= in_use());
	if (out && !budget)
		SAME(s.number[STILL_RESIDENT], pooled);
	if (vmm) {
		SAME(s.number[STILL_RESIDENT], in_use());
		SAME(counts_as_used(), in_use());
	}
}

static void random_steps(int argc, char **argv)
{
	const char *mode = getenv("GPUWHISK_SHIM");
	bool used = false;

	seed = (unsigned)atoi(argv[1]);
	vmm = mode && strcmp(mode, "vmm") == 0;
	invoker_listen();
	cuda_open("gpa2");
	c = invoker_accept();
	record_graph();
	for (int step = 0, steps = atoi(argv[0]); step < steps; step++) {
		unsigned i = any(SLOTS), what = any(16);
		struct slot *s = &slots[i];
		bool ordered = s->at && what >= 10;
		if (!s->at) {
			make(s, i);
		} else if (what < 3) {
			check(s, i);
			end(s);
		} else if (what < 7) {
			check(s, i);
		} else if (what < 8) {
			OK(cu.cuGraphLaunch(adds_nothing, NULL));
			pattern_check(of_graph, 4 * MIB, 99);
		} else if (what < 10) {
			touch(s);
		} else {
			if (used) { /* that was a run */
				invoker_send(c, GW_GATE, 0, 1, 0);
				invoker_send(c, GW_GATE, 0, 0, 0);
			}
			order(what < 13);
		}
		used = !ordered;
		if (vmm && step % 16 == 0) {
			struct shim_frame f = invoker_report(c);
			SAME(f.number[RESIDENT], in_use());
			CHECK(f.number[FIXED] >= pooled);
			CHECK(f.number[ALLOCATED] >= in_use());
		}
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (slots[i].at) {
			check(&slots[i], i);
			end(&slots[i]);
		}
	pattern_check(of_graph, 4 * MIB, 99);
	OK(cu.cuMemFree_v2(of_graph));
	SAME(invoker_move(c, GW_EVICT, ++epoch).word[STATUS], GW_OK); /* pools give back the rest */
	SAME(in_use(), 0);
	SAME(invoker_report(c).number[ALLOCATED], 0);
}

const struct test_case cases_random[] = {{"random_steps", random_steps}, {NULL, NULL}};
