/*
 * Programs whose libraries do not work with managed memory: the invoker gets a report,
 * and the possible requests are served.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prog.h"

enum { MIB = 1 << 20, ALLOC = 1, FAULT = 2, SHARE = 3, UNMOVED = 4 };

static int begin(void)
{
	invoker_listen();
	cuda_open("gpa2");
	return invoker_accept();
}

static void expect_refused(int c, unsigned sign, int code)
{
	struct shim_frame s = invoker_receive(c, GW_REFUSED);

	SAME(s.word[0], sign);
	SAME((int)s.word[1], code);
}

/* The answer to this comes after all that was sent before. */
static void expect_no_refused(int c)
{
	static uint64_t token = 1ull << 50;
	struct shim_frame s;

	invoker_send(c, GW_REPORT, ++token, 0, 0);
	do {
		CHECK(invoker_receive_any(c, &s));
		CHECK(s.type != GW_REFUSED);
	} while (s.epoch != token);
}

/* Managed memory is refused: plain memory takes its place, from then on. */
static void alloc(int argc, char **argv)
{
	int code = atoi(argv[0]), c = begin();
	size_t row;
	CUdeviceptr p, q;

	if (argc > 1)
		OK(cu.cuMemAllocPitch_v2(&p, &row, 1 << 10, 1 << 10, 4));
	else
		OK(cu.cuMemAlloc_v2(&p, MIB));
	expect_refused(c, ALLOC, code);
	SAME(invoker_report(c).number[FIXED], MIB);
	OK(cu.cuMemAlloc_v2(&q, MIB));
	SAME(invoker_report(c).number[FIXED], 2 * MIB);
	SAME(invoker_move(c, GW_EVICT, 1).number[STILL_RESIDENT], 2 * MIB);
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuMemFree_v2(q));
	SAME(invoker_report(c).number[ALLOCATED], 0);
}

/* Memory for another process. Memory that is allocated again can be shared. */
static void share(int argc, char **argv)
{
	char handle[64];
	CUdeviceptr p, q;
	int fd, c = begin();

	OK(cu.cuMemAlloc_v2(&p, MIB));
	SAME(cu.cuIpcGetMemHandle(handle, p + 2 * MIB), CUDA_ERROR_INVALID_VALUE);
	expect_no_refused(c);
	if (argc)
		SAME(cu.cuMemGetHandleForAddressRange(&fd, p, MIB, 1, 0), CUDA_ERROR_NOT_SUPPORTED);
	else
		SAME(cu.cuIpcGetMemHandle(handle, p), CUDA_ERROR_INVALID_VALUE);
	expect_refused(c, SHARE, argc ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE);
	OK(cu.cuMemAlloc_v2(&q, MIB));
	OK(cu.cuIpcGetMemHandle(handle, q));
	/* Memory that was managed before still moves. */
	pattern_write(p, MIB, 1);
	SAME(invoker_move(c, GW_EVICT, 1).number[STILL_RESIDENT], MIB);
	pattern_check(p, MIB, 1);
}

static void *kernel(void)
{
	void *module, *f;

	OK(cu.cuModuleLoadData(&module, "fake"));
	OK(cu.cuModuleGetFunction(&f, module, "touch"));
	return f;
}

static CUresult touch(void *f, CUdeviceptr p)
{
	uint64_t n = MIB;
	void *args[] = {&p, &n};

	return cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
}

/* A kernel fails after a move, with the code of FAKE_CUDA_MOVED. The second argument says
 * how the failure is noticed. */
static void after_move(int argc, char **argv)
{
	int code = atoi(argv[0]), c = begin();
	const char *found_by = argv[1], *text;
	void *f = kernel();
	CUdeviceptr p;

	OK(cu.cuMemAlloc_v2(&p, MIB));
	OK(touch(f, p));
	invoker_send(c, GW_GATE, 3, 0, 0);
	expect_no_refused(c);
	SAME(invoker_move(c, GW_EVICT, 1).word[STATUS], GW_OK);
	invoker_send(c, GW_GATE, 0, 1, 0);
	CUresult r = touch(f, p);
	CHECK(r == CUDA_SUCCESS || r == code);
	SAME(cu.cuCtxSynchronize(), code);
	if (strcmp(found_by, "name") == 0)
		OK(cu.cuGetErrorName(code, &text));
	else if (strcmp(found_by, "text") == 0)
		OK(cu.cuGetErrorString(code, &text));
	else if (strcmp(found_by, "end") == 0)
		invoker_send(c, GW_GATE, 4, 0, 0);
	else if (strcmp(found_by, "move") == 0)
		invoker_send(c, GW_PREFETCH, 2, 0, 0);
	expect_refused(c, FAULT, code);
}

/* A kernel fails and nothing was moved, with the code of FAKE_CUDA_MANAGED or, where
 * memory is not managed, as the program has it explained. */
static void unmoved(int argc, char **argv)
{
	int code = atoi(argv[0]), c = begin();
	const char *found_by = argv[1], *text;
	void *f = kernel();
	CUdeviceptr p;

	OK(cu.cuMemAlloc_v2(&p, MIB));
	OK(cu.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
	invoker_send(c, GW_GATE, 3, 0, 0);
	expect_no_refused(c);
	touch(f, p);
	if (strcmp(found_by, "text") == 0)
		OK(cu.cuGetErrorString(code, &text));
	else
		invoker_send(c, GW_GATE, 4, 0, 0);
	expect_refused(c, UNMOVED, code);
}

/* The program ends because of the failure before its run ends. The invoker still gets the
 * report. */
static void at_exit(int argc, char **argv)
{
	int code = atoi(argv[0]), status;

	invoker_listen();
	pid_t pid = fork();
	if (pid == 0) {
		CUdeviceptr p;
		cuda_open("dlsym");
		void *f = kernel();
		OK(cu.cuMemAlloc_v2(&p, MIB));
		/* The order has moved it when this fails. It may come before the first. */
		while (touch(f, p) == CUDA_SUCCESS && cu.cuCtxSynchronize() == CUDA_SUCCESS)
			;
		exit(3);
	}
	int c = invoker_accept();
	while (invoker_report(c).number[BLOCKS] != 1) /* memory that is only reserved cannot move */
		;
	invoker_send(c, GW_EVICT, 1, 0, 0);
	expect_refused(c, FAULT, code);
	SAME(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

/* The next invoker gets the report, too. */
static void again(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, MIB));
	expect_refused(c, ALLOC, 1);
	close(c);
	expect_refused(invoker_accept(), ALLOC, 1);
}

/* Out of memory is no refusal, nor is a device without managed memory. */
static void accepts_managed(int argc, char **argv)
{
	int c = begin(), code = atoi(argv[0]);
	CUdeviceptr p;
	CUresult r = cu.cuMemAlloc_v2(&p, MIB);

	CHECK(r == CUDA_SUCCESS || r == code);
	expect_no_refused(c);
}

const struct test_case cases_refusal[] = {
	{"refuses_alloc", alloc}, {"refuses_share", share}, {"refuses_moved", after_move},
	{"refuses_exit", at_exit}, {"refuses_unmoved", unmoved}, {"refuses_again", again}, {"refuses_nothing", accepts_managed},
	{NULL, NULL},
};
