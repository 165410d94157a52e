#include "state.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fake/usage.h"

static uint64_t space_of(const char *pid)
{
	char path[300];
	struct stat st;

	snprintf(path, sizeof path, "/proc/%s/ns/pid", pid);
	return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* A process's number in its own name space. */
static unsigned innermost(const char *pid)
{
	char path[300], line[256];
	unsigned n = 0;

	snprintf(path, sizeof path, "/proc/%s/status", pid);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, "NSpid:", 6) == 0) {
			line[strcspn(line, "\n")] = 0;
			n = (unsigned)atoi(strrchr(line, '\t') + 1);
		}
	if (f)
		fclose(f);
	return n;
}

/* The number by which we know a process; 0: it is not seen from here. */
static unsigned seen_as(const struct usage_slot *s)
{
	unsigned pid = 0;

	if (s->space == space_of("self"))
		return s->pid;
	DIR *proc = opendir("/proc");
	for (struct dirent *e; proc && !pid && (e = readdir(proc));)
		if (atoi(e->d_name) > 0 && innermost(e->d_name) == s->pid && space_of(e->d_name) == s->space)
			pid = (unsigned)atoi(e->d_name);
	if (proc)
		closedir(proc);
	return pid;
}

static bool lives(int file, int slot)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1 + slot, .l_len = 1};

	return fcntl(file, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

/* Go through the live processes; the lock is not taken, for its owner may be
 * frozen. */
static int walk(int device, int nth, struct state_process *out, uint64_t *sum)
{
	const char *path = getenv("FAKE_CUDA_STATE");
	int file = path && *path && device < USAGE_DEVICES ? open(path, O_RDONLY | O_CLOEXEC) : -1, n = 0;
	struct device_usage *shared = calloc(1, sizeof *shared);

	if (file >= 0 && pread(file, shared, sizeof *shared, 0) == sizeof *shared && shared->magic == USAGE_MAGIC)
		for (int i = 0; i < USAGE_SLOTS; i++) {
			const struct usage_slot *s = &shared->slot[i];
			if (!s->in_use || !lives(file, i))
				continue;
			*sum += s->plain[device] + s->managed[device] + s->kept[device];
			/* As on a card, managed memory is not in a process's number. */
			if (n++ == nth && out)
				*out = (struct state_process){seen_as(s), s->plain[device]};
		}
	if (file >= 0)
		close(file);
	free(shared);
	return n;
}

bool state_nth(int device, int nth, struct state_process *out)
{
	uint64_t sum = 0;

	return walk(device, nth, out, &sum) > nth;
}

uint64_t state_used(int device)
{
	uint64_t sum = 0;

	walk(device, -1, NULL, &sum);
	return sum;
}

static int state_file;
static int slot_lives(int slot) { return lives(state_file, slot); }

uint64_t state_used_of(int file, const struct device_usage *state, int device, uint64_t group,
		       bool managed)
{
	state_file = file;
	return usage_of_group(state, device, group, managed, slot_lives);
}
