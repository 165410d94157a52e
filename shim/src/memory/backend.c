#include "memory/backend.h"

#include <stdatomic.h>
#include <string.h>

#include "driver/resolve.h"
#include "process/state.h"

static CUresult plain(fn_cuMemAlloc_v2 *real, CUdeviceptr *out, size_t bytes,
		      struct gw_given *given)
{
	given->kind = GW_PLAIN;
	return real(out, bytes);
}

static CUresult plain_pitch(fn_cuMemAllocPitch_v2 *real, CUdeviceptr *out,
			    size_t *pitch, size_t width, size_t height,
			    unsigned element, struct gw_given *given)
{
	given->kind = GW_PLAIN;
	return real(out, pitch, width, height, element);
}

/* A device or driver without managed memory is served as without us. */
static bool unsupported(CUresult r)
{
	static atomic_bool reported;

	if (r != CUDA_ERROR_NOT_SUPPORTED)
		return false;
	if (!atomic_exchange(&reported, true))
		gw_log("managed memory is not supported here: memory stays on the device");
	return true;
}

/* Managed memory moves where the host may have it while the device works. Elsewhere,
 * such as on a vGPU or in WSL, no order can move it, so memory is plain. Asked once, of
 * the device of the first allocation: those of one host are alike. */
static bool moves(void)
{
	enum { UNKNOWN, YES, NO };
	static atomic_int known;
	fn_cuDeviceGetAttribute *ask = GW_REAL(cuDeviceGetAttribute);
	fn_cuCtxGetDevice *current = GW_REAL(cuCtxGetDevice);
	CUdevice dev;
	int concurrent;

	if (!atomic_load_explicit(&known, memory_order_relaxed) && ask && current &&
	    current(&dev) == CUDA_SUCCESS &&
	    ask(&concurrent, CONCURRENT_MANAGED_ACCESS, dev) == CUDA_SUCCESS &&
	    atomic_exchange(&known, concurrent ? YES : NO) == UNKNOWN && !concurrent)
		gw_log("managed memory does not move on this device: memory stays on it");
	return atomic_load_explicit(&known, memory_order_relaxed) != NO;
}

/* Managed memory was refused with r, plain memory given or not. Out of memory is
 * no refusal. */
static CUresult in_place_of(CUresult r, CUresult of_plain, struct gw_given *given)
{
	if (of_plain != CUDA_SUCCESS)
		return r;
	given->refusal = r;
	return CUDA_SUCCESS;
}

static bool allocated_or_oom(CUresult r)
{
	return r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult managed(fn_cuMemAlloc_v2 *real, CUdeviceptr *out, size_t bytes,
			struct gw_given *given)
{
	fn_cuMemAllocManaged *alloc = GW_REAL(cuMemAllocManaged);
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (!moves())
		return plain(real, out, bytes, given);
	given->kind = GW_MANAGED;
	if (alloc)
		r = alloc(out, bytes, ATTACH_GLOBAL);
	if (unsupported(r))
		return plain(real, out, bytes, given);
	if (!allocated_or_oom(r))
		return in_place_of(r, plain(real, out, bytes, given), given);
	return r;
}

static CUresult managed_pitch(fn_cuMemAllocPitch_v2 *real, CUdeviceptr *out,
			      size_t *pitch, size_t width, size_t height,
			      unsigned element, struct gw_given *given)
{
	fn_cuMemAllocManaged *alloc = GW_REAL(cuMemAllocManaged);
	size_t row = gw_row(width);
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (!moves())
		return plain_pitch(real, out, pitch, width, height, element, given);
	given->kind = GW_MANAGED;
	/* What the driver would refuse, it shall refuse itself. */
	if (!pitch || !width || !height || row < width || height > SIZE_MAX / row ||
	    (element != 4 && element != 8 && element != 16))
		return plain_pitch(real, out, pitch, width, height, element, given);
	if (alloc)
		r = alloc(out, row * height, ATTACH_GLOBAL);
	if (unsupported(r))
		return plain_pitch(real, out, pitch, width, height, element, given);
	if (!allocated_or_oom(r))
		return in_place_of(r, plain_pitch(real, out, pitch, width, height, element, given),
				   given);
	if (r == CUDA_SUCCESS)
		*pitch = row;
	return r;
}

static CUresult prefetch(CUdeviceptr ptr, size_t bytes, CUdevice to, CUstream stream)
{
	fn_cuMemPrefetchAsync_v2 *v2 = GW_REAL(cuMemPrefetchAsync_v2);
	fn_cuMemPrefetchAsync *v1;
	struct gw_location where = {LOCATION_DEVICE, to};

	if (to == CPU_DEVICE)
		where = (struct gw_location){LOCATION_HOST, 0};
	if (v2)
		return v2(ptr, bytes, where, 0, stream);
	v1 = GW_REAL(cuMemPrefetchAsync);
	return v1 ? v1(ptr, bytes, to, stream) : CUDA_ERROR_NOT_SUPPORTED;
}

static const struct gw_backend managed_backend = {"managed", 0, managed, managed_pitch, prefetch};
const struct gw_backend gw_plain_backend = {"count", 1, plain, plain_pitch, NULL};

const struct gw_backend *gw_backend = &gw_plain_backend;

bool gw_memory_stays(void) { return !gw_backend->move || !moves(); }

bool gw_choose_backend(const char *name)
{
	static const struct gw_backend *const all[] = {&managed_backend, &gw_plain_backend};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(all[i]->name, name) == 0) {
			gw_backend = all[i];
			return true;
		}
	return false;
}
