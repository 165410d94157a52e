#include "memory/registry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memory/tree.h"

static struct {
	pthread_mutex_t mu; /* guards all below, and the nodes of tree.c */
	struct gw_node *root[GW_SPACES];
	uint64_t bytes[GW_KINDS];
	uint64_t evicted; /* of movable blocks */
	uint64_t reserved[GW_ACCOUNTS];
	struct gw_limit limit[GW_ACCOUNTS]; /* that of pools is the device's */
	uint64_t pools_hold, graphs_hold; /* the driver's figures, when last asked */
	uint64_t planned;                 /* that graphs will hold */
	struct gw_waiter *waiters; /* the first to wait first */
	uint64_t blocks, movable;
	uint32_t last_id;
	bool dirty;
} registry = {.mu = PTHREAD_MUTEX_INITIALIZER};

static _Atomic uint64_t allocated; /* what device_bytes returns */
static _Atomic uint64_t most;      /* of the limit of device memory */

static void lock(void) { pthread_mutex_lock(&registry.mu); }
static void unlock(void) { pthread_mutex_unlock(&registry.mu); }

static uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t max(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* What pools hold, with what is about to be allocated from them. */
static uint64_t pool_bytes(void)
{
	return max(registry.bytes[GW_POOL] + registry.reserved[GW_POOL_BYTES],
		   registry.pools_hold);
}

static uint64_t fixed_bytes(void)
{
	return registry.bytes[GW_PLAIN] + registry.bytes[GW_PHYSICAL] +
	       registry.bytes[GW_ARRAY] + registry.bytes[GW_EXTERNAL] +
	       pool_bytes() + registry.graphs_hold;
}

static uint64_t movable_bytes(void)
{
	return registry.bytes[GW_MANAGED] + registry.bytes[GW_NATIVE];
}

/* The device bytes of the process: the one figure by which memory is granted, reported
 * to the invoker, and shown to the program. */
static uint64_t device_bytes(void)
{
	uint64_t to_come = max(registry.planned, registry.graphs_hold) - registry.graphs_hold;

	return movable_bytes() + fixed_bytes() + to_come;
}

static uint64_t host_bytes(void)
{
	return registry.bytes[GW_HOST] + registry.bytes[GW_PHYSICAL_HOST];
}

static void publish(void)
{
	atomic_store_explicit(&allocated, device_bytes(), memory_order_relaxed);
}

/* Carry a block into the sums, or out of them. */
static void count(const struct gw_block *b, bool in)
{
	uint64_t sign = in ? 1 : (uint64_t)-1;

	if (b->kind != GW_MAPPED && b->kind != GW_GRAPH)
		registry.blocks += sign;
	registry.bytes[b->kind] += sign * b->size;
	if (gw_movable(b)) {
		registry.movable += sign;
		registry.evicted += sign * gw_evicted(b);
	}
	publish();
}

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
	return registry.limit[account == GW_HOST_BYTES ? GW_HOST_BYTES : GW_DEVICE_BYTES];
}

/* The caller holds the lock. */
static uint64_t used_of(enum gw_account account)
{
	return account == GW_HOST_BYTES ? host_bytes() + registry.reserved[GW_HOST_BYTES] :
					  device_bytes() + registry.reserved[GW_DEVICE_BYTES];
}

/* Reserve the bytes if they fit below what is granted, or below the most. The caller
 * holds the lock. */
static bool reserve(enum gw_account account, uint64_t bytes, uint64_t limit)
{
	if (limit && bytes > limit)
		return false;
	registry.reserved[account] += bytes;
	if (!limit || used_of(account) <= limit)
		return true;
	registry.reserved[account] -= bytes;
	return false;
}

enum gw_room gw_reserve(enum gw_account account, uint64_t bytes)
{
	enum gw_room room = GW_NO_ROOM;

	lock();
	struct gw_limit limit = limit_of(account);
	if (reserve(account, bytes, limit.granted)) {
		room = GW_ROOM;
	} else if (reserve(account, bytes, limit.most)) {
		registry.reserved[account] -= bytes;
		room = GW_ROOM_IF_ASKED;
	}
	unlock();
	return room;
}

void gw_set_kept(uint64_t pools, uint64_t graphs)
{
	lock();
	registry.pools_hold = pools;
	registry.graphs_hold = graphs;
	publish();
	unlock();
}

void gw_set_planned(uint64_t graphs, uint64_t reserved)
{
	lock();
	registry.reserved[GW_DEVICE_BYTES] -= reserved;
	registry.planned = graphs;
	publish();
	unlock();
}

void gw_set_limit(enum gw_account account, struct gw_limit limit)
{
	lock();
	registry.limit[account] = limit;
	if (account == GW_DEVICE_BYTES)
		atomic_store(&most, limit.most);
	for (struct gw_waiter *w = registry.waiters; w; w = w->next)
		if (!w->reserved)
			w->reserved = reserve(w->account, w->bytes, limit_of(w->account).granted);
	unlock();
}

