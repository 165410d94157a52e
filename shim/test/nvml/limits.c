/*
 * Limits of device memory for control groups, as the library has them from CUDA 13.4 on.
 * FAKE_NVML_LIMITS says how this driver counts:
 *
 *   all      a limit counts all memory of the group's processes
 *   plain    a limit does not count managed memory
 *   refused  the driver refuses to set a limit
 *   unread   a limit can be set, and the driver does not tell the group's use
 *
 * Without it the driver has no such limits. They lie in FAKE_CUDA_STATE, where the fake
 * driver obeys them.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../fake/usage.h"
#include "script.h"
#include "state.h"
#include "unit.h"

static const uint64_t none = ~(uint64_t)0;

/* nvmlSetMemoryLimits_v1_t and, with the use, nvmlGetMemoryLimits_v1_t. */
struct limits {
	const char *path;
	unsigned long long soft, hard;
};
struct limits_in_use {
	const char *path;
	unsigned long long soft, hard, used;
};

enum manner { MISSING, PLAIN, ALL, REFUSED, UNREAD };

static enum manner manner(void)
{
	static const char *const names[] = {
		[PLAIN] = "plain", [ALL] = "all", [REFUSED] = "refused", [UNREAD] = "unread",
	};
	const char *text = getenv("FAKE_NVML_LIMITS");

	for (enum manner m = PLAIN; text && m <= UNREAD; m++)
		if (strcmp(text, names[m]) == 0)
			return m;
	return MISSING;
}

/* Open the state and hold its lock. Negative: there is none. */
static int lock_state(struct device_usage *state)
{
	const char *path = getenv("FAKE_CUDA_STATE");
	int file = path && *path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	if (file < 0)
		return -1;
	if (fcntl(file, F_OFD_SETLKW, &l) < 0 ||
	    pread(file, state, sizeof *state, 0) != sizeof *state) {
		close(file);
		return -1;
	}
	return file;
}

/* The entry of a group, or a free one. */
static struct usage_limit *entry(struct device_usage *state, uint64_t group)
{
	struct usage_limit *unused = NULL;

	for (int i = 0; i < USAGE_LIMITS; i++) {
		if (state->limit[i].group == group)
			return &state->limit[i];
		if (!state->limit[i].group && !unused)
			unused = &state->limit[i];
	}
	return unused;
}

API int nvmlDeviceSetMemoryLimits_v1(unit u, struct limits *l)
{
	struct device_usage *state;
	int file, r = OPERATING_SYSTEM;

	BEGIN(u, "DeviceSetMemoryLimits_v1");
	if (manner() == MISSING || u->slice >= 0 || u->device >= USAGE_DEVICES)
		return NOT_SUPPORTED;
	if (manner() == REFUSED)
		return NO_PERMISSION;
	if (!l || !l->path || l->soft > l->hard || (l->hard != none && l->hard > fake_memory()))
		return INVALID_ARGUMENT;
	state = malloc(sizeof *state);
	file = lock_state(state);
	struct usage_limit *e = file >= 0 ? entry(state, usage_group(l->path)) : NULL;
	if (e) {
		e->group = usage_group(l->path);
		e->managed = manner() == ALL;
		e->hard[u->device] = l->hard == none ? 0 : l->hard;
		off_t at = (char *)e - (char *)state;
		r = pwrite(file, e, sizeof *e, at) == sizeof *e ? OK : OPERATING_SYSTEM;
	}
	if (file >= 0)
		close(file);
	free(state);
	return r;
}

API int nvmlDeviceGetMemoryLimits_v1(unit u, struct limits_in_use *l)
{
	struct device_usage *state;
	int file, r = NOT_FOUND;

	BEGIN(u, "DeviceGetMemoryLimits_v1");
	if (manner() == MISSING || u->slice >= 0 || u->device >= USAGE_DEVICES)
		return NOT_SUPPORTED;
	if (manner() == UNREAD)
		return OPERATING_SYSTEM;
	if (!l || !l->path)
		return INVALID_ARGUMENT;
	state = malloc(sizeof *state);
	file = lock_state(state);
	struct usage_limit *e = file >= 0 ? entry(state, usage_group(l->path)) : NULL;
	if (e && e->group && e->hard[u->device]) {
		l->soft = 0;
		l->hard = e->hard[u->device];
		l->used = state_used_of(file, state, u->device, e->group, e->managed != 0);
		r = OK;
	}
	if (file >= 0)
		close(file);
	free(state);
	return r;
}
