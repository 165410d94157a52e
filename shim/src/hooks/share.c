/*
 * Physical memory that others may use: exported to processes, or bound to objects by which
 * other devices reach it. It never moves again. An import of memory that this process exported
 * gives one more handle of the same memory.
 */
#include "hooks/hooks.h"
#include "hooks/physical.h"
#include "memory/contexts.h"

/* Begin a call that gives memory to others, with the driver's handle for it. */
static CUmemHandle begin(CUmemHandle handle)
{
	gw_driver_lock();
	return gw_driver_handle(handle);
}

/* The driver answered that call with r. */
static CUresult given(CUresult r, CUmemHandle handle)
{
	struct gw_span *s = gw_physical_span(gw_memory_of(handle));

	if (r == CUDA_SUCCESS && s)
		gw_span_fix(s);
	gw_driver_unlock();
	return r;
}

CUresult gw_on_physical_export(fn_cuMemExportToShareableHandle *real, void *shared,
			       CUmemHandle handle, int type, unsigned long long flags)
{
	CUresult r = real(shared, begin(handle), type, flags);
	uint64_t memory = gw_memory_of(handle);

	if (r == CUDA_SUCCESS && shared && memory)
		gw_record_export(type, shared, memory);
	return given(r, handle);
}

/* Memory of another process is counted there. */
CUresult gw_on_physical_import(fn_cuMemImportFromShareableHandle *real, CUmemHandle *handle,
			       void *shared, int type)
{
	gw_driver_lock();
	CUresult r = real(handle, shared, type);
	uint64_t own = r == CUDA_SUCCESS && handle ? gw_exported_memory(type, shared) : 0;
	if (own && gw_change_refs(GW_MEMORY, own, 1))
		gw_add_handle(*handle, own);
	gw_driver_unlock();
	return r;
}

#define SHARES(base, export, version, flags, params, args)         \
	CUresult gw_on_##export(fn_##export *real, GW_LIST params) \
	{                                                          \
		CUmemHandle own = handle;                          \
		handle = begin(own);                               \
		return given(real args, own);                      \
	}
#include "../../abi.def"

/* The same by address; 0 is none. */
CUresult gw_after_pin(CUresult r, CUdeviceptr ptr)
{
	if (r == CUDA_SUCCESS && ptr)
		gw_vmm_pin(ptr);
	return r;
}
