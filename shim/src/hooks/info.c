/*
 * Answers to the program's questions about memory, so that managed memory looks like the
 * device memory that the program asked for. The program's own prefetches are recorded
 * here, too.
 */
#include <stdatomic.h>

#include "agent/agent.h"
#include "driver/resolve.h"
#include "hooks/hooks.h"
#include "hooks/obtain.h"
#include "memory/backend.h"
#include "memory/contexts.h"
#include "memory/registry.h"
#include "memory/vmm.h"
#include "migration/refusal.h"

/*
 * Ask the device for so many bytes and give them back. A driver shows the places that
 * managed memory of other processes has left as used until another needs them: now they
 * are free. False: the device has not so many.
 */
static bool reclaim(uint64_t bytes)
{
	struct gw_memprop how = {
		.type = PINNED_MEMORY, .location = {LOCATION_DEVICE, gw_current().device},
	};
	CUmemHandle h;

	return GW_CALL(cuMemCreate, &h, gw_whole_granules(bytes), &how, 0) == CUDA_SUCCESS &&
	       GW_CALL(cuMemRelease, h) == CUDA_SUCCESS;
}

/*
 * With a limit, the free memory comes from our own count. If memory moves, the memory
 * that is free on the device now is no bound, because other memory moves out. If memory
 * stays, no more is free than the device has. The device is asked for the whole rest once
 * in the life of a process.
 */
static uint64_t bounded(fn_cuMemGetInfo_v2 *real, uint64_t left)
{
	static atomic_bool asked;
	size_t avail = 0, total;

	if (!gw_memory_stays() && !gw_refused_before())
		return left;
	if (real(&avail, &total) != CUDA_SUCCESS || avail >= left)
		return left;
	if (!atomic_exchange(&asked, true) && reclaim(left) &&
	    real(&avail, &total) == CUDA_SUCCESS && avail >= left)
		return left;
	return avail;
}

/* The driver is asked all the same: it gives the fault that a kernel has left. */
CUresult gw_on_mem_info(fn_cuMemGetInfo_v2 *real, size_t *avail, size_t *total)
{
	CUresult r = real(avail, total);
	uint64_t left, all = total ? *total : UINT64_MAX;

	if (r != CUDA_SUCCESS)
		return r;
	gw_count_pools(false);
	if (gw_below_limit(&all, &left)) {
		if (avail)
			*avail = bounded(real, left);
		if (total)
			*total = all;
	}
	return r;
}

CUresult gw_after_total_mem(CUresult r, size_t *bytes)
{
	uint64_t avail;

	if (r == CUDA_SUCCESS && bytes)
		gw_below_limit(bytes, &avail);
	return r;
}

/* The block that holds the address, where the program gets it in place of device
 * memory; else one of kind GW_PLAIN. */
static struct gw_block substituted(CUdeviceptr ptr)
{
	struct gw_block b;

	if (gw_find(GW_ADDRESS, ptr, &b) && (b.kind == GW_MANAGED || b.kind == GW_VMM))
		return b;
	return (struct gw_block){.kind = GW_PLAIN};
}

/* Of memory mapped by us, the range that the program asked for. */
static void report_range(int attribute, void *data, CUdeviceptr ptr)
{
	CUdeviceptr base;
	size_t bytes;

	if ((attribute != POINTER_RANGE_START && attribute != POINTER_RANGE_SIZE) ||
	    !gw_vmm_range(ptr, &base, &bytes))
		return;
	if (attribute == POINTER_RANGE_START)
		*(CUdeviceptr *)data = base;
	else
		*(size_t *)data = bytes;
}

/* CUmemorytype is an unsigned int; the flag is a bool in a byte. Whether the memory can be
 * shared by IPC stays the driver's answer: managed memory cannot. */
static void report_as_device(int attribute, void *data)
{
	switch (attribute) {
	case POINTER_MEMORY_TYPE:
		*(unsigned *)data = MEMORYTYPE_DEVICE;
		break;
	case POINTER_HOST:
		*(void **)data = NULL;
		break;
	case POINTER_IS_MANAGED:
		*(unsigned char *)data = 0;
		break;
	}
}

CUresult gw_after_pointer_attribute(CUresult r, void *data, int attribute, CUdeviceptr ptr)
{
	if (r != CUDA_SUCCESS || !data)
		return r;
	report_range(attribute, data, ptr);
	if (substituted(ptr).kind != GW_MANAGED)
		return r;
	report_as_device(attribute, data);
	/* Of device memory, asked for alone, this is an error. */
	return attribute == POINTER_HOST ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult gw_after_pointer_attributes(CUresult r, unsigned n, const int *attributes, void **data,
				     CUdeviceptr ptr)
{
	if (r != CUDA_SUCCESS || !attributes || !data)
		return r;
	bool managed = substituted(ptr).kind == GW_MANAGED;
	for (unsigned i = 0; i < n; i++) {
		if (data[i])
			report_range(attributes[i], data[i], ptr);
		if (data[i] && managed)
			report_as_device(attributes[i], data[i]);
	}
	return r;
}

CUresult gw_on_address_range(fn_cuMemGetAddressRange_v2 *real, CUdeviceptr *base,
			     size_t *bytes, CUdeviceptr ptr)
{
	CUdeviceptr from;
	size_t n;

	if (!gw_vmm_range(ptr, &from, &n))
		return real(base, bytes, ptr);
	if (base)
		*base = from;
	if (bytes)
		*bytes = n;
	return CUDA_SUCCESS;
}

/* Another process, or another device, shall have the memory. A driver gives out no managed
 * memory, and memory mapped by us in some ways alone: the memory that the program asks for
 * after a refusal is plain. Memory that is given out stays where it is. The caller is
 * inside the gate. */
CUresult gw_after_share(CUresult r, CUdeviceptr ptr)
{
	if (r == CUDA_SUCCESS)
		gw_vmm_pin(ptr);
	else if (substituted(ptr).kind != GW_PLAIN)
		gw_agent_refused(GW_SIGN_SHARE, r);
	return r;
}

/* Memory that the program fetches itself counts as on the device from now on. Memory that
 * it sends away leaves at an unknown time, so it counts as on the device until an order
 * of ours has moved it. */
CUresult gw_after_prefetch(CUresult r, CUdeviceptr ptr, size_t bytes)
{
	struct gw_block b;

	if (bytes && gw_find(GW_ADDRESS, ptr, &b) && gw_comes_unseen(&b))
		gw_set_resident(b.base, b.id, ptr - b.base + bytes);
	return r;
}

/* Wherever its ranges go, some may be on the device now. */
CUresult gw_after_prefetch_batch(CUresult r, const CUdeviceptr *ptr, const size_t *bytes, size_t n)
{
	for (size_t i = 0; ptr && bytes && i < n; i++)
		gw_after_prefetch(r, ptr[i], bytes[i]);
	return r;
}

/* A program that has an error explained has met it. */
CUresult gw_on_error_text(fn_cuGetErrorString *real, int code, const char **text)
{
	if (gw_check_fault(code))
		gw_agent_await_reported();
	return real(code, text);
}
