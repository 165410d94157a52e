/*
 * The connection to the invoker. Used by the agent alone.
 */
#ifndef GW_LINK_H
#define GW_LINK_H

#include "frame.h"
#include "state.h"

struct gw_link {
	struct gw_fd fd;
	uint8_t in[2 * GW_FRAME_MAX];
	size_t have;
	uint8_t out[4 * GW_FRAME_MAX]; /* queued, but not sent */
	size_t waiting;
};

bool gw_link_open(struct gw_link *l, const char *path);
void gw_link_close(struct gw_link *l);
/* Queue a frame; it may wait for gw_link_flush, so that what is queued at one time
 * wakes the invoker once. False: the connection is gone. */
bool gw_link_send(struct gw_link *l, struct gw_frame *f);
bool gw_link_flush(struct gw_link *l);
/* Take in what has come, without waiting. False: the connection is gone. */
bool gw_link_receive(struct gw_link *l);
/* The next whole command: 1, none yet: 0, nonsense: -1. */
int gw_link_next(struct gw_link *l, struct gw_command *out);

#endif
