/*
 * The state that the processes of a fake device share. The management library reads it.
 */
#ifndef USAGE_H
#define USAGE_H

#include <stdint.h>

enum { USAGE_MAGIC = 0x6b616601, USAGE_SLOTS = 256, USAGE_DEVICES = 8, USAGE_LIMITS = 64 };

/*
 * A process that changes the file locks its byte 0. It holds a lock on byte 1 + its
 * slot for as long as it lives, however it ends and in whatever container it is: a
 * slot whose byte is not locked is free.
 */
struct device_usage {
	uint32_t magic, reserved;
	int64_t busy_until[USAGE_DEVICES][2];
	struct usage_slot {
		uint32_t pid;   /* as its own name space has it */
		uint32_t in_use;
		uint64_t space; /* inode of that name space */
		uint64_t plain[USAGE_DEVICES];   /* bytes that cannot be moved */
		uint64_t managed[USAGE_DEVICES]; /* of managed memory */
		uint64_t kept[USAGE_DEVICES];    /* emptied, and given out when needed */
		/* Managed bytes whose space another process was given. Their owner,
		 * which may be frozen, sends them out when it next does anything. */
		uint64_t stolen[USAGE_DEVICES];
	} slot[USAGE_SLOTS];
	uint64_t group[USAGE_SLOTS]; /* control group of each slot's process, by usage_group */
	/* Limits of control groups, as the management library sets them. */
	struct usage_limit {
		uint64_t group; /* 0: this entry is free */
		uint64_t managed; /* not 0: managed memory counts, too */
		uint64_t hard[USAGE_DEVICES]; /* bytes; 0: no limit on this device */
	} limit[USAGE_LIMITS];
	uint64_t pinned[USAGE_SLOTS]; /* bytes of host memory */
};

/* A number for the path of a control group; 0 for no path. */
static inline uint64_t usage_group(const char *path)
{
	uint64_t h = 14695981039346656037u;

	if (!*path)
		return 0;
	for (; *path; path++)
		h = (h ^ (unsigned char)*path) * 1099511628211u;
	return h ? h : 1;
}

/* The bytes of a device that the live processes of a control group have by these slots. */
static inline uint64_t usage_of_group(const struct device_usage *u, int device, uint64_t group,
				      int managed, int (*lives)(int slot))
{
	uint64_t sum = 0;

	for (int i = 0; i < USAGE_SLOTS; i++)
		if (u->group[i] == group && u->slot[i].in_use && lives(i))
			sum += u->slot[i].plain[device] + (managed ? u->slot[i].managed[device] : 0);
	return sum;
}

#endif
