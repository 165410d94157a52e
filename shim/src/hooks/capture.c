/*
 * Stream captures: memory is not unmapped during one. It begins inside the gate.
 */
#include "hooks/serve.h"
#include "memory/gate.h"

enum { CAPTURE_INVALIDATED = 901 };

/* A capture is counted before it begins: the gate must not close in between. */
static CUresult begin(void)
{
	switch (gw_gate_enter()) {
	case GW_SHUT:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case GW_INSIDE:
		gw_gate_count_capture(1);
		gw_gate_leave();
		break;
	default:
		break;
	}
	return CUDA_SUCCESS;
}

static bool gated(void) { return !(atomic_load(&gw_gate_state) & GW_GATE_OFF); }

static CUresult begun(CUresult r)
{
	if (r != CUDA_SUCCESS && gated())
		gw_gate_count_capture(-1);
	return r;
}

CUresult gw_on_capture_begin(fn_cuStreamBeginCapture *real, CUstream stream)
{
	CUresult r = begin();

	return r != CUDA_SUCCESS ? r : begun(real(stream));
}

CUresult gw_on_capture_begin_mode(fn_cuStreamBeginCapture_v2 *real, CUstream stream, int mode)
{
	CUresult r = begin();

	return r != CUDA_SUCCESS ? r : begun(real(stream, mode));
}

CUresult gw_on_capture_begin_graph(fn_cuStreamBeginCaptureToGraph *real, CUstream stream,
				   void *graph, void *const *deps, const void *edges, size_t n,
				   int mode)
{
	CUresult r = begin();

	return r != CUDA_SUCCESS ? r : begun(real(stream, graph, deps, edges, n, mode));
}

CUresult gw_on_capture_end(fn_cuStreamEndCapture *real, CUstream stream, void **graph)
{
	CUresult r = real(stream, graph);

	if ((r == CUDA_SUCCESS || r == CAPTURE_INVALIDATED) && gated())
		gw_gate_count_capture(-1);
	return r;
}
