#include "process/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/state.h"

struct gw_config gw_config;

/* 64 MiB take 1 to 5 ms over PCIe: short against a run that wants to begin,
 * long against the 10 us that a call and a wait cost. */
static const uint64_t default_chunk = 64 << 20;

static uint64_t number(const char *name, uint64_t fallback)
{
	const char *text = getenv(name);
	uint64_t v = 0;

	if (!text || !*text)
		return fallback;
	for (; *text; text++) {
		unsigned digit = (unsigned)*text - '0';
		if (digit > 9 || v > (UINT64_MAX - digit) / 10)
			return fallback;
		v = v * 10 + digit;
	}
	return v;
}

static void open_log(void)
{
	enum { NONE = 1 << 30 };
	int fd = (int)number("GPUWHISK_SHIM_LOG", NONE);

	if (fd != NONE)
		gw_log_open(fd);
}

void gw_config_read(void)
{
	enum { LEAST_CHUNK = 1 << 16 }; /* a page of the driver's */
	const char *mode = getenv("GPUWHISK_SHIM");
	const char *path = getenv("GPUWHISK_SHIM_SOCKET");

	open_log();
	gw_config.chunk = number("GPUWHISK_SHIM_CHUNK", default_chunk);
	if (gw_config.chunk < LEAST_CHUNK)
		gw_config.chunk = default_chunk;
	gw_config.gate_ms = number("GPUWHISK_SHIM_GATE_MS", 60000);
	gw_config.arena = number("GPUWHISK_SHIM_ARENA", 0);
	gw_config.limit = number("GPUWHISK_SHIM_LIMIT", 0);
	gw_config.host_limit = number("GPUWHISK_SHIM_HOST_LIMIT", 0);
	snprintf(gw_config.mode, sizeof gw_config.mode, "%s", mode ? mode : "managed");
	if (path && strlen(path) < sizeof gw_config.socket)
		strcpy(gw_config.socket, path);
}
