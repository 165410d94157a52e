#include "agent/agent.h"
#include "hooks/serve.h"

/* A program that has an error explained has met it. */
CUresult gw_on_error_text(fn_cuGetErrorString *real, int code, const char **text)
{
	if (gw_check_fault(code))
		gw_agent_await_reported();
	return real(code, text);
}
