/*
 * Limits: what may be had, what is refused, and what is kept free for it.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
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

/* Below a limit the program gets what it has left, and the driver's error where there
 * is one: FAKE_CUDA_FAIL fails the last question but one. Without a context there is no
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

/* Arrays, too, are below the limit. */
static void limit_array(int argc, char **argv)
{
	struct gw_array2d flat = {1024, 1024, 0x01, 4}; /* 4 MiB */
	CUarray a, b;
	int c = begin();

	invoker_send(c, GW_LIMIT, 0, 6 * MIB, 0);
	invoker_report(c);
	OK(cu.cuArrayCreate_v2(&a, &flat));
	SAME(cu.cuArrayCreate_v2(&b, &flat), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cu.cuArrayDestroy(a));
	OK(cu.cuArrayCreate_v2(&b, &flat));
}

/* Rows narrower than the pitch: what is below the limit is what they take, by the
 * driver's pitch, FAKE_CUDA_PITCH. */
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

enum { BELOW = 4, TURNS = 10000 };
static CUcontext shared;

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
	invoker_close_listener(); /* no invoker would read what is sent meanwhile */
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

/* A process of this container, or, with a socket of its own, of another. */
static pid_t process_of(const char *socket)
{
	char other[64], c;
	int started[2];

	snprintf(other, sizeof other, "GPUWHISK_SHIM_SOCKET=%s", socket ? socket : "");
	SAME(pipe2(started, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (socket)
			execle("/bin/sleep", "sleep", "1000", NULL, (char *[]){other, NULL});
		close(started[1]);
		for (;;)
			pause();
	}
	close(started[1]);
	SAME(read(started[0], &c, 1), 0); /* its environment is its own now */
	close(started[0]);
	return pid;
}

static void *nvml;
#define NVML_CALL(name, out) \
	((int (*)(void *, void *))dlsym(nvml, "nvmlDeviceGet" name))(device, out)

/* All that name lists; each entry begins with a pid. */
static void lists(void *device, const char *name, size_t each, int n, const pid_t *want)
{
	char list[1024], path[64];
	unsigned count = 0;
	pid_t pid;

	snprintf(path, sizeof path, "nvmlDeviceGet%s", name);
	int (*f)(void *, unsigned *, void *) = (int (*)(void *, unsigned *, void *))dlsym(nvml, path);
	CHECK(f != NULL);
	SAME(f(device, &count, NULL), n ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS);
	SAME(count, n);
	SAME(f(device, &count, list), NVML_SUCCESS);
	SAME(count, n);
	for (int i = 0; i < n; i++) {
		memcpy(&pid, list + (size_t)i * each, sizeof pid);
		SAME(pid, want[i]);
	}
}

static void write_script(pid_t other, pid_t child)
{
	FILE *f = fopen(getenv("FAKE_NVML_SCRIPT"), "w");

	CHECK(f != NULL);
	for (int i = 0; i < 20; i++)
		fprintf(f, "process 0 %d 1000000000\n", other);
	fprintf(f, "process 0 %d 3000\nprocess 0 %d 2000\n", getpid(), child);
	fprintf(f, "mps 0 %d\nmps 0 %d\ngraphics 0 1 5000\n", other, child);
	SAME(fclose(f), 0);
}

/* The management library answers for the container: memory as cuMemGetInfo, which
 * others' use does not change, and the container's own processes. As a program
 * loads it, or "linked" with it. */
static void by_nvml(int argc, char **argv)
{
	void *device;
	struct gw_nvml_detail list[2];
	struct gw_nvml_memory m;
	struct gw_nvml_memory_v2 m2 = {.version = 2 << 24 | sizeof m2};
	struct gw_nvml_details d = {.list = list};
	size_t avail, total;
	CUdeviceptr p;
	int c = begin();
	pid_t other = process_of("/run/other.sock"), child = process_of(NULL);
	pid_t both[] = {getpid(), child};

	write_script(other, child);
	nvml = argc ? RTLD_DEFAULT : dlopen("libnvidia-ml.so.1", RTLD_LAZY);
	CHECK(argc || nvml);
	SAME(((int (*)(void))dlsym(nvml, "nvmlInit_v2"))(), 0);
	SAME(((int (*)(unsigned, void **))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(0, &device), 0);
	invoker_send(c, GW_LIMIT, 0, 64 * MIB, 0);
	invoker_report(c);
	OK(cu.cuMemAlloc_v2(&p, 24 * MIB));
	OK(cu.cuMemGetInfo_v2(&avail, &total));
	SAME(NVML_CALL("MemoryInfo", &m), NVML_SUCCESS);
	SAME(NVML_CALL("MemoryInfo_v2", &m2), NVML_SUCCESS);
	SAME(total, 64 * MIB);
	SAME(m.total, total);
	SAME(m.avail, avail);
	SAME(m.used, 24 * MIB);
	SAME(m2.total, total);
	SAME(m2.avail, avail);
	SAME(m2.used + m2.reserved, 24 * MIB);

	lists(device, "ComputeRunningProcesses", sizeof(struct gw_nvml_process), 2, both);
	lists(device, "ComputeRunningProcesses_v2", sizeof(struct gw_nvml_process_v2), 2, both);
	lists(device, "ComputeRunningProcesses_v3", sizeof(struct gw_nvml_process_v2), 2, both);
	lists(device, "MPSComputeRunningProcesses_v3", sizeof(struct gw_nvml_process_v2), 1, &child);
	lists(device, "GraphicsRunningProcesses_v3", sizeof(struct gw_nvml_process_v2), 0, NULL);
	SAME(NVML_CALL("RunningProcessDetailList", &d), NVML_INSUFFICIENT_SIZE);
	SAME(d.n, 2);
	SAME(NVML_CALL("RunningProcessDetailList", &d), NVML_SUCCESS);
	SAME(list[0].pid, getpid());
	SAME(list[1].pid, child);

	invoker_send(c, GW_LIMIT, 0, 0, 0); /* none: the device's own */
	invoker_report(c);
	SAME(NVML_CALL("MemoryInfo", &m), NVML_SUCCESS);
	CHECK(m.used > 1000000000 && m.total > 64 * MIB);
	kill(other, SIGKILL);
	kill(child, SIGKILL);
}

const struct test_case cases_limit[] = {
	{"limit", limit}, {"limit_reported", limit_reported}, {"limit_host", limit_host},
	{"limit_array", limit_array}, {"pitch_limit", pitch_limit},
	{"limit_threads", limit_threads}, {"cancels", cancels}, {"nvml", by_nvml}, {NULL, NULL},
};
