/*
 * Signs that a program's libraries do not work with managed memory. The invoker is
 * notified of the first one, and runs the function without managed memory from its
 * next container on. A launch is not on our path: its failure shows in the driver's
 * next answers about the context, and in the errors that the program has the driver
 * explain.
 */
#pragma once

#include <stdbool.h>

#include "driver/abi.h"

enum gw_sign {
	GW_NO_SIGN,
	GW_SIGN_ALLOC = 1, /* managed memory was refused, plain memory was given */
	GW_SIGN_FAULT = 2, /* an illegal or unknown error after a move */
	GW_SIGN_SHARE = 3, /* managed memory cannot be given to another process */
	/* Such an error with nothing moved: of kernels that do not work with managed
	 * memory at all, or of the program's own. Only counting shows which. */
	GW_SIGN_UNMOVED = 4,
};

/* Record a sign. True: it is the first. */
bool gw_record_sign(enum gw_sign sign, CUresult code);
/* There was one: memory that is asked for now is plain. */
bool gw_refused_before(void);

/* An order has moved memory of this process. */
void gw_record_move(void);
/* Some call gave this. True: it is a sign, and the first, which is recorded. */
bool gw_check_fault(CUresult r);

/* Returns the sign that is not reported yet, if there is one. gw_reported clears it. */
enum gw_sign gw_unreported(CUresult *code);
void gw_reported(void);
/* Another invoker has to be notified again. */
void gw_reset_reported(void);
