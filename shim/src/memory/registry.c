#include "memory/registry.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "memory/tree.h"
#include "process/state.h"

/* Guarded by gw_books_lock, like the nodes of tree.c. */
static struct gw_node *root[GW_SPACES];
static uint32_t last_id;

/* The caller holds the lock. */
static void add(enum gw_space space, const struct gw_block *b)
{
	/* A base that is known already was freed in a way that we did not see. */
	struct gw_node *old, *n = gw_node_new();

	if (!n) {
		gw_disable("no memory for the registry");
		return;
	}
	n->b = *b;
	n->b.id = ++last_id;
	if (gw_movable(b))
		n->b.evicted = 0;
	old = gw_tree_insert(&root[space], n);
	if (old) {
		gw_count_block(&old->b, false);
		gw_node_free(old);
	}
	gw_count_block(&n->b, true);
}

void gw_add(enum gw_space space, const struct gw_block *b)
{
	gw_books_lock();
	add(space, b);
	gw_books_unlock();
}

void gw_settle(enum gw_account account, uint64_t reserved, enum gw_space space,
	       const struct gw_block *b)
{
	gw_books_lock();
	gw_unreserve(account, reserved);
	if (b)
		add(space, b);
	gw_books_unlock();
}

/* Remove a node for good. The caller holds the lock. */
static bool remove_node(enum gw_space space, uint64_t base, struct gw_block *out)
{
	struct gw_node *n = gw_tree_remove(&root[space], base);

	if (!n)
		return false;
	gw_count_block(&n->b, false);
	*out = n->b;
	gw_node_free(n);
	return true;
}

bool gw_remove(enum gw_space space, uint64_t base, struct gw_block *out)
{
	gw_books_lock();
	bool ok = remove_node(space, base, out);
	gw_books_unlock();
	return ok;
}

bool gw_remove_mapping(uint64_t from, uint64_t bytes, struct gw_block *out)
{
	gw_books_lock();
	struct gw_node *n = bytes ? gw_tree_below(root[GW_ADDRESS], from + bytes - 1) : NULL;
	bool ok = n && n->b.base >= from && n->b.kind == GW_MAPPED &&
		  remove_node(GW_ADDRESS, n->b.base, out);
	gw_books_unlock();
	return ok;
}

bool gw_find_last(enum gw_space space, uint64_t address, struct gw_block *out)
{
	gw_books_lock();
	struct gw_node *n = gw_tree_below(root[space], address);
	if (n)
		*out = n->b;
	gw_books_unlock();
	return n;
}

bool gw_find(enum gw_space space, uint64_t address, struct gw_block *out)
{
	struct gw_block b;

	if (!gw_find_last(space, address, &b) ||
	    (address != b.base && address - b.base >= b.size))
		return false;
	*out = b;
	return true;
}

static struct gw_node *find_base(enum gw_space space, uint64_t base)
{
	struct gw_node *n = gw_tree_below(root[space], base);

	return n && n->b.base == base ? n : NULL;
}

bool gw_change_refs(enum gw_space space, uint64_t base, int change)
{
	struct gw_block gone;

	gw_books_lock();
	struct gw_node *n = find_base(space, base);
	if (n) {
		n->b.refs += (uint32_t)change;
		if (n->b.refs == 0)
			remove_node(space, base, &gone);
	}
	gw_books_unlock();
	return n != NULL;
}

struct gw_block *gw_movable_at(uint64_t base, uint32_t id)
{
	struct gw_node *n = find_base(GW_ADDRESS, base);

	return n && n->b.id == id && gw_movable(&n->b) ? &n->b : NULL;
}

/* The blocks of a space are walked from the last one to the first. */
static struct gw_node *last(enum gw_space space) { return gw_tree_below(root[space], UINT64_MAX); }

static struct gw_node *before(enum gw_space space, const struct gw_node *n)
{
	return n->b.base ? gw_tree_below(root[space], n->b.base - 1) : NULL;
}

void gw_each_block(void (*f)(struct gw_block *))
{
	for (struct gw_node *n = last(GW_ADDRESS); n; n = before(GW_ADDRESS, n))
		f(&n->b);
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
	struct gw_block *list = NULL;

	*n = 0;
	gw_books_lock();
	size_t bytes = gw_movable_blocks() * sizeof *list;
	if (bytes)
		list = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (list == MAP_FAILED)
		list = NULL;
	for (struct gw_node *at = list ? last(GW_ADDRESS) : NULL; at; at = before(GW_ADDRESS, at))
		if (gw_movable(&at->b))
			list[(*n)++] = at->b;
	gw_books_unlock();
	if (list)
		qsort(list, *n, sizeof *list, compare_size);
	return list;
}

void gw_free_list(struct gw_block *list, size_t n)
{
	if (list)
		munmap(list, n * sizeof *list);
}

/* Remove the blocks of a context, or the nodes and executable graphs of a graph. */
static void sweep(CUcontext ctx, uint64_t graph)
{
	struct gw_block gone;

	gw_books_lock();
	for (enum gw_space space = 0; space < GW_SPACES; space++)
		for (struct gw_node *n = last(space), *next; n; n = next) {
			next = before(space, n);
			if (graph ? n->b.kind == GW_GRAPH && n->b.owner == graph : n->b.ctx == ctx)
				remove_node(space, n->b.base, &gone);
		}
	gw_books_unlock();
}

void gw_remove_blocks_of(CUcontext ctx) { sweep(ctx, 0); }
void gw_remove_nodes_of(uint64_t graph) { sweep(NULL, graph); }
