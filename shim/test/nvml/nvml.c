/*
 * A management library without a card, for monitors: what it reports is read from
 * a file at every call, so that a test can change it while the monitor runs.
 *
 *   FAKE_NVML_DEVICES  number of devices of 16 GiB each, 1
 *   FAKE_NVML_LIMITS   limits of control groups: limits.c
 *   FAKE_CUDA_STATE    state that processes on the fake driver share: what they
 *                      have there is shown as by a driver, whatever they report
 *   FAKE_NVML_SCRIPT   the file; without it the devices idle. A line each:
 *
 *     utilization DEVICE PERCENT
 *     process DEVICE PID BYTES     memory of a process; sums up to used memory,
 *                                  beside what FAKE_CUDA_STATE has
 *     mig DEVICE SLICES            MIG is on, with so many equal slices
 *     mps DEVICE PID               a client of MPS
 *     graphics DEVICE PID BYTES    one that draws
 *     sample DEVICE PID PERCENT    what a process has of the device's time
 *     account DEVICE PID PERCENT   the same of its whole life, kept beyond it
 *     recovery DEVICE ACTION       the driver's recovery action after a fault, 0
 *                                  for none; without it, it is not known
 *     xid DEVICE CODE              one event for each change of this line
 *     lost DEVICE                  fallen off the bus
 *     unsupported FUNCTION         answers so, by its name without "nvml"
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script.h"
#include "state.h"
#include "unit.h"

static struct unit whole[DEVICES], parts[DEVICES][SLICES];

static int devices(void)
{
	long long n = number("FAKE_NVML_DEVICES", 1);

	return n > DEVICES ? DEVICES : (int)n;
}

uint64_t fake_memory(void)
{
	return 16ull << 30;
}

int begin(unit u, const char *function)
{
	long long a, b;

	if (!u)
		return INVALID_ARGUMENT;
	if (line("lost", u->device, 0, &a, &b))
		return GPU_IS_LOST;
	return unsupported(function) ? NOT_SUPPORTED : OK;
}
static int slices(int device)
{
	long long n = 0, unused;

	if (!line("mig", device, 0, &n, &unused))
		return 0;
	return n > SLICES ? SLICES : (int)n;
}

static int put(char *out, unsigned size, const char *text)
{
	if (strlen(text) >= size)
		return INSUFFICIENT_SIZE;
	strcpy(out, text);
	return OK;
}

API const char *nvmlErrorString(int code) { return code ? "error of the fake library" : "success"; }

API int nvmlInit_v2(void)
{
	for (int d = 0; d < DEVICES; d++) {
		whole[d] = (struct unit){d, -1};
		for (int s = 0; s < SLICES; s++)
			parts[d][s] = (struct unit){d, s};
	}
	return OK;
}
API int nvmlInit(void) { return nvmlInit_v2(); }
API int nvmlInitWithFlags(unsigned flags) { return nvmlInit_v2(); }
API int nvmlShutdown(void) { return OK; }

API int nvmlSystemGetDriverVersion(char *out, unsigned n) { return put(out, n, "580.00"); }
API int nvmlSystemGetNVMLVersion(char *out, unsigned n) { return put(out, n, "13.580.00"); }
API int nvmlSystemGetCudaDriverVersion_v2(int *v)
{
	*v = 12080;
	return OK;
}
API int nvmlSystemGetCudaDriverVersion(int *v) { return nvmlSystemGetCudaDriverVersion_v2(v); }

API int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = (unsigned)devices();
	return OK;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned i, unit *out)
{
	if (i >= (unsigned)devices())
		return INVALID_ARGUMENT;
	*out = &whole[i];
	return OK;
}

static void name_of(unit u, char out[64])
{
	if (u->slice < 0)
		snprintf(out, 64, "GPU-fa4e0000-0000-0000-0000-%012d", u->device);
	else
		snprintf(out, 64, "MIG-fa4e0000-0000-0000-%04d-%012d", u->slice + 1, u->device);
}

API int nvmlDeviceGetUUID(unit u, char *out, unsigned n)
{
	char text[64];

	BEGIN(u, "DeviceGetUUID");
	name_of(u, text);
	return put(out, n, text);
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, unit *out)
{
	char text[64];

	for (int d = 0; d < devices(); d++)
		for (int s = -1; s < slices(d); s++) {
			unit u = s < 0 ? &whole[d] : &parts[d][s];
			name_of(u, text);
			if (strcmp(text, uuid) == 0) {
				*out = u;
				return OK;
			}
		}
	return NOT_FOUND;
}

API int nvmlDeviceGetName(unit u, char *out, unsigned n)
{
	BEGIN(u, "DeviceGetName");
	return put(out, n, "Fake GPU");
}

API int nvmlDeviceGetMinorNumber(unit u, unsigned *n)
{
	BEGIN(u, "DeviceGetMinorNumber");
	*n = (unsigned)u->device;
	return OK;
}

API int nvmlDeviceGetComputeMode(unit u, int *mode)
{
	BEGIN(u, "DeviceGetComputeMode");
	*mode = 0;
	return OK;
}

API int nvmlDeviceGetPersistenceMode(unit u, int *mode)
{
	BEGIN(u, "DeviceGetPersistenceMode");
	*mode = 1;
	return OK;
}

API int nvmlDeviceGetCudaComputeCapability(unit u, int *major, int *minor)
{
	BEGIN(u, "DeviceGetCudaComputeCapability");
	*major = 9;
	*minor = 0;
	return OK;
}

API int nvmlDeviceGetEccMode(unit u, int *now, int *pending)
{
	BEGIN(u, "DeviceGetEccMode");
	*now = *pending = 1;
	return OK;
}

API int nvmlDeviceGetTotalEccErrors(unit u, int type, int counter, uint64_t *n)
{
	BEGIN(u, "DeviceGetTotalEccErrors");
	*n = 0;
	return OK;
}

/* nvmlPciInfo_t: a legacy name, five numbers, the name. */
API int nvmlDeviceGetPciInfo_v3(unit u, char *pci)
{
	BEGIN(u, "DeviceGetPciInfo");
	memset(pci, 0, 16 + 5 * 4 + 32);
	snprintf(pci + 16 + 5 * 4, 32, "00000000:%02X:00.0", u->device + 1);
	return OK;
}

