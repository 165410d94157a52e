/*
 * One order to move memory, carried out in steps of some chunks: between two
 * chunks the agent polls the socket, so that a newer order ends an older one.
 */
#ifndef GW_WORK_H
#define GW_WORK_H

#include "frame.h"
#include "registry.h"

struct gw_work {
	enum gw_type type; /* GW_PREFETCH, GW_EVICT, or 0: there is none */
	uint64_t epoch;
	uint64_t budget; /* 0 is all */
	int64_t began, deadline;
	uint64_t moved;
	CUresult code; /* the driver's first refusal */
	struct gw_block *list;
	size_t n, next;
};

/* gated: the invoker reports when runs begin and end. */
void gw_work_begin(struct gw_work *w, const struct gw_command *c, bool gated);
/* True: a step would move something. */
bool gw_work_remains(const struct gw_work *w);
/* Move some chunks, each ordered while the one before it is under way, until
 * interrupted reports that there is something else to do. All have arrived when it
 * returns; heartbeat is called once in a while until then. False: there is nothing more
 * to do. */
bool gw_work_step(struct gw_work *w, bool (*interrupted)(void), void (*heartbeat)(void));
/* What came of it. The work is over then. */
enum gw_status gw_work_end(struct gw_work *w);

/* True: no call of the driver may be made any more. */
bool gw_work_stopped(void);

/* measure.c */
/* For sorting blocks: the largest first, of equal ones the youngest. */
int gw_compare_size(const void *a, const void *b);
/* Give back what pools and graphs keep for later. */
void gw_trim(void);
/* Record how much of each block was likely never used. */
void gw_estimate_untouched(void);
/* What this process holds, with what its pools keep. at_rest: no more of it is
 * on the device than the device has in use. */
struct gw_totals gw_work_totals(bool at_rest);
/* Check a context: after a kernel's fault the driver gives that error for every
 * call. */
void gw_work_probe(void);
/* No call of the driver is made after this returns. */
void gw_work_stop(void);

#endif