void gw_await_room(struct gw_waiter *w)
{
	struct gw_waiter **end = &registry.waiters;

	w->reserved = false;
	w->next = NULL;
	lock();
	while (*end)
		end = &(*end)->next;
	*end = w;
	unlock();
}

bool gw_end_await(struct gw_waiter *w)
{
	struct gw_waiter **at = &registry.waiters;

	lock();
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	unlock();
	return w->reserved;
}

/* The caller holds the lock. */
static bool add(enum gw_space space, const struct gw_block *b)
{
	/* A base that is known already was freed in a way that we did not see. */
	struct gw_node *old, *n = gw_node_new();

	if (!n)
		return false;
	n->b = *b;
	n->b.id = ++registry.last_id;
	if (gw_movable(b))
		n->b.evicted_from = n->b.evicted_to = 0;
	old = gw_tree_insert(&registry.root[space], n);
	if (old) {
		count(&old->b, false);
		gw_node_free(old);
	}
	count(&n->b, true);
	return true;
}

bool gw_add(enum gw_space space, const struct gw_block *b)
{
	lock();
	bool ok = add(space, b);
	unlock();
	return ok;
}

bool gw_settle(enum gw_account account, uint64_t reserved, enum gw_space space,
	       const struct gw_block *b)
{
	lock();
	registry.reserved[account] -= reserved;
	bool ok = !b || add(space, b);
	unlock();
	return ok;
}

/* Remove a node for good. The caller holds the lock. */
static bool remove_node(enum gw_space space, uint64_t base, struct gw_block *out)
{
	struct gw_node *n = gw_tree_remove(&registry.root[space], base);

	if (!n)
		return false;
	count(&n->b, false);
	*out = n->b;
	gw_node_free(n);
	return true;
}

bool gw_remove(enum gw_space space, uint64_t base, struct gw_block *out)
{
	lock();
	bool ok = remove_node(space, base, out);
	unlock();
	return ok;
}

bool gw_remove_mapping(uint64_t from, uint64_t bytes, struct gw_block *out)
{
	lock();
	struct gw_node *n = bytes ? gw_tree_below(registry.root[GW_ADDRESS], from + bytes - 1) : NULL;
	bool ok = n && n->b.base >= from && n->b.kind == GW_MAPPED &&
		  remove_node(GW_ADDRESS, n->b.base, out);
	unlock();
	return ok;
}

bool gw_find(enum gw_space space, uint64_t address, struct gw_block *out)
{
	lock();
	struct gw_node *n = gw_tree_below(registry.root[space], address);
	bool ok = n && (address == n->b.base || address - n->b.base < n->b.size);
	if (ok)
		*out = n->b;
	unlock();
	return ok;
}

static struct gw_node *find_base(enum gw_space space, uint64_t base)
{
	struct gw_node *n = gw_tree_below(registry.root[space], base);

	return n && n->b.base == base ? n : NULL;
}

bool gw_change_refs(enum gw_space space, uint64_t base, int change)
{
	struct gw_block gone;

	lock();
	struct gw_node *n = find_base(space, base);
	if (n) {
		n->b.refs += (uint32_t)change;
		if (n->b.refs == 0)
			remove_node(space, base, &gone);
	}
	unlock();
	return n != NULL;
}

void gw_set_dirty(void)
{
	lock();
	registry.dirty = true;
	unlock();
}

static void each(struct gw_node *n, void (*f)(struct gw_node *, void *), void *arg)
{
	while (n) {
		each(n->left, f, arg);
		struct gw_node *right = n->right;
		f(n, arg);
		n = right;
	}
}

static void clear_evicted(struct gw_node *n, void *arg)
{
	(void)arg;
	if (gw_movable(&n->b))
		n->b.evicted_from = n->b.evicted_to = 0;
}

void gw_clear_dirty(bool all)
{
	lock();
	if (registry.dirty || all) {
		each(registry.root[GW_ADDRESS], clear_evicted, NULL);
		registry.evicted = 0;
	}
	registry.dirty = false;
	unlock();
}

/* A movable block that is still the one that was meant. The caller holds the
 * lock. */
static struct gw_block *find_movable(uint64_t base, uint32_t id)
{
	struct gw_node *n = find_base(GW_ADDRESS, base);

	return n && n->b.id == id && gw_movable(&n->b) ? &n->b : NULL;
}

/* What is known to be evicted is now this. */
static void set_evicted(struct gw_block *b, uint64_t from, uint64_t to)
{
	registry.evicted -= gw_evicted(b);
	b->evicted_from = from < to ? from : 0;
	b->evicted_to = from < to ? to : 0;
	registry.evicted += gw_evicted(b);
}

