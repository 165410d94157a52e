/*
 * The agent: one thread of the process, started after the first successful
 * cuInit, that connects to the invoker and carries out its orders. It takes no signals,
 * makes no context, and keeps trying when the invoker is away.
 */
#include "agent.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend.h"
#include "context.h"
#include "hooks.h"
#include "link.h"
#include "refusal.h"
#include "report.h"
#include "work.h"

enum {
	/* The driver's calls are made on it; only what is used takes memory. */
	STACK = 1 << 20,
	FIRST_PAUSE_MS = 20,
	LONGEST_PAUSE_MS = 2000,
	/* Small changes are reported after this, large ones not more often than that. */
	QUIET_MS = 500,
	USAGE_MS = 10,
};

static atomic_bool started;
static struct gw_fd bell[2] = {{.fd = -1}, {.fd = -1}};
static _Atomic uint64_t changed;              /* bytes since the last USAGE */
static _Atomic uint64_t threshold = 16 << 20; /* that are worth one at once */
static atomic_bool rung, linked;

/* Owned by the agent's thread. */
static struct {
	struct gw_link link;
	bool linked, refused;
	bool gated; /* this invoker reports runs */
	uint64_t newest; /* epoch */
	struct gw_work work;
	int64_t told; /* when the last USAGE went */
} agent;

void gw_agent_changed(uint64_t bytes)
{
	if (!atomic_load_explicit(&started, memory_order_relaxed))
		return;
	if (atomic_fetch_add(&changed, bytes + 1) + bytes >= atomic_load(&threshold))
		gw_agent_ring();
}

