/*
 * The wrappers and their table, made from abi.def. A wrapper finds the real
 * function, and either forwards (when the shim is disabled) or lets
 * gw_on_<what> do the work with the real function at hand. The driver's calls are no
 * cancellation points, so what a wrapper does is none.
 */
#include "hooks.h"

#include <pthread.h>

#include "serve.h"
#include "state.h"

#define ARGS(...) __VA_ARGS__

#define HOOK(base, export, version, flags, class, what, params, args)      \
	GW_EXPORT CUresult export params                                   \
	{                                                                  \
		fn_##export *real = GW_REAL(export);                       \
		if (!real)                                                 \
			return CUDA_ERROR_NOT_FOUND;                       \
		if (gw_disabled())                                         \
			return real args;                                  \
		int cancel;                                                \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);   \
		CUresult r = gw_on_##what(real, ARGS args);                \
		pthread_setcancelstate(cancel, NULL);                      \
		return r;                                                  \
	}
#include "../abi.def"

const struct gw_entry gw_entries[GW_ENTRIES] = {
#define HOOK(base, export, version, flags, class, what, params, args) \
	[ID_##export] = {#base, #export, version, flags, (void *)export},
#include "../abi.def"
#define CALL(base, export, version, params, args) \
	[ID_##export] = {#base, #export, version, 0, NULL},
#include "../abi.def"
};
