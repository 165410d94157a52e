#include "agent/report.h"

#include <unistd.h>

#include "driver/entries.h"
#include "memory/backend.h"
#include "memory/contexts.h"
#include "migration/measure.h"
#include "migration/refusal.h"
#include "process/state.h"

/* The fields of a frame: first words of four bytes, then numbers of eight. */
struct payload {
	uint32_t words[4];
	uint64_t numbers[7];
	unsigned n_words, n_numbers;
};

static bool send_frame(struct gw_conn *conn, enum gw_type type, uint64_t epoch,
		       const struct payload *p)
{
	struct gw_frame f;

	gw_frame_begin(&f, type, epoch);
	for (unsigned i = 0; i < p->n_words; i++)
		gw_frame_u32(&f, p->words[i]);
	for (unsigned i = 0; i < p->n_numbers; i++)
		gw_frame_u64(&f, p->numbers[i]);
	return gw_conn_send(conn, &f);
}

bool gw_send_hello(struct gw_conn *conn)
{
	return send_frame(conn, GW_HELLO, 0, &(struct payload){
		.words = {GW_VERSION, (uint32_t)getpid(), gw_backend->code, GW_HOOKS}, .n_words = 4,
	});
}

bool gw_send_usage(struct gw_conn *conn, uint64_t epoch, bool at_rest)
{
	struct gw_totals t = gw_measure(at_rest);

	return send_frame(conn, GW_USAGE, epoch, &(struct payload){
		.words = {gw_contexts(), 0}, .n_words = 2,
		.numbers = {t.allocated, t.resident, t.fixed, t.host, t.blocks, t.managed, t.listed},
		.n_numbers = 7,
	});
}

bool gw_send_refused(struct gw_conn *conn)
{
	CUresult code;
	enum gw_sign sign = gw_unreported(&code);

	if (sign == GW_NO_SIGN)
		return true;
	if (!send_frame(conn, GW_REFUSED, 0, &(struct payload){
		.words = {sign, (uint32_t)code}, .n_words = 2,
	}) || !gw_conn_flush(conn))
		return false;
	gw_reported();
	return true;
}

bool gw_send_accepted(struct gw_conn *conn, const struct gw_command *c)
{
	return send_frame(conn, GW_ACCEPTED, c->epoch, &(struct payload){
		.words = {c->type}, .n_words = 1,
	});
}

bool gw_send_done(struct gw_conn *conn, const struct gw_command *c, const struct gw_work *w,
		  enum gw_status status)
{
	return send_frame(conn, GW_DONE, c->epoch, &(struct payload){
		.words = {c->type, status, (uint32_t)w->code, 0}, .n_words = 4,
		.numbers = {w->moved, (uint64_t)(gw_clock() - w->began), gw_measure(true).resident},
		.n_numbers = 3,
	});
}

bool gw_send_empty(struct gw_conn *conn, enum gw_type type, uint64_t epoch)
{
	return send_frame(conn, type, epoch, &(struct payload){.n_words = 0});
}