static uint64_t used(unit u)
{
	long long pid, bytes;
	uint64_t sum = 0;

	for (int i = 0; line("process", u->device, i, &pid, &bytes); i++)
		sum += (uint64_t)bytes;
	return sum + state_used(u->device);
}

static uint64_t share(unit u)
{
	int n = slices(u->device);

	return u->slice >= 0 && n ? fake_memory() / (uint64_t)n : fake_memory();
}

/* nvmlMemory_t: total, free, used. */
API int nvmlDeviceGetMemoryInfo(unit u, uint64_t m[3])
{
	BEGIN(u, "DeviceGetMemoryInfo");
	m[0] = share(u);
	m[2] = used(u) < m[0] ? used(u) : m[0];
	m[1] = m[0] - m[2];
	return OK;
}

/* nvmlMemory_v2_t: version, total, reserved, free, used. */
API int nvmlDeviceGetMemoryInfo_v2(unit u, uint64_t m[5])
{
	BEGIN(u, "DeviceGetMemoryInfo_v2");
	m[1] = share(u);
	m[2] = 0;
	m[4] = used(u) < m[1] ? used(u) : m[1];
	m[3] = m[1] - m[4];
	return OK;
}

/* nvmlUtilization_t: of the cores, of the memory's bus. */
API int nvmlDeviceGetUtilizationRates(unit u, unsigned rates[2])
{
	long long percent = 0, unused;

	BEGIN(u, "DeviceGetUtilizationRates");
	if (slices(u->device))
		return NOT_SUPPORTED; /* as with MIG on a real one */
	line("utilization", u->device, 0, &percent, &unused);
	rates[0] = rates[1] = (unsigned)percent;
	return OK;
}

