/*
 * A backend decides what device memory is made of and how it is moved. One is
 * chosen for a process at its start.
 */
#ifndef GW_BACKEND_H
#define GW_BACKEND_H

#include "memory/registry.h"

/* Rows of managed memory begin where those of device memory would. */
enum { GW_PITCH = 512 };
static inline size_t gw_row(size_t width)
{
	return (width + GW_PITCH - 1) / GW_PITCH * GW_PITCH;
}

/* What was given in place of what was asked for. */
struct gw_given {
	enum gw_kind kind;
	/* Managed memory was refused with this, and plain memory was given: some
	 * libraries' ways of asking for memory have that. Else CUDA_SUCCESS. */
	CUresult refusal;
};

struct gw_backend {
	const char *name;
	uint32_t code; /* in HELLO */
	/* Allocate in place of the driver's function; return what came of it. The
	 * driver's code is returned unchanged. */
	CUresult (*alloc)(fn_cuMemAlloc_v2 *real, CUdeviceptr *out, size_t bytes,
			  struct gw_given *given);
	/* The same for rows of a pitch. */
	CUresult (*alloc_pitch)(fn_cuMemAllocPitch_v2 *real, CUdeviceptr *out,
				size_t *pitch, size_t width, size_t height,
				unsigned element, struct gw_given *given);
	/* Move a range to the device, or to the host if it is CPU_DEVICE, in the
	 * order of the stream. NULL: nothing of this backend can be moved. */
	CUresult (*move)(CUdeviceptr ptr, size_t bytes, CUdevice to, CUstream stream);
};

/* The process's. */
extern const struct gw_backend *gw_backend;
/* Device memory as it was asked for, and nothing is moved. */
extern const struct gw_backend gw_plain_backend;

/* Reports whether memory stays on the device because the backend, or the device, cannot
 * move any. */
bool gw_memory_stays(void);

/* False: no backend has this name. */
bool gw_choose_backend(const char *name);

#endif
