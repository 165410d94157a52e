/*
 * What the program learns from the management library: of a device's memory what
 * cuMemGetInfo answers, and of its processes those of the same container.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "hooks/serve.h"
#include "memory/registry.h"
#include "process/config.h"

int gw_on_nvml_memory(fn_nvmlDeviceGetMemoryInfo *real, void *device,
		      struct gw_nvml_memory *out)
{
	int r = real(device, out);

	if (r == NVML_SUCCESS && out && gw_below_limit(&out->total, &out->avail))
		out->used = out->total - out->avail;
	return r;
}

/* What the driver keeps for itself lies beyond the limit. */
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

/* A list of the library's, and how it is read. Every entry begins with a pid. */
struct source {
	int (*read)(const struct source *, unsigned *n, void *entries);
	void *real, *device;
	struct gw_nvml_details details; /* of a list of details: its head */
	size_t each;                    /* bytes of an entry */
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
		memcpy(&pid, all + i * s->each, sizeof pid);
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

int gw_on_nvml_processes(fn_nvmlDeviceGetComputeRunningProcesses *real, void *device,
			 unsigned *n, void *list)
{
	struct source s = {read_processes, (void *)real, device,
			   .each = sizeof(struct gw_nvml_process)};

	return n ? list_own(&s, n, list) : real(device, n, list);
}

int gw_on_nvml_processes_v2(fn_nvmlDeviceGetComputeRunningProcesses *real, void *device,
			    unsigned *n, void *list)
{
	struct source s = {read_processes, (void *)real, device,
			   .each = sizeof(struct gw_nvml_process_v2)};

	return n ? list_own(&s, n, list) : real(device, n, list);
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
