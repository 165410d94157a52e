/*
 * Stream captures: memory is not unmapped during one. A capture begins inside the gate, so it
 * is counted before the gate can close.
 */
#include "hooks/hooks.h"

CUresult gw_after_capture(CUresult r, int change)
{
	enum { CAPTURE_INVALIDATED = 901 };

	if (r == CUDA_SUCCESS || (change < 0 && r == CAPTURE_INVALIDATED))
		gw_gate_count_capture(change);
	return r;
}
