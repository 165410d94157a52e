#include "hooks/obtain.h"

#include "agent/agent.h"
#include "memory/contexts.h"
#include "process/state.h"

bool gw_obtain(enum gw_account account, uint64_t bytes)
{
	/* Where the others did not answer in time what they could take is not granted. */
	enum { ASKS = 8 };
	struct gw_waiter waiter = {.account = account, .bytes = bytes};

	gw_agent_await_limit();
	if (gw_reserve(account, bytes) == GW_ROOM)
		return true;
	/* What ended unseen is not what an allocation is refused for. */
	gw_driver_lock();
	bool ended = gw_forget_ended();
	gw_driver_unlock();
	if (ended)
		gw_agent_changed(0);
	for (int i = 0;; i++) {
		enum gw_room room = gw_reserve(account, bytes);
		if (room != GW_ROOM_IF_ASKED || i == ASKS)
			return room == GW_ROOM;
		gw_await_room(&waiter);
		bool answered = gw_agent_ask();
		if (gw_end_await(&waiter))
			return true;
		if (!answered)
			return false;
	}
}

CUresult gw_finish_alloc(CUresult r, uint64_t reserved, enum gw_space space,
			 struct gw_block b)
{
	bool made = r == CUDA_SUCCESS;

	if (made) {
		struct gw_current h = gw_current();
		b.ctx = h.ctx;
		b.device = h.device;
	}
	if (!gw_settle(gw_account_of(b.kind), reserved, space, made ? &b : NULL))
		gw_disable("no memory for the registry");
	/* What was reserved may have been reported. */
	gw_agent_changed(made ? b.size : reserved);
	return r;
}

CUresult gw_finish_device(CUresult r, const CUdeviceptr *out, size_t bytes, enum gw_kind kind)
{
	return gw_finish_alloc(r, bytes, GW_ADDRESS, (struct gw_block){
		.base = *out, .size = bytes, .kind = kind,
	});
}

void gw_finish_free(bool known, enum gw_space space, const struct gw_block *b, CUresult r)
{
	if (!known)
		return; /* not ours to judge: the driver has answered */
	if (r == CUDA_SUCCESS)
		gw_agent_changed(b->size);
	else if (!gw_add(space, b))
		gw_disable("no memory for the registry");
}
