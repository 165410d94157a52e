/*
 * A search tree of blocks by base address, balanced by chance (a treap). Its
 * nodes come from pages of our own, because the program's malloc may itself
 * call the driver. The caller holds the lock.
 */
#pragma once

#include "memory/block.h"

struct gw_node {
	struct gw_block b;
	struct gw_node *left, *right;
};

struct gw_node *gw_node_new(void);
void gw_node_free(struct gw_node *n);

/* The node of the same base whose place it takes, unhooked, or NULL. */
struct gw_node *gw_tree_insert(struct gw_node **root, struct gw_node *n);
/* Unhook and return the node with this base, or NULL. */
struct gw_node *gw_tree_remove(struct gw_node **root, uint64_t base);
/* The node with the greatest base that is not above the address, or NULL. */
struct gw_node *gw_tree_below(struct gw_node *root, uint64_t address);
