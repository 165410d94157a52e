/*
 * What is said to the invoker, as frames. False: the connection is of no more
 * use.
 */
#ifndef GW_SAY_H
#define GW_SAY_H

#include "link.h"
#include "work.h"

bool gw_say_hello(struct gw_link *l);
/* A sign that managed memory is not borne; once to each invoker. */
bool gw_say_refused(struct gw_link *l);
bool gw_say_accepted(struct gw_link *l, const struct gw_command *c);
bool gw_say_done(struct gw_link *l, const struct gw_work *w, enum gw_type type,
		 enum gw_status status);

#endif
