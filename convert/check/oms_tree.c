#include "check/oms_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "check/real_path.h"

/* Directories that are still to be looked at, each after the one that holds it. */
typedef struct visiting {
    swi_oms_tree *tree;
    const swi_oms_walk *walk;
    const char **dirs;
    size_t count, capacity;
} visiting;

static sw_status add_dir(visiting *v, const char *path, sw_error *err)
{
    const char *copy;
    sw_status status =
        swi_grow_array((void **)&v->dirs, &v->capacity, v->count + 1, sizeof *v->dirs, err);
    if (status == SW_OK)
        status = swi_arena_text(&v->tree->arena, path, strlen(path), &copy, err);
    if (status == SW_OK)
        v->dirs[v->count++] = copy;
    return status;
}

static sw_status add_file(swi_oms_tree *tree, const char *name, uint64_t bytes, uint64_t max,
                          sw_error *err)
{
    const char *copy;
    swi_quoted q;
    if (!swi_utf8_valid(name, strlen(name)))
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "%s: its name is not UTF-8, and cannot stand in a signature",
                        swi_quote_str(&q, name));
    if (tree->count >= max)
        return swi_fail(err, SW_ERR_LIMIT, "more files than the limit allows");
    sw_status status = swi_grow_array((void **)&tree->items, &tree->capacity, tree->count + 1,
                                      sizeof *tree->items, err);
    if (status == SW_OK)
        status = swi_arena_text(&tree->arena, name, strlen(name), &copy, err);
    if (status == SW_OK)
        tree->items[tree->count++] = (swi_oms_file){.name = copy, .bytes = bytes};
    return status;
}

static bool is_skipped(const char *path, const char *skip)
{
    size_t size = skip != NULL ? strlen(skip) : 0;
    return size > 0 && strncmp(path, skip, size) == 0 && (path[size] == '\0' || path[size] == '/');
}

static sw_status visit(void *ctx, const swi_entry *entry, sw_error *err)
{
    visiting *v = ctx;
    const swi_oms_walk *walk = v->walk;
    if (swi_oms_ignores(walk->oms, entry->path) || is_skipped(entry->path, walk->skip))
        return SW_OK;
    if (entry->is_link || entry->kind == SWI_ENTRY_OTHER)
        return walk->odd(walk->ctx, entry->path, entry->is_link, err);
    if (entry->kind == SWI_ENTRY_DIR)
        return add_dir(v, entry->path, err);
    return add_file(v->tree, entry->path, entry->bytes, walk->max_files, err);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const swi_oms_file *)left)->name, ((const swi_oms_file *)right)->name);
}

static sw_status visit_all(swi_oms_tree *tree, const swi_oms_walk *walk, sw_error *err)
{
    visiting v = {.tree = tree, .walk = walk};
    sw_status status = add_dir(&v, "", err);
    for (size_t i = 0; i < v.count && status == SW_OK; i++)
        status = swi_store_list(tree->store, v.dirs[i], walk->max_files, visit, &v, err);
    free(v.dirs);
    if (status == SW_OK && tree->count > 1)
        qsort(tree->items, tree->count, sizeof *tree->items, by_name);
    return status;
}

static sw_status open_model(const char *real, swi_oms_tree *tree, uint64_t *bytes, sw_error *err)
{
    struct stat st;
    swi_quoted q;
    const char *base = swi_last_part(real);
    if (stat(real, &st) != 0)
        return swi_fail_errno(err, errno, "%s: cannot open", swi_quote_str(&q, real));
    tree->single = S_ISREG(st.st_mode);
    *bytes = (uint64_t)st.st_size;
    sw_status status = swi_arena_text(&tree->arena, base, strlen(base), &tree->base, err);
    return status == SW_OK ? swi_store_open_posix(real, &tree->store, err) : status;
}

sw_status swi_oms_tree_open(const char *path, const swi_oms_walk *walk, swi_oms_tree *out,
                            sw_error *err)
{
    swi_oms_tree tree = {0};
    uint64_t bytes = 0;
    char *real = NULL;
    sw_status status = swi_real_path(path, &real, err);
    if (status == SW_OK)
        status = open_model(real, &tree, &bytes, err);
    if (status == SW_OK)
        status = tree.single ? add_file(&tree, SWI_OMS_SINGLE, bytes, walk->max_files, err)
                             : visit_all(&tree, walk, err);
    free(real);
    if (status != SW_OK)
        swi_oms_tree_close(&tree);
    else
        *out = tree;
    return status;
}

void swi_oms_tree_close(swi_oms_tree *tree)
{
    swi_store_close(tree->store);
    free(tree->items);
    swi_arena_free(&tree->arena);
    *tree = (swi_oms_tree){0};
}

const char *swi_oms_tree_path(const swi_oms_tree *tree, const swi_oms_file *file)
{
    return tree->single ? tree->base : file->name;
}

/* The folder of a file, as a path of its own; free it. */
static sw_status folder_of(const char *file, char **out, sw_error *err)
{
    const char *slash = strrchr(file, '/');
    size_t size = slash == NULL ? 0 : slash == file ? 1 : (size_t)(slash - file);
    char *folder = size > 0 ? strndup(file, size) : strdup(".");
    if (folder == NULL)
        return swi_fail_nomem(err);
    *out = folder;
    return SW_OK;
}

/* What of `folder` is below `model`: "" for the model itself; NULL: it lies elsewhere. */
static const char *below(const char *model, const char *folder)
{
    size_t size = strcmp(model, "/") == 0 ? 0 : strlen(model);
    if (strncmp(folder, model, size) != 0 || (folder[size] != '/' && folder[size] != '\0'))
        return NULL;
    return folder + size + (folder[size] == '/');
}

sw_status swi_oms_path_inside(const char *path, const char *file, swi_buf *out, sw_error *err)
{
    char *model = NULL, *folder = NULL, *real = NULL;
    sw_status status = folder_of(file, &folder, err);
    if (status == SW_OK)
        status = swi_real_path(path, &model, err);
    if (status == SW_OK)
        status = swi_real_path(folder, &real, err);
    const char *rest = status == SW_OK ? below(model, real) : NULL;
    if (rest != NULL)
        status = swi_buf_printf(out, err, "%s%s%s", rest, rest[0] != '\0' ? "/" : "",
                                swi_last_part(file));
    free(model);
    free(folder);
    free(real);
    return status;
}
