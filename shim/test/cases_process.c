/*
 * Processes, and libraries that come and go.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prog.h"

enum { MIB = 1 << 20 };

static int begin(void)
{
	invoker_listen();
	cuda_open("dlsym");
	return invoker_accept();
}

static void ended_well(pid_t pid)
{
	int status;

	SAME(waitpid(pid, &status, 0), pid);
	SAME(status, 0);
}

/* A child of fork keeps quiet, the driver refuses its calls, and the parent is not disturbed. */
static void forks(int argc, char **argv)
{
	enum { NOT_INITIALIZED = 3 };
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, MIB));
	pid_t pid = fork();
	if (pid == 0) {
		SAME(cu.cuInit(0), NOT_INITIALIZED);
		SAME(cu.cuMemAlloc_v2(&p, MIB), NOT_INITIALIZED);
		SAME(cu.cuMemFree_v2(p), NOT_INITIALIZED);
		_exit(0);
	}
	ended_well(pid);
	pid = fork();
	if (pid == 0)
		exit(0); /* with all handlers */
	ended_well(pid);
	SAME(invoker_report(c).number[ALLOCATED], MIB);
	SAME(invoker_move(c, GW_EVICT, 1).number[MOVED], MIB);
}

/* A child that begins CUDA by itself is a process of its own. */
static void fork_first(int argc, char **argv)
{
	invoker_listen();
	pid_t pid = fork();
	if (pid == 0) {
		CUdeviceptr p;
		cuda_open("dlsym");
		OK(cu.cuMemAlloc_v2(&p, 3 * MIB));
		pause();
	}
	int child = invoker_accept();
	struct shim_frame s;
	do
		s = invoker_report(child);
	while (s.number[ALLOCATED] != 3 * MIB);
	cuda_open("dlsym");
	int own = invoker_accept();
	SAME(invoker_report(own).number[ALLOCATED], 0);
	kill(pid, SIGKILL);
	CHECK(!invoker_receive_or_end(child, GW_DONE, &s));
	waitpid(pid, NULL, 0);
	SAME(invoker_report(own).number[ALLOCATED], 0);
}

/* exec replaces the process: the old connection ends, a new one comes. */
static void execs(int argc, char **argv)
{
	struct shim_frame s;
	int go[2];
	char c = 0;

	invoker_listen();
	SAME(pipe(go), 0);
	pid_t pid = fork();
	if (pid == 0) {
		cuda_open("dlsym");
		SAME(read(go[0], &c, 1), 1);
		execl("/proc/self/exe", "shimtest", "allocates_and_waits", (char *)NULL);
		_exit(9);
	}
	int first = invoker_accept_within(HANG_MS);
	SAME(write(go[1], &c, 1), 1);
	CHECK(!invoker_receive_or_end(first, GW_DONE, &s));
	int second = invoker_accept();
	do
		s = invoker_report(second);
	while (s.number[ALLOCATED] != 2 * MIB);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A process that holds memory until it is killed. */
static void allocates_and_waits(int argc, char **argv)
{
	CUdeviceptr p;

	cuda_open("dlsym");
	OK(cu.cuMemAlloc_v2(&p, 2 * MIB));
	pause();
}

static void vforks(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, MIB));
	for (int i = 0; i < 20; i++) {
		pid_t pid = vfork();
		if (pid == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(9);
		}
		ended_well(pid);
	}
	SAME(invoker_move(c, GW_EVICT, 1).number[MOVED], MIB);
}

/* Pointers stay good over dlclose, and a second dlopen finds the same. */
static void closes(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();
	void *h = dlopen("libcuda.so.1", RTLD_NOW);
	fn_cuMemAlloc_v2 *alloc = (fn_cuMemAlloc_v2 *)dlsym(h, "cuMemAlloc_v2");

	CHECK(dlsym(h, "cuNoSuchThing") == NULL);
	CHECK(dlerror() != NULL);
	dlclose(h);
	dlclose(h); /* the route's own */
	OK(alloc(&p, MIB));
	h = dlopen("libcuda.so.1", RTLD_NOW);
	CHECK((fn_cuMemAlloc_v2 *)dlsym(h, "cuMemAlloc_v2") == alloc);
	CHECK((fn_cuMemAlloc_v2 *)dlvsym(h, "cuMemAlloc_v2", "NOVERSION") == NULL);
	SAME(invoker_move(c, GW_EVICT, 1).number[MOVED], MIB);
}

