/*
 * gw_on_<what>: the work of the hooks. Each function takes the real function first and
 * then the caller's arguments. The type of the real function is the type of the first ABI
 * with this shape. ABIs that share a <what> have the same type.
 */
#ifndef GW_SERVE_H
#define GW_SERVE_H

#include "driver/abi.h"

/* lookup.c */
CUresult gw_on_lookup(fn_cuGetProcAddress *real, const char *symbol, void **pfn,
		      int version, uint64_t flags);
CUresult gw_on_lookup_status(fn_cuGetProcAddress_v2 *real, const char *symbol,
			     void **pfn, int version, uint64_t flags, int *status);

/* start.c */
CUresult gw_on_init(fn_cuInit *real, unsigned flags);

/* context.c */
CUresult gw_on_primary_retain(fn_cuDevicePrimaryCtxRetain *real, CUcontext *ctx,
			      CUdevice dev);
CUresult gw_on_primary_end(fn_cuDevicePrimaryCtxRelease *real, CUdevice dev);
CUresult gw_on_ctx_create(fn_cuCtxCreate_v2 *real, CUcontext *ctx, unsigned flags,
			  CUdevice dev);
CUresult gw_on_ctx_create_affinity(fn_cuCtxCreate_v3 *real, CUcontext *ctx,
				   void *affinity, int n, unsigned flags, CUdevice dev);
CUresult gw_on_ctx_create_params(fn_cuCtxCreate_v4 *real, CUcontext *ctx, void *how,
				 unsigned flags, CUdevice dev);
CUresult gw_on_ctx_destroy(fn_cuCtxDestroy_v2 *real, CUcontext ctx);
CUresult gw_on_ctx_from_green(fn_cuCtxFromGreenCtx *real, CUcontext *ctx, void *green);
CUresult gw_on_green_destroy(fn_cuGreenCtxDestroy *real, void *green);

/* alloc.c */
CUresult gw_on_alloc(fn_cuMemAlloc_v2 *real, CUdeviceptr *out, size_t bytes);
CUresult gw_on_alloc_pitch(fn_cuMemAllocPitch_v2 *real, CUdeviceptr *out,
			   size_t *pitch, size_t width, size_t height,
			   unsigned element);
CUresult gw_on_alloc_managed(fn_cuMemAllocManaged *real, CUdeviceptr *out,
			     size_t bytes, unsigned flags);
CUresult gw_on_free(fn_cuMemFree_v2 *real, CUdeviceptr ptr);
CUresult gw_on_external_map(fn_cuExternalMemoryGetMappedBuffer *real, CUdeviceptr *out,
			    void *memory, const struct gw_external *desc);

/* ordered.c */
CUresult gw_on_alloc_async(fn_cuMemAllocAsync *real, CUdeviceptr *out, size_t bytes,
			   CUstream stream);
CUresult gw_on_alloc_from_pool(fn_cuMemAllocFromPoolAsync *real, CUdeviceptr *out,
			       size_t bytes, CUmemoryPool pool, CUstream stream);
CUresult gw_on_free_async(fn_cuMemFreeAsync *real, CUdeviceptr ptr, CUstream stream);
CUresult gw_on_pool_create(fn_cuMemPoolCreate *real, CUmemoryPool *pool,
			   const struct gw_memprop *props);
CUresult gw_on_pool_destroy(fn_cuMemPoolDestroy *real, CUmemoryPool pool);
CUresult gw_on_pool_at(fn_cuMemGetMemPool *real, CUmemoryPool *pool, struct gw_location *at,
		       int type);
CUresult gw_on_graph_alloc(fn_cuGraphAddMemAllocNode *real, void **node, void *graph,
			   void *const *deps, size_t n, struct gw_graph_alloc *how);
CUresult gw_on_graph_free(fn_cuGraphAddMemFreeNode *real, void **node, void *graph,
			  void *const *deps, size_t n, CUdeviceptr ptr);
CUresult gw_on_graph_node(fn_cuGraphAddNode *real, void **node, void *graph,
			  void *const *deps, size_t n, struct gw_graph_node *how);
CUresult gw_on_graph_node_edges(fn_cuGraphAddNode_v2 *real, void **node, void *graph,
				void *const *deps, const void *edges, size_t n,
				struct gw_graph_node *how);
CUresult gw_on_graph_destroy(fn_cuGraphDestroy *real, void *graph);
CUresult gw_on_graph_exec_destroy(fn_cuGraphExecDestroy *real, void *exec);
CUresult gw_on_graph_instantiate(fn_cuGraphInstantiate *real, void **exec, void *graph,
				 void **failed, char *log, size_t bytes);
CUresult gw_on_graph_instantiate_flags(fn_cuGraphInstantiateWithFlags *real, void **exec,
				       void *graph, unsigned long long flags);
CUresult gw_on_graph_instantiate_params(fn_cuGraphInstantiateWithParams *real, void **exec,
					void *graph, void *how);

/* physical.c */
CUresult gw_on_physical_create(fn_cuMemCreate *real, CUmemHandle *handle, size_t bytes,
			       const struct gw_memprop *prop, uint64_t flags);
CUresult gw_on_physical_release(fn_cuMemRelease *real, CUmemHandle handle);
CUresult gw_on_physical_retain(fn_cuMemRetainAllocationHandle *real,
			       CUmemHandle *handle, void *addr);
CUresult gw_on_physical_export(fn_cuMemExportToShareableHandle *real, void *shared,
			       CUmemHandle handle, int type, unsigned long long flags);
