#include "io/tree.h"

#include <stdlib.h>
#include <string.h>

typedef struct visit {
    swi_tree *tree;
    swi_list_fn fn;
    void *ctx;
} visit;

static sw_status add_dir(swi_tree *tree, const char *path, sw_error *err)
{
    sw_status status = swi_grow_array((void **)&tree->dirs, &tree->capacity, tree->count + 1,
                                      sizeof *tree->dirs, err);
    const char *copy;
    if (status == SW_OK)
        status = swi_arena_text(&tree->arena, path, strlen(path), &copy, err);
    if (status == SW_OK)
        tree->dirs[tree->count++] = copy;
    return status;
}

static sw_status visit_entry(void *ctx, const swi_entry *entry, sw_error *err)
{
    const visit *v = ctx;
    if (entry->kind == SWI_ENTRY_DIR && !entry->is_link)
        return add_dir(v->tree, entry->path, err);
    return v->fn(v->ctx, entry, err);
}

sw_status swi_tree_visit(swi_tree *tree, const swi_store *store, swi_list_fn fn, void *ctx,
                         sw_error *err)
{
    visit v = {.tree = tree, .fn = fn, .ctx = ctx};
    sw_status status = add_dir(tree, "", err);
    for (size_t i = 0; status == SW_OK && i < tree->count; i++)
        status = swi_store_list(store, tree->dirs[i], UINT64_MAX, visit_entry, &v, err);
    return status;
}

void swi_tree_free(swi_tree *tree)
{
    free(tree->dirs);
    swi_arena_free(&tree->arena);
    *tree = (swi_tree){0};
}

/* Gone already is as good: two processes may clear the same leftovers. */
static sw_status remove_path(swi_store *store, const char *path, sw_error *err)
{
    sw_error local;
    sw_status status = swi_store_remove(store, path, &local);
    if (status == SW_OK || status == SW_ERR_NOTFOUND)
        return SW_OK;
    if (err != NULL)
        *err = local;
    return status;
}

static sw_status remove_entry(void *ctx, const swi_entry *entry, sw_error *err)
{
    return remove_path(ctx, entry->path, err);
}

sw_status swi_tree_clear(swi_store *store, sw_error *err)
{
    swi_tree tree = {0};
    sw_status status = swi_tree_visit(&tree, store, remove_entry, store, err);
    for (size_t i = tree.count; status == SW_OK && i > 1; i--)
        status = remove_path(store, tree.dirs[i - 1], err);
    swi_tree_free(&tree);
    return status;
}
