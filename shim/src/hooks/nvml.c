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

/* The caller's list, which shall have the container's entries of all. */
struct own {
	unsigned room;
	void *list;
	size_t each, pid_at; /* bytes of an entry, and before its pid */
	char *all;
};

/* Call the library with room for so many entries. More processes may have come since they
 * were counted. */
static void *make_room(struct own *o, unsigned n)
{
	free(o->all);
	return o->all = malloc(n * o->each);
}

/* The library gave r, and n entries. Of processes that have ended none is the container's:
 * their environment is gone. */
static int keep_own(struct own *o, int r, unsigned *n, int none)
{
	unsigned count = *n, kept = 0, pid;

	for (unsigned i = 0; r == NVML_SUCCESS && i < count; i++) {
		memcpy(&pid, o->all + i * o->each + o->pid_at, sizeof pid);
		if (!of_container(pid))
			continue;
		if (kept < o->room && o->list)
			memcpy((char *)o->list + kept * o->each, o->all + i * o->each, o->each);
		kept++;
	}
	free(o->all);
	*n = r == NVML_SUCCESS ? kept : o->room;
	if (r != NVML_SUCCESS)
		return r;
	return kept > o->room ? NVML_INSUFFICIENT_SIZE : kept ? NVML_SUCCESS : none;
}

#define LIST(export, params, args, valid, count, entries, entry, none)                        \
	int gw_on_##export(fn_##export *real, GW_LIST params)                                 \
	{                                                                                     \
		if (!(valid))                                                                 \
			return real args;                                                     \
		struct own o = {count, entries, sizeof(entry), offsetof(entry, pid), NULL};   \
		int r;                                                                        \
		for (count = 0, entries = NULL; (r = real args) == NVML_INSUFFICIENT_SIZE;) { \
			count += 8;                                                           \
			entries = make_room(&o, count);                                       \
			if (!entries) {                                                       \
				r = NVML_MEMORY;                                              \
				break;                                                        \
			}                                                                     \
		}                                                                             \
		entries = o.list;                                                             \
		return keep_own(&o, r, &(count), none);                                       \
	}
#include "../../abi.def"

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
