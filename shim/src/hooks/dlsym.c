/*
 * Which lookups by dlsym and dlvsym are answered with a hook: tail.S asks here.
 *
 * This file runs before main, before our constructor and before a sanitizer's
 * runtime is ready; it is built without instrumentation and calls nothing of
 * libc that others may have replaced.
 */
#include <dlfcn.h>
#include <stdbool.h>

#include "driver/resolve.h"
#include "hooks/hooks.h"

#define SHARED_WITH_TAIL __attribute__((visibility("hidden")))
SHARED_WITH_TAIL void *gw_pick(void *handle, const char *name, const void *caller,
			       const char *version);
/* Our own two, also where an interposer in front of us has others. */
SHARED_WITH_TAIL void *gw_own_dlsym(void *handle, const char *name);
SHARED_WITH_TAIL void *gw_own_dlvsym(void *handle, const char *name, const char *version);

static int hook_named(const char *name)
{
	for (int id = 0; id < GW_ENTRIES; id++)
		if (gw_wrappers[id] && gw_equal(gw_entries[id].export, name))
			return id;
	return -1;
}

/*
 * Returns true if the caller is the interposer that our slot leads to. It looks for the
 * definition behind its own, and would get a loop if it got ours.
 */
static bool is_next(int id, const void *caller)
{
	const void *real = gw_real_linked(id);
	Dl_info asks, next;

	return real && dladdr(caller, &asks) && dladdr(real, &next) &&
	       asks.dli_fbase == next.dli_fbase;
}

/* Whether the asker comes before us in the order of search. */
static bool is_before_shim(const void *caller)
{
	Dl_info asks, us;

	if (!dladdr(caller, &asks) || !dladdr((void *)gw_pick, &us))
		return false;
	for (const struct link_map *m = gw_libraries(); m; m = m->l_next)
		if (m->l_addr == (ElfW(Addr))asks.dli_fbase)
			return asks.dli_fbase != us.dli_fbase;
		else if (m->l_addr == (ElfW(Addr))us.dli_fbase)
			return false;
	return false;
}

/*
 * An interposer in front of us asks for the next dlsym, by version as most do.
 * glibc would pass us over, since ours has no version, and the interposer would
 * hand out the driver's functions past us.
 */
static void *next_lookup(void *handle, const char *name, const void *caller)
{
	if (handle != RTLD_NEXT || !gw_has_prefix(name, "dl"))
		return NULL;
	if (gw_equal(name, "dlsym") && is_before_shim(caller))
		return (void *)gw_own_dlsym;
	if (gw_equal(name, "dlvsym") && is_before_shim(caller))
		return (void *)gw_own_dlvsym;
	return NULL;
}

void *gw_pick(void *handle, const char *name, const void *caller, const char *version)
{
	int id;
	void *p;

	gw_resolve_begin();
	if (name && name[0] == 'd')
		return next_lookup(handle, name, caller);
	if (!name || handle == RTLD_NEXT || handle == RTLD_DEFAULT ||
	    !(gw_has_prefix(name, "cu") || gw_has_prefix(name, "nvml")))
		return NULL;
	id = hook_named(name);
	if (id < 0 || !gw_gives_wrapper(id))
		return NULL;
	p = version ? gw_next_dlvsym(handle, name, version) : gw_next_dlsym(handle, name);
	if (!p || p == gw_wrappers[id] || !gw_found(id, p))
		return NULL;
	return is_next(id, caller) ? NULL : gw_wrappers[id];
}
