/*
 * A driver's management library of one GPU, enough to show that the real one
 * would be loaded and called as it should. With -DOLD it lacks what drivers
 * before 510 lack.
 */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define OK 0
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define TIMEOUT 10

typedef void *handle;
static int gpu;

static int text(char *out, unsigned n, const char *s)
{
	strncpy(out, s, n);
	return OK;
}

const char *nvmlErrorString(int code) { return code ? "broken" : "fine"; }
int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *out, unsigned n) { return text(out, n, "580.95.05"); }
int nvmlSystemGetNVMLVersion(char *out, unsigned n) { return text(out, n, "13.580.95.05"); }
int nvmlSystemGetCudaDriverVersion(int *v) { *v = 13000; return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13000; return OK; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, handle *h) { *h = &gpu; return i ? NOT_FOUND : OK; }

int nvmlDeviceGetHandleByUUID(const char *uuid, handle *h)
{
	*h = &gpu;
	return strcmp(uuid, "GPU-c") ? NOT_FOUND : OK;
}

int nvmlDeviceGetUUID(handle h, char *out, unsigned n) { (void)h; return text(out, n, "GPU-c"); }
int nvmlDeviceGetName(handle h, char *out, unsigned n) { (void)h; return text(out, n, "GPU of C"); }
int nvmlDeviceGetMinorNumber(handle h, unsigned *n) { (void)h; *n = 4; return OK; }
int nvmlDeviceGetComputeMode(handle h, int *m) { (void)h; *m = 3; return OK; }
int nvmlDeviceGetPersistenceMode(handle h, int *m) { (void)h; *m = 1; return OK; }

int nvmlDeviceGetCudaComputeCapability(handle h, int *major, int *minor)
{
	(void)h;
	*major = 9;
	*minor = 0;
	return OK;
}

int nvmlDeviceGetEccMode(handle h, int *now, int *pending)
{
	(void)h;
	(void)now;
	(void)pending;
	return NOT_SUPPORTED;
}

int nvmlDeviceGetPciInfo_v3(handle h, char *pci)
{
	(void)h;
	memset(pci, 0, 16 + 5 * 4);
	strcpy(pci + 16 + 5 * 4, "00000000:1A:00.0");
	return OK;
}

int nvmlDeviceGetMemoryInfo(handle h, uint64_t *m)
{
	(void)h;
	m[0] = 8ull << 30;
	m[1] = 5ull << 30;
	m[2] = 3ull << 30;
	return OK;
}

struct process {
	unsigned pid;
	uint64_t used;
	unsigned gi, ci;
};

int nvmlDeviceGetComputeRunningProcesses_v3(handle h, unsigned *n, struct process *p)
{
	(void)h;
	if (*n < 2) {
		*n = 2;
		return 7; /* too small */
	}
	*n = 2;
	p[0] = (struct process){.pid = 41, .used = 1ull << 30};
	p[1] = (struct process){.pid = 42, .used = 2ull << 30};
	return OK;
}

int nvmlDeviceGetUtilizationRates(handle h, unsigned *u)
{
	(void)h;
	u[0] = 25;
	u[1] = 5;
	return OK;
}

int nvmlDeviceGetTotalEccErrors(handle h, int type, int counter, uint64_t *n)
{
	(void)h;
	(void)type;
	(void)counter;
	(void)n;
	return NOT_SUPPORTED;
}

int nvmlDeviceGetSupportedEventTypes(handle h, uint64_t *types) { (void)h; *types = 8; return OK; }
int nvmlEventSetCreate(handle *set) { *set = &gpu; return OK; }
int nvmlEventSetFree(handle set) { (void)set; return OK; }
int nvmlDeviceRegisterEvents(handle h, uint64_t types, handle set)
{
	(void)h;
	(void)set;
	return types == 8 ? OK : NOT_SUPPORTED;
}

struct event {
	handle device;
	uint64_t type, data;
	unsigned gi, ci;
};

int nvmlEventSetWait_v2(handle set, struct event *e, unsigned millis)
{
	static int told;

	(void)set;
	if (told) {
		usleep(millis * 10);
		return TIMEOUT;
	}
	told = 1;
	*e = (struct event){.device = &gpu, .type = 8, .data = 31, .gi = ~0u, .ci = ~0u};
	return OK;
}

#ifndef OLD
int nvmlDeviceGetMemoryInfo_v2(handle h, char *m)
{
	uint64_t values[] = {8ull << 30, 1ull << 29, 5ull << 30, 2ull << 30};

	(void)h;
	memcpy(m + 8, values, sizeof(values));
	return OK;
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(handle h, unsigned *n, struct process *p)
{
	(void)h;
	(void)p;
	*n = 0;
	return OK;
}

int nvmlDeviceGetMPSComputeRunningProcesses(handle h, unsigned *n, struct process *p)
{
	return nvmlDeviceGetMPSComputeRunningProcesses_v3(h, n, p);
}

int nvmlDeviceGetMigMode(handle h, unsigned *now, unsigned *pending)
{
	(void)h;
	(void)now;
	(void)pending;
	return NOT_SUPPORTED;
}
#endif