API int nvmlDeviceGetMigMode(unit u, unsigned *now, unsigned *pending)
{
	BEGIN(u, "DeviceGetMigMode");
	*now = *pending = slices(u->device) > 0;
	return OK;
}

API int nvmlDeviceGetMaxMigDeviceCount(unit u, unsigned *n)
{
	BEGIN(u, "DeviceGetMaxMigDeviceCount");
	*n = SLICES;
	return OK;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(unit u, unsigned i, unit *out)
{
	BEGIN(u, "DeviceGetMigDeviceHandleByIndex");
	if (i >= (unsigned)slices(u->device))
		return NOT_FOUND;
	*out = &parts[u->device][i];
	return OK;
}

API int nvmlDeviceIsMigDeviceHandle(unit u, unsigned *is)
{
	BEGIN(u, "DeviceIsMigDeviceHandle");
	*is = u->slice >= 0;
	return OK;
}

API int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(unit u, unit *out)
{
	BEGIN(u, "DeviceGetDeviceHandleFromMigDeviceHandle");
	*out = &whole[u->device];
	return OK;
}

API int nvmlDeviceGetGpuInstanceId(unit u, unsigned *id)
{
	BEGIN(u, "DeviceGetGpuInstanceId");
	*id = (unsigned)u->slice;
	return u->slice < 0 ? NOT_SUPPORTED : OK;
}

API int nvmlDeviceGetComputeInstanceId(unit u, unsigned *id)
{
	BEGIN(u, "DeviceGetComputeInstanceId");
	*id = 0;
	return u->slice < 0 ? NOT_SUPPORTED : OK;
}

API int nvmlDeviceGetSupportedEventTypes(unit u, uint64_t *types)
{
	BEGIN(u, "DeviceGetSupportedEventTypes");
	*types = XID_EVENT;
	return OK;
}

API int nvmlDeviceRegisterEvents(unit u, uint64_t types, void *set)
{
	BEGIN(u, "DeviceRegisterEvents");
	return types & ~(uint64_t)XID_EVENT ? NOT_SUPPORTED : OK;
}

/* nvmlFieldValue_t */
struct field {
	unsigned id, scope;
	int64_t at, took;
	unsigned type, code;
	union {
		unsigned word;
		uint64_t whole;
	} value;
};

API int nvmlDeviceGetFieldValues(unit u, int n, struct field *fields)
{
	enum { RECOVERY_ACTION = 230, UNSIGNED = 1 };
	long long action, unused;

	BEGIN(u, "DeviceGetFieldValues");
	for (int i = 0; i < n; i++) {
		fields[i].code = NOT_SUPPORTED;
		if (fields[i].id != RECOVERY_ACTION ||
		    !line("recovery", u->device, 0, &action, &unused))
			continue;
		fields[i].type = UNSIGNED;
		fields[i].code = OK;
		fields[i].value.word = (unsigned)action;
	}
	return OK;
}

struct events {
	long long reported[DEVICES]; /* the code last reported, -1 none */
};

API int nvmlEventSetCreate(struct events **set)
{
	*set = malloc(sizeof **set);
	for (int d = 0; d < DEVICES; d++)
		(*set)->reported[d] = -1;
	return OK;
}

API int nvmlEventSetFree(struct events *set)
{
	free(set);
	return OK;
}

struct event {
	unit device;
	uint64_t type, data;
	unsigned gpu_instance, compute_instance;
};

API int nvmlEventSetWait_v2(struct events *set, struct event *e, unsigned ms)
{
	for (unsigned waited = 0;; waited += 10) {
		for (int d = 0; d < devices(); d++) {
			long long code = -1, unused;
			line("xid", d, 0, &code, &unused);
			if (code == set->reported[d])
				continue;
			set->reported[d] = code;
			if (code < 0)
				continue;
			*e = (struct event){&whole[d], XID_EVENT, (uint64_t)code, ~0u, ~0u};
			return OK;
		}
		if (waited >= ms)
			return TIMEOUT;
		usleep(10000);
	}
}