void gw_set_evicted(uint64_t base, uint32_t id, uint64_t from, uint64_t to)
{
	lock();
	struct gw_block *b = find_movable(base, id);
	if (b) {
		to = min(to, b->size);
		if (gw_evicted(b) && from <= b->evicted_to && to >= b->evicted_from)
			set_evicted(b, min(from, b->evicted_from), max(to, b->evicted_to));
		else if (from < to && to - from > gw_evicted(b))
			set_evicted(b, from, to);
	}
	unlock();
}

void gw_set_resident(uint64_t base, uint32_t id, uint64_t from, uint64_t to)
{
	lock();
	struct gw_block *b = find_movable(base, id);
	/* The driver moves whole pages. */
	uint64_t lead = (base + from) % GW_PAGE;
	from -= min(lead, from);
	to += (GW_PAGE - (base + to) % GW_PAGE) % GW_PAGE;
	if (b && from < b->evicted_to && to > b->evicted_from) {
		uint64_t before = from > b->evicted_from ? from - b->evicted_from : 0;
		uint64_t after = to < b->evicted_to ? b->evicted_to - to : 0;
		if (before > after)
			set_evicted(b, b->evicted_from, from);
		else
			set_evicted(b, b->evicted_to - after, b->evicted_to);
	}
	unlock();
}

void gw_set_untouched(uint64_t base, uint32_t id, uint64_t bytes)
{
	lock();
	struct gw_block *b = find_movable(base, id);
	if (b)
		b->untouched = (uint32_t)(bytes >> 20);
	unlock();
}

struct gw_totals gw_sum(void)
{
	struct gw_totals t;

	lock();
	t.fixed = fixed_bytes();
	t.resident = t.fixed + movable_bytes() - (registry.dirty ? 0 : registry.evicted);
	/* What is reserved may be held in a moment: nothing is granted to others of it. */
	t.allocated = used_of(GW_DEVICE_BYTES);
	t.host = host_bytes() + registry.reserved[GW_HOST_BYTES];
	t.blocks = registry.blocks;
	unlock();
	return t;
}

struct filling {
	struct gw_block *list;
	size_t n;
};

static void put_movable(struct gw_node *n, void *arg)
{
	struct filling *f = arg;

	if (gw_movable(&n->b))
		f->list[f->n++] = n->b;
}

static int compare_size(const void *a, const void *b)
{
	const struct gw_block *x = a, *y = b;

	if (x->size != y->size)
		return x->size < y->size ? 1 : -1;
	return x->id < y->id ? 1 : -1;
}

struct gw_block *gw_list_movable(size_t *n)
{
	struct filling f = {0};

	lock();
	size_t bytes = registry.movable * sizeof *f.list;
	*n = 0;
	if (bytes) {
		f.list = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (f.list == MAP_FAILED)
			f.list = NULL;
		else
			each(registry.root[GW_ADDRESS], put_movable, &f);
		*n = f.n;
	}
	unlock();
	if (f.list)
		qsort(f.list, f.n, sizeof *f.list, compare_size);
	return f.list;
}

void gw_free_list(struct gw_block *list, size_t n)
{
	if (list)
		munmap(list, n * sizeof *list);
}

struct sweep {
	CUcontext ctx; /* remove what it holds, or the nodes of a graph */
	uint64_t graph;
	struct gw_node *left; /* what remains */
};

static void keep_others(struct gw_node *n, void *arg)
{
	struct sweep *s = arg;
	bool of_graph = n->b.kind == GW_GRAPH && n->b.owner == s->graph;

	if (s->graph ? of_graph : n->b.ctx == s->ctx) {
		count(&n->b, false);
		gw_node_free(n);
	} else {
		gw_tree_insert(&s->left, n);
	}
}

static void sweep(struct sweep s)
{
	lock();
	for (int space = 0; space < GW_SPACES; space++) {
		s.left = NULL;
		each(registry.root[space], keep_others, &s);
		registry.root[space] = s.left;
	}
	unlock();
}

void gw_remove_blocks_of(CUcontext ctx) { sweep((struct sweep){.ctx = ctx}); }
void gw_remove_nodes_of(uint64_t graph) { sweep((struct sweep){.graph = graph}); }

void gw_registry_reset(void)
{
	pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	registry.mu = fresh;
	for (int space = 0; space < GW_SPACES; space++)
		registry.root[space] = NULL;
	for (int kind = 0; kind < GW_KINDS; kind++)
		registry.bytes[kind] = 0;
	registry.evicted = 0;
	for (int account = 0; account < GW_ACCOUNTS; account++)
		registry.reserved[account] = 0;
	registry.pools_hold = registry.graphs_hold = registry.planned = 0;
	registry.waiters = NULL;
	atomic_store(&allocated, 0);
	registry.blocks = registry.movable = 0;
	registry.dirty = false;
	gw_nodes_drop();
}
