/*
 * The agent: one thread of the process that connects to the invoker and serves it, one invoker
 * after the other: it carries out the invoker's commands and reports the memory of the process.
 * It takes no signals, makes no context, and keeps trying when the invoker is away.
 */
#include "agent/agent.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "agent/conn.h"
#include "agent/requests.h"
#include "driver/resolve.h"
#include "memory/arena.h"
#include "memory/backend.h"
#include "memory/contexts.h"
#include "memory/gate.h"
#include "memory/swap.h"
#include "migration/measure.h"
#include "migration/refusal.h"
#include "migration/work.h"
#include "process/state.h"

enum {
	/* Small changes are reported after this time, large ones at most this often. */
	QUIET_MS = 500,
	USAGE_MS = 10,
	/* The time between two tries to bring memory back to a device that is full. */
	RESTORE_MS = 50,
	/* The driver's calls run on this stack. Unused pages take no memory. */
	STACK = 1 << 20,
	FIRST_BACKOFF_MS = 20,
	LONGEST_BACKOFF_MS = 2000,
};

static struct {
	struct gw_conn conn;
	bool open, refused;
	bool gated;               /* this invoker reports runs */
	uint64_t newest;          /* epoch */
	struct gw_command moving; /* the command under way; type 0: none */
	struct gw_work work;      /* the move that the command asks for */
	uint64_t want_sent;
	int64_t usage_sent; /* when the last USAGE went */
	unsigned ended;     /* contexts that it left out as they had ended */
	bool running;       /* a run has begun, and needs its memory */
	int64_t restore_at; /* when the next try to bring memory back may begin */
} session = {.conn = {.fd.fd = -1, .passed.fd = -1}};

static bool send_frame(enum gw_type type, uint64_t epoch, const struct gw_fields *f)
{
	return gw_conn_send(&session.conn, type, epoch, f);
}

static bool send_hello(void)
{
	return send_frame(GW_HELLO, 0, &(struct gw_fields){
		.words = {GW_VERSION, (uint32_t)getpid(), gw_backend->code, GW_HOOKS}, .n_words = 4,
	});
}

/* A sign that managed memory does not work for this program; once to each invoker. */
static bool send_refused(void)
{
	CUresult code;
	enum gw_sign sign = gw_unreported(&code);

	if (sign == GW_NO_SIGN)
		return true;
	if (!send_frame(GW_REFUSED, 0, &(struct gw_fields){
		.words = {sign, (uint32_t)code}, .n_words = 2,
	}) || !gw_conn_flush(&session.conn))
		return false;
	gw_reported();
	gw_made_progress();
	return true;
}

static bool send_accepted(const struct gw_command *c)
{
	return send_frame(GW_ACCEPTED, c->epoch, &(struct gw_fields){
		.words = {c->type}, .n_words = 1,
	});
}

/* Report the result of a command to move memory. */
static bool send_done(const struct gw_command *c, const struct gw_work *w, enum gw_status status)
{
	return send_frame(GW_DONE, c->epoch, &(struct gw_fields){
		.words = {c->type, status, (uint32_t)w->code, 0}, .n_words = 4,
		.numbers = {w->moved, (uint64_t)(gw_clock() - w->began), gw_measure(true).resident},
		.n_numbers = 3,
	});
}

/* A frame without fields: PONG or WANT. */
static bool send_empty(enum gw_type type, uint64_t epoch)
{
	return send_frame(type, epoch, &(struct gw_fields){.n_words = 0});
}

/* at_rest: as of gw_measure. */
static bool send_usage(uint64_t epoch, bool at_rest)
{
	gw_changed_take();
	session.usage_sent = gw_clock();
	struct gw_totals t = gw_measure(at_rest);
	bool ok = send_frame(GW_USAGE, epoch, &(struct gw_fields){
		.words = {gw_contexts(), 0}, .n_words = 2,
		.numbers = {t.allocated, t.resident, t.fixed, t.host, t.blocks, t.managed, t.listed},
		.n_numbers = 7,
	});
	session.ended = gw_contexts_ended();
	return ok;
}

static bool send_want(void)
{
	uint64_t number = gw_wanted();

	if (!number || number == session.want_sent)
		return true;
	session.want_sent = number;
	return send_empty(GW_WANT, number);
}

static enum gw_status status_of(enum gw_outcome outcome, bool cancelled)
{
	if (outcome == GW_REFUSED_BY_DRIVER)
		return GW_FAILED;
	if (cancelled)
		return GW_CANCELLED;
	return outcome == GW_MOVED ? GW_OK : GW_PARTIAL;
}

