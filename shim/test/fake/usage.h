/*
 * What the processes of a fake device share. The management library reads it.
 */
#ifndef USAGE_H
#define USAGE_H

#include <stdint.h>

enum { USAGE_MAGIC = 0x6b616601, USAGE_SLOTS = 256, USAGE_DEVICES = 8 };

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
};

#endif
