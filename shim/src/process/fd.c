#include "process/fd.h"

#include <fcntl.h>
#include <unistd.h>

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