/* The work is over: the usage first, then the answer, so that an invoker that gets
 * the answer knows the usage. */
static bool finish(bool cancelled)
{
	struct gw_command c = session.moving;

	if (!c.type)
		return true;
	session.moving.type = 0;
	if (c.type == GW_GATE) { /* ordered by ourselves */
		gw_work_end(&session.work);
		session.restore_at = gw_work_owed() ? gw_clock() + RESTORE_MS * 1000000ll : 0;
		return send_usage(0, false);
	}
	enum gw_status status = status_of(gw_work_end(&session.work), cancelled);
	return send_usage(c.epoch, true) && send_done(&c, &session.work, status);
}

static bool command_move(const struct gw_command *c)
{
	struct gw_order order = {
		.out = c->type == GW_EVICT, .bytes = c->field[0], .gated = session.gated,
		.ns = c->type == GW_PREFETCH ? c->field[1] : 0,
	};
	struct gw_work none = {.began = gw_clock()};

	if (c->epoch < session.newest)
		return send_done(c, &none, GW_STALE);
	if (session.moving.type == c->type && session.moving.epoch == c->epoch)
		return send_accepted(c); /* asked again */
	session.newest = c->epoch;
	if (!finish(true) || !send_accepted(c))
		return false;
	gw_work_begin(&session.work, &order);
	session.moving = *c;
	return true;
}

/* Bring back the memory that a run or a waiting launch needs. */
static void restore(void)
{
	bool needed = session.running || gw_gate_wanted();

	if (session.moving.type || !needed || gw_clock() < session.restore_at || !gw_work_owed())
		return;
	gw_work_begin(&session.work, &gw_restore);
	session.moving = (struct gw_command){.type = GW_GATE};
}

/* A run begins: memory on its way out comes back with it. A run ended: it may have used
 * everything. */
static bool command_gate(const struct gw_command *c)
{
	bool ok = true;

	if (c->word && session.moving.type == GW_EVICT)
		ok = finish(true);
	session.gated = true;
	session.running = c->word;
	gw_set_dirty();
	if (c->word)
		return ok;
	gw_check_context();
	return ok && send_refused() && send_usage(c->epoch, true);
}

static bool command_hello(const struct gw_command *c)
{
	if (c->word != GW_VERSION) {
		gw_log("the invoker has version %u, the shim %d: memory stays unmanaged by it",
		       c->word, GW_VERSION);
		session.refused = true;
		return false;
	}
	gw_set_large(c->field[1] ? c->field[1] : 1);
	gw_set_limit_known();
	return true;
}

static void command_limit(const struct gw_command *c)
{
	gw_set_limit(GW_DEVICE_BYTES, (struct gw_limit){c->field[0], c->field[2]});
	gw_set_limit(GW_HOST_BYTES, (struct gw_limit){c->field[1], c->field[3]});
	gw_answer(c->epoch);
}

/* False: the connection is of no more use. */
static bool command(const struct gw_command *c)
{
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
	case GW_ARENA:
		gw_driver_lock();
		gw_arena_open(session.conn.passed, c->field[0]);
		gw_driver_unlock();
		session.conn.passed = GW_NO_FD;
		return true;
	case GW_PING:
		return send_empty(GW_PONG, c->epoch);
	default:
		return true;
	}
}

static bool handle_commands(void)
{
	struct gw_command c;
	int got;

	if (!gw_conn_receive(&session.conn))
		return false;
	while ((got = gw_conn_next(&session.conn, &c)) > 0)
		if (!command(&c))
			return false;
	if (got < 0)
		gw_log("the invoker sent what is no frame");
	return got == 0;
}

/* Wait for the invoker, for a wake-up, or for a while. False: the invoker sent
 * nothing. After a while in which nothing came the connection is read anyway: our
 * descriptor may be another's by now. */
static bool wait_for(int ms)
{
	struct pollfd p[2] = {
		{.fd = gw_wake_fd(), .events = POLLIN},
		{.fd = session.open ? session.conn.fd.fd : -1, .events = POLLIN},
	};

	int n = poll(p, session.open ? 2 : 1, ms);
	if (n > 0 && p[0].revents)
		gw_wake_drain();
	return session.open && (n <= 0 || p[1].revents);
}

