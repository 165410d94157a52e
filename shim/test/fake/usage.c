/*
 * Memory in use on the devices: one table for all processes that share a file, or
 * one of this process alone.
 *
 * Managed memory takes memory of the device by chunks of 2 MiB. A chunk whose last
 * page left is kept: it counts as in use until it is allocated again, by its own
 * block or another process.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"
#include "usage.h"

_Static_assert((int)DEVICES == (int)USAGE_DEVICES, "devices");

static struct device_usage alone;
static struct device_usage *device_state = &alone;
static int file = -1, own_slot;
static struct stat known; /* identifies the file, because a program may close descriptors that are not its own */

static bool lock_byte(int byte, int type, bool wait)
{
	struct flock l = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fcntl(file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l) == 0;
}

static bool locked(int byte)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fcntl(file, F_OFD_GETLK, &l) != 0 || l.l_type != F_UNLCK;
}

static uint64_t name_space(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* The control group of this process: FAKE_CUDA_CGROUP, or by the kernel. */
static uint64_t own_group(void)
{
	const char *named = getenv("FAKE_CUDA_CGROUP");
	char line[512], path[600] = "";
	FILE *f = named ? NULL : fopen("/proc/self/cgroup", "r");

	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, "0::/", 4) == 0 && line[4] != '\n') {
			line[strcspn(line, "\n")] = 0;
			snprintf(path, sizeof path, "/sys/fs/cgroup%s", line + 3);
		}
	if (f)
		fclose(f);
	return usage_group(named ? named : path);
}

/* The caller holds byte 0. */
static bool claim_slot(void)
{
	for (int i = 0; i < USAGE_SLOTS; i++) {
		if (device_state->slot[i].in_use && locked(1 + i))
			continue;
		if (!lock_byte(1 + i, F_WRLCK, false))
			continue;
		struct usage_slot *s = &device_state->slot[i];
		memset(s, 0, sizeof *s);
		device_state->pinned[i] = 0;
		s->pid = (uint32_t)getpid();
		s->space = name_space();
		s->in_use = 1;
		device_state->group[i] = own_group();
		own_slot = i;
		return true;
	}
	return false;
}

