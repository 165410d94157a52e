/*
 * The live contexts, and the lock that keeps them alive while we use them.
 */
#pragma once

#include <stdbool.h>

#include "driver/abi.h"

struct gw_current {
	CUcontext ctx;
	CUdevice device;
};

/* Returns the context that owns the allocations of the calling thread, and its device:
 * the current context, or the primary context for a green one. If the driver reports no
 * context, it is the process's only one. ctx is NULL if there is none. */
struct gw_current gw_current(void);
unsigned gw_contexts(void);
/* The context with this number, NULL if there are not so many. */
CUcontext gw_context_at(unsigned i);

/* A context is there. made: by cuCtxCreate; the rest are primary, or parts of one. */
void gw_add_context(CUcontext ctx, CUdevice device, bool made);
/* A green context has no memory of its own. Memory allocated below it belongs to the
 * primary context. */
void gw_add_green(CUcontext ctx, void *green, struct gw_current primary);
/* A green context ended. Sets primary to its primary context. Returns false if the green
 * context is unknown. */
bool gw_remove_green(void *green, struct gw_current *primary);
/* A context has ended, and with it the blocks that it held. */
void gw_remove_context(CUcontext ctx);
/* Called first when a context has ended, with the driver lock held; it may be NULL. */
extern void (*gw_context_ends)(CUcontext ctx);
/* How many have ended so far. */
unsigned gw_contexts_ended(void);
/* A context that goes with the device's primary one, NULL if none is known. */
CUcontext gw_primary_of(CUdevice dev);

/* A context of the process, NULL if none is known. It lives for as long as the
 * caller holds the driver lock. */
CUcontext gw_any_context(void);
/* The same, but NULL where contexts lie on several devices. */
CUcontext gw_single_device_context(void);

/* Make a context current, on top of the present one. A context that has ended unseen is
 * forgotten. The caller must hold the driver lock. */
CUresult gw_push_context(CUcontext ctx);
void gw_pop_context(void);
/* Forget all contexts that have ended unseen. False: there were none. The caller holds
 * the driver lock. */
bool gw_forget_ended(void);

/* Held by the agent while it calls the driver, and by the thread that ends a context:
 * a context dies between two of our moves, never during one. */
void gw_driver_lock(void);
void gw_driver_unlock(void);
/* A thread waits for the lock: the agent shall release it soon. */
bool gw_driver_lock_wanted(void);
/* The agent makes no call of the driver after this returns, unless it could not be waited
 * for in time. */
void gw_driver_stop(int ms);
/* True: it may make none any more. The caller holds the driver lock. */
bool gw_driver_stopped(void);

/* Moves go by two streams, so that one chunk follows the other without a gap. */
enum { GW_STREAMS = 2 };
/* One of our own streams in a context, made at first use with the context
 * current. Else the driver's refusal. The caller holds the driver lock. */
CUresult gw_stream(CUcontext ctx, unsigned which, CUstream *out);
