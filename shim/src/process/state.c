#include "process/state.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
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

void gw_log_open(int fd)
{
	enum { ABOVE = 100 };

	fd = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE);
	if (fd >= 0)
		log_fd = gw_fd_own(fd);
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
