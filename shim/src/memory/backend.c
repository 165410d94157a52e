#include "memory/backend.h"

#include <string.h>

const struct gw_backend *gw_backend = &gw_plain_backend;

bool gw_memory_stays(void) { return !gw_backend->moves || !gw_backend->moves(); }

bool gw_choose_backend(const char *name)
{
	static const struct gw_backend *const all[] = {
		&gw_managed_backend, &gw_plain_backend, &gw_vmm_backend,
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(all[i]->name, name) == 0) {
			gw_backend = all[i];
			return true;
		}
	return false;
}

const struct gw_mover *gw_mover_of(enum gw_kind kind)
{
	return kind == GW_VMM ? &gw_vmm_mover : &gw_managed_mover;
}
