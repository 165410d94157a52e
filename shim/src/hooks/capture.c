/*
 * Stream captures: memory is not unmapped during one. These hooks begin inside the gate, so a
 * capture is counted before the gate can close.
 */
#include "hooks/hooks.h"
#include "memory/gate.h"

enum { CAPTURE_INVALIDATED = 901 };

static CUresult begun(CUresult r)
{
	if (r == CUDA_SUCCESS)
		gw_gate_count_capture(1);
	return r;
}

CUresult gw_on_capture_begin(fn_cuStreamBeginCapture *real, CUstream stream)
{
	return begun(real(stream));
}

CUresult gw_on_capture_begin_mode(fn_cuStreamBeginCapture_v2 *real, CUstream stream, int mode)
{
	return begun(real(stream, mode));
}

CUresult gw_on_capture_begin_graph(fn_cuStreamBeginCaptureToGraph *real, CUstream stream,
				   void *graph, void *const *deps, const void *edges, size_t n,
				   int mode)
{
	return begun(real(stream, graph, deps, edges, n, mode));
}

CUresult gw_on_capture_end(fn_cuStreamEndCapture *real, CUstream stream, void **graph)
{
	CUresult r = real(stream, graph);

	if (r == CUDA_SUCCESS || r == CAPTURE_INVALIDATED)
		gw_gate_count_capture(-1);
	return r;
}