CUresult gw_on_physical_import(fn_cuMemImportFromShareableHandle *real, CUmemHandle *handle,
			       void *shared, int type);
CUresult gw_on_physical_map(fn_cuMemMap *real, CUdeviceptr ptr, size_t bytes,
			    size_t offset, CUmemHandle handle, uint64_t flags);
CUresult gw_on_physical_unmap(fn_cuMemUnmap *real, CUdeviceptr ptr, size_t bytes);

/* array.c */
CUresult gw_on_array_create(fn_cuArrayCreate_v2 *real, CUarray *array,
			    const struct gw_array2d *desc);
CUresult gw_on_array3d_create(fn_cuArray3DCreate_v2 *real, CUarray *array,
			      const struct gw_array3d *desc);
CUresult gw_on_mipmap_create(fn_cuMipmappedArrayCreate *real, CUarray *array,
			     const struct gw_array3d *desc, unsigned levels);
CUresult gw_on_array_destroy(fn_cuArrayDestroy *real, CUarray array);

/* host.c */
CUresult gw_on_host_alloc(fn_cuMemHostAlloc *real, void **out, size_t bytes,
			  unsigned flags);
CUresult gw_on_host_alloc_plain(fn_cuMemAllocHost_v2 *real, void **out, size_t bytes);
CUresult gw_on_host_register(fn_cuMemHostRegister *real, void *ptr, size_t bytes,
			     unsigned flags);
CUresult gw_on_host_free(fn_cuMemFreeHost *real, void *ptr);

/* info.c */
CUresult gw_on_mem_info(fn_cuMemGetInfo_v2 *real, size_t *avail, size_t *total);
CUresult gw_on_total_mem(fn_cuDeviceTotalMem_v2 *real, size_t *bytes, CUdevice dev);
CUresult gw_on_pointer_attribute(fn_cuPointerGetAttribute *real, void *data,
				 int attribute, CUdeviceptr ptr);
CUresult gw_on_pointer_attributes(fn_cuPointerGetAttributes *real, unsigned n,
				  int *attributes, void **data, CUdeviceptr ptr);
CUresult gw_on_address_range(fn_cuMemGetAddressRange_v2 *real, CUdeviceptr *base,
			     size_t *bytes, CUdeviceptr ptr);
CUresult gw_on_pointer_set(fn_cuPointerSetAttribute *real, const void *value, int attribute,
			   CUdeviceptr ptr);
CUresult gw_on_ipc_handle(fn_cuIpcGetMemHandle *real, void *handle, CUdeviceptr ptr);
CUresult gw_on_range_handle(fn_cuMemGetHandleForAddressRange *real, void *handle,
			    CUdeviceptr ptr, size_t bytes, int type,
			    unsigned long long flags);
CUresult gw_on_prefetch(fn_cuMemPrefetchAsync *real, CUdeviceptr ptr, size_t bytes,
			CUdevice dev, CUstream stream);
CUresult gw_on_prefetch_location(fn_cuMemPrefetchAsync_v2 *real, CUdeviceptr ptr,
				 size_t bytes, struct gw_location to, unsigned flags,
				 CUstream stream);
CUresult gw_on_prefetch_batch(fn_cuMemPrefetchBatchAsync *real, CUdeviceptr *ptr,
			      size_t *bytes, size_t n, struct gw_location *to, size_t *first,
			      size_t places, unsigned long long flags, CUstream stream);

/* nvml.c */
int gw_on_nvml_memory(fn_nvmlDeviceGetMemoryInfo *real, void *device,
		      struct gw_nvml_memory *out);
int gw_on_nvml_memory_v2(fn_nvmlDeviceGetMemoryInfo_v2 *real, void *device,
			 struct gw_nvml_memory_v2 *out);
int gw_on_nvml_processes(fn_nvmlDeviceGetComputeRunningProcesses *real, void *device,
			 unsigned *n, void *list);
int gw_on_nvml_processes_v2(fn_nvmlDeviceGetComputeRunningProcesses *real, void *device,
			    unsigned *n, void *list);
int gw_on_nvml_accounted(fn_nvmlDeviceGetAccountingPids *real, void *device, unsigned *n,
			 void *pids);
int gw_on_nvml_account(fn_nvmlDeviceGetAccountingStats *real, void *device, unsigned pid,
		       void *account);
int gw_on_nvml_account_v2(fn_nvmlDeviceGetAccountingStats_v2 *real, void *device,
			  unsigned *account);
int gw_on_nvml_samples(fn_nvmlDeviceGetProcessUtilization *real, void *device, void *list,
		       unsigned *n, unsigned long long since);
int gw_on_nvml_utilizations(fn_nvmlDeviceGetProcessesUtilizationInfo *real, void *device,
			    struct gw_nvml_utilizations *list);
int gw_on_nvml_details(fn_nvmlDeviceGetRunningProcessDetailList *real, void *device,
		       struct gw_nvml_details *list);

/* capture.c */
CUresult gw_on_capture_begin(fn_cuStreamBeginCapture *real, CUstream stream);
CUresult gw_on_capture_begin_mode(fn_cuStreamBeginCapture_v2 *real, CUstream stream, int mode);
CUresult gw_on_capture_begin_graph(fn_cuStreamBeginCaptureToGraph *real, CUstream stream,
				   void *graph, void *const *deps, const void *edges, size_t n,
				   int mode);
CUresult gw_on_capture_end(fn_cuStreamEndCapture *real, CUstream stream, void **graph);

/* error.c */
CUresult gw_on_error_text(fn_cuGetErrorString *real, int code, const char **text);

#endif
