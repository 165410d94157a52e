
#include "memory/limits.h"
#include "memory/registry.h"

void gw_set_dirty(void)
{
	gw_books_lock();
	gw_books_set_dirty(true);
	gw_books_unlock();
}

static void set_evicted(struct gw_block *b, uint64_t bytes)
{
	gw_count_evicted(b, (int64_t)(bytes - b->evicted));
	b->evicted = bytes;
}

static void forget_evicted(struct gw_block *b)
{
	if (gw_comes_unseen(b))
		set_evicted(b, 0);
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
	if (b && to == b->size - b->evicted)
		set_evicted(b, b->size - from);
	gw_books_unlock();
}

void gw_set_resident(uint64_t base, uint32_t id, uint64_t to)
{
	gw_books_lock();
	struct gw_block *b = gw_movable_at(base, id);
	/* The driver moves whole pages. */
	to += (GW_PAGE - (base + to) % GW_PAGE) % GW_PAGE;
	if (b && to > b->size - b->evicted)
		set_evicted(b, b->size - gw_min(to, b->size));
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
