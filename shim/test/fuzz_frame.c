/*
 * The frame parser on bytes of chance: it never reads beyond them, always makes
 * progress or asks for more, and gives only commands that exist. With libFuzzer
 * where clang has it, else with a loop of its own (argument: rounds).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/agent/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of just this size lets the sanitizer see a step beyond. */
	uint8_t *copy = malloc(size ? size : 1);
	struct gw_command c;
	size_t at = 0;

	memcpy(copy, data, size);
	while (at < size) {
		int took = gw_frame_read(copy + at, size - at, &c);
		if (took <= 0)
			break;
		if (took < GW_HEADER || (size_t)took > size - at || c.type > GW_ARENA)
			abort();
		at += (size_t)took;
	}
	free(copy);
	return 0;
}

#ifdef OWN_LOOP
int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1000000;
	unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	uint8_t buf[2 * GW_FRAME_MAX];

	for (long i = 0; i < rounds; i++) {
		size_t n = (size_t)rand_r(&seed) % sizeof buf;
		for (size_t k = 0; k < n; k++)
			buf[k] = (uint8_t)rand_r(&seed);
		if (n > 4 && rand_r(&seed) % 4) {
			buf[0] = (uint8_t)(rand_r(&seed) % 64);
			buf[1] = buf[2] = buf[3] = buf[5] = 0;
			buf[4] %= 10;
		}
		LLVMFuzzerTestOneInput(buf, n);
	}
	printf("%ld inputs, seed %s\n", rounds, argc > 2 ? argv[2] : "1");
	return 0;
}
#endif
