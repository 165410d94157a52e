/*
 * The connection to the invoker. Used by the agent alone.
 */
#pragma once

#include "agent/frame.h"
#include "process/fd.h"

struct gw_conn {
	struct gw_fd fd;
	uint8_t in[2 * GW_FRAME_MAX];
	size_t have;
	uint8_t out[4 * GW_FRAME_MAX]; /* queued, but not sent */
	size_t waiting;
	struct gw_fd passed; /* the descriptor that came last, until it is taken */
};

bool gw_conn_open(struct gw_conn *conn, const char *path);
void gw_conn_close(struct gw_conn *conn);
/* Queue a frame. It may wait for gw_conn_flush, so that frames queued together wake the
 * invoker once. Returns false if the connection is gone. */
bool gw_conn_send(struct gw_conn *conn, enum gw_type type, uint64_t epoch,
		  const struct gw_fields *f);
bool gw_conn_flush(struct gw_conn *conn);
/* Read the available bytes without waiting. Returns false if the connection is gone. */
bool gw_conn_receive(struct gw_conn *conn);
/* The next whole command: 1, none yet: 0, nonsense: -1. */
int gw_conn_next(struct gw_conn *conn, struct gw_command *out);
