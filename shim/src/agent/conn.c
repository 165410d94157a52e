#include "agent/conn.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

bool gw_conn_open(struct gw_conn *conn, const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	conn->have = conn->waiting = 0;
	conn->passed = GW_NO_FD;
	conn->fd = gw_fd_own(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	strncpy(to.sun_path, path, sizeof to.sun_path - 1);
	if (connect(conn->fd.fd, (struct sockaddr *)&to, sizeof to) == 0)
		return true;
	gw_conn_close(conn);
	return false;
}

void gw_conn_close(struct gw_conn *conn)
{
	gw_fd_close(&conn->fd);
	gw_fd_close(&conn->passed);
}

/* An invoker that does not read for a second is none. */
enum { SEND_TIMEOUT_MS = 1000 };

bool gw_conn_flush(struct gw_conn *conn)
{
	size_t sent = 0, all = conn->waiting;

	conn->waiting = 0;
	while (sent < all) {
		struct pollfd p = {.fd = conn->fd.fd, .events = POLLOUT};
		if (!gw_fd_is_ours(&conn->fd))
			return false;
		ssize_t n = send(conn->fd.fd, conn->out + sent, all - sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0)
			sent += (size_t)n;
		else if (errno == EINTR)
			continue;
		else if (errno != EAGAIN || poll(&p, 1, SEND_TIMEOUT_MS) <= 0)
			return false;
	}
	return true;
}

bool gw_conn_send(struct gw_conn *conn, enum gw_type type, uint64_t epoch, const struct gw_fields *f)
{
	if (conn->waiting + GW_FRAME_MAX > sizeof conn->out && !gw_conn_flush(conn))
		return false;
	conn->waiting += gw_frame_write(conn->out + conn->waiting, type, epoch, f);
	return true;
}

static void keep_descriptor(struct gw_conn *conn, struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len < CMSG_LEN(sizeof fd))
		return;
	memcpy(&fd, CMSG_DATA(c), sizeof fd);
	gw_fd_close(&conn->passed);
	conn->passed = gw_fd_own(fd);
}

bool gw_conn_receive(struct gw_conn *conn)
{
	if (!gw_fd_is_ours(&conn->fd))
		return false;
	if (conn->have == sizeof conn->in)
		return true;
	struct iovec to = {conn->in + conn->have, sizeof conn->in - conn->have};
	union {
		struct cmsghdr head; /* aligns it */
		char space[CMSG_SPACE(sizeof(int))];
	} beside;
	struct msghdr m = {
		.msg_iov = &to, .msg_iovlen = 1, .msg_control = &beside, .msg_controllen = sizeof beside,
	};
	ssize_t n = recvmsg(conn->fd.fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n > 0) {
		conn->have += (size_t)n;
		keep_descriptor(conn, &m);
	}
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

int gw_conn_next(struct gw_conn *conn, struct gw_command *out)
{
	for (;;) {
		int took = gw_frame_read(conn->in, conn->have, out);
		if (took <= 0)
			return took;
		conn->have -= (size_t)took;
		memmove(conn->in, conn->in + took, conn->have);
		if (out->type)
			return 1;
	}
}