/* Load a library whose constructor calls the function, with the dynamic linker's lock
 * held, for which the lookups of other threads wait. */
static void load_with(const char *library, void (*constructor)(void))
{
	char address[32];

	snprintf(address, sizeof address, "%p", (void *)constructor);
	setenv("AT_LOAD", address, 1);
	CHECK(dlopen(library, RTLD_NOW) != NULL);
}

static pthread_t beside;

static void *looks_up(void *arg)
{
	void *found = NULL;
	int status;

	OK(cu.cuGetProcAddress_v2("cuMemAlloc", &found, 3020, 0, &status));
	CHECK(found == (void *)cu.cuMemAlloc_v2);
	return NULL;
}

static void looks_up_beside(void)
{
	SAME(pthread_create(&beside, NULL, looks_up, NULL), 0);
	poll(NULL, 0, 200); /* for the thread to be in its lookup, which it need not be */
	looks_up(NULL);
}

/* A library's constructor looks a function up while another thread does. */
static void loads(int argc, char **argv)
{
	begin();
	load_with(argv[0], looks_up_beside);
	pthread_join(beside, NULL);
}

static void *limits(void *arg)
{
	int c = invoker_accept_within(HANG_MS);

	CHECK(c >= 0);
	invoker_send(c, GW_LIMIT, 0, 16 * MIB, 0);
	invoker_hello(c, GW_VERSION);
	return NULL;
}

