/*
 * The first device of the driver, which dlopen loads, with the kernels of the check and
 * blocks of memory whose contents are known.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../src/driver/abi.h"

/* The last error, with the driver's text. It is empty if there was none. */
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
	void *graph; /* a recorded pass, or NULL */
};

/* Allocate a block, unless the device has less free. */
bool block_make(struct block *out, uint64_t bytes);
/* Allocate a block that stays unwritten, whatever the device reports as free. */
bool block_plain(struct block *out, uint64_t bytes);
bool block_free(struct block *b);
/* Report whether the driver allocates so many bytes, whatever it reports as free. */
bool block_taken(uint64_t bytes);
bool block_fill(struct block *b, uint32_t seed);
/* Passes over the whole block; its contents stay known. */
bool block_work(struct block *b, unsigned passes);
/* Record a pass as a graph, and launch the graph so many times. */
bool block_graph(struct block *b);
bool block_replay(struct block *b, unsigned times);
bool block_check(struct block *b, uint64_t *mismatches);

/* Multiply square matrices of n rows so many times. */
bool gemm(unsigned n, unsigned times);
/* Measure nanoseconds each way of a copy of pinned memory. The memory is kept for the next
 * call. */
bool copy(uint64_t bytes, int64_t *in, int64_t *out);

int64_t now(void);

#endif
