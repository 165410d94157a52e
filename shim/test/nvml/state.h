/*
 * What processes on the fake driver have on its devices, by FAKE_CUDA_STATE.
 */
#ifndef STATE_H
#define STATE_H

#include <stdbool.h>
#include <stdint.h>

struct state_process {
	unsigned pid; /* as we see it */
	uint64_t bytes; /* without managed memory */
};

/* The nth process that holds a context or memory there. False: there is none. */
bool state_nth(int device, int nth, struct state_process *out);
/* All of them together. */
uint64_t state_used(int device);

#endif
