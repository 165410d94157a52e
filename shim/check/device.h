/*
 * The device as a program of the check has it: the driver by dlopen, its first
 * device, the kernels, and blocks of memory whose contents are known.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../src/driver/abi.h"

/* What went wrong, with the driver's text; empty while all is well. */
extern char trouble[512];
bool fails(const char *what, CUresult r);

/* Load the driver, make the first device's primary context current, load the
 * kernels. */
bool device_open(void);

struct about {
	char name[128], bus[32];
	int driver, major, minor, processors, managed, concurrent;
	size_t avail, total;
};
bool device_about(struct about *out);
bool device_memory(size_t *avail, size_t *total);

/* A block's words are i * m + b. */
struct block {
	CUdeviceptr at;
	uint64_t bytes, words;
	uint32_t m, b;
};

/* Allocates after a check of what is free: never more than the device has. */
bool block_make(struct block *out, uint64_t bytes);
bool block_free(struct block *b);
/* Whether the driver gives so much, whatever it reports as free. */
bool block_taken(uint64_t bytes);
bool block_fill(struct block *b, uint32_t seed);
/* Passes over the whole block; its contents stay known. */
bool block_work(struct block *b, unsigned passes);
bool block_check(struct block *b, uint64_t *mismatches);
/* Where the last prefetch of the block went: a device, -1 the host, -2 not
 * known. */
int block_place(const struct block *b);

/* A product of square matrices of n rows, so many times. */
bool gemm(unsigned n, unsigned times);
/* Nanoseconds each way: of a copy of pinned memory, and of managed memory that the
 * driver moves. Both keep their memory for the next call. */
bool copy(uint64_t bytes, int64_t *in, int64_t *out);
bool move(uint64_t bytes, int64_t *in, int64_t *out);

int64_t now(void);

#endif
