/*
 * A minimal invoker: it does the part of gpu/shimctl's work that a shim sees.
 */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "prog.h"

static int listener = -1;

static struct sockaddr_un address(void)
{
	const char *path = getenv("GPUWHISK_SHIM_SOCKET");
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	CHECK(path && strlen(path) < sizeof a.sun_path);
	strcpy(a.sun_path, path);
	return a;
}

void invoker_listen(void)
{
	struct sockaddr_un a = address();

	unlink(a.sun_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	SAME(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
	SAME(listen(listener, 16), 0);
}

int invoker_fill(int *waiting, int most)
{
	struct sockaddr_un a = address();
	int n = 0;

	SAME(listen(listener, 1), 0);
	for (; n < most; n++) {
		waiting[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (connect(waiting[n], (struct sockaddr *)&a, sizeof a) == 0)
			continue;
		close(waiting[n]);
		return n;
	}
	CHECK(!"a queue that is full");
	return n;
}

void invoker_close_listener(void)
{
	unlink(getenv("GPUWHISK_SHIM_SOCKET"));
	close(listener);
	listener = -1;
}

int invoker_accept_within(int ms)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};

	if (poll(&p, 1, ms) != 1)
		return -1;
	return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

int invoker_accept(void)
{
	int c = invoker_accept_within(HANG_MS);

	CHECK(c >= 0);
	SAME(invoker_receive(c, GW_HELLO).word[0], GW_VERSION);
	invoker_hello(c, GW_VERSION);
	return c;
}

static void put(uint8_t *p, uint64_t v, int n)
{
	for (int i = 0; i < n; i++, v >>= 8)
		p[i] = (uint8_t)v;
}

static uint64_t get(const uint8_t *p, int n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | p[n];
	return v;
}

void invoker_send_raw(int c, const void *bytes, size_t n)
{
	CHECK(send(c, bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
}

void invoker_send(int c, unsigned type, uint64_t epoch, uint64_t a, uint64_t b)
{
	uint8_t f[32] = {32};

	put(f + 4, type, 2);
	put(f + 8, epoch, 8);
	put(f + 16, a, 8);
	put(f + 24, b, 8);
	invoker_send_raw(c, f, sizeof f);
}

void invoker_send_file(int c, uint64_t number, int file)
{
	uint8_t f[24] = {24};
	struct iovec from = {f, sizeof f};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof file)];
	} beside = {0};
	struct msghdr m = {
		.msg_iov = &from, .msg_iovlen = 1, .msg_control = &beside, .msg_controllen = sizeof beside,
	};

	put(f + 4, GW_ARENA, 2);
	put(f + 16, number, 8);
	beside.head.cmsg_level = SOL_SOCKET;
	beside.head.cmsg_type = SCM_RIGHTS;
	beside.head.cmsg_len = CMSG_LEN(sizeof file);
	memcpy(CMSG_DATA(&beside.head), &file, sizeof file);
	SAME(sendmsg(c, &m, MSG_NOSIGNAL), sizeof f);
}

void invoker_hello(int c, uint32_t version)
{
	invoker_send(c, GW_HELLO, 0, version, 1 << 20);
}

static bool read_all(int c, uint8_t *buf, size_t n)
{
	struct pollfd p = {.fd = c, .events = POLLIN};

	while (n) {
		if (poll(&p, 1, HANG_MS) != 1) {
			fprintf(stderr, "the shim is silent\n");
			exit(1);
		}
		ssize_t got = recv(c, buf, n, 0);
		if (got <= 0)
			return false;
		buf += got;
		n -= (size_t)got;
	}
	return true;
}

bool invoker_receive_any(int c, struct shim_frame *s)
{
	uint8_t f[GW_FRAME_MAX];
	size_t at;

	memset(f, 0, sizeof f);
	if (!read_all(c, f, GW_HEADER))
		return false;
	uint64_t len = get(f, 4);
	CHECK(len >= GW_HEADER && len <= sizeof f);
	if (!read_all(c, f + GW_HEADER, len - GW_HEADER))
		return false;
	s->type = (unsigned)get(f + 4, 2);
	s->epoch = get(f + 8, 8);
	for (int i = 0; i < 4; i++)
		s->word[i] = (uint32_t)get(f + 16 + 4 * i, 4);
	at = s->type == GW_DONE ? 32 : 24;
	for (int i = 0; i < 6; i++)
		s->number[i] = get(f + at + 8 * (size_t)i, 8);
	return true;
}

bool invoker_receive_or_end(int c, unsigned type, struct shim_frame *out)
{
	while (invoker_receive_any(c, out))
		if (out->type == type)
			return true;
	return false;
}

struct shim_frame invoker_receive(int c, unsigned type)
{
	struct shim_frame s;

	CHECK(invoker_receive_or_end(c, type, &s));
	return s;
}

struct shim_frame invoker_report(int c)
{
	static uint64_t token = 1ull << 40;
	struct shim_frame s;

	invoker_send(c, GW_REPORT, ++token, 0, 0);
	do
		s = invoker_receive(c, GW_USAGE);
	while (s.epoch != token);
	return s;
}

struct shim_frame invoker_move(int c, unsigned type, uint64_t epoch)
{
	struct shim_frame s;

	invoker_send(c, type, epoch, 0, 0);
	do
		s = invoker_receive(c, GW_DONE);
	while (s.epoch != epoch);
	return s;
}
