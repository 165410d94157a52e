/*
 * Reports to the invoker, as frames. Each function returns false if the connection is
 * unusable.
 */
#ifndef GW_REPORT_H
#define GW_REPORT_H

#include "agent/conn.h"
#include "migration/work.h"

bool gw_send_hello(struct gw_conn *conn);
/* at_rest: as of gw_measure. */
bool gw_send_usage(struct gw_conn *conn, uint64_t epoch, bool at_rest);
/* A sign that managed memory does not work for this program; once to each invoker. */
bool gw_send_refused(struct gw_conn *conn);
bool gw_send_accepted(struct gw_conn *conn, const struct gw_command *c);
/* Report the result of a command to move memory. */
bool gw_send_done(struct gw_conn *conn, const struct gw_command *c, const struct gw_work *w,
		  enum gw_status status);
/* A frame without fields: PONG or WANT. */
bool gw_send_empty(struct gw_conn *conn, enum gw_type type, uint64_t epoch);

#endif
