/*
 * The wrappers and their table, made from abi.def. A wrapper finds the real function. It
 * either forwards the call (when the shim takes no part) or does the hook's work, inside the
 * gate where the class says so. The driver's
 * calls are no cancellation points, so the work of a wrapper must not be one either.
 */
#include "hooks/hooks.h"

#include <pthread.h>

#include "driver/resolve.h"
#include "memory/gate.h"
#include "memory/vmm.h"

/* By the class of a hook: whether it passes the gate. */
enum { GATED_A, GATED_B = 0, GATED_G = 1 };

#define WRAPPER(export, params, args, call, gated, refused, missing, shut) \
	GW_EXPORT int export params                                        \
	{                                                                  \
		fn_##export *real = GW_REAL(export);                       \
		enum gw_pass pass = GW_UNGATED;                            \
		int cancel;                                                \
		if (!real)                                                 \
			return missing;                                    \
		/* Memory that is mapped by us needs us until its end. */          \
		if (refused || (!gw_takes_part() && !gw_vmm_in_use()))     \
			return real args;                                  \
		if (gated && (pass = gw_gate_enter()) == GW_SHUT)          \
			return shut;                                       \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);   \
		gw_call_depth++;                                           \
		int r = call;                                              \
		gw_call_depth--;                                           \
		pthread_setcancelstate(cancel, NULL);                      \
		if (pass == GW_INSIDE)                                     \
			gw_gate_leave();                                   \
		return r;                                                  \
	}

#define HOOK(base, export, version, flags, class, what, params, args)             \
	WRAPPER(export, params, args, gw_on_##what(real, GW_LIST args), GATED_##class,      \
		gw_forked, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_OUT_OF_MEMORY)
#define AFTER(base, export, version, flags, class, what, params, args, seen)                \
	WRAPPER(export, params, args, gw_after_##what(real args, GW_LIST seen), GATED_##class, \
		gw_forked, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_OUT_OF_MEMORY)
#define GATE(base, export, version, flags, as, params, args)               \
	GW_EXPORT CUresult export params                                   \
	{                                                                  \
		fn_##export *real = GW_REAL(export);                       \
		if (!real)                                                 \
			return CUDA_ERROR_NOT_FOUND;                       \
		enum gw_pass pass = gw_gate_enter();                       \
		if (pass == GW_SHUT)                                       \
			return CUDA_ERROR_OUT_OF_MEMORY;                   \
		CUresult r = real args;                                    \
		if (pass == GW_INSIDE)                                     \
			gw_gate_leave();                                   \
		return r;                                                  \
	}
#define NVML(export, what, params, args) \
	WRAPPER(export, params, args, gw_on_##what(real, GW_LIST args), 0, false, \
		NVML_FUNCTION_NOT_FOUND, NVML_MEMORY)
#include "../../abi.def"

void *const gw_wrappers[GW_ENTRIES] = {
#define HOOK(base, export, version, flags, class, what, params, args) \
	[ID_##export] = (void *)export,
#define GATE(base, export, version, flags, as, params, args) [ID_##export] = (void *)export,
#define NVML(export, what, params, args) [ID_##export] = (void *)export,
#include "../../abi.def"
};
