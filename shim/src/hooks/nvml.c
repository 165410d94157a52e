/*
 * Answers of the management library to the program: a device's memory as cuMemGetInfo
 * reports it, and only the processes of the same container.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "hooks/hooks.h"
#include "memory/registry.h"
#include "process/state.h"

int gw_on_nvml_memory(fn_nvmlDeviceGetMemoryInfo *real, void *device,
		      struct gw_nvml_memory *out)
{
	int r = real(device, out);

	if (r == NVML_SUCCESS && out && gw_below_limit(&out->total, &out->avail))
		out->used = out->total - out->avail;
	return r;
}

/* Memory that the driver keeps for itself is not part of the limit. */
int gw_on_nvml_memory_v2(fn_nvmlDeviceGetMemoryInfo_v2 *real, void *device,
			 struct gw_nvml_memory_v2 *out)
{
	int r = real(device, out);

	if (r == NVML_SUCCESS && out && gw_below_limit(&out->total, &out->avail)) {
		out->used = out->total - out->avail;
		out->reserved = 0;
	}
	return r;
}

/* The processes of a container have the same socket in their environment. One whose
 * environment cannot be read is another's. */
static bool of_container(unsigned pid)
{
	static const char name[] = "GPUWHISK_SHIM_SOCKET=";
	char path[32], *entry = NULL;
	size_t room = 0;
	bool same = pid == (unsigned)getpid();

	snprintf(path, sizeof path, "/proc/%u/environ", pid);
	FILE *f = same ? NULL : fopen(path, "re");
	while (f && !same && getdelim(&entry, &room, 0, f) > 0)
		same = strncmp(entry, name, sizeof name - 1) == 0 &&
		       strcmp(entry + sizeof name - 1, gw_config.socket) == 0;
	free(entry);
	if (f)
		fclose(f);
	return same;
}

/* A list of the library's, and how it is read. */
struct source {
	int (*read)(const struct source *, unsigned *n, void *entries);
	void *real, *device;
	size_t each, pid_at; /* bytes of an entry, and before its pid */
	union {              /* the caller's structure */
		struct gw_nvml_details details;
		struct gw_nvml_utilizations utilizations;
		unsigned long long since;
	};
};

/* All that the library lists, of any container; to be freed. */
static int read_all(const struct source *s, unsigned *n, char **all)
{
	int r;

	/* More processes may have come since they were counted. */
	for (*n = 0, *all = NULL; (r = s->read(s, n, *all)) == NVML_INSUFFICIENT_SIZE;) {
		free(*all);
		*n += 8;
		*all = malloc(*n * s->each);
		if (!*all)
			return NVML_MEMORY;
	}
	return r;
}

static int list_own(const struct source *s, unsigned *n, char *list)
{
	unsigned count, room = *n, kept = 0, pid;
	char *all;
	int r = read_all(s, &count, &all);

	for (unsigned i = 0; r == NVML_SUCCESS && i < count; i++) {
		memcpy(&pid, all + i * s->each + s->pid_at, sizeof pid);
		if (!of_container(pid))
			continue;
		if (kept < room && list)
			memcpy(list + kept * s->each, all + i * s->each, s->each);
		kept++;
	}
	free(all);
	if (r != NVML_SUCCESS)
		return r;
	*n = kept;
	return kept > room ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static int read_processes(const struct source *s, unsigned *n, void *entries)
{
	return ((fn_nvmlDeviceGetComputeRunningProcesses *)s->real)(s->device, n, entries);
}

static int list_of(void *real, void *device, unsigned *n, void *list, size_t each)
{
	struct source s = {read_processes, real, device, .each = each};

	return n ? list_own(&s, n, list) : read_processes(&s, n, list);
}

int gw_on_nvml_processes(fn_nvmlDeviceGetComputeRunningProcesses *real, void *device,
			 unsigned *n, void *list)
{
	return list_of((void *)real, device, n, list, sizeof(struct gw_nvml_process));
}

int gw_on_nvml_processes_v2(fn_nvmlDeviceGetComputeRunningProcesses *real, void *device,
			    unsigned *n, void *list)
{
	return list_of((void *)real, device, n, list, sizeof(struct gw_nvml_process_v2));
}

/* Of processes that have ended none is the container's: their environment is gone. */
int gw_on_nvml_accounted(fn_nvmlDeviceGetAccountingPids *real, void *device, unsigned *n,
			 void *pids)
{
	return list_of((void *)real, device, n, pids, sizeof(unsigned));
}

int gw_on_nvml_account(fn_nvmlDeviceGetAccountingStats *real, void *device, unsigned pid,
		       void *account)
{
	return of_container(pid) ? real(device, pid, account) : NVML_NOT_FOUND;
}

/* It begins with the pid. */
int gw_on_nvml_account_v2(fn_nvmlDeviceGetAccountingStats_v2 *real, void *device,
			  unsigned *account)
{
	return !account || of_container(*account) ? real(device, account) : NVML_NOT_FOUND;
}

static int read_details(const struct source *s, unsigned *n, void *entries)
{
	struct gw_nvml_details d = s->details;

	d.n = *n;
	d.list = entries;
	int r = ((fn_nvmlDeviceGetRunningProcessDetailList *)s->real)(s->device, &d);
	*n = d.n;
	return r;
}

int gw_on_nvml_details(fn_nvmlDeviceGetRunningProcessDetailList *real, void *device,
		       struct gw_nvml_details *list)
{
	struct source s = {read_details, (void *)real, device,
			   .each = sizeof(struct gw_nvml_detail)};

	if (!list)
		return real(device, list);
	s.details = *list;
	return list_own(&s, &list->n, list->list);
}

/* Where nothing ran since, the library has no entries to give. */
static int none_is_not_found(int r, unsigned n)
{
	return r == NVML_SUCCESS && n == 0 ? NVML_NOT_FOUND : r;
}

static int read_samples(const struct source *s, unsigned *n, void *entries)
{
	return ((fn_nvmlDeviceGetProcessUtilization *)s->real)(s->device, entries, n, s->since);
}

int gw_on_nvml_samples(fn_nvmlDeviceGetProcessUtilization *real, void *device, void *list,
		       unsigned *n, unsigned long long since)
{
	struct source s = {read_samples, (void *)real, device,
			   .each = sizeof(struct gw_nvml_sample), .since = since};

	if (!n)
		return real(device, list, n, since);
	int r = list_own(&s, n, list);
	return none_is_not_found(r, *n);
}

static int read_utilizations(const struct source *s, unsigned *n, void *entries)
{
	struct gw_nvml_utilizations u = s->utilizations;

	u.n = *n;
	u.list = entries;
	int r = ((fn_nvmlDeviceGetProcessesUtilizationInfo *)s->real)(s->device, &u);
	*n = u.n;
	return r;
}

int gw_on_nvml_utilizations(fn_nvmlDeviceGetProcessesUtilizationInfo *real, void *device,
			    struct gw_nvml_utilizations *list)
{
	struct source s = {read_utilizations, (void *)real, device,
			   .each = sizeof(struct gw_nvml_utilization),
			   .pid_at = offsetof(struct gw_nvml_utilization, pid)};

	if (!list)
		return real(device, list);
	s.utilizations = *list;
	int r = list_own(&s, &list->n, list->list);
	return none_is_not_found(r, list->n);
}
