#include "state.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "hooks.h"
#include "registry.h"

enum { UNREAD, READING, READ };

struct gw_config gw_config;

static atomic_int progress = UNREAD;
static atomic_bool disabled;
static struct gw_fd log_fd = {.fd = -1};

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

/* Keep our own copy of the descriptor: the program may close its own. */
static void open_log(void)
{
	int fd = (int)number("GPUWHISK_SHIM_LOG", 1 << 30);

	if (fd == 1 << 30)
		return;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	if (fd >= 0)
		log_fd = gw_fd_own(fd);
}

static void read_limit(enum gw_account account, const char *name)
{
	uint64_t bytes = number(name, 0);

	gw_set_limit(account, (struct gw_limit){bytes, bytes});
}

static void read_config(void)
{
	const char *word = getenv("GPUWHISK_SHIM");
	const char *path = getenv("GPUWHISK_SHIM_SOCKET");

	open_log();
	gw_config.chunk = number("GPUWHISK_SHIM_CHUNK", default_chunk);
	if (gw_config.chunk < 1 << 16) /* a page of the driver's */
		gw_config.chunk = default_chunk;
	read_limit(GW_DEVICE_BYTES, "GPUWHISK_SHIM_LIMIT");
	read_limit(GW_HOST_BYTES, "GPUWHISK_SHIM_HOST_LIMIT");
	gw_config.backend = gw_backend_named(word ? word : "managed");
	if (word && strcmp(word, "off") == 0) {
		atomic_store(&disabled, true);
		return;
	}
	if (!gw_libc_supported())
		gw_disable("the C library is not glibc");
	else if (!gw_config.backend)
		gw_disable("GPUWHISK_SHIM is none of managed, count, off");
	else if (!path || !*path || strlen(path) >= sizeof gw_config.socket)
		gw_disable("GPUWHISK_SHIM_SOCKET names no usable path");
	else
		strcpy(gw_config.socket, path);
}

/* Before the program has threads; a constructor before ours may have been
 * here already. */
__attribute__((constructor)) static void read_early(void)
{
	gw_disabled();
}

bool gw_disabled(void)
{
	int seen = atomic_load_explicit(&progress, memory_order_acquire);

	if (seen != READ) {
		int expect = UNREAD;
		/* A thread that comes while another reads forwards, once. */
		if (!atomic_compare_exchange_strong(&progress, &expect, READING))
			return true;
		read_config();
		atomic_store_explicit(&progress, READ, memory_order_release);
	}
	return atomic_load_explicit(&disabled, memory_order_relaxed);
}

void gw_disable(const char *why)
{
	if (!atomic_exchange(&disabled, true))
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

struct gw_fd gw_fd_own(int fd)
{
	enum { STANDARD = 3 };
	struct stat st;

	if (fd >= 0 && fd < STANDARD) {
		int low = fd;
		fd = fcntl(low, F_DUPFD_CLOEXEC, STANDARD);
		close(low);
	}
	struct gw_fd f = {.fd = fd};
	if (fd < 0 || fstat(fd, &st) < 0)
		return GW_NO_FD;
	f.dev = st.st_dev;
	f.ino = st.st_ino;
	return f;
}

bool gw_fd_is_ours(const struct gw_fd *f)
{
	struct stat st;

	return f->fd >= 0 && fstat(f->fd, &st) == 0 && st.st_dev == f->dev &&
	       st.st_ino == f->ino;
}

void gw_fd_close(struct gw_fd *f)
{
	if (gw_fd_is_ours(f))
		close(f->fd);
	*f = GW_NO_FD;
}

static int64_t monotonic(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t (*gw_clock)(void) = monotonic;
