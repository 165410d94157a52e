#include "process/state.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "process/fd.h"

static atomic_bool disabled;
static struct gw_fd log_fd = {.fd = -1};

bool gw_disabled(void)
{
	return atomic_load_explicit(&disabled, memory_order_relaxed);
}

void gw_disable(const char *why)
{
	if (!atomic_exchange(&disabled, true) && why)
		gw_log("steps aside: %s", why);
}

void gw_log(const char *format, ...)
{
	char line[256];
	int n = snprintf(line, sizeof line, "gpuwhisk-shim[%d]: ", (int)getpid());
	va_list ap;

	if (!gw_fd_is_ours(&log_fd))
		return;
	va_start(ap, format);
	n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, ap);
	va_end(ap);
	if (n > (int)sizeof line - 2)
		n = (int)sizeof line - 2;
	line[n++] = '\n';
	/* A log that cannot be written to is nothing that a guest may mind. */
	if (write(log_fd.fd, line, (size_t)n) < 0)
		return;
}

int64_t gw_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

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

/* Log on a copy of the descriptor: the program may close its own. */
static void open_log(void)
{
	enum { NONE = 1 << 30, ABOVE = 100 };
	int fd = (int)number("GPUWHISK_SHIM_LOG", NONE);

	fd = fd == NONE ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, ABOVE);
	if (fd >= 0)
		log_fd = gw_fd_own(fd);
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
