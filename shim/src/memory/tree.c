#include "memory/tree.h"

#include <sys/mman.h>

/* 64 KiB: some 900 nodes, a page fault each 56 nodes. */
enum { SLAB = 1 << 16 };

static struct gw_node *free_nodes;

/* A node's rank is made of its base, so that it need not be kept: no two bases have
 * the same. */
static uint64_t rank(const struct gw_node *n)
{
	uint64_t x = n->b.base * 0x9e3779b97f4a7c15ull;

	return (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
}

static bool more_nodes(void)
{
	struct gw_node *n = mmap(NULL, SLAB, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (n == MAP_FAILED)
		return false;
	/* From the far end, so that the first used share the first page. */
	for (struct gw_node *last = n + SLAB / sizeof *n; last-- > n;) {
		last->left = free_nodes;
		free_nodes = last;
	}
	return true;
}

struct gw_node *gw_node_new(void)
{
	struct gw_node *n;

	if (!free_nodes && !more_nodes())
		return NULL;
	n = free_nodes;
	free_nodes = n->left;
	n->left = n->right = NULL;
	return n;
}

void gw_node_free(struct gw_node *n)
{
	n->left = free_nodes;
	free_nodes = n;
}

/* Split a tree into the nodes below a base and the others. */
static void split(struct gw_node *n, uint64_t base, struct gw_node **low,
		  struct gw_node **high)
{
	while (n) {
		if (n->b.base < base) {
			*low = n;
			low = &n->right;
			n = n->right;
		} else {
			*high = n;
			high = &n->left;
			n = n->left;
		}
	}
	*low = *high = NULL;
}

static struct gw_node *join(struct gw_node *low, struct gw_node *high)
{
	struct gw_node *root = NULL, **at = &root;

	while (low && high) {
		if (rank(low) > rank(high)) {
			*at = low;
			at = &low->right;
			low = low->right;
		} else {
			*at = high;
			at = &high->left;
			high = high->left;
		}
	}
	*at = low ? low : high;
	return root;
}

struct gw_node *gw_tree_insert(struct gw_node **at, struct gw_node *n)
{
	while (*at && rank(*at) > rank(n))
		at = n->b.base < (*at)->b.base ? &(*at)->left : &(*at)->right;
	struct gw_node *rest = *at;
	*at = n;
	if (rest && rest->b.base == n->b.base) { /* of equal rank, so it stands here */
		n->left = rest->left;
		n->right = rest->right;
		return rest;
	}
	split(rest, n->b.base, &n->left, &n->right);
	return NULL;
}

struct gw_node *gw_tree_remove(struct gw_node **at, uint64_t base)
{
	while (*at && (*at)->b.base != base)
		at = base < (*at)->b.base ? &(*at)->left : &(*at)->right;
	struct gw_node *n = *at;
	if (n)
		*at = join(n->left, n->right);
	return n;
}

struct gw_node *gw_tree_below(struct gw_node *n, uint64_t address)
{
	struct gw_node *best = NULL;

	while (n) {
		if (n->b.base <= address) {
			best = n;
			n = n->right;
		} else {
			n = n->left;
		}
	}
	return best;
}
