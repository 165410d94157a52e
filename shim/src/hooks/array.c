/*
 * Arrays: counted and limited, never moved.
 */
#include "hooks/obtain.h"
#include "hooks/serve.h"

/* CUarray_format: the low numbers are plain types. The rest are planar and
 * compressed ones, of at most 4 bytes an element. */
static uint64_t element_bytes(int format)
{
	switch (format) {
	case 0x01: /* unsigned and signed 8 bit */
	case 0x08:
		return 1;
	case 0x02: /* 16 bit, half */
	case 0x09:
	case 0x10:
		return 2;
	}
	return 4;
}

/* cuArrayGetMemoryRequirements has the size only of arrays with deferred mapping,
 * so it is computed from the description. Those, and sparse ones, are made without
 * memory: the handles that are mapped into them count. */
static uint64_t array_bytes(const struct gw_array3d *d)
{
	if (d->flags & (ARRAY_SPARSE | ARRAY_DEFERRED_MAPPING))
		return 0;
	uint64_t n = d->width * element_bytes(d->format) * (d->channels ? d->channels : 1);

	return n * (d->height ? d->height : 1) * (d->depth ? d->depth : 1);
}

static bool reserve(uint64_t bytes) { return gw_obtain(GW_DEVICE_BYTES, bytes); }

/* The end of an array whose bytes are reserved. */
static CUresult finish_array(CUresult r, CUarray *array, uint64_t bytes)
{
	return gw_finish_alloc(r, bytes, GW_HANDLE, (struct gw_block){
		.base = (uintptr_t)*array, .size = bytes, .kind = GW_ARRAY,
	});
}

CUresult gw_on_array_create(fn_cuArrayCreate_v2 *real, CUarray *array,
			    const struct gw_array2d *desc)
{
	if (!array || !desc)
		return real(array, desc);
	uint64_t bytes = array_bytes(&(struct gw_array3d){
		.width = desc->width, .height = desc->height,
		.format = desc->format, .channels = desc->channels,
	});
	if (!reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return finish_array(real(array, desc), array, bytes);
}

CUresult gw_on_array3d_create(fn_cuArray3DCreate_v2 *real, CUarray *array,
			      const struct gw_array3d *desc)
{
	if (!array || !desc)
		return real(array, desc);
	uint64_t bytes = array_bytes(desc);
	if (!reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return finish_array(real(array, desc), array, bytes);
}

/* The levels of a mipmap together take a third more than the first. */
CUresult gw_on_mipmap_create(fn_cuMipmappedArrayCreate *real, CUarray *array,
			     const struct gw_array3d *desc, unsigned levels)
{
	if (!array || !desc)
		return real(array, desc, levels);
	uint64_t first = array_bytes(desc), bytes = levels > 1 ? first + first / 3 : first;
	if (!reserve(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return finish_array(real(array, desc, levels), array, bytes);
}

CUresult gw_on_array_destroy(fn_cuArrayDestroy *real, CUarray array)
{
	struct gw_block b;
	bool known = gw_remove(GW_HANDLE, (uintptr_t)array, &b);
	CUresult r = real(array);

	gw_finish_free(known, GW_HANDLE, &b, r);
	return r;
}
