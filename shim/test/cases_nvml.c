/*
 * The management library as a container's programs see it: as they load it, or, with
 * the argument "linked", are linked with it.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prog.h"

enum { MIB = 1 << 20 };

static int begin(void)
{
	invoker_listen();
	cuda_open("gpa2");
	return invoker_accept();
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
	fprintf(f, "sample 0 %d 80\nsample 0 %d 15\n", other, child);
	fprintf(f, "account 0 %d 70\naccount 0 %d 10\naccount 0 %d 20\n", other, getpid(), child);
	SAME(fclose(f), 0);
}

/* Loads the library, as a program does, or takes the library that the program is linked
 * with. Returns its first device. */
static void *first_device(bool linked)
{
	void *device;

	nvml = linked ? RTLD_DEFAULT : dlopen("libnvidia-ml.so.1", RTLD_LAZY);
	CHECK(linked || nvml);
	SAME(((int (*)(void))dlsym(nvml, "nvmlInit_v2"))(), 0);
	SAME(((int (*)(unsigned, void **))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(0, &device), 0);
	return device;
}

/* The management library answers for the container: memory as cuMemGetInfo, which
 * others' use does not change, and the container's own processes. */
static void by_nvml(int argc, char **argv)
{
	struct gw_nvml_detail list[2];
	struct gw_nvml_memory m;
	struct gw_nvml_memory_v2 m2 = {.version = 2 << 24 | sizeof m2};
	struct gw_nvml_details d = {.list = list};
	size_t avail, total;
	CUdeviceptr p;
	int c = begin(), status;
	pid_t other = process_of("/run/other.sock"), child = process_of(NULL);
	pid_t both[] = {getpid(), child};

	write_script(other, child);
	void *device = first_device(argc > 0);
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
	pid_t forked = fork();
	if (forked == 0) { /* without CUDA of its own, it is shown the same */
		SAME(NVML_CALL("MemoryInfo", &m), NVML_SUCCESS);
		SAME(m.total, total);
		lists(device, "GraphicsRunningProcesses_v3", sizeof(struct gw_nvml_process_v2), 0, NULL);
		_exit(0);
	}
	SAME(waitpid(forked, &status, 0), forked);
	SAME(status, 0);

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

static int samples(void *device, struct gw_nvml_sample *list, unsigned *n)
{
	return ((int (*)(void *, void *, unsigned *, unsigned long long))dlsym(
		nvml, "nvmlDeviceGetProcessUtilization"))(device, list, n, 0);
}

static int account(void *device, pid_t pid, unsigned *percent)
{
	return ((int (*)(void *, unsigned, void *))dlsym(
		nvml, "nvmlDeviceGetAccountingStats"))(device, (unsigned)pid, percent);
}

/* The device use of processes: only those of the same container are shown. */
static void use_by_nvml(int argc, char **argv)
{
	struct gw_nvml_sample sample[2];
	struct gw_nvml_utilization use[2];
	struct gw_nvml_utilizations all = {.version = 1 << 24 | sizeof all, .list = use};
	unsigned n = 0, percent, v2[16] = {0};
	int c = begin();
	pid_t other = process_of("/run/other.sock"), child = process_of(NULL);

	(void)c;
	write_script(other, child);
	void *device = first_device(argc > 0);
	SAME(samples(device, NULL, &n), NVML_INSUFFICIENT_SIZE);
	SAME(n, 1);
	SAME(samples(device, sample, &n), NVML_SUCCESS);
	SAME(n, 1);
	SAME(sample[0].pid, child);
	SAME(sample[0].percent[0], 15);
	SAME(NVML_CALL("ProcessesUtilizationInfo", &all), NVML_INSUFFICIENT_SIZE);
	SAME(all.n, 1);
	SAME(NVML_CALL("ProcessesUtilizationInfo", &all), NVML_SUCCESS);
	SAME(all.n, 1);
	SAME(use[0].pid, child);
	SAME(use[0].percent[0], 15);

	lists(device, "AccountingPids", sizeof(unsigned), 2, (pid_t[]){getpid(), child});
	SAME(account(device, other, &percent), NVML_NOT_FOUND);
	SAME(account(device, child, &percent), NVML_SUCCESS);
	SAME(percent, 20);
	v2[0] = (unsigned)other;
	SAME(NVML_CALL("AccountingStats_v2", v2), NVML_NOT_FOUND);
	v2[0] = (unsigned)getpid();
	SAME(NVML_CALL("AccountingStats_v2", v2), NVML_SUCCESS);
	SAME(v2[2], 10);

	kill(child, SIGKILL); /* no trace is left that the process belonged to the container */
	SAME(waitpid(child, NULL, 0), child);
	SAME(samples(device, sample, &n), NVML_NOT_FOUND);
	SAME(NVML_CALL("ProcessesUtilizationInfo", &all), NVML_NOT_FOUND);
	kill(other, SIGKILL);
}

const struct test_case cases_nvml[] = {
	{"nvml", by_nvml}, {"nvml_use", use_by_nvml}, {NULL, NULL},
};
