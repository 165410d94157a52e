#include "memory/gate.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "process/state.h"

__thread struct gw_seat *gw_own_seat;
atomic_int gw_gate_state = GW_GATE_OFF;

static struct {
	pthread_mutex_t mu; /* guards the list of seats */
	pthread_key_t key;  /* by which a thread's seat is free after its end */
	uint64_t wait_ms;
	void (*wake)(void);
} gate = {.mu = PTHREAD_MUTEX_INITIALIZER};
static _Atomic(struct gw_seat *) seats;
static atomic_int waiting, captures;

int gw_may_gate = 1;
void gw_gate_never(void) { __atomic_store_n(&gw_may_gate, 0, __ATOMIC_RELAXED); }

enum { PRIVATE_EXPEDITED = 8, REGISTER_PRIVATE_EXPEDITED = 16 };

static bool barrier(int command)
{
#ifdef SYS_membarrier
	return syscall(SYS_membarrier, command, 0) == 0;
#else
	return false;
#endif
}

/* The thread ends. A later destructor of the thread's may launch: it takes another seat. */
static void leave_seat(void *seat)
{
	gw_own_seat = NULL;
	atomic_store(&((struct gw_seat *)seat)->taken, false);
}

void gw_gate_begin(uint64_t wait_ms, void (*wake)(void))
{
	gate.wait_ms = wait_ms;
	gate.wake = wake;
	if (pthread_key_create(&gate.key, leave_seat)) {
		gw_disable("no key for the threads that launch");
		return;
	}
	atomic_store(&gw_gate_state, barrier(REGISTER_PRIVATE_EXPEDITED) ? 0 : GW_GATE_FENCED);
}

/* The number of seats allocated at once; they fit in a page. */
enum { SEATS = 64 };

static struct gw_seat *free_seat(void)
{
	for (struct gw_seat *s = atomic_load(&seats); s; s = s->next)
		if (!atomic_load(&s->taken))
			return s;
	struct gw_seat *more = mmap(NULL, SEATS * sizeof *more, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (more == MAP_FAILED)
		return NULL;
	for (int i = 0; i < SEATS; i++)
		more[i].next = i + 1 < SEATS ? &more[i + 1] : atomic_load(&seats);
	atomic_store(&seats, more);
	return more;
}

static struct gw_seat *take_seat(void)
{
	pthread_mutex_lock(&gate.mu);
	struct gw_seat *s = free_seat();
	if (s)
		atomic_store(&s->taken, true);
	pthread_mutex_unlock(&gate.mu);
	if (s)
		pthread_setspecific(gate.key, s);
	return gw_own_seat = s;
}

static void step_out(struct gw_seat *s) { atomic_fetch_sub(&s->inside, 1); }

/* Wait until the gate is open, for a while. False: it is not. */
static bool await_open(void)
{
	int64_t end = gw_clock() + (int64_t)gate.wait_ms * 1000000;
	bool open = false;

	atomic_fetch_add(&waiting, 1);
	gate.wake();
	for (;;) {
		int seen = atomic_load(&gw_gate_state);
		int64_t left = end - gw_clock();
		open = !(seen & GW_GATE_CLOSED);
		if (open || left <= 0)
			break;
		struct timespec t = {left / 1000000000, left % 1000000000};
		syscall(SYS_futex, &gw_gate_state, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
	}
	atomic_fetch_sub(&waiting, 1);
	if (!open)
		gw_log("the device has no room for memory that was moved out: a call that needs it "
		       "returns out of memory after %llu ms", (unsigned long long)gate.wait_ms);
	return open;
}

enum gw_pass gw_gate_enter_slowly(void)
{
	struct gw_seat *s = gw_own_seat;

	if (s)
		step_out(s);
	else if (!(s = take_seat()))
		return GW_SHUT;
	for (;;) {
		/* A handler that came in between a launch is inside with it. */
		bool within = atomic_fetch_add(&s->inside, 1) > 0;
		if (within || !(atomic_load(&gw_gate_state) & GW_GATE_CLOSED))
			return GW_INSIDE;
		step_out(s);
		if (!await_open())
			return GW_SHUT;
	}
}

void gw_gate_count_capture(int change) { atomic_fetch_add(&captures, change); }

static bool anybody_inside(void)
{
	for (struct gw_seat *s = atomic_load(&seats); s; s = s->next)
		if (atomic_load(&s->inside))
			return true;
	return false;
}

bool gw_gate_close(int ms)
{
	int64_t end = gw_clock() + ms * 1000000ll;

	if (gw_gate_is_closed())
		return true;
	if (atomic_load(&captures) > 0)
		return false;
	if (!(atomic_fetch_or(&gw_gate_state, GW_GATE_CLOSED) & GW_GATE_FENCED))
		barrier(PRIVATE_EXPEDITED);
	while (anybody_inside() && gw_clock() < end)
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	/* A capture begins inside. */
	if (!anybody_inside() && atomic_load(&captures) == 0)
		return true;
	gw_gate_open();
	return false;
}

bool gw_gate_is_closed(void) { return atomic_load(&gw_gate_state) & GW_GATE_CLOSED; }

void gw_gate_open(void)
{
	atomic_fetch_and(&gw_gate_state, ~GW_GATE_CLOSED);
	syscall(SYS_futex, &gw_gate_state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

bool gw_gate_wanted(void) { return gw_gate_is_closed() && atomic_load(&waiting) > 0; }

void gw_gate_drop(void) { atomic_store(&gw_gate_state, GW_GATE_OFF); }
