/*
 * The agent: one thread of the process, started after the first successful
 * cuInit, that connects to the invoker and carries out its orders. It takes no signals,
 * makes no context, and keeps trying when the invoker is away.
 */
#include "agent.h"

#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "context.h"
#include "hooks.h"
#include "conn.h"
#include "refusal.h"
#include "registry.h"
#include "report.h"
#include "work.h"

enum {
	/* The driver's calls are made on it; only what is used takes memory. */
	STACK = 1 << 20,
	FIRST_BACKOFF_MS = 20,
	LONGEST_BACKOFF_MS = 2000,
	/* Small changes are reported after this, large ones not more often than that. */
	QUIET_MS = 500,
	USAGE_MS = 10,
	/* An invoker that has not answered by then does not; it waits for other processes,
	 * half a second each time. */
	LIMIT_MS = 1000,
	ANSWER_MS = 5000,
};

static atomic_bool started;
static struct gw_fd wake_fd[2] = {{.fd = -1}, {.fd = -1}};
static _Atomic uint64_t changed;              /* bytes since the last USAGE */
static _Atomic uint64_t threshold = 16 << 20; /* that are worth one at once */
static atomic_bool wake_pending, connected;

/* What allocating threads wait for. */
static atomic_bool limit_known;          /* or there is no invoker to set one */
static _Atomic uint64_t asked, answered; /* numbers of WANTs */
static _Atomic uint32_t progress;        /* of any of these; a futex */

/* Owned by the agent's thread. */
static struct {
	struct gw_conn conn;
	bool connected, refused;
	bool gated; /* this invoker reports runs */
	uint64_t newest; /* epoch */
	uint64_t want_sent;
	struct gw_work work;
	int64_t usage_sent; /* when the last USAGE went */
} agent;

void gw_agent_changed(uint64_t bytes)
{
	if (!atomic_load_explicit(&started, memory_order_relaxed))
		return;
	if (atomic_fetch_add(&changed, bytes + 1) + bytes >= atomic_load(&threshold))
		gw_agent_wake();
}

