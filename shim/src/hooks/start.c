/*
 * The shim's start in a process: it reads the environment at the first call and starts
 * its agent after the first successful cuInit. This file also handles forked children and
 * the program's end.
 */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "driver/resolve.h"
#include "hooks/hooks.h"
#include "memory/backend.h"
#include "memory/contexts.h"
#include "memory/gate.h"
#include "memory/registry.h"
#include "memory/vmm.h"
#include "process/state.h"

static void set_limit(enum gw_account account, uint64_t bytes)
{
	gw_set_limit(account, (struct gw_limit){bytes, bytes});
}

static void configure(void)
{
	gw_config_read();
	set_limit(GW_DEVICE_BYTES, gw_config.limit);
	set_limit(GW_HOST_BYTES, gw_config.host_limit);
	bool gated = strcmp(gw_config.mode, gw_vmm_backend.name) == 0;
	if (strcmp(gw_config.mode, "off") == 0)
		gw_disable(NULL);
	else if (!gw_libc_supported())
		gw_disable("the C library is not glibc");
	else if (!gw_choose_backend(gw_config.mode))
		gw_disable("GPUWHISK_SHIM is none of managed, vmm, count, off");
	else if (!*gw_config.socket)
		gw_disable("GPUWHISK_SHIM_SOCKET names no usable path");
	if (gated && !gw_disabled())
		gw_gate_begin(gw_config.gate_ms, gw_agent_wake);
	else
		gw_gate_never();
}

bool gw_takes_part(void)
{
	enum { UNREAD, READING, READ };
	static atomic_int progress = UNREAD;
	int seen = atomic_load_explicit(&progress, memory_order_acquire);

	if (seen != READ) {
		int expect = UNREAD;
		/* A thread that comes while another reads forwards, once. */
		if (!atomic_compare_exchange_strong(&progress, &expect, READING))
			return false;
		configure();
		atomic_store_explicit(&progress, READ, memory_order_release);
	}
	return !gw_disabled();
}

/* Before the program has threads; a constructor before ours may have been
 * here already. */
__attribute__((constructor)) static void configure_early(void)
{
	gw_takes_part();
}

bool gw_forked;

static void after_fork(void)
{
	gw_forked = true;
	gw_gate_drop();
	gw_agent_leave();
}

__thread int gw_call_depth;

/* A program may end of the very error that is to be reported. It may also end in a
 * signal's handler that came in between anything, so nothing here takes a lock or waits
 * without an end. */
static void at_exit(void)
{
	enum { WAIT_MS = 2000, WITHIN_CALL_MS = 100 };

	if (gw_forked)
		return;
	if (!gw_call_depth)
		gw_agent_await_checked();
	gw_driver_stop(gw_call_depth ? WITHIN_CALL_MS : WAIT_MS);
}

/* The function behind pthread_atfork since glibc 2.3. Newer versions link a part of
 * pthread_atfork into us that would not load on musl. This reference is weak. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
#pragma weak __register_atfork
extern void *__dso_handle __attribute__((visibility("hidden")));

/* Once per program, also across forks. */
static void watch_process(void)
{
	static atomic_bool watched;

	if (atomic_exchange(&watched, true))
		return;
	if (__register_atfork)
		__register_atfork(NULL, NULL, after_fork, &__dso_handle);
	/* Handlers run last come first: ours before the driver's own end. */
	atexit(at_exit);
}

CUresult gw_on_init(fn_cuInit *real, unsigned flags)
{
	CUresult r = real(flags);

	if (r == CUDA_SUCCESS) {
		watch_process();
		gw_agent_start();
	}
	return r;
}
