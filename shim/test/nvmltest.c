/*
 * The fake management library reports the content of its script.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAME(got, want)                                                          \
	do {                                                                     \
		long long g_ = (long long)(got), w_ = (long long)(want);         \
		if (g_ != w_) {                                                  \
			fprintf(stderr, "%d: %s is %lld, want %lld\n", __LINE__, \
				#got, g_, w_);                                   \
			exit(1);                                                 \
		}                                                                \
	} while (0)
#define CALL(name, types, ...) ((int(*) types)dlsym(lib, "nvml" #name))(__VA_ARGS__)

static void script(const char *text)
{
	FILE *f = fopen(getenv("FAKE_NVML_SCRIPT"), "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		exit(2);
}

int main(void)
{
	void *lib = dlopen("libnvidia-ml.so.1", RTLD_LAZY), *gpu, *slice, *set;
	unsigned n = 0, pending, rates[2];
	uint64_t memory[3];
	char name[96];
	struct {
		unsigned pid;
		uint64_t bytes;
		unsigned a, b;
	} p[4];
	struct {
		void *device;
		uint64_t type, data;
		unsigned a, b;
	} event;
	struct {
		unsigned id, scope;
		int64_t at, took;
		unsigned type, code, value, rest;
	} field = {.id = 230};

	script("utilization 0 42\nprocess 0 7 1000\nprocess 0 8 500\n");
	SAME(CALL(Init_v2, (void)), 0);
	SAME(CALL(DeviceGetCount_v2, (unsigned *), &n), 0);
	SAME(n, 2);
	SAME(CALL(DeviceGetHandleByIndex_v2, (unsigned, void **), 2, &gpu), 2);
	SAME(CALL(DeviceGetHandleByIndex_v2, (unsigned, void **), 0, &gpu), 0);
	SAME(CALL(DeviceGetUUID, (void *, char *, unsigned), gpu, name, sizeof name), 0);
	SAME(strncmp(name, "GPU-", 4), 0);
	SAME(CALL(DeviceGetUtilizationRates, (void *, unsigned *), gpu, rates), 0);
	SAME(rates[0], 42);
	SAME(CALL(DeviceGetMemoryInfo, (void *, uint64_t *), gpu, memory), 0);
	SAME(memory[2], 1500);
	n = 1;
	SAME(CALL(DeviceGetComputeRunningProcesses_v3, (void *, unsigned *, void *), gpu, &n, p), 7);
	SAME(n, 2);
	SAME(CALL(DeviceGetComputeRunningProcesses_v3, (void *, unsigned *, void *), gpu, &n, p), 0);
	SAME(p[1].bytes, 500);
	SAME(CALL(EventSetCreate, (void **), &set), 0);
	SAME(CALL(EventSetWait_v2, (void *, void *, unsigned), set, &event, 0), 10);
	script("mig 0 2\nxid 0 79\nunsupported DeviceGetEccMode\n");
	SAME(CALL(DeviceGetMigMode, (void *, unsigned *, unsigned *), gpu, &n, &pending), 0);
	SAME(n, 1);
	SAME(CALL(DeviceGetMigDeviceHandleByIndex, (void *, unsigned, void **), gpu, 1, &slice), 0);
	SAME(CALL(DeviceGetMigDeviceHandleByIndex, (void *, unsigned, void **), gpu, 2, &slice), 6);
	SAME(CALL(DeviceGetEccMode, (void *, unsigned *, unsigned *), gpu, &n, &pending), 3);
	SAME(CALL(EventSetWait_v2, (void *, void *, unsigned), set, &event, 1000), 0);
	SAME(event.data, 79);
	SAME(CALL(DeviceGetFieldValues, (void *, int, void *), gpu, 1, &field), 0);
	SAME(field.code, 3);
	script("recovery 0 2\n");
	SAME(CALL(DeviceGetFieldValues, (void *, int, void *), gpu, 1, &field), 0);
	SAME(field.code, 0);
	SAME(field.value, 2);
	/* A driver without limits of control groups, and a driver that has such limits
	 * and no state. */
	struct {
		const char *path;
		uint64_t soft, hard, used;
	} limits = {"/sys/fs/cgroup/a", 0, 1 << 20, 0};
	SAME(CALL(DeviceSetMemoryLimits_v1, (void *, void *), gpu, &limits), 3);
	SAME(CALL(DeviceGetMemoryLimits_v1, (void *, void *), gpu, &limits), 3);
	setenv("FAKE_NVML_LIMITS", "all", 1);
	SAME(CALL(DeviceSetMemoryLimits_v1, (void *, void *), gpu, &limits), 17);
	SAME(CALL(DeviceGetMemoryLimits_v1, (void *, void *), gpu, &limits), 6);
	limits.soft = 2 << 20;
	SAME(CALL(DeviceSetMemoryLimits_v1, (void *, void *), gpu, &limits), 2);
	script("lost 0\n");
	SAME(CALL(DeviceGetUtilizationRates, (void *, unsigned *), gpu, rates), 15);
	SAME(CALL(EventSetFree, (void *), set), 0);
	return 0;
}
