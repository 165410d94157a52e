
#include "memory/limits.h"
#include "memory/registry.h"

void gw_set_dirty(void)
{
	gw_books_lock();
	gw_books_set_dirty(true);
	gw_books_unlock();
}

/* From now on this part is known to be evicted, and no other. */
static void set_evicted(struct gw_block *b, uint64_t from, uint64_t to)
{
	uint64_t before = gw_evicted(b);

	b->evicted_from = from < to ? from : 0;
	b->evicted_to = from < to ? to : 0;
	gw_count_evicted(b, (int64_t)(gw_evicted(b) - before));
}

static void forget_evicted(struct gw_block *b)
{
	if (gw_comes_unseen(b))
		set_evicted(b, 0, 0);
}

void gw_clear_dirty(bool all)
{
	gw_books_lock();
	if (gw_books_dirty() || all)
		gw_each_block(forget_evicted);
	gw_books_set_dirty(false);
	gw_books_unlock();
}

void gw_set_evicted(uint64_t base, uint32_t id, uint64_t from, uint64_t to)
{
	gw_books_lock();
	struct gw_block *b = gw_movable_at(base, id);
	if (b) {
		to = gw_min(to, b->size);
		if (gw_evicted(b) && from <= b->evicted_to && to >= b->evicted_from)
			set_evicted(b, gw_min(from, b->evicted_from), gw_max(to, b->evicted_to));
		else if (from < to && to - from > gw_evicted(b))
			set_evicted(b, from, to);
	}
	gw_books_unlock();
}

void gw_set_resident(uint64_t base, uint32_t id, uint64_t from, uint64_t to)
{
	gw_books_lock();
	struct gw_block *b = gw_movable_at(base, id);
	/* The driver moves whole pages. */
	uint64_t lead = (base + from) % GW_PAGE;
	from -= gw_min(lead, from);
	to += (GW_PAGE - (base + to) % GW_PAGE) % GW_PAGE;
	if (b && from < b->evicted_to && to > b->evicted_from) {
		uint64_t before = from > b->evicted_from ? from - b->evicted_from : 0;
		uint64_t after = to < b->evicted_to ? b->evicted_to - to : 0;
		if (before > after)
			set_evicted(b, b->evicted_from, from);
		else
			set_evicted(b, b->evicted_to - after, b->evicted_to);
	}
	gw_books_unlock();
}

void gw_set_untouched(uint64_t base, uint32_t id, uint64_t bytes)
{
	gw_books_lock();
	struct gw_block *b = gw_movable_at(base, id);
	if (b)
		b->untouched = (uint32_t)(bytes >> 20);
	gw_books_unlock();
}
