#include "hooks/obtain.h"

#include "agent/agent.h"
#include "hooks/hooks.h"
#include "memory/contexts.h"
#include "memory/pools.h"

/* Memory that ended unseen, or that pools do not keep any more, is no reason to refuse an
 * allocation. */
static void count_again(void)
{
	gw_driver_lock();
	bool ended = gw_forget_ended();
	gw_driver_unlock();
	if (ended)
		gw_agent_changed(0);
	gw_count_pools(false);
}

void gw_count_pools(bool trim)
{
	if (!gw_pools_in_use())
		return;
	gw_pools_lock();
	if (trim)
		gw_pools_trim();
	gw_pools_count();
	gw_pools_unlock();
}

bool gw_obtain(enum gw_account account, uint64_t bytes)
{
	/* If the others do not answer in time, the memory that they could take is not
	 * granted. */
	enum { ASKS = 8 };
	struct gw_waiter waiter = {.account = account, .bytes = bytes};
	bool trimmed = false;

	gw_agent_await_limit();
	if (gw_reserve(account, bytes) == GW_ROOM)
		return true;
	count_again();
	for (int asks = 0;;) {
		enum gw_room room = gw_reserve(account, bytes);
		if (room == GW_ROOM)
			return true;
		if (room == GW_NO_ROOM && !trimmed) {
			gw_count_pools(true);
			trimmed = true;
			continue;
		}
		if (room == GW_NO_ROOM || asks++ == ASKS)
			return false;
		gw_await_room(&waiter);
		bool answered = gw_agent_ask();
		if (gw_end_await(&waiter))
			return true;
		if (!answered)
			return false;
	}
}

CUresult gw_finish_alloc(CUresult r, uint64_t reserved, struct gw_block b)
{
	enum gw_space space = b.kind == GW_ARRAY ? GW_HANDLE : GW_ADDRESS;
	bool made = r == CUDA_SUCCESS;

	if (made) {
		struct gw_current h = gw_current();
		b.ctx = h.ctx;
		b.device = h.device;
	}
	gw_settle(gw_account_of(b.kind), reserved, space, made ? &b : NULL);
	/* The reservation may have been reported. */
	gw_agent_changed(made ? b.size : reserved);
	return r;
}

CUresult gw_finish_device(CUresult r, const CUdeviceptr *out, size_t bytes, enum gw_kind kind)
{
	return gw_finish_alloc(r, bytes, (struct gw_block){
		.base = *out, .size = bytes, .kind = kind,
	});
}

void gw_finish_free(bool known, enum gw_space space, const struct gw_block *b, CUresult r)
{
	if (!known)
		return; /* not ours to judge: the driver has answered */
	if (r == CUDA_SUCCESS)
		gw_agent_changed(b->size);
	else
		gw_add(space, b);
}

#define TAKES(base_name, export, version, flags, block_kind, params, args, valid, amount, at) \
	CUresult gw_on_##export(fn_##export *real, GW_LIST params)                     \
	{                                                                              \
		if (!(valid))                                                          \
			return real args;                                              \
		uint64_t gw_bytes = amount;                                            \
		if (!gw_obtain(gw_account_of(block_kind), gw_bytes))                   \
			return CUDA_ERROR_OUT_OF_MEMORY;                               \
		CUresult r = real args;                                                \
		return gw_finish_alloc(r, gw_bytes, (struct gw_block){                 \
			.base = (uintptr_t)(at), .size = gw_bytes, .kind = block_kind, \
		});                                                                    \
	}
#define GIVES(base, export, version, flags, space, params, args, at)       \
	CUresult gw_on_##export(fn_##export *real, GW_LIST params)         \
	{                                                                  \
		struct gw_block b;                                         \
		bool known = gw_remove(space, (uintptr_t)(at), &b);        \
		CUresult r = real args;                                    \
		gw_finish_free(known, space, &b, r);                       \
		return r;                                                  \
	}
#include "../../abi.def"