static bool open_file(const char *path)
{
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	/* Out of the way of a program that closes or counts its own. */
	int high = file >= 0 ? fcntl(file, F_DUPFD_CLOEXEC, 500) : -1;
	if (high >= 0) {
		close(file);
		file = high;
	}
	if (file < 0 || fstat(file, &known) < 0)
		return false;
	fchmod(file, 0666); /* the containers' users are others */
	if (!lock_byte(0, F_WRLCK, true) || ftruncate(file, sizeof *device_state) < 0)
		return false;
	void *p = mmap(NULL, sizeof *device_state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (p == MAP_FAILED)
		return false;
	device_state = p;
	device_state->magic = USAGE_MAGIC;
	bool ok = claim_slot();
	lock_byte(0, F_UNLCK, true);
	return ok;
}

void fake_usage_open(void)
{
	const char *path = getenv("FAKE_CUDA_STATE");

	if (file >= 0 || !path || !*path)
		return;
	if (!open_file(path)) {
		fprintf(stderr, "fake driver: FAKE_CUDA_STATE=%s cannot be used\n", path);
		file = -1;
		device_state = &alone;
		own_slot = 0;
	}
}

static bool shared(void)
{
	struct stat st;

	return file >= 0 && fstat(file, &st) == 0 && st.st_dev == known.st_dev &&
	       st.st_ino == known.st_ino;
}

static void lock_file(void)
{
	if (shared())
		lock_byte(0, F_WRLCK, true);
}

static void unlock_file(void)
{
	if (shared())
		lock_byte(0, F_UNLCK, true);
}

/* The sum over all live processes. */
static uint64_t in_use(int device)
{
	uint64_t sum = 0;

	for (int i = 0; i < USAGE_SLOTS; i++) {
		struct usage_slot *s = &device_state->slot[i];
		if (i != own_slot && !s->in_use)
			continue;
		if (i != own_slot && shared() && !locked(1 + i))
			memset(s, 0, sizeof *s);
		sum += s->plain[device] + s->managed[device] + s->kept[device];
	}
	return sum;
}

static uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Free bytes of others: first kept memory, then managed memory. */
static uint64_t reclaim_from_others(int device, uint64_t lack)
{
	for (int i = 0; i < USAGE_SLOTS && lack; i++) {
		uint64_t *kept = &device_state->slot[i].kept[device];
		uint64_t some = min(*kept, lack);
		*kept -= some;
		lack -= some;
	}
	for (int i = 0; i < USAGE_SLOTS && lack; i++) {
		struct usage_slot *s = &device_state->slot[i];
		uint64_t some = i == own_slot ? 0 : min(s->managed[device], (lack + CHUNK - 1) / CHUNK * CHUNK);
		s->managed[device] -= some;
		s->stolen[device] += some;
		lack -= min(some, lack);
	}
	return lack;
}

static int slot_lives(int slot) { return slot == own_slot || locked(1 + slot); }

/* This process's control group may have so much more. The caller holds byte 0. */
static bool within_limit(int device, uint64_t bytes, bool managed)
{
	uint64_t group = device_state->group[own_slot];

	for (int i = 0; group && i < USAGE_LIMITS; i++) {
		const struct usage_limit *l = &device_state->limit[i];
		if (l->group == group && l->hard[device] && (l->managed || !managed))
			return usage_of_group(device_state, device, group, l->managed != 0,
					      slot_lives) + bytes <= l->hard[device];
	}
	return true;
}

bool fake_reserve(int device, uint64_t bytes, bool managed)
{
	struct usage_slot *s = &device_state->slot[own_slot];

	lock_file();
	uint64_t used = in_use(device);
	bool ok = within_limit(device, bytes, managed) &&
		  (used + bytes <= fake.capacity ||
		   (bytes <= fake.capacity && !reclaim_from_others(device, used + bytes - fake.capacity)));
	if (ok)
		(managed ? s->managed : s->plain)[device] += bytes;
	unlock_file();
	return ok;
}

/* Free managed memory. Memory that was stolen meanwhile need not be freed; the rest is
 * returned. The caller must be within enter and leave. */
static uint64_t drop_managed(int device, uint64_t bytes)
{
	struct usage_slot *s = &device_state->slot[own_slot];
	uint64_t some = min(bytes, s->managed[device]);

	s->managed[device] -= some;
	s->stolen[device] -= min(bytes - some, s->stolen[device]);
	return some;
}

void fake_release(int device, uint64_t bytes, bool managed)
{
	lock_file();
	if (managed)
		drop_managed(device, bytes);
	else
		device_state->slot[own_slot].plain[device] -= bytes;
	unlock_file();
}

void fake_keep(int device, uint64_t bytes)
{
	lock_file();
	device_state->slot[own_slot].kept[device] += drop_managed(device, bytes);
	unlock_file();
}

uint64_t fake_stolen(int device)
{
	return __atomic_load_n(&device_state->slot[own_slot].stolen[device], __ATOMIC_RELAXED);
}

void fake_stolen_out(int device, uint64_t bytes)
{
	struct usage_slot *s = &device_state->slot[own_slot];

	lock_file();
	uint64_t some = min(bytes, s->stolen[device]);
	s->stolen[device] -= some;
	s->managed[device] -= min(bytes - some, s->managed[device]);
	unlock_file();
}

bool fake_keep_end(int device, uint64_t bytes, bool take)
{
	struct usage_slot *s = &device_state->slot[own_slot];

	lock_file();
	bool ok = s->kept[device] >= bytes;
	if (ok) {
		s->kept[device] -= bytes;
		s->managed[device] += take ? bytes : 0;
	}
	unlock_file();
	return ok;
}

uint64_t fake_in_use(int device)
{
	lock_file();
	uint64_t sum = in_use(device);
	unlock_file();
	return sum;
}

bool fake_pin(int64_t bytes)
{
	uint64_t sum = 0;

	lock_file();
	for (int i = 0; i < USAGE_SLOTS; i++)
		if (i == own_slot || (device_state->slot[i].in_use && locked(1 + i)))
			sum += device_state->pinned[i];
	bool ok = bytes <= 0 || !fake.pinnable || sum + (uint64_t)bytes <= fake.pinnable;
	if (ok)
		device_state->pinned[own_slot] += (uint64_t)bytes;
	unlock_file();
	return ok;
}

int64_t fake_link(int device, bool to_device, int64_t from, int64_t ns)
{
	lock_file();
	int64_t *busy = &device_state->busy_until[device][to_device];
	*busy = (*busy > from ? *busy : from) + ns;
	int64_t until = *busy;
	unlock_file();
	return until;
}
