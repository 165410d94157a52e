/*
 * The frames on the socket. All numbers are little endian.
 *
 *   u32 length of the whole frame, 16 to 256
 *   u16 type
 *   u16 flags, 0
 *   u64 epoch: of a command and of what answers it, else 0
 *   payload: fields as listed; a reader ignores what follows them
 *
 * to the invoker                  from the invoker
 *   HELLO    u32 version            HELLO    u32 version
 *            u32 pid                         u32 reserved
 *            u32 backend                     u64 bytes of change worth a USAGE
 *            u32 hooks              LIMIT    u64 bytes, 0 is none
 *   ACCEPTED u32 command                     u64 pinned host bytes, 0 is none
 *   DONE     u32 command                     u64, u64 the same of what a WANT
 *            i32 status                          could bring; as the first two where
 *            i32 driver's code                   they are left out
 *            u32 reserved           PREFETCH u64 budget, 0 is all
 *            u64 bytes moved                 u64 nanoseconds, 0 is no deadline
 *            u64 nanoseconds        EVICT    u64 bytes, 0 is all
 *            u64 bytes resident     REPORT
 *                                   GATE     u32 1 a run begins, 0 it ended
 *                                   PING
 *                                   ARENA    u64 number of the process, with a descriptor:
 *                                            the container's file for memory that is out
 *   USAGE    u32 contexts
 *            u32 reserved
 *            u64 allocated
 *            u64 resident
 *            u64 fixed
 *            u64 pinned host bytes
 *            u64 blocks
 *            u64 managed memory
 *            u64 bytes that the driver lists for the process
 *   PONG     the epoch of a PING; 0, once a second, while a part of the memory that is
 *            under way takes long
 *   REFUSED  u32 sign: 1 managed memory was refused where plain was given,
 *                2 a kernel's fault after a move, 3 memory cannot be shared,
 *                4 a kernel's fault although nothing was moved
 *            i32 driver's code
 *   WANT     the process would hold more than it may; its epoch is that of the LIMIT
 *            which answers
 *
 * The first LIMIT comes before the HELLO: after that the program allocates.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_VERSION = 2, GW_HEADER = 16, GW_FRAME_MAX = 256 };

enum gw_type {
	GW_HELLO = 1,
	GW_LIMIT = 2,
	GW_PREFETCH = 3,
	GW_EVICT = 4,
	GW_REPORT = 5,
	GW_GATE = 6,
	GW_PING = 7,
	GW_ARENA = 8,
	GW_ACCEPTED = 16,
	GW_DONE = 17,
	GW_USAGE = 18,
	GW_PONG = 19,
	GW_REFUSED = 20,
	GW_WANT = 21,
};

enum gw_status {
	GW_OK = 0,
	GW_CANCELLED = 1, /* a newer command or the begin of a run came */
	GW_STALE = 2,     /* a newer epoch was seen before */
	GW_FAILED = 3,    /* the driver refused a part */
	GW_PARTIAL = 4,   /* the budget or the deadline ended it */
};

/* A command as it came. */
struct gw_command {
	enum gw_type type;
	uint64_t epoch;
	uint64_t field[4]; /* the payload by eight bytes, 0 where it is shorter */
	uint32_t word;     /* its first four bytes */
};

/* Read one command from the start of a buffer: the bytes it took, 0 when more
 * are needed, -1 when this can be no frame. An unknown type takes its
 * bytes and gives type 0. */
int gw_frame_read(const uint8_t *buf, size_t len, struct gw_command *out);

/* The fields of a frame: first words of four bytes, then numbers of eight. */
struct gw_fields {
	uint32_t words[4];
	uint64_t numbers[7];
	unsigned n_words, n_numbers;
};
/* Write a frame to a buffer with room for GW_FRAME_MAX bytes. Returns its length. */
size_t gw_frame_write(uint8_t *buf, enum gw_type type, uint64_t epoch, const struct gw_fields *f);
