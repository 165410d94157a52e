#include "migration/refusal.h"

#include <stdatomic.h>

#include "process/state.h"

static _Atomic int recorded; /* enum gw_sign */
static _Atomic int recorded_code;
static atomic_bool reported, moved;

bool gw_refused_before(void)
{
	return atomic_load_explicit(&recorded, memory_order_relaxed) != GW_NO_SIGN;
}

void gw_record_move(void) { atomic_store(&moved, true); }

bool gw_record_sign(enum gw_sign sign, CUresult code)
{
	int none = GW_NO_SIGN;

	/* The code first: a thread that sees the sign reads it. Of two that come at
	 * once one's code may stand with the other's sign; both are true. */
	if (!gw_refused_before())
		atomic_store(&recorded_code, code);
	if (!atomic_compare_exchange_strong(&recorded, &none, sign))
		return false;
	if (sign == GW_SIGN_UNMOVED)
		gw_log("a kernel failed and nothing was moved (driver's code %d)", code);
	else
		gw_log("this function does not work with managed memory (sign %d, driver's code "
		       "%d): it should run with the shim as count", sign, code);
	return true;
}

/* Errors of a kernel that met memory that it did not expect: 700 is an illegal
 * address, 714 to 719 the other faults of a kernel, 999 is unknown. */
static bool is_fault(CUresult r)
{
	return r == 700 || (r >= 714 && r <= 719) || r == 999;
}

bool gw_check_fault(CUresult r)
{
	return is_fault(r) &&
	       gw_record_sign(atomic_load(&moved) ? GW_SIGN_FAULT : GW_SIGN_UNMOVED, r);
}

enum gw_sign gw_unreported(CUresult *code)
{
	enum gw_sign sign = (enum gw_sign)atomic_load(&recorded);

	*code = atomic_load(&recorded_code);
	return atomic_load(&reported) ? GW_NO_SIGN : sign;
}

void gw_reported(void) { atomic_store(&reported, true); }
void gw_reset_reported(void) { atomic_store(&reported, false); }