void gw_agent_ring(void)
{
	if (!atomic_exchange(&rung, true) && gw_ours(&bell[1]))
		send(bell[1].fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool gw_agent_linked(void) { return atomic_load(&linked); }

static bool send_usage(uint64_t epoch, bool at_rest)
{
	struct gw_frame f;

	atomic_store(&changed, 0);
	agent.told = gw_clock();
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
	return gw_link_send(&agent.link, &f);
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
	return send_usage(agent.work.epoch, true) && gw_send_done(&agent.link, &agent.work, type, status);
}

static bool command_move(const struct gw_command *c)
{
	struct gw_work stale = {.epoch = c->epoch, .began = gw_clock()};

	if (c->epoch < agent.newest)
		return gw_send_done(&agent.link, &stale, c->type, GW_STALE);
	if (agent.work.type == c->type && agent.work.epoch == c->epoch)
		return gw_send_accepted(&agent.link, c); /* asked again */
	agent.newest = c->epoch;
	if (!finish(true) || !gw_send_accepted(&agent.link, c))
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
	gw_stir();
	if (c->word)
		return ok;
	gw_work_probe();
	return ok && gw_send_refused(&agent.link) && send_usage(c->epoch, true);
}

static bool command_hello(const struct gw_command *c)
{
	if (c->word != GW_VERSION) {
		gw_log("the invoker speaks version %u, we speak %d: memory stays unmanaged by it",
		       c->word, GW_VERSION);
		agent.refused = true;
		return false;
	}
	atomic_store(&threshold, c->bytes ? c->bytes : 1);
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
		atomic_store(&gw_limit, c->bytes);
		atomic_store(&gw_host_limit, c->host);
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
		return gw_link_send(&agent.link, &pong);
	default:
		return true;
	}
}

static bool obey(void)
{
	struct gw_command c;
	int got;

	if (!gw_link_receive(&agent.link))
		return false;
	while ((got = gw_link_next(&agent.link, &c)) > 0)
		if (!command(&c))
			return false;
	if (got < 0)
		gw_log("the invoker sent what is no frame");
	return got == 0;
}

static void hush(void)
{
	char c[16];

	if (gw_ours(&bell[0]))
		while (recv(bell[0].fd, c, sizeof c, MSG_DONTWAIT) > 0)
			;
	atomic_store(&rung, false);
}

static void unlink_invoker(void)
{
	gw_link_close(&agent.link);
	if (agent.work.type)
		gw_work_end(&agent.work);
	agent.linked = agent.gated = false;
	atomic_store(&linked, false);
	gw_tell_again();
	agent.newest = 0; /* another invoker counts its own epochs */
}

/* Wait for the invoker, for the bell, or for a while. False: the invoker sent
 * nothing. After a while in which nothing came it is listened to anyway: our
 * descriptor may be another's by now. */
static bool wait_for(int ms)
{
	struct pollfd p[2] = {
		{.fd = gw_ours(&bell[0]) ? bell[0].fd : -1, .events = POLLIN},
		{.fd = agent.linked ? agent.link.fd.fd : -1, .events = POLLIN},
	};

	int n = poll(p, agent.linked ? 2 : 1, ms);
	if (n > 0 && p[0].revents)
		hush();
	return agent.linked && (n <= 0 || p[1].revents);
}

/* How long to listen before something else is to be done. */
static int patience(void)
{
	if (agent.work.type)
		return 0;
	return atomic_load(&changed) >= atomic_load(&threshold) ? USAGE_MS : QUIET_MS;
}

static bool usage_due(void)
{
	int64_t since = gw_clock() - agent.told;
	uint64_t bytes = atomic_load(&changed);

	if (agent.work.type || !bytes)
		return false;
	return since >= (bytes >= atomic_load(&threshold) ? USAGE_MS : QUIET_MS) * 1000000ll;
}

/* While memory moves: something came, or a caller waits for the move's end. */
static bool wanted(void)
{
	struct pollfd p = {.fd = agent.link.fd.fd, .events = POLLIN};

	return gw_work_wanted() || poll(&p, 1, 0) > 0;
}

/* While a part of the memory takes long. */
static void alive(void)
{
	struct gw_frame pong;

	gw_frame_begin(&pong, GW_PONG, 0);
	if (!gw_link_send(&agent.link, &pong) || !gw_link_flush(&agent.link))
		gw_link_close(&agent.link);
}

static void converse(void)
{
	bool ok = !wait_for(patience()) || obey();

	/* What takes a while is accepted before it is done. */
	if (ok && gw_work_left(&agent.work))
		ok = gw_link_flush(&agent.link);
	if (ok && agent.work.type && !gw_work_step(&agent.work, wanted, alive))
		ok = finish(false);
	if (ok)
		ok = gw_send_refused(&agent.link);
	if (ok && usage_due())
		ok = send_usage(0, false);
	if (!ok || !gw_link_flush(&agent.link))
		unlink_invoker();
}

static void *run(void *arg)
{
	fn_cuThreadExchangeStreamCaptureMode *capture =
		GW_REAL(cuThreadExchangeStreamCaptureMode);
	int mode = CAPTURE_RELAXED, pause = FIRST_PAUSE_MS;

	(void)arg;
	/* A capture in global mode forbids other threads what we must do. */
	if (capture)
		capture(&mode);
	while (!agent.refused && !gw_aside()) {
		if (agent.linked) {
			converse();
			continue;
		}
		agent.linked = gw_link_open(&agent.link, gw_config.socket);
		if (agent.linked && gw_send_hello(&agent.link) && send_usage(0, false) && gw_link_flush(&agent.link)) {
			atomic_store(&linked, true);
			pause = FIRST_PAUSE_MS;
			continue;
		}
		unlink_invoker();
		wait_for(pause);
		pause = pause < LONGEST_PAUSE_MS / 2 ? 2 * pause : LONGEST_PAUSE_MS;
	}
	unlink_invoker();
	return NULL;
}

/* A forked child has no agent, and CUDA is of no use to it. It forgets without
 * touching the driver; a cuInit of its own may start anew. */
static void forked(void)
{
	gw_disown(&bell[0]);
	gw_disown(&bell[1]);
	gw_disown(&agent.link.fd);
	agent.linked = agent.refused = agent.gated = false;
	agent.newest = 0;
	agent.work = (struct gw_work){0};
	atomic_store(&changed, 0);
	atomic_store(&rung, false);
	atomic_store(&linked, false);
	gw_refusal_forget();
	gw_contexts_forget();
	gw_forget_all();
	gw_physical_forget();
	atomic_store(&started, false);
}

static bool open_bell(void)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fd) < 0)
		return false;
	bell[0] = gw_own(fd[0]);
	bell[1] = gw_own(fd[1]);
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
static void last_words(void)
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
		__register_atfork(NULL, NULL, forked, &__dso_handle);
	/* Handlers run last come first: ours before the driver's own end. */
	atexit(last_words);
}

void gw_agent_start(void)
{
	if (gw_aside() || atomic_exchange(&started, true))
		return;
	watch_process();
	agent.link.fd = GW_NO_FD;
	if (!open_bell() || !start_thread())
		gw_step_aside("no thread for talking with the invoker");
}
