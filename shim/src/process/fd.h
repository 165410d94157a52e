/*
 * Descriptors of our own in a process that is another's. A program may close
 * descriptors that are not its own and open others under their numbers: each of ours
 * is known by its inode and checked before use.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

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
