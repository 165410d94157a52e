/*
 * Arrays and memory of other owners: as far as they can be counted.
 */
#include <stdlib.h>

#include "fake.h"

static CUresult array(CUarray *out)
{
	*out = calloc(1, 16);
	return CUDA_SUCCESS;
}
CUresult fake_cuArrayCreate_v2(CUarray *out, const struct gw_array2d *d) { return array(out); }
CUresult fake_cuArray3DCreate_v2(CUarray *out, const struct gw_array3d *d) { return array(out); }
CUresult fake_cuMipmappedArrayCreate(CUarray *out, const struct gw_array3d *d, unsigned n)
{
	return array(out);
}
CUresult fake_cuArrayDestroy(CUarray a)
{
	free(a);
	return CUDA_SUCCESS;
}
CUresult fake_cuMipmappedArrayDestroy(CUarray a) { return fake_cuArrayDestroy(a); }

CUresult fake_cuExternalMemoryGetMappedBuffer(CUdeviceptr *out, void *memory,
					      const struct gw_external *desc)
{
	return fake_cuMemAlloc_v2(out, desc->size);
}
