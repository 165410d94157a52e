/*
 * The devices of the fake management library, and slices of devices.
 */
#ifndef FAKE_NVML_UNIT_H
#define FAKE_NVML_UNIT_H

#include <stdint.h>

#define API __attribute__((visibility("default")))

enum {
	OK = 0,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NO_PERMISSION = 4,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	TIMEOUT = 10,
	GPU_IS_LOST = 15,
	OPERATING_SYSTEM = 17,
	DEVICES = 16,
	SLICES = 8,
	XID_EVENT = 8,
};

typedef struct unit {
	int device, slice; /* slice -1: the whole device */
} *unit;

/* Bytes of each device. */
uint64_t fake_memory(void);

/* Every call about a device begins with this. A caller returns the result if it is not 0. */
int begin(unit u, const char *function);
#define BEGIN(u, function)                         \
	do {                                       \
		int begun_ = begin(u, function);   \
		if (begun_)                        \
			return begun_;             \
	} while (0)

#endif
