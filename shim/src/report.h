/*
 * What is reported to the invoker, as frames. False: the connection is of no more
 * use.
 */
#ifndef GW_REPORT_H
#define GW_REPORT_H

#include "conn.h"
#include "work.h"

bool gw_send_hello(struct gw_conn *conn);
/* A sign that managed memory does not work for this program; once to each invoker. */
bool gw_send_refused(struct gw_conn *conn);
bool gw_send_accepted(struct gw_conn *conn, const struct gw_command *c);
bool gw_send_done(struct gw_conn *conn, const struct gw_work *w, enum gw_type type,
		  enum gw_status status);

#endif
