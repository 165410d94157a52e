#include "agent/report.h"

#include <unistd.h>

#include "driver/entries.h"
#include "memory/backend.h"
#include "memory/contexts.h"
#include "migration/measure.h"
#include "migration/refusal.h"
#include "process/state.h"

bool gw_send_hello(struct gw_conn *conn)
{
	struct gw_frame f;

	gw_frame_begin(&f, GW_HELLO, 0);
	gw_frame_u32(&f, GW_VERSION);
	gw_frame_u32(&f, (uint32_t)getpid());
	gw_frame_u32(&f, gw_backend->code);
	gw_frame_u32(&f, GW_HOOKS);
	return gw_conn_send(conn, &f);
}

bool gw_send_usage(struct gw_conn *conn, uint64_t epoch, bool at_rest)
{
	struct gw_totals t = gw_measure(at_rest);
	struct gw_frame f;

	gw_frame_begin(&f, GW_USAGE, epoch);
	gw_frame_u32(&f, gw_contexts());
	gw_frame_u32(&f, 0);
	gw_frame_u64(&f, t.allocated);
	gw_frame_u64(&f, t.resident);
	gw_frame_u64(&f, t.fixed);
	gw_frame_u64(&f, t.host);
	gw_frame_u64(&f, t.blocks);
	gw_frame_u64(&f, t.managed);
	gw_frame_u64(&f, t.listed);
	return gw_conn_send(conn, &f);
}

bool gw_send_refused(struct gw_conn *conn)
{
	CUresult code;
	enum gw_sign sign = gw_unreported(&code);
	struct gw_frame f;

	if (sign == GW_NO_SIGN)
		return true;
	gw_frame_begin(&f, GW_REFUSED, 0);
	gw_frame_u32(&f, sign);
	gw_frame_u32(&f, (uint32_t)code);
	if (!gw_conn_send(conn, &f) || !gw_conn_flush(conn))
		return false;
	gw_reported();
	return true;
}

bool gw_send_accepted(struct gw_conn *conn, const struct gw_command *c)
{
	struct gw_frame f;

	gw_frame_begin(&f, GW_ACCEPTED, c->epoch);
	gw_frame_u32(&f, c->type);
	return gw_conn_send(conn, &f);
}

bool gw_send_done(struct gw_conn *conn, const struct gw_command *c, const struct gw_work *w,
		  enum gw_status status)
{
	struct gw_frame f;

	gw_frame_begin(&f, GW_DONE, c->epoch);
	gw_frame_u32(&f, c->type);
	gw_frame_u32(&f, status);
	gw_frame_u32(&f, (uint32_t)w->code);
	gw_frame_u32(&f, 0);
	gw_frame_u64(&f, w->moved);
	gw_frame_u64(&f, (uint64_t)(gw_clock() - w->began));
	gw_frame_u64(&f, gw_measure(true).resident);
	return gw_conn_send(conn, &f);
}

bool gw_send_pong(struct gw_conn *conn, uint64_t epoch)
{
	struct gw_frame f;

	gw_frame_begin(&f, GW_PONG, epoch);
	return gw_conn_send(conn, &f);
}

bool gw_send_want(struct gw_conn *conn, uint64_t number)
{
	struct gw_frame f;

	gw_frame_begin(&f, GW_WANT, number);
	return gw_conn_send(conn, &f);
}
