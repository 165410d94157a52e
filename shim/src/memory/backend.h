/*
 * A backend decides how device memory is made. One is chosen for a process at its start.
 * Movers carry memory between device and host, by the kind of a block.
 */
#pragma once

#include "memory/registry.h"

/* The program asks for device memory by cuMemAlloc. */
struct gw_alloc {
	fn_cuMemAlloc_v2 *real;
	CUdeviceptr *out;
	size_t bytes;
	uint64_t cost; /* reserved bytes */
	/* The answer. */
	enum gw_kind kind;
	/* Managed memory was refused with this, and plain memory was given: some
	 * libraries' ways of asking for memory have that. Else CUDA_SUCCESS. */
	CUresult refusal;
	bool settled; /* the reserved bytes are settled and the blocks recorded */
};

struct gw_backend {
	const char *name;
	uint32_t code; /* in HELLO */
	/* Bytes of the device that an allocation of so many takes. */
	uint64_t (*cost)(size_t bytes);
	/* Allocate in place of the driver's function. The driver's code is returned
	 * unchanged; GW_AGAIN: the cost has changed. */
	CUresult (*alloc)(struct gw_alloc *a);
	/* Reports whether memory moves on this device. */
	bool (*moves)(void);
};
enum { GW_AGAIN = -1 };

/* The process's backend. */
extern const struct gw_backend *gw_backend;
/* Device memory as it was asked for. It never moves. */
extern const struct gw_backend gw_plain_backend;
/* Managed memory in place of device memory. The driver moves it by prefetches, and brings
 * in the pages that a kernel touches. */
extern const struct gw_backend gw_managed_backend;
/* Handles that are mapped to reserved addresses (vmm.h). */
extern const struct gw_backend gw_vmm_backend;

/* How blocks of a kind are moved, whole or in parts. All calls have the block's context
 * current. */
struct gw_mover {
	bool whole; /* blocks move as a whole */
	/* Order the move of a part of a block, in the order of the stream. */
	CUresult (*order)(const struct gw_block *b, uint64_t from, uint64_t to, bool out,
			  CUstream stream);
	/* The stream has completed the order, or has failed. NULL if nothing more is to
	 * be done. */
	void (*finish)(uint64_t base, bool out, bool done);
};
extern const struct gw_mover gw_managed_mover, gw_vmm_mover;
const struct gw_mover *gw_mover_of(enum gw_kind kind);

/* Call the driver's function as the program did. */
CUresult gw_alloc_plain(struct gw_alloc *a);
/* Reports whether memory stays on the device because the backend, or the device, cannot
 * move any. */
bool gw_memory_stays(void);

/* False: no backend has this name. */
bool gw_choose_backend(const char *name);
