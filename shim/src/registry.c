#include "registry.h"

#include <pthread.h>
#include <sys/mman.h>

#include "state.h"
#include "tree.h"

static struct {
	pthread_mutex_t mu; /* guards all below, and the nodes of tree.c */
	struct gw_node *root[GW_SPACES];
	uint64_t bytes[GW_KINDS];
	uint64_t out; /* of movable blocks */
	uint64_t promised, host_promised;
	uint64_t blocks, movable;
	uint32_t last_id;
	bool dirty;
} books = {.mu = PTHREAD_MUTEX_INITIALIZER};

static _Atomic uint64_t allocated; /* what device_bytes gives */

static void lock(void) { pthread_mutex_lock(&books.mu); }
static void unlock(void) { pthread_mutex_unlock(&books.mu); }

static uint64_t fixed_bytes(void)
{
	return books.bytes[GW_PLAIN] + books.bytes[GW_POOL] +
	       books.bytes[GW_PHYSICAL] + books.bytes[GW_ARRAY] +
	       books.bytes[GW_EXTERNAL];
}

static uint64_t device_bytes(void)
{
	return books.bytes[GW_MANAGED] + books.bytes[GW_NATIVE] + fixed_bytes();
}

/* Carry a block into the sums, or out of them. */
static void count(const struct gw_block *b, bool in)
{
	uint64_t sign = in ? 1 : (uint64_t)-1;

	books.blocks += sign;
	books.bytes[b->kind] += sign * b->size;
	if (gw_movable(b)) {
		books.movable += sign;
		books.out += sign * gw_out(b);
	}
	atomic_store_explicit(&allocated, device_bytes(), memory_order_relaxed);
}

uint64_t gw_allocated(void)
{
	return atomic_load_explicit(&allocated, memory_order_relaxed);
}

/* The caller holds the lock. */
static bool promise(uint64_t limit, uint64_t held, uint64_t *promised, uint64_t bytes)
{
	bool ok = !limit || (bytes <= limit && held + *promised <= limit - bytes);

	if (ok)
		*promised += bytes;
	return ok;
}

bool gw_promise(uint64_t bytes)
{
	lock();
	bool ok = promise(atomic_load(&gw_limit), device_bytes(), &books.promised, bytes);
	unlock();
	return ok;
}

bool gw_promise_host(uint64_t bytes)
{
	lock();
	bool ok = promise(atomic_load(&gw_host_limit), books.bytes[GW_HOST],
			  &books.host_promised, bytes);
	unlock();
	return ok;
}

void gw_settle(uint64_t bytes)
{
	lock();
	books.promised -= bytes;
	unlock();
}

void gw_settle_host(uint64_t bytes)
{
	lock();
	books.host_promised -= bytes;
	unlock();
}

bool gw_add(enum gw_space space, const struct gw_block *b)
{
	struct gw_node *n;

	lock();
	/* A base that is known already was freed in a way that we did not see. */
	struct gw_node *old = gw_tree_remove(&books.root[space], b->base);
	if (old) {
		count(&old->b, false);
		gw_node_free(old);
	}
	n = gw_node_new();
	if (n) {
		n->b = *b;
		n->b.id = ++books.last_id;
		if (gw_movable(b))
			n->b.out_from = n->b.out_to = 0;
		gw_tree_insert(&books.root[space], n);
		count(&n->b, true);
	}
	unlock();
	return n != NULL;
}

/* Remove a node for good. The caller holds the lock. */
static bool take(enum gw_space space, uint64_t base, struct gw_block *out)
{
	struct gw_node *n = gw_tree_remove(&books.root[space], base);

	if (!n)
		return false;
	count(&n->b, false);
	*out = n->b;
	gw_node_free(n);
	return true;
}

bool gw_take(enum gw_space space, uint64_t base, struct gw_block *out)
{
	lock();
	bool ok = take(space, base, out);
	unlock();
	return ok;
}

bool gw_find(enum gw_space space, uint64_t address, struct gw_block *out)
{
	lock();
	struct gw_node *n = gw_tree_below(books.root[space], address);
	bool ok = n && (address == n->b.base || address - n->b.base < n->b.size);
	if (ok)
		*out = n->b;
	unlock();
	return ok;
}

static struct gw_node *exact(enum gw_space space, uint64_t base)
{
	struct gw_node *n = gw_tree_below(books.root[space], base);

	return n && n->b.base == base ? n : NULL;
}

bool gw_refer(uint64_t handle, int change)
{
	struct gw_block gone;

	lock();
	struct gw_node *n = exact(GW_HANDLE, handle);
	if (n) {
		n->b.refs += (uint32_t)change;
		if (n->b.refs == 0)
			take(GW_HANDLE, handle, &gone);
	}
	unlock();
	return n != NULL;
}

