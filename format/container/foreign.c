#include "container/foreign.h"

#include <stdlib.h>
#include <string.h>

#include "base/sniff.h"
#include "container/torch_file.h"
#include "io/filecache.h"

#define SNIFF_BYTES 64
/* Pickles in one stream: a torch file of the old form has five before its storages. */
#define STREAM_MAX 16

static const char *one_path(const void *ctx, uint32_t id)
{
    (void)id;
    return ctx;
}

static bool means_could_not_work(sw_status st)
{
    return st == SW_ERR_NOMEM || st == SW_ERR_IO || st == SW_ERR_CANCELED;
}

static sw_status unreadable(const char *path, sw_error *cause, sw_report *report, sw_error *err)
{
    swi_finding_in in = {.severity = SW_WARNING,
                         .status = cause->status,
                         .code = "unreadable-file",
                         .file = path,
                         .has_offset = cause->has_offset,
                         .offset_bytes = cause->offset_bytes};
    return swi_report_error(report, &in, cause, err);
}

static sw_status check_archive(const swi_store *store, const char *path, uint64_t bytes,
                               const sw_limits *limits, uint8_t *buffer, size_t buffer_bytes,
                               sw_report *report, swi_blob_check *tally, sw_error *err)
{
    swi_filecache *cache = NULL;
    sw_error cause = {0};
    sw_status st = swi_filecache_make(store, 1, one_path, path, limits, &cache, err);
    if (st != SW_OK)
        return st;
    swi_blob_label label = {.file = path, .name = ""};
    st = swi_torch_check(swi_filecache_reader(cache), 0, 0, bytes, &label, buffer, buffer_bytes,
                         report, tally, &cause);
    swi_filecache_free(cache);
    if (st == SW_OK)
        return SW_OK;
    if (means_could_not_work(st)) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    return unreadable(path, &cause, report, err);
}

/* One pickle after another until something is not one. */
static sw_status check_pickles(const swi_store *store, const char *path, const sw_limits *limits,
                               sw_report *report, sw_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    sw_status st = swi_store_read_all(store, path, limits->metadata_bytes, &data, &size, err);
    if (st != SW_OK)
        return st;
    swi_cursor cursor = swi_cursor_make(data, size);
    swi_pickle_options options = {0};
    for (int i = 0; st == SW_OK && i < STREAM_MAX && swi_cursor_left(&cursor) > 0; i++) {
        sw_value_graph *graph = NULL;
        sw_value root;
        sw_error cause = {0};
        swi_pickle_unsafe unsafe = {0};
        st = swi_graph_make(limits, &graph, err);
        if (st != SW_OK)
            break;
        sw_status parsed = swi_pickle_read(&cursor, &options, graph, &root, &unsafe, &cause);
        sw_value_graph_free(graph);
        st = swi_pickle_report(&unsafe, path, "", report, err);
        if (parsed == SW_OK)
            continue;
        if (parsed == SW_ERR_NOMEM)
            st = swi_fail_nomem(err);
        else if (st == SW_OK && i == 0)
            st = unreadable(path, &cause, report, err);
        break;
    }
    free(data);
    return st;
}

sw_status swi_foreign_check(const swi_store *store, const char *path, const sw_limits *limits,
                            uint8_t *buffer, size_t buffer_bytes, sw_report *report,
                            swi_blob_check *tally, sw_error *err)
{
    uint8_t head[SNIFF_BYTES];
    swi_file *file = NULL;
    sw_status st = swi_store_open_read(store, path, &file, err);
    if (st != SW_OK)
        return st;
    uint64_t bytes = swi_file_bytes(file);
    size_t n = bytes < sizeof head ? (size_t)bytes : sizeof head;
    st = n > 0 ? swi_file_read(file, 0, head, n, err) : SW_OK;
    swi_file_close(file);
    if (st != SW_OK)
        return st;
    const char *looks = swi_sniff(head, n);
    if (looks == NULL)
        return SW_OK;
    if (strcmp(looks, "a zip archive") == 0)
        return check_archive(store, path, bytes, limits, buffer, buffer_bytes, report, tally,
                             err);
    if (strcmp(looks, "a pickle") == 0)
        return check_pickles(store, path, limits, report, err);
    return SW_OK;
}
