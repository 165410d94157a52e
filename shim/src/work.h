/*
 * One order to move memory, carried out in steps: between two of them the
 * agent looks at the socket, so that a newer order ends an older one.
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

/* gated: the invoker tells when runs begin and end. */
void gw_work_begin(struct gw_work *w, const struct gw_command *c, bool gated);
/* True: a step would move something. */
bool gw_work_left(const struct gw_work *w);
/* Move a chunk. False: there is nothing more to do. */
bool gw_work_step(struct gw_work *w);
/* What came of it. The work is over then. */
enum gw_status gw_work_end(struct gw_work *w);

/* What this process holds, with what its pools keep. at_rest: no more of it is
 * on the device than the device has in use. */
struct gw_totals gw_work_totals(bool at_rest);
/* Ask after a context in which memory was moved: after a kernel's fault the
 * driver gives that error for every call. */
void gw_work_probe(void);
/* No call of the driver is made after this returns. */
void gw_work_stop(void);

#endif
