/* Whole directory trees of a store: visited and removed without recursion, links not followed. */
#ifndef SW_IO_TREE_H
#define SW_IO_TREE_H

#include "base/arena.h"
#include "io/store.h"

/* The directories of a tree, each after the one that holds it; the first is "", the root. */
typedef struct swi_tree {
    swi_arena arena;
    const char **dirs;
    size_t count;
    size_t capacity;
} swi_tree;

/* Calls `fn` for everything that is not a directory and fills `tree` ({0} before). */
SW_MUST_USE sw_status swi_tree_visit(swi_tree *tree, const swi_store *store, swi_list_fn fn,
                                     void *ctx, sw_error *err);
void swi_tree_free(swi_tree *tree); /* ends with {0} */
/* Removes everything in the store, not its root. */
SW_MUST_USE sw_status swi_tree_clear(swi_store *store, sw_error *err);

#endif
