#include "memory/limits.h"
#include "process/state.h"

#include <pthread.h>
#include <stdatomic.h>

static struct {
	pthread_mutex_t mu; /* guards all below, and the registry's blocks */
	uint64_t bytes[GW_KINDS];
	uint64_t evicted; /* of managed memory */
	uint64_t out;     /* of memory that is mapped by us */
	bool dirty;
	uint64_t blocks, movable;
	uint64_t reserved[GW_ACCOUNTS];
	struct gw_limit limit[GW_ACCOUNTS]; /* that of pools is the device's */
	uint64_t pools_hold, graphs_hold; /* the driver's figures, when last asked */
	uint64_t planned;                 /* that graphs will hold */
	struct gw_waiter *waiters; /* the first to wait first */
} books = {.mu = PTHREAD_MUTEX_INITIALIZER};

static _Atomic uint64_t allocated; /* the result of device_bytes */
static _Atomic uint64_t most;      /* of the limit of device memory */

void gw_books_lock(void) { pthread_mutex_lock(&books.mu); }
void gw_books_unlock(void) { pthread_mutex_unlock(&books.mu); }

/* Returns the bytes of pools, including the bytes about to be allocated from them. */
static uint64_t pool_bytes(void)
{
	return gw_max(books.bytes[GW_POOL] + books.reserved[GW_POOL_BYTES], books.pools_hold);
}

static uint64_t fixed_bytes(void)
{
	return books.bytes[GW_PLAIN] + books.bytes[GW_PHYSICAL] + books.bytes[GW_ARRAY] +
	       books.bytes[GW_EXTERNAL] + pool_bytes() + books.graphs_hold;
}

static uint64_t managed_bytes(void)
{
	return books.bytes[GW_MANAGED] + books.bytes[GW_NATIVE];
}

static uint64_t movable_bytes(void) { return managed_bytes() + books.bytes[GW_VMM]; }

/* The device bytes of the process: the one figure by which memory is granted, reported
 * to the invoker, and shown to the program. */
static uint64_t device_bytes(void)
{
	uint64_t to_come = gw_max(books.planned, books.graphs_hold) - books.graphs_hold;

	return movable_bytes() + fixed_bytes() + to_come;
}

static uint64_t host_bytes(void)
{
	return books.bytes[GW_HOST] + books.bytes[GW_PHYSICAL_HOST];
}

static void publish(void)
{
	atomic_store_explicit(&allocated, device_bytes(), memory_order_relaxed);
}

void gw_count_block(const struct gw_block *b, bool in)
{
	uint64_t sign = in ? 1 : (uint64_t)-1;

	if (b->kind != GW_MAPPED && b->kind != GW_GRAPH)
		books.blocks += sign;
	books.bytes[b->kind] += sign * b->size;
	if (gw_movable(b)) {
		books.movable += sign;
		gw_count_evicted(b, (int64_t)(sign * b->evicted));
	}
	publish();
}

void gw_count_evicted(const struct gw_block *b, int64_t bytes)
{
	*(gw_comes_unseen(b) ? &books.evicted : &books.out) += (uint64_t)bytes;
}

void gw_books_set_dirty(bool dirty) { books.dirty = dirty; }
bool gw_books_dirty(void) { return books.dirty; }
uint64_t gw_movable_blocks(void) { return books.movable; }
void gw_unreserve(enum gw_account account, uint64_t bytes) { books.reserved[account] -= bytes; }

bool gw_below_limit(uint64_t *total, uint64_t *avail)
{
	uint64_t limit = atomic_load_explicit(&most, memory_order_relaxed);
	uint64_t used = atomic_load_explicit(&allocated, memory_order_relaxed);

	if (!limit)
		return false;
	if (*total > limit)
		*total = limit;
	*avail = used < *total ? *total - used : 0;
	return true;
}

static struct gw_limit limit_of(enum gw_account account)
{
	return books.limit[account == GW_HOST_BYTES ? GW_HOST_BYTES : GW_DEVICE_BYTES];
}

/* The caller holds the lock. */
static uint64_t used_of(enum gw_account account)
{
	return account == GW_HOST_BYTES ? host_bytes() + books.reserved[GW_HOST_BYTES] :
					  device_bytes() + books.reserved[GW_DEVICE_BYTES];
}

/* Reserve the bytes if they fit below the limit; zero is none. The caller holds the
 * lock. */
static bool reserve(enum gw_account account, uint64_t bytes, uint64_t limit)
{
	if (limit && bytes > limit)
		return false;
	books.reserved[account] += bytes;
	if (!limit || used_of(account) <= limit)
		return true;
	books.reserved[account] -= bytes;
	return false;
}

enum gw_room gw_reserve(enum gw_account account, uint64_t bytes)
{
	enum gw_room room = GW_NO_ROOM;

	gw_books_lock();
	struct gw_limit limit = limit_of(account);
	if (reserve(account, bytes, limit.granted)) {
		room = GW_ROOM;
	} else if (reserve(account, bytes, limit.most)) {
		books.reserved[account] -= bytes;
		room = GW_ROOM_IF_ASKED;
	}
	gw_books_unlock();
	return room;
}

void gw_set_kept(uint64_t pools, uint64_t graphs)
{
	gw_books_lock();
	books.pools_hold = pools;
	books.graphs_hold = graphs;
	publish();
	gw_books_unlock();
}

void gw_set_planned(uint64_t graphs, uint64_t reserved)
{
	gw_books_lock();
	books.reserved[GW_DEVICE_BYTES] -= reserved;
	books.planned = graphs;
	publish();
	gw_books_unlock();
}

void gw_set_limit(enum gw_account account, struct gw_limit limit)
{
	gw_books_lock();
	books.limit[account] = limit;
	if (account == GW_DEVICE_BYTES)
		atomic_store(&most, limit.most);
	for (struct gw_waiter *w = books.waiters; w; w = w->next)
		if (!w->reserved)
			w->reserved = reserve(w->account, w->bytes, limit_of(w->account).granted);
	gw_books_unlock();
}

void gw_await_room(struct gw_waiter *w)
{
	struct gw_waiter **end = &books.waiters;

	w->reserved = false;
	w->next = NULL;
	gw_books_lock();
	while (*end)
		end = &(*end)->next;
	*end = w;
	gw_books_unlock();
}

bool gw_end_await(struct gw_waiter *w)
{
	struct gw_waiter **at = &books.waiters;

	gw_books_lock();
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	gw_books_unlock();
	return w->reserved;
}

struct gw_totals gw_sum(void)
{
	struct gw_totals t;

	gw_books_lock();
	t.fixed = fixed_bytes();
	t.managed = managed_bytes();
	t.listed = t.fixed + books.bytes[GW_VMM] - books.out;
	t.resident = t.listed + t.managed - (books.dirty ? 0 : books.evicted);
	/* Reserved bytes may soon be held, so they are not granted to other processes. */
	t.allocated = used_of(GW_DEVICE_BYTES);
	t.host = host_bytes() + books.reserved[GW_HOST_BYTES];
	t.blocks = books.blocks;
	gw_books_unlock();
	return t;
}
