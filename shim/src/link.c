#include "link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

bool gw_link_open(struct gw_link *l, const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	l->have = l->waiting = 0;
	l->fd = gw_own(fd);
	strncpy(to.sun_path, path, sizeof to.sun_path - 1);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
		return true;
	gw_link_close(l);
	return false;
}

void gw_link_close(struct gw_link *l)
{
	gw_disown(&l->fd);
}

/* An invoker that does not read for a second is none. */
enum { PATIENCE_MS = 1000 };

bool gw_link_flush(struct gw_link *l)
{
	size_t sent = 0, all = l->waiting;

	l->waiting = 0;
	while (sent < all) {
		struct pollfd p = {.fd = l->fd.fd, .events = POLLOUT};
		if (!gw_ours(&l->fd))
			return false;
		ssize_t n = send(l->fd.fd, l->out + sent, all - sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0)
			sent += (size_t)n;
		else if (errno == EINTR)
			continue;
		else if (errno != EAGAIN || poll(&p, 1, PATIENCE_MS) <= 0)
			return false;
	}
	return true;
}

bool gw_link_send(struct gw_link *l, struct gw_frame *f)
{
	gw_frame_end(f);
	if (l->waiting + f->len > sizeof l->out && !gw_link_flush(l))
		return false;
	memcpy(l->out + l->waiting, f->buf, f->len);
	l->waiting += f->len;
	return true;
}

bool gw_link_receive(struct gw_link *l)
{
	if (!gw_ours(&l->fd))
		return false;
	if (l->have == sizeof l->in)
		return true;
	ssize_t n = recv(l->fd.fd, l->in + l->have, sizeof l->in - l->have, MSG_DONTWAIT);
	if (n > 0)
		l->have += (size_t)n;
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

int gw_link_next(struct gw_link *l, struct gw_command *out)
{
	for (;;) {
		int took = gw_frame_read(l->in, l->have, out);
		if (took <= 0)
			return took;
		l->have -= (size_t)took;
		memmove(l->in, l->in + took, l->have);
		if (out->type)
			return 1;
	}
}
