/* The files of a model as OMS counts them: all regular ones at any depth (specs/signing.md, OMS-9).
 */
#ifndef SW_CONVERT_OMS_TREE_H
#define SW_CONVERT_OMS_TREE_H

#include "check/oms.h"
#include "io/store.h"
#include "shardwright_reshard.h"

typedef struct swi_oms_file {
    const char *name; /* in the model; SWI_OMS_SINGLE where the model is this file */
    uint64_t bytes;
} swi_oms_file;

typedef struct swi_oms_tree {
    swi_arena arena;
    swi_store *store;
    const char *base; /* the last part of the model's path, as it really is called */
    bool single;      /* the model is one file, called `base` in the store */
    swi_oms_file *items;
    size_t count, capacity;
} swi_oms_tree;

/* What is neither a directory nor a regular file that is no link. */
typedef sw_status (*swi_oms_odd_fn)(void *ctx, const char *name, bool is_link, sw_error *err);

typedef struct swi_oms_walk {
    const swi_oms *oms; /* what it ignores is not looked at */
    const char *skip;   /* a path that is not looked at either; or NULL */
    uint64_t max_files; /* more: SW_ERR_LIMIT */
    swi_oms_odd_fn odd; /* ignored ones are not shown */
    void *ctx;
} swi_oms_walk;

/* Sorted by name. A directory that cannot be read is SW_ERR_IO. */
SW_MUST_USE sw_status swi_oms_tree_open(const char *path, const swi_oms_walk *walk,
                                        swi_oms_tree *out, sw_error *err);
void swi_oms_tree_close(swi_oms_tree *tree); /* ends with {0} */
/* How the store calls this file. */
const char *swi_oms_tree_path(const swi_oms_tree *tree, const swi_oms_file *file);

/*
 * Where `file` (it need not exist, its folder must) lies in the model at `path`, as a path in it:
 * *out is empty when it lies elsewhere, or the model is a file.
 */
SW_MUST_USE sw_status swi_oms_path_inside(const char *path, const char *file, swi_buf *out,
                                          sw_error *err);

#endif
