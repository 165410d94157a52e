/*
 * A program on the GPU that does what it reads, a line at a time, and answers
 * each with "ok", or a number, or ends with what went wrong.
 *
 *   alloc BYTES        a block; its number
 *   managed BYTES      a block of managed memory; its number
 *   try BYTES          a block without a number; the driver's code
 *   pin BYTES          pinned host memory; the driver's code
 *   many COUNT BYTES   so many blocks without a number
 *   fill BLOCK SEED    write its contents
 *   check BLOCK SEED   see that they are the same
 *   free BLOCK
 *   used               its bytes on the device, to the page
 *   counts             bytes that count as used there, of all processes
 */
#include <string.h>

#include "prog.h"

enum { BLOCKS_MAX = 1024 };

static struct {
	CUdeviceptr at;
	size_t bytes;
} block[BLOCKS_MAX];
static int blocks;

static void answer(unsigned long long n)
{
	printf("%llu\n", n);
	fflush(stdout);
}

static void many(unsigned long count, unsigned long bytes)
{
	CUdeviceptr p;

	while (count--)
		OK(cu.cuMemAlloc_v2(&p, bytes));
}

static unsigned long long execute(const char *verb, unsigned long a, unsigned long b)
{
	if (strcmp(verb, "alloc") == 0) {
		CHECK(blocks < BLOCKS_MAX);
		OK(cu.cuMemAlloc_v2(&block[blocks].at, a));
		block[blocks].bytes = a;
		return (unsigned long long)blocks++;
	}
	if (strcmp(verb, "managed") == 0) {
		CHECK(blocks < BLOCKS_MAX);
		OK(cu.cuMemAllocManaged(&block[blocks].at, a, 1));
		block[blocks].bytes = a;
		return (unsigned long long)blocks++;
	}
	if (strcmp(verb, "try") == 0) {
		CUdeviceptr p;
		return (unsigned long long)cu.cuMemAlloc_v2(&p, a);
	}
	if (strcmp(verb, "pin") == 0) {
		void *p;
		return (unsigned long long)cu.cuMemHostAlloc(&p, a, 0);
	}
	if (strcmp(verb, "many") == 0) {
		many(a, b);
	} else if (strcmp(verb, "used") == 0) {
		return in_use();
	} else if (strcmp(verb, "counts") == 0) {
		return counts_as_used();
	} else {
		CHECK(a < (unsigned long)blocks);
		if (strcmp(verb, "fill") == 0)
			pattern_write(block[a].at, block[a].bytes, (unsigned)b);
		else if (strcmp(verb, "check") == 0)
			pattern_check(block[a].at, block[a].bytes, (unsigned)b);
		else if (strcmp(verb, "free") == 0)
			OK(cu.cuMemFree_v2(block[a].at));
		else
			CHECK(!"a known verb");
	}
	return 0;
}

int main(void)
{
	char line[128], verb[32];

	cuda_open("gpa2");
	answer(0);
	while (fgets(line, sizeof line, stdin)) {
		unsigned long a = 0, b = 0;
		CHECK(sscanf(line, "%31s %lu %lu", verb, &a, &b) >= 1);
		answer(execute(verb, a, b));
	}
	return 0;
}
