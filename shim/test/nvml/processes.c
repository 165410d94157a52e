/*
 * The management library's lists of a device's processes.
 */
#include <stdint.h>
#include <string.h>

#include "script.h"
#include "state.h"
#include "unit.h"

struct process {
	unsigned pid;
	uint64_t bytes;
	unsigned gpu_instance, compute_instance;
	uint64_t protected_bytes;
};

/* Entries of so many bytes: each age of a list has a shorter or longer one. */
static int processes(unit u, const char *word, unsigned *n, char *out, size_t each)
{
	struct process p = {.gpu_instance = ~0u, .compute_instance = ~0u};
	struct state_process real;
	unsigned size = *n;
	long long pid, bytes;

	*n = 0;
	for (int i = 0; line(word, u->device, i, &pid, &bytes); i++, ++*n) {
		p.pid = (unsigned)pid;
		p.bytes = (uint64_t)bytes;
		if (*n < size && out)
			memcpy(out + *n * each, &p, each);
	}
	for (int i = 0; strcmp(word, "process") == 0 && state_nth(u->device, i, &real); i++, ++*n) {
		p.pid = real.pid;
		p.bytes = real.bytes;
		if (*n < size && out)
			memcpy(out + *n * each, &p, each);
	}
	return *n > size ? INSUFFICIENT_SIZE : OK;
}

#define PROCESSES(kind, word, version, each)                                              \
	API int nvmlDeviceGet##kind##RunningProcesses##version(unit u, unsigned *n, void *out) \
	{                                                                                 \
		BEGIN(u, "DeviceGet" #kind "RunningProcesses");                           \
		return processes(u, word, n, out, each);                                  \
	}
#define AGES_OF_PROCESSES(kind, word)     \
	PROCESSES(kind, word, , 16)       \
	PROCESSES(kind, word, _v2, 24)    \
	PROCESSES(kind, word, _v3, 24)
AGES_OF_PROCESSES(Compute, "process")
AGES_OF_PROCESSES(Graphics, "graphics")
AGES_OF_PROCESSES(MPSCompute, "mps")

/* nvmlProcessDetailList_t */
struct details {
	unsigned version, mode, n;
	struct process *list;
};

API int nvmlDeviceGetRunningProcessDetailList(unit u, struct details *d)
{
	BEGIN(u, "DeviceGetRunningProcessDetailList");
	return processes(u, "process", &d->n, (char *)d->list, sizeof *d->list);
}

/* nvmlProcessUtilizationSample_t and nvmlProcessUtilizationInfo_v1_t: values that are not
 * about the cores are 0. */
struct sample {
	unsigned pid;
	uint64_t at;
	unsigned sm, rest[3];
};
struct utilization {
	uint64_t at;
	unsigned pid, sm, rest[5];
};

/* Entries of either sort. */
static int samples(unit u, unsigned *n, struct sample *list, struct utilization *of)
{
	unsigned size = *n;
	long long pid, percent;

	for (*n = 0; line("sample", u->device, (int)*n, &pid, &percent); ++*n) {
		if (*n < size && list)
			list[*n] = (struct sample){(unsigned)pid, 1, (unsigned)percent, {0}};
		if (*n < size && of)
			of[*n] = (struct utilization){1, (unsigned)pid, (unsigned)percent, {0}};
	}
	if (!*n)
		return NOT_FOUND;
	return *n > size || !(list || of) ? INSUFFICIENT_SIZE : OK;
}

API int nvmlDeviceGetProcessUtilization(unit u, struct sample *list, unsigned *n, uint64_t since)
{
	BEGIN(u, "DeviceGetProcessUtilization");
	return samples(u, n, list, NULL);
}

/* nvmlProcessesUtilizationInfo_v1_t */
struct utilizations {
	unsigned version, n;
	uint64_t since;
	struct utilization *list;
};

API int nvmlDeviceGetProcessesUtilizationInfo(unit u, struct utilizations *all)
{
	BEGIN(u, "DeviceGetProcessesUtilizationInfo");
	return samples(u, &all->n, NULL, all->list);
}

API int nvmlDeviceGetAccountingPids(unit u, unsigned *n, unsigned *pids)
{
	unsigned size = *n;
	long long pid, percent;

	BEGIN(u, "DeviceGetAccountingPids");
	for (*n = 0; line("account", u->device, (int)*n, &pid, &percent); ++*n)
		if (*n < size && pids)
			pids[*n] = (unsigned)pid;
	return *n > size ? INSUFFICIENT_SIZE : OK;
}

static int account(unit u, unsigned of, unsigned *sm)
{
	long long pid, percent;

	for (int i = 0; line("account", u->device, i, &pid, &percent); i++)
		if (pid == of) {
			*sm = (unsigned)percent;
			return OK;
		}
	return NOT_FOUND;
}

/* nvmlAccountingStats_t begins with the cores', _v2 with the pid and whether it runs. */
API int nvmlDeviceGetAccountingStats(unit u, unsigned pid, unsigned *stats)
{
	BEGIN(u, "DeviceGetAccountingStats");
	return account(u, pid, &stats[0]);
}
API int nvmlDeviceGetAccountingStats_v2(unit u, unsigned *stats)
{
	BEGIN(u, "DeviceGetAccountingStats");
	return account(u, stats[0], &stats[2]);
}
