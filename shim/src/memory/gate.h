/*
 * The gate between the program's launches and copies, and moves that unmap memory. A
 * launch passes an open gate by one relaxed load. The agent closes it, waits until every
 * thread that came in before has left, and opens it once all memory is back. A thread
 * that comes to a closed gate waits there and has the memory brought back.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/abi.h"

/* A thread that launches. Only the thread itself writes inside. */
struct gw_seat {
	atomic_int inside; /* calls that are within the gate */
	atomic_bool taken;
	struct gw_seat *next;
};
extern __thread struct gw_seat *gw_own_seat __attribute__((tls_model("initial-exec")));

enum {
	GW_GATE_OFF = 1,    /* nothing is gated, or it is not known yet */
	GW_GATE_CLOSED = 2,
	GW_GATE_FENCED = 4, /* the kernel has no membarrier: each thread needs a fence */
};
extern atomic_int gw_gate_state; /* 0: open */
/* Not 0: launches are gated, or it is not known yet whether they will be. */
extern int gw_may_gate;

enum gw_pass { GW_INSIDE, GW_UNGATED, GW_SHUT };
/* The rest of gw_gate_enter, where the gate is not simply open. */
enum gw_pass gw_gate_enter_slowly(void);

/* Come in, which needs one gw_gate_leave; or the gate does not matter; or the memory did
 * not come back in time. */
static inline enum gw_pass gw_gate_enter(void)
{
	struct gw_seat *s = gw_own_seat;

	if (!s)
		return atomic_load_explicit(&gw_gate_state, memory_order_relaxed) & GW_GATE_OFF ?
			       GW_UNGATED : gw_gate_enter_slowly();
	atomic_store_explicit(&s->inside,
			      atomic_load_explicit(&s->inside, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	/* gw_gate_close makes the store visible by membarrier. */
	atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&gw_gate_state, memory_order_relaxed) == 0)
		return GW_INSIDE;
	return gw_gate_enter_slowly();
}

static inline void gw_gate_leave(void)
{
	atomic_store_explicit(&gw_own_seat->inside,
			      atomic_load_explicit(&gw_own_seat->inside, memory_order_relaxed) - 1,
			      memory_order_release);
}

/* Gate launches from now on, or never. A thread waits at the gate for so many ms at most:
 * its memory returns as soon as the device has room, for which the invoker may have to move
 * others out. wake is called when a thread waits. */
void gw_gate_begin(uint64_t wait_ms, void (*wake)(void));
void gw_gate_never(void);
/* Stream captures in progress: while there are any the gate cannot be closed. */
void gw_gate_count_capture(int change);

/* Close the gate and wait so many ms for the threads inside to leave. False: it is open
 * as before. */
bool gw_gate_close(int ms);
bool gw_gate_is_closed(void);
void gw_gate_open(void);
/* A thread waits at the gate. */
bool gw_gate_wanted(void);
/* In a forked child: nothing is gated. */
void gw_gate_drop(void);