void gw_agent_wake(void)
{
	if (!atomic_exchange(&wake_pending, true) && gw_fd_is_ours(&wake_fd[1]))
		send(wake_fd[1].fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool gw_agent_connected(void) { return atomic_load(&connected); }

static void made_progress(void)
{
	atomic_fetch_add(&progress, 1);
	syscall(SYS_futex, &progress, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool limit_is_known(uint64_t unused) { return atomic_load(&limit_known); }

static bool is_answered(uint64_t number)
{
	return atomic_load(&answered) >= number || !atomic_load(&connected);
}

static void await_progress(bool (*done)(uint64_t), uint64_t arg, int64_t ms)
{
	int64_t end = gw_clock() + ms * 1000000;

	for (;;) {
		uint32_t seen = atomic_load(&progress);
		int64_t left = end - gw_clock();
		if (done(arg) || left <= 0)
			return;
		struct timespec t = {left / 1000000000, left % 1000000000};
		syscall(SYS_futex, &progress, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
	}
}

void gw_agent_await_limit(void)
{
	if (atomic_load_explicit(&limit_known, memory_order_relaxed) || !atomic_load(&started))
		return;
	await_progress(limit_is_known, 0, LIMIT_MS);
	atomic_store(&limit_known, true);
}

bool gw_agent_ask(void)
{
	uint64_t number = atomic_fetch_add(&asked, 1) + 1;

	gw_agent_wake();
	await_progress(is_answered, number, ANSWER_MS);
	return atomic_load(&answered) >= number;
}

static void set_limit_known(void)
{
	atomic_store(&limit_known, true);
	made_progress();
}

static bool send_want(void)
{
	uint64_t number = atomic_load(&asked);
	struct gw_frame f;

	if (number == agent.want_sent)
		return true;
	agent.want_sent = number;
	gw_frame_begin(&f, GW_WANT, number);
	return gw_conn_send(&agent.conn, &f);
}

static void command_limit(const struct gw_command *c)
{
	gw_set_limit(GW_DEVICE_BYTES, (struct gw_limit){c->limit[0], c->limit[2]});
	gw_set_limit(GW_HOST_BYTES, (struct gw_limit){c->limit[1], c->limit[3]});
	if (c->epoch > atomic_load(&answered))
		atomic_store(&answered, c->epoch);
	made_progress();
}

static bool send_usage(uint64_t epoch, bool at_rest)
{
	struct gw_frame f;

	atomic_store(&changed, 0);
	agent.usage_sent = gw_clock();
	/* Between orders and runs' ends the program may be using any of it. */
	struct gw_totals t = gw_work_totals(at_rest);
	gw_frame_begin(&f, GW_USAGE, epoch);
	gw_frame_u32(&f, gw_contexts());
	gw_frame_u32(&f, 0);
	gw_frame_u64(&f, t.allocated);
	gw_frame_u64(&f, t.resident);
	gw_frame_u64(&f, t.fixed);
	gw_frame_u64(&f, t.host);
	gw_frame_u64(&f, t.blocks);
	return gw_conn_send(&agent.conn, &f);
}

/* The work is over: the usage first, then the answer, so that an invoker that gets
 * the answer knows the usage. */
static bool finish(bool cancelled)
{
	enum gw_type type = agent.work.type;
	enum gw_status status;

	if (!type)
		return true;
	status = gw_work_end(&agent.work);
	if (cancelled && status != GW_FAILED)
		status = GW_CANCELLED;
	return send_usage(agent.work.epoch, true) && gw_send_done(&agent.conn, &agent.work, type, status);
}

static bool command_move(const struct gw_command *c)
{
	struct gw_work stale = {.epoch = c->epoch, .began = gw_clock()};

	if (c->epoch < agent.newest)
		return gw_send_done(&agent.conn, &stale, c->type, GW_STALE);
	if (agent.work.type == c->type && agent.work.epoch == c->epoch)
		return gw_send_accepted(&agent.conn, c); /* asked again */
	agent.newest = c->epoch;
	if (!finish(true) || !gw_send_accepted(&agent.conn, c))
		return false;
	gw_work_begin(&agent.work, c, agent.gated);
	return true;
}

/* A run begins: what is on its way out comes back with it. A run ended: it may
 * have used everything. */
static bool command_gate(const struct gw_command *c)
{
	bool ok = true;

	if (c->word && agent.work.type == GW_EVICT)
		ok = finish(true);
	agent.gated = true;
	gw_set_dirty();
	if (c->word)
		return ok;
	gw_work_probe();
	return ok && gw_send_refused(&agent.conn) && send_usage(c->epoch, true);
}

static bool command_hello(const struct gw_command *c)
{
	if (c->word != GW_VERSION) {
		gw_log("the invoker has version %u, the shim %d: memory stays unmanaged by it",
		       c->word, GW_VERSION);
		agent.refused = true;
		return false;
	}
	atomic_store(&threshold, c->bytes ? c->bytes : 1);
	set_limit_known();
	return true;
}

/* False: the connection is of no more use. */
static bool command(const struct gw_command *c)
{
	struct gw_frame pong;

	switch (c->type) {
	case GW_HELLO:
		return command_hello(c);
	case GW_LIMIT:
		command_limit(c);
		return true;
	case GW_PREFETCH:
	case GW_EVICT:
		return command_move(c);
	case GW_REPORT:
		return send_usage(c->epoch, true);
	case GW_GATE:
		return command_gate(c);
	case GW_PING:
		gw_frame_begin(&pong, GW_PONG, c->epoch);
		return gw_conn_send(&agent.conn, &pong);
	default:
		return true;
	}
}

static bool handle_commands(void)
{
	struct gw_command c;
	int got;

	if (!gw_conn_receive(&agent.conn))
		return false;
	while ((got = gw_conn_next(&agent.conn, &c)) > 0)
		if (!command(&c))
			return false;
	if (got < 0)
		gw_log("the invoker sent what is no frame");
	return got == 0;
}

static void drain_wake_fd(void)
{
	char c[16];

	if (gw_fd_is_ours(&wake_fd[0]))
		while (recv(wake_fd[0].fd, c, sizeof c, MSG_DONTWAIT) > 0)
			;
	atomic_store(&wake_pending, false);
}

static void disconnect(void)
{
	gw_conn_close(&agent.conn);
	if (agent.work.type)
		gw_work_end(&agent.work);
	agent.connected = agent.gated = false;
	agent.want_sent = 0;
	atomic_store(&connected, false);
	set_limit_known();
	gw_reset_reported();
	agent.newest = 0; /* another invoker counts its own epochs */
}

/* Wait for the invoker, for a wake-up, or for a while. False: the invoker sent
 * nothing. After a while in which nothing came the connection is read anyway: our
 * descriptor may be another's by now. */
static bool wait_for(int ms)
{
	struct pollfd p[2] = {
		{.fd = gw_fd_is_ours(&wake_fd[0]) ? wake_fd[0].fd : -1, .events = POLLIN},
		{.fd = agent.connected ? agent.conn.fd.fd : -1, .events = POLLIN},
	};

	int n = poll(p, agent.connected ? 2 : 1, ms);
	if (n > 0 && p[0].revents)
		drain_wake_fd();
	return agent.connected && (n <= 0 || p[1].revents);
}

/* The time in ms to poll before something else is to be done. */
static int poll_timeout(void)
{
	if (agent.work.type)
		return 0;
	return atomic_load(&changed) >= atomic_load(&threshold) ? USAGE_MS : QUIET_MS;
}

static bool usage_due(void)
{
	int64_t since = gw_clock() - agent.usage_sent;
	uint64_t bytes = atomic_load(&changed);

	if (agent.work.type || !bytes)
		return false;
	return since >= (bytes >= atomic_load(&threshold) ? USAGE_MS : QUIET_MS) * 1000000ll;
}

/* While memory moves: something came, or a caller waits for the move's end. */
static bool interrupted(void)
{
	struct pollfd p = {.fd = agent.conn.fd.fd, .events = POLLIN};

	return gw_work_lock_wanted() || poll(&p, 1, 0) > 0;
}

/* While a part of the memory takes long. */
static void heartbeat(void)
{
	struct gw_frame pong;

	gw_frame_begin(&pong, GW_PONG, 0);
	if (!gw_conn_send(&agent.conn, &pong) || !gw_conn_flush(&agent.conn))
		gw_conn_close(&agent.conn);
}

static void serve_once(void)
{
	bool ok = !wait_for(poll_timeout()) || handle_commands();

	/* What takes a while is accepted before it is done. */
	if (ok && gw_work_remains(&agent.work))
		ok = gw_conn_flush(&agent.conn);
	if (ok && agent.work.type && !gw_work_step(&agent.work, interrupted, heartbeat))
		ok = finish(false);
	if (ok)
		ok = send_want() && gw_send_refused(&agent.conn);
	if (ok && usage_due())
		ok = send_usage(0, false);
	if (!ok || !gw_conn_flush(&agent.conn))
		disconnect();
}

static void *run(void *arg)
{
	fn_cuThreadExchangeStreamCaptureMode *capture =
		GW_REAL(cuThreadExchangeStreamCaptureMode);
	int mode = CAPTURE_RELAXED, backoff = FIRST_BACKOFF_MS;

	(void)arg;
	/* A capture in global mode forbids other threads what we must do. */
	if (capture)
		capture(&mode);
	while (!agent.refused && !gw_disabled()) {
		if (agent.connected) {
			serve_once();
			continue;
		}
		agent.connected = gw_conn_open(&agent.conn, gw_config.socket);
		if (agent.connected && gw_send_hello(&agent.conn) && send_usage(0, false) &&
		    gw_conn_flush(&agent.conn)) {
			atomic_store(&connected, true);
			backoff = FIRST_BACKOFF_MS;
			continue;
		}
		disconnect();
		wait_for(backoff);
		backoff = backoff < LONGEST_BACKOFF_MS / 2 ? 2 * backoff : LONGEST_BACKOFF_MS;
	}
	disconnect();
	return NULL;
}

/* A forked child has no agent, and CUDA is of no use to it. It forgets without
 * touching the driver; a cuInit of its own may start anew. */
static void after_fork(void)
{
	gw_fd_close(&wake_fd[0]);
	gw_fd_close(&wake_fd[1]);
	gw_fd_close(&agent.conn.fd);
	agent.connected = agent.refused = agent.gated = false;
	agent.newest = agent.want_sent = 0;
	agent.work = (struct gw_work){0};
	atomic_store(&limit_known, false);
	atomic_store(&asked, 0);
	atomic_store(&answered, 0);
	atomic_store(&changed, 0);
	atomic_store(&wake_pending, false);
	atomic_store(&connected, false);
	gw_refusal_reset();
	gw_contexts_reset();
	gw_registry_reset();
	gw_physical_reset();
	atomic_store(&started, false);
}

static bool open_wake_fd(void)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fd) < 0)
		return false;
	wake_fd[0] = gw_fd_own(fd[0]);
	wake_fd[1] = gw_fd_own(fd[1]);
	return true;
}

static bool start_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;

	if (pthread_attr_init(&attr))
		return false;
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&thread, &attr, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return r == 0;
}

/* What pthread_atfork is since glibc 2.3. Newer ones link a part of it into us
 * that would not load on musl; this reference is weak. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
#pragma weak __register_atfork
extern void *__dso_handle __attribute__((visibility("hidden")));

/* A program may end of the very error that is to be reported. */
static void at_exit(void)
{
	gw_work_probe();
	gw_await_reported();
	gw_work_stop();
}

/* Once per program, also across forks. */
static void watch_process(void)
{
	static atomic_bool watched;

	if (atomic_exchange(&watched, true))
		return;
	if (__register_atfork)
		__register_atfork(NULL, NULL, after_fork, &__dso_handle);
	/* Handlers run last come first: ours before the driver's own end. */
	atexit(at_exit);
}

void gw_agent_start(void)
{
	if (gw_disabled() || atomic_exchange(&started, true))
		return;
	watch_process();
	agent.conn.fd = GW_NO_FD;
	if (!open_wake_fd() || !start_thread())
		gw_disable("no thread for the connection to the invoker");
}