void gw_stir(void)
{
	lock();
	books.dirty = true;
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

static void forget_out(struct gw_node *n, void *arg)
{
	(void)arg;
	if (gw_movable(&n->b))
		n->b.out_from = n->b.out_to = 0;
}

void gw_calm(bool all)
{
	lock();
	if (books.dirty || all) {
		each(books.root[GW_ADDRESS], forget_out, NULL);
		books.out = 0;
	}
	books.dirty = false;
	unlock();
}

/* A movable block that is still the one that was meant. The caller holds the
 * lock. */
static struct gw_block *same(uint64_t base, uint32_t id)
{
	struct gw_node *n = exact(GW_ADDRESS, base);

	return n && n->b.id == id && gw_movable(&n->b) ? &n->b : NULL;
}

/* What is known to be out is now this. */
static void set_out(struct gw_block *b, uint64_t from, uint64_t to)
{
	books.out -= gw_out(b);
	b->out_from = from < to ? from : 0;
	b->out_to = from < to ? to : 0;
	books.out += gw_out(b);
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

void gw_went_out(uint64_t base, uint32_t id, uint64_t from, uint64_t to)
{
	lock();
	struct gw_block *b = same(base, id);
	if (b) {
		to = least(to, b->size);
		if (gw_out(b) && from <= b->out_to && to >= b->out_from)
			set_out(b, least(from, b->out_from), most(to, b->out_to));
		else if (from < to && to - from > gw_out(b))
			set_out(b, from, to);
	}
	unlock();
}

void gw_came_in(uint64_t base, uint32_t id, uint64_t from, uint64_t to)
{
	lock();
	struct gw_block *b = same(base, id);
	/* The driver moves whole pages. */
	uint64_t lead = (base + from) % GW_PAGE;
	from -= least(lead, from);
	to += (GW_PAGE - (base + to) % GW_PAGE) % GW_PAGE;
	if (b && from < b->out_to && to > b->out_from) {
		uint64_t before = from > b->out_from ? from - b->out_from : 0;
		uint64_t after = to < b->out_to ? b->out_to - to : 0;
		if (before > after)
			set_out(b, b->out_from, from);
		else
			set_out(b, b->out_to - after, b->out_to);
	}
	unlock();
}

void gw_spare(uint64_t base, uint32_t id, uint64_t bytes)
{
	lock();
	struct gw_block *b = same(base, id);
	if (b)
		b->spare = (uint32_t)(bytes >> 20);
	unlock();
}

struct gw_totals gw_sum(void)
{
	struct gw_totals t;

	lock();
	t.fixed = fixed_bytes();
	t.allocated = device_bytes();
	t.resident = t.allocated - (books.dirty ? 0 : books.out);
	t.pool = books.bytes[GW_POOL];
	t.host = books.bytes[GW_HOST];
	t.blocks = books.blocks;
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

struct gw_block *gw_list(size_t *n)
{
	struct filling f = {0};

	lock();
	size_t bytes = books.movable * sizeof *f.list;
	*n = 0;
	if (bytes) {
		f.list = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (f.list == MAP_FAILED)
			f.list = NULL;
		else
			each(books.root[GW_ADDRESS], put_movable, &f);
		*n = f.n;
	}
	unlock();
	return f.list;
}

void gw_unlist(struct gw_block *list, size_t n)
{
	if (list)
		munmap(list, n * sizeof *list);
}

struct sweep {
	CUcontext ctx;
	uint64_t bases[64];
	size_t n;
};

static void find_owned(struct gw_node *n, void *arg)
{
	struct sweep *s = arg;

	if (n->b.ctx == s->ctx && s->n < sizeof s->bases / sizeof *s->bases)
		s->bases[s->n++] = n->b.base;
}

void gw_forget_context(CUcontext ctx)
{
	struct sweep s = {.ctx = ctx};
	struct gw_block gone;

	lock();
	for (int space = 0; space < GW_SPACES; space++) {
		do {
			s.n = 0;
			each(books.root[space], find_owned, &s);
			for (size_t i = 0; i < s.n; i++)
				take(space, s.bases[i], &gone);
		} while (s.n);
	}
	unlock();
}

void gw_forget_all(void)
{
	pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	books.mu = fresh;
	for (int space = 0; space < GW_SPACES; space++)
		books.root[space] = NULL;
	for (int kind = 0; kind < GW_KINDS; kind++)
		books.bytes[kind] = 0;
	books.out = books.promised = books.host_promised = 0;
	atomic_store(&allocated, 0);
	books.blocks = books.movable = 0;
	books.dirty = false;
	gw_nodes_drop();
}