static void begins_and_allocates(void)
{
	CUdeviceptr p;

	cuda_open("dlsym");
	SAME(cu.cuMemAlloc_v2(&p, 17 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuMemAlloc_v2(&p, 16 * MIB));
}

/* CUDA begins in a library's constructor: the invoker's limit holds there too. */
static void loads_first(int argc, char **argv)
{
	invoker_listen();
	SAME(pthread_create(&beside, NULL, limits, NULL), 0);
	load_with(argv[0], begins_and_allocates);
	pthread_join(beside, NULL);
}

static int call_log;

/* Runs after the shim's own end: calls that were begun before arrive within this time. */
static void log_end(void)
{
	SAME(write(call_log, "end\n", 4), 4);
	poll(NULL, 0, 20);
}

/* A program that ends right after cuInit: no call of the driver comes after the shim's
 * end, when the driver takes itself down. */
static void ends_at_once(int argc, char **argv)
{
	enum { TRIES = 20 };
	char path[] = "/tmp/shimtest-XXXXXX", text[4096];

	for (int i = 0; i < TRIES; i++) {
		strcpy(path + sizeof path - 7, "XXXXXX");
		CHECK((call_log = mkostemp(path, O_APPEND)) >= 0);
		pid_t pid = fork();
		if (pid == 0) {
			setenv("FAKE_CUDA_LOG", path, 1);
			atexit(log_end);
			void *h = dlopen("libcuda.so.1", RTLD_NOW);
			OK(((fn_cuInit *)dlsym(h, "cuInit"))(0));
			exit(0);
		}
		ended_well(pid);
		ssize_t n = pread(call_log, text, sizeof text - 1, 0);
		CHECK(n > 0);
		text[n] = 0;
		SAME(unlink(path), 0);
		close(call_log);
		const char *end = strstr(text, "end\n");
		CHECK(end != NULL);
		if (end[4])
			fprintf(stderr, "after the end: %s", end + 4);
		SAME(strlen(end + 4), 0);
	}
}

static void exit_in_handler(int signal)
{
	(void)signal;
	exit(0);
}

static CUcontext of_all;

static void *allocate_for_ever(void *arg)
{
	OK(cu.cuCtxSetCurrent(of_all));
	for (;;) {
		CUdeviceptr p;
		if (cu.cuMemAlloc_v2(&p, MIB) == CUDA_SUCCESS)
			cu.cuMemFree_v2(p);
	}
	return arg;
}

/* Of the process that gets the signal while its threads allocate, or within a call that
 * holds the lock by which a context is ended. */
static void end_in_handler(int running, int go, bool in_call)
{
	pthread_t t;
	CUcontext own;
	char c;

	signal(SIGTERM, exit_in_handler);
	if (in_call)
		setenv("FAKE_CUDA_RAISE", "cuCtxDestroy_v2:15", 1);
	cuda_open("dlsym");
	OK(cu.cuCtxGetCurrent(&of_all));
	if (in_call) {
		OK(cu.cuCtxCreate_v2(&own, 0, 0));
		SAME(read(go, &c, 1), 1);
		cu.cuCtxDestroy_v2(own);
		_exit(9);
	}
	for (int i = 0; i < 2; i++)
		SAME(pthread_create(&t, NULL, allocate_for_ever, NULL), 0);
	SAME(write(running, "", 1), 1);
	allocate_for_ever(NULL);
}

/* A program may end in a signal's handler, whatever the handler came in between. */
static void exits_in_handler(int argc, char **argv)
{
	int running[2], go[2], rounds = atoi(argv[0]);
	char c = 0;

	invoker_listen();
	SAME(pipe(running), 0);
	SAME(pipe(go), 0);
	for (int i = 0; i < rounds; i++) {
		bool in_call = i % 4 == 3;
		pid_t pid = fork();
		if (pid == 0)
			end_in_handler(running[1], go[0], in_call);
		int conn = invoker_accept();
		if (in_call) {
			SAME(write(go[1], &c, 1), 1);
		} else {
			SAME(read(running[0], &c, 1), 1);
			SAME(kill(pid, SIGTERM), 0);
		}
		/* It hangs up when it ends. */
		struct shim_frame s;
		invoker_receive_or_end(conn, 0, &s);
		close(conn);
		ended_well(pid);
	}
}

static void lies_in(const void *pointer, const char *name, const char *library)
{
	Dl_info info;

	if (!pointer || !dladdr(pointer, &info) || !strstr(info.dli_fname, library)) {
		fprintf(stderr, "%s is not in %s\n", name, library);
		exit(1);
	}
}

/* By every route, all of the table's hooks lead to us and nothing else does. */
static void covered(int argc, char **argv)
{
	const char *mode = getenv("GPUWHISK_SHIM") ? getenv("GPUWHISK_SHIM") : "managed";

	invoker_listen();
	cuda_open(argv[0]);
#define HOOK(base, export, version, flags, class, what, params, args) \
	lies_in((void *)cu.export, #export, "libgpuwhisk");
#define GATE(base, export, version, flags, as, params, args) \
	lies_in((void *)cu.export, #export, strcmp(mode, "vmm") ? "libcuda" : "libgpuwhisk");
#define CALL(base, export, version, params, args) \
	lies_in((void *)cu.export, #export, "libcuda");
#define SERVE(base, export, version, params, args) \
	lies_in((void *)cu.export, #export, "libcuda");
#include "../abi.def"
}

/* The pointer is the very entry of the driver's by this name. */
static void is_drivers(const void *pointer, const char *name)
{
	Dl_info info;

	lies_in(pointer, name, "libcuda");
	CHECK(dladdr(pointer, &info) && info.dli_saddr == pointer);
	CHECK(info.dli_sname && strcmp(info.dli_sname, name) == 0);
}

/* Nothing of ours lies on the way of a launch, a copy or a wait, where the program looks
 * the function up. A program that is linked to the driver gets our launches and copies,
 * which go to the driver's. */
static void launch_path(int argc, char **argv)
{
	invoker_listen();
	cuda_open(argv[0]);
	bool linked = strcmp(argv[0], "linked") == 0;
#define DIRECT(export) is_drivers((void *)cu.export, #export)
#define LAUNCH(export) \
	linked ? lies_in((void *)cu.export, #export, "libgpuwhisk") : DIRECT(export)
	LAUNCH(cuLaunchKernel);
	LAUNCH(cuLaunchKernelEx);
	LAUNCH(cuLaunchCooperativeKernel);
	LAUNCH(cuGraphLaunch);
	LAUNCH(cuMemcpyHtoD_v2);
	LAUNCH(cuMemcpyDtoH_v2);
	LAUNCH(cuMemsetD8_v2);
	DIRECT(cuStreamSynchronize);
	DIRECT(cuCtxSynchronize);
}

const struct test_case cases_process[] = {
	{"covered", covered}, {"launch_path", launch_path},
	{"forks", forks}, {"fork_first", fork_first}, {"execs", execs},
	{"allocates_and_waits", allocates_and_waits},
	{"vforks", vforks}, {"closes", closes},
	{"loads", loads}, {"loads_first", loads_first}, {"ends_at_once", ends_at_once},
	{"exits_in_handler", exits_in_handler}, {NULL, NULL},
};
