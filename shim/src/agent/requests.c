#include "agent/requests.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "process/fd.h"
#include "process/state.h"

/* An invoker that is connected and has not answered by then does not. It may be busy
 * with many connections, and with a WANT it waits for other processes, half a second
 * each time. Where none is connected nothing is waited for. */
enum { ANSWER_MS = 5000 };

static atomic_bool started;
static struct gw_fd wake_fd[2] = {{.fd = -1}, {.fd = -1}};
static _Atomic uint64_t changed;              /* bytes since the last USAGE */
static _Atomic uint64_t threshold = 16 << 20; /* that are worth one at once */
static atomic_bool wake_pending, connected;
static atomic_bool check_wanted;

/* The conditions that allocating threads wait for. */
static atomic_bool limit_known;          /* or there is no invoker to set one */
static _Atomic uint64_t asked, answered; /* numbers of WANTs */
static _Atomic uint32_t progress;        /* changes with each condition; a futex */

bool gw_requests_begin(void) { return !atomic_exchange(&started, true); }

bool gw_requests_open(void)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fd) < 0)
		return false;
	wake_fd[0] = gw_fd_own(fd[0]);
	wake_fd[1] = gw_fd_own(fd[1]);
	return true;
}

void gw_agent_wake(void)
{
	if (!atomic_exchange(&wake_pending, true) && gw_fd_is_ours(&wake_fd[1]))
		send(wake_fd[1].fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int gw_wake_fd(void)
{
	return gw_fd_is_ours(&wake_fd[0]) ? wake_fd[0].fd : -1;
}

void gw_wake_drain(void)
{
	char c[16];
	int fd = gw_wake_fd();

	while (fd >= 0 && recv(fd, c, sizeof c, MSG_DONTWAIT) > 0)
		;
	atomic_store(&wake_pending, false);
}

void gw_agent_changed(uint64_t bytes)
{
	if (!atomic_load_explicit(&started, memory_order_relaxed))
		return;
	uint64_t before = atomic_fetch_add(&changed, bytes + 1), large = atomic_load(&threshold);
	/* Wake the agent only when the sum becomes large. Until it has reported, each
	 * further allocation would pay for a useless wake-up. */
	if (before < large && before + bytes + 1 >= large)
		gw_agent_wake();
}

uint64_t gw_changed(bool *large)
{
	uint64_t bytes = atomic_load(&changed);

	*large = bytes >= atomic_load(&threshold);
	return bytes;
}

void gw_changed_take(void) { atomic_store(&changed, 0); }
void gw_set_large(uint64_t bytes) { atomic_store(&threshold, bytes); }

void gw_made_progress(void)
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
	await_progress(limit_is_known, 0, ANSWER_MS);
	atomic_store(&limit_known, true);
}

void gw_set_limit_known(void)
{
	atomic_store(&limit_known, true);
	gw_made_progress();
}

bool gw_agent_ask(void)
{
	uint64_t number = atomic_fetch_add(&asked, 1) + 1;

	gw_agent_wake();
	await_progress(is_answered, number, ANSWER_MS);
	return atomic_load(&answered) >= number;
}

uint64_t gw_wanted(void)
{
	uint64_t number = atomic_load(&asked);

	return number > atomic_load(&answered) ? number : 0;
}

void gw_answer(uint64_t number)
{
	if (number > atomic_load(&answered))
		atomic_store(&answered, number);
	gw_made_progress();
}

void gw_set_connected(bool to_invoker) { atomic_store(&connected, to_invoker); }

bool gw_check_wanted(void) { return atomic_load(&check_wanted); }
void gw_check_done(void)
{
	atomic_store(&check_wanted, false);
	gw_made_progress();
}

static bool is_reported(uint64_t unused)
{
	CUresult code;

	return !atomic_load(&connected) || gw_unreported(&code) == GW_NO_SIGN;
}

static bool is_checked(uint64_t unused)
{
	return !atomic_load(&connected) || (!gw_check_wanted() && is_reported(0));
}

/* Wait for the agent, which wakes and sends within a fraction of a millisecond. Where the
 * machine is overloaded this waits longer, once in the life of a process. */
static void await_agent(bool (*done)(uint64_t))
{
	enum { WAIT_MS = 2000 };

	if (done(0))
		return;
	gw_agent_wake();
	await_progress(done, 0, WAIT_MS);
}

void gw_agent_await_reported(void) { await_agent(is_reported); }

void gw_agent_await_checked(void)
{
	if (!atomic_load(&connected))
		return;
	atomic_store(&check_wanted, true);
	await_agent(is_checked);
}

void gw_agent_refused(enum gw_sign sign, CUresult code)
{
	if (gw_record_sign(sign, code))
		gw_agent_await_reported();
}
