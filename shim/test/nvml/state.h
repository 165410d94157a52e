/*
 * The memory that processes on the fake driver have on its devices, by FAKE_CUDA_STATE.
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
struct device_usage;
/* Returns the memory of the live processes of a control group on a device, by an open
 * state. */
uint64_t state_used_of(int file, const struct device_usage *state, int device, uint64_t group,
		       bool managed);
/* Returns the memory of all processes on a device. */
uint64_t state_used(int device);

#endif
