#include "source/folder.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/names.h"
#include "base/report.h"
#include "check/vouched.h"
#include "container/foreign.h"

#define BUFFER_BYTES ((size_t)1 << 20)
#define DEPTH_MAX 16

/* A walk in breadth: folders are names in a growing set, taken in order. */
typedef struct walk {
    const sw_checkpoint *checkpoint;
    const sw_limits *limits;
    sw_report *report;
    swi_vouched *vouched;
    swi_names *known;   /* files that the catalog reads */
    swi_names *folders; /* "" first */
    uint8_t *buffer;
    uint64_t files;
} walk;

static size_t depth_of(const char *path)
{
    size_t depth = 1;
    for (; *path != '\0'; path++)
        depth += *path == '/';
    return depth;
}

/* What may not be looked into, beside the checkpoint, is a matter of the tree: it is said. */
static sw_status unless_forbidden(const walk *w, const char *path, sw_error *cause, sw_error *err)
{
    if (cause->status == SW_ERR_IO && !swi_error_of_machine(cause)) {
        swi_finding_in in = {
            .severity = SW_WARNING, .status = SW_ERR_IO, .code = "unreadable-file", .file = path};
        return swi_report_error(w->report, &in, cause, err);
    }
    if (err != NULL)
        *err = *cause;
    return cause->status;
}

static sw_status visit(void *ctx, const swi_entry *entry, sw_error *err)
{
    walk *w = ctx;
    uint32_t id;
    if (++w->files > w->limits->files)
        return swi_fail(err, SW_ERR_LIMIT, "more files than the limit allows");
    if (entry->kind == SWI_ENTRY_DIR) {
        if (entry->is_link || depth_of(entry->path) > DEPTH_MAX)
            return SW_OK;
        return swi_names_add(w->folders, entry->path, strlen(entry->path), &id, NULL, err);
    }
    if (entry->kind != SWI_ENTRY_FILE || entry->bytes == 0 ||
        swi_names_find(w->known, entry->path, strlen(entry->path)) >= 0)
        return SW_OK;
    sw_error cause = {0};
    swi_blob_check found = {0};
    sw_status st = swi_foreign_check(swi_checkpoint_store(w->checkpoint), entry->path, w->limits,
                                     w->buffer, BUFFER_BYTES, w->report, &found, &cause);
    if (st != SW_OK)
        st = unless_forbidden(w, entry->path, &cause, err);
    const swi_vouched_file f = {.path = entry->path,
                                .bytes = entry->bytes,
                                .checked = found.checked_bytes,
                                .differing = found.differing_bytes};
    return st == SW_OK ? swi_vouched_add(w->vouched, &f, err) : st;
}

static sw_status visit_folder(walk *w, const char *path, sw_error *err)
{
    sw_error cause = {0};
    sw_status st = swi_store_list(swi_checkpoint_store(w->checkpoint), path, w->limits->files,
                                  visit, w, &cause);
    return st == SW_OK ? SW_OK : unless_forbidden(w, path, &cause, err);
}

static sw_status list_known(walk *w, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(w->checkpoint);
    uint32_t id;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < sw_catalog_file_count(catalog); i++) {
        const char *path = swi_catalog_path(catalog, (uint32_t)i);
        st = swi_names_add(w->known, path, strlen(path), &id, NULL, err);
    }
    return st;
}

sw_status swi_folder_check(const sw_checkpoint *checkpoint, sw_report *report, swi_vouched *vouched,
                           sw_error *err)
{
    const sw_limits limits = swi_checkpoint_limits(checkpoint);
    walk w = {.checkpoint = checkpoint, .limits = &limits, .report = report, .vouched = vouched};
    uint32_t id;
    if (swi_checkpoint_alone(checkpoint))
        return SW_OK;
    sw_status st = swi_names_make(&w.known, err);
    if (st == SW_OK)
        st = swi_names_make(&w.folders, err);
    if (st == SW_OK)
        st = swi_alloc_array(BUFFER_BYTES, 1, (void **)&w.buffer, err);
    if (st == SW_OK)
        st = list_known(&w, err);
    if (st == SW_OK)
        st = swi_names_add(w.folders, "", 0, &id, NULL, err);
    for (uint32_t i = 0; st == SW_OK && i < swi_names_count(w.folders); i++) {
        /* the set may move while it grows: a copy of the name */
        swi_buf path = {0};
        st = swi_buf_append_str(&path, swi_names_at(w.folders, i, NULL), err);
        if (st == SW_OK)
            st = swi_buf_u8(&path, '\0', err);
        if (st == SW_OK)
            st = visit_folder(&w, (const char *)path.data, err);
        swi_buf_free(&path);
    }
    free(w.buffer);
    swi_names_free(w.folders);
    swi_names_free(w.known);
    return st;
}