/* The time in ms to poll before something else is to be done. */
static int poll_timeout(void)
{
	bool large;

	if (session.moving.type)
		return 0;
	if (gw_gate_is_closed() && (session.running || gw_gate_wanted()))
		return USAGE_MS;
	gw_changed(&large);
	return large ? USAGE_MS : QUIET_MS;
}

static bool usage_due(void)
{
	int64_t since = gw_clock() - session.usage_sent;
	bool large;
	/* Of contexts that ended unseen no thread of the program reports. */
	bool any = gw_changed(&large) || gw_contexts_ended() != session.ended;

	return !session.moving.type && any && since >= (large ? USAGE_MS : QUIET_MS) * 1000000ll;
}

/* While memory moves: something came, or a caller waits for the move's end. */
static bool interrupted(void)
{
	struct pollfd p = {.fd = session.conn.fd.fd, .events = POLLIN};

	return gw_driver_lock_wanted() || gw_check_wanted() || poll(&p, 1, 0) > 0;
}

/* While a part of the memory takes long. */
static void heartbeat(void)
{
	if (!send_empty(GW_PONG, 0) || !gw_conn_flush(&session.conn))
		gw_conn_close(&session.conn);
}

/* The program ends: it may do so because of an error that is not known yet. */
static bool check_if_wanted(void)
{
	if (!gw_check_wanted())
		return true;
	gw_check_context();
	bool ok = send_refused();
	gw_check_done();
	return ok;
}

/* Make later moves fast, as long as there is nothing else to do. */
static void prepare(void)
{
	while (!interrupted() && gw_swap_prepare())
		;
}

static void close_session(void)
{
	gw_conn_close(&session.conn);
	if (session.moving.type)
		gw_work_end(&session.work);
	session.moving.type = 0;
	session.open = session.gated = session.running = false;
	session.restore_at = 0;
	session.want_sent = 0;
	gw_set_connected(false);
	gw_set_limit_known();
	gw_reset_reported();
	session.newest = 0; /* another invoker counts its own epochs */
}

/* Wait for the invoker or for the program's threads, and do all or part of the pending
 * work. Ends the session if the connection is unusable. */
static void serve_session(void)
{
	static const struct gw_watch watch = {interrupted, heartbeat};
	bool idle = !wait_for(poll_timeout());
	bool ok = idle || handle_commands();

	restore();
	if (idle && !session.moving.type)
		prepare();

	/* A long command is accepted before it is carried out. */
	if (ok && session.moving.type && gw_work_remains(&session.work))
		ok = gw_conn_flush(&session.conn);
	if (ok && session.moving.type && !gw_work_step(&session.work, &watch))
		ok = finish(false);
	if (ok)
		ok = send_want() && send_refused() && check_if_wanted();
	/* The program may be using any of its memory now. */
	if (ok && usage_due())
		ok = send_usage(0, false);
	if (!ok || !gw_conn_flush(&session.conn))
		close_session();
}

/* False: no invoker is at the path. */
static bool open_session(const char *path)
{
	session.open = gw_conn_open(&session.conn, path);
	if (session.open && send_hello() && send_usage(0, false) &&
	    gw_conn_flush(&session.conn)) {
		gw_set_connected(true);
		return true;
	}
	close_session();
	return false;
}

/* While a capture in global mode is open, other threads may not make the driver calls
 * that we need. */
static void relax_captures(void)
{
	int mode = CAPTURE_RELAXED;

	gw_driver_lock();
	if (!gw_driver_stopped())
		GW_CALL(cuThreadExchangeStreamCaptureMode, &mode);
	gw_driver_unlock();
}

static void *run(void *arg)
{
	int backoff = FIRST_BACKOFF_MS;

	(void)arg;
	relax_captures();
	while (!session.refused && !gw_disabled()) {
		if (session.open) {
			serve_session();
		} else if (open_session(gw_config.socket)) {
			backoff = FIRST_BACKOFF_MS;
		} else {
			gw_work_restore(); /* nobody else will order it */
			wait_for(backoff);
			backoff = backoff < LONGEST_BACKOFF_MS / 2 ? 2 * backoff : LONGEST_BACKOFF_MS;
		}
	}
	close_session();
	gw_work_restore();
	return NULL;
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

void gw_agent_start(void)
{
	if (!gw_requests_begin())
		return;
	/* The thread must not wait for a library's constructor that may be waiting for
	 * this thread. */
	gw_find_driver();
	if (!gw_requests_open() || !start_thread())
		gw_disable("no thread for the connection to the invoker");
}

void gw_agent_leave(void) { gw_conn_close(&session.conn); }
