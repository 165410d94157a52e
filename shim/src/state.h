/*
 * What the environment set, and whether we still take part.
 *
 * Environment, read once:
 *   GPUWHISK_SHIM         managed (default), count or off
 *   GPUWHISK_SHIM_SOCKET  path of the invoker's socket; without it, off
 *   GPUWHISK_SHIM_LIMIT   bytes a process may use, until a LIMIT sets other
 *   GPUWHISK_SHIM_CHUNK   most bytes moved between two looks at the socket
 *   GPUWHISK_SHIM_LOG     number of the descriptor to log on
 */
#ifndef GW_STATE_H
#define GW_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct gw_backend;

struct gw_config {
	const struct gw_backend *backend;
	char socket[108];
	uint64_t chunk;
};
extern struct gw_config gw_config;

/* True when the wrappers shall only forward. */
bool gw_disabled(void);
/* Forward everything from now on, and log why. For good. */
void gw_disable(const char *why);
/* Write a line to the log descriptor, if there is one. */
void gw_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * A program may close descriptors that are not its own and open others under
 * their numbers. Each of ours is known by its inode and checked before use.
 */
struct gw_fd {
	int fd;
	dev_t dev;
	ino_t ino;
};
#define GW_NO_FD ((struct gw_fd){.fd = -1})
/* A program that has closed its standard descriptors may open them again: ours take no
 * number of theirs. */
struct gw_fd gw_fd_own(int fd);
bool gw_fd_is_ours(const struct gw_fd *f);
/* Close it if it is still ours. */
void gw_fd_close(struct gw_fd *f);

/* Nanoseconds that only grow. A pointer, so that a test can step it. */
extern int64_t (*gw_clock)(void);

#endif
