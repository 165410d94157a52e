/*
 * One order to move memory, carried out in steps of some chunks: between two
 * chunks the caller may give it up for another.
 */
#pragma once

#include "memory/registry.h"

struct gw_order {
	bool out;       /* to the host, else to the device */
	uint64_t bytes; /* that it may move; 0 is all */
	uint64_t ns;    /* that it may take; 0 is no deadline */
	bool gated;     /* the invoker reports when runs begin and end */
};

/* Bring back all memory that only a move of ours brings in. */
static const struct gw_order gw_restore = {.out = false};

struct gw_work {
	bool out;
	uint64_t budget; /* 0 is all */
	int64_t began, deadline;
	uint64_t moved;
	CUresult code; /* the driver's first refusal */
	struct gw_block *list;
	size_t n, next;
	bool closed;     /* the gate, for blocks that move as a whole */
};

/* The questions and reports of a step. */
struct gw_watch {
	/* There is something else to do. */
	bool (*interrupted)(void);
	/* Called once in a while as long as a part of the memory takes. */
	void (*heartbeat)(void);
};

enum gw_outcome {
	GW_MOVED,   /* all that was ordered */
	GW_LIMITED, /* the budget, the deadline or the caller ended it */
	GW_REFUSED_BY_DRIVER, /* a part */
};

void gw_work_begin(struct gw_work *w, const struct gw_order *order);
/* True: a step would move something. */
bool gw_work_remains(const struct gw_work *w);
/* Move some chunks, each ordered while the one before it is under way, until
 * interrupted. All have arrived when it returns. False: there is nothing more to do. */
bool gw_work_step(struct gw_work *w, const struct gw_watch *watch);
/* The outcome of the work, which is over then. */
enum gw_outcome gw_work_end(struct gw_work *w);

/* Returns true if memory is out that the program cannot use. Launches then wait. */
bool gw_work_owed(void);
/* Bring it all back at once, if the device has room. */
void gw_work_restore(void);
