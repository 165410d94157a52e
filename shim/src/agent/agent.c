/*
 * The agent: one thread of the process that connects to the invoker and serves it. It
 * takes no signals, makes no context, and keeps trying when the invoker is away.
 */
#include "agent/agent.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "agent/requests.h"
#include "agent/session.h"
#include "driver/resolve.h"
#include "memory/contexts.h"
#include "migration/work.h"
#include "process/state.h"

enum {
	/* The driver's calls run on this stack. Unused pages take no memory. */
	STACK = 1 << 20,
	FIRST_BACKOFF_MS = 20,
	LONGEST_BACKOFF_MS = 2000,
};

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
	while (!gw_session_is_refused() && !gw_disabled()) {
		if (gw_session_is_open()) {
			gw_session_serve();
		} else if (gw_session_open(gw_config.socket)) {
			backoff = FIRST_BACKOFF_MS;
		} else {
			gw_work_restore(); /* nobody else will order it */
			gw_session_wait(backoff);
			backoff = backoff < LONGEST_BACKOFF_MS / 2 ? 2 * backoff : LONGEST_BACKOFF_MS;
		}
	}
	gw_session_close();
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
