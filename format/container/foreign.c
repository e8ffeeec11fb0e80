#include "container/foreign.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
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

/* Findings that are not danger: the archive could not be read to its end, or CRCs are wrong. */
static bool has_faults(const sw_report *found)
{
    return sw_report_total(found, SW_DEFECT) + sw_report_total(found, SW_WARNING) > 0;
}

/* What was found in a file beside the checkpoint: only danger keeps its weight. */
static sw_status take_over(const sw_report *found, const char *path, bool danger_only,
                           sw_report *report, sw_error *err)
{
    for (size_t i = 0; i < sw_report_count(found); i++) {
        const sw_finding *f = sw_report_at(found, i);
        bool danger = f->severity == SW_DANGER;
        if (danger_only && !danger)
            continue;
        swi_finding_in in = {.severity = danger ? SW_DANGER : SW_WARNING,
                             .status = f->status,
                             .code = f->code,
                             .file = path,
                             .has_offset = f->has_offset,
                             .offset_bytes = f->offset_bytes};
        sw_status st = swi_report_add(report, &in, err, "%s", f->message);
        if (st != SW_OK)
            return st;
    }
    return SW_OK;
}

/* ---- archives that cannot be read by their directory: cut ones, several in a row ------------ */

#define PICKLE_MAX ((size_t)1 << 20)

typedef struct raw_scan {
    const swi_file *file;
    const char *path;
    uint64_t bytes;
    const sw_limits *limits;
    sw_report *report;
    uint64_t pickles; /* met */
} raw_scan;

/* Reads the pickle that begins at `offset`, as far as it goes, for its names alone. */
static sw_status scan_pickle(const raw_scan *s, uint64_t offset, sw_error *err)
{
    uint64_t left = s->bytes - offset;
    size_t size = left < PICKLE_MAX ? (size_t)left : PICKLE_MAX;
    uint8_t *data = NULL;
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_error ignored = {0};
    swi_pickle_unsafe unsafe = {0};
    swi_pickle_options options = {.base_offset_bytes = offset};
    sw_status st = swi_alloc_array(size, 1, (void **)&data, err);
    if (st == SW_OK)
        st = swi_file_read(s->file, offset, data, size, err);
    if (st == SW_OK)
        st = swi_graph_make(s->limits, &graph, err);
    if (st == SW_OK) {
        swi_cursor cursor = swi_cursor_make(data, size);
        if (swi_pickle_read(&cursor, &options, graph, &root, &unsafe, &ignored) == SW_ERR_NOMEM)
            st = swi_fail_nomem(err);
        else
            st = swi_pickle_report(&unsafe, s->path, "", s->report, err);
    }
    sw_value_graph_free(graph);
    free(data);
    return st;
}

/* A local header of a record called .../data.pkl at `data`: *payload is its distance. */
static bool is_pickle_header(const uint8_t *data, size_t size, size_t *payload)
{
    swi_cursor c = swi_cursor_make(data, size);
    const uint8_t *name;
    uint16_t name_size, extra_size;
    if (!swi_skip(&c, 26) || !swi_get_u16le(&c, &name_size) || !swi_get_u16le(&c, &extra_size) ||
        !swi_get_bytes(&c, name_size, &name))
        return false;
    *payload = (size_t)30 + name_size + extra_size;
    return name_size >= 4 && memcmp(name + name_size - 4, ".pkl", 4) == 0;
}

static sw_status scan_window(raw_scan *s, uint64_t base, const uint8_t *data, size_t size,
                             size_t starts, sw_error *err)
{
    sw_status st = SW_OK;
    size_t at = 0, payload;
    while (st == SW_OK && at < starts) {
        const uint8_t *p = memchr(data + at, 'P', starts - at);
        if (p == NULL)
            break;
        at = (size_t)(p - data);
        if (size - at >= 4 && memcmp(p, "PK\x03\x04", 4) == 0 &&
            is_pickle_header(p, size - at, &payload) && base + at + payload < s->bytes) {
            s->pickles++;
            st = scan_pickle(s, base + at + payload, err);
        }
        at++;
    }
    return st;
}

/* Every local header in the file, whatever its directory says. */
static sw_status scan_headers(raw_scan *s, uint8_t *buffer, size_t buffer_bytes, sw_error *err)
{
    const size_t overlap = buffer_bytes / 4; /* room for a header behind the last start */
    sw_status st = SW_OK;
    for (uint64_t base = 0; st == SW_OK && base < s->bytes;) {
        uint64_t left = s->bytes - base;
        size_t size = left < buffer_bytes ? (size_t)left : buffer_bytes;
        size_t starts = size < left ? size - overlap : size;
        st = swi_file_read(s->file, base, buffer, size, err);
        if (st == SW_OK)
            st = scan_window(s, base, buffer, size, starts, err);
        base += starts;
    }
    return st;
}

static sw_status scan_broken(const swi_store *store, const char *path, const sw_limits *limits,
                             uint8_t *buffer, size_t buffer_bytes, sw_report *report, bool *row,
                             sw_error *err)
{
    swi_file *file = NULL;
    sw_status st = swi_store_open_read(store, path, &file, err);
    if (st != SW_OK)
        return st;
    raw_scan scan = {.file = file,
                     .path = path,
                     .bytes = swi_file_bytes(file),
                     .limits = limits,
                     .report = report};
    st = scan_headers(&scan, buffer, buffer_bytes, err);
    swi_file_close(file);
    *row = scan.pickles > 1; /* several archives one behind another, as DCP writes them */
    return st;
}

static sw_status check_archive(const swi_store *store, const char *path, uint64_t bytes,
                               const sw_limits *limits, uint8_t *buffer, size_t buffer_bytes,
                               sw_report *report, swi_blob_check *tally, sw_error *err)
{
    swi_filecache *cache = NULL;
    sw_report *found = NULL;
    sw_error cause = {0};
    bool row = false, broken = false;
    swi_blob_label label = {.file = path, .name = ""};
    sw_status st = sw_report_make(&found, err);
    if (st == SW_OK)
        st = swi_filecache_make(store, 1, one_path, path, limits, &cache, err);
    if (st == SW_OK) {
        sw_status checked = swi_torch_check(swi_filecache_reader(cache), 0, 0, bytes, &label,
                                            buffer, buffer_bytes, found, tally, &cause);
        broken = checked != SW_OK || has_faults(found);
        if (means_could_not_work(checked)) {
            st = checked;
            if (err != NULL)
                *err = cause;
        }
    }
    if (st == SW_OK && broken && sw_report_total(found, SW_DANGER) == 0)
        st = scan_broken(store, path, limits, buffer, buffer_bytes, report, &row, err);
    if (st == SW_OK)
        st = take_over(found, path, row, report, err);
    swi_filecache_free(cache);
    sw_report_free(found);
    return st;
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
    swi_entry entry;
    size_t n = 0;
    sw_status st = swi_store_head(store, path, head, sizeof head, &n, err);
    if (st == SW_OK)
        st = swi_store_stat(store, path, &entry, err);
    if (st != SW_OK)
        return st;
    const char *looks = swi_sniff(head, n);
    if (looks == NULL)
        return SW_OK;
    if (strcmp(looks, "a zip archive") == 0)
        return check_archive(store, path, entry.bytes, limits, buffer, buffer_bytes, report, tally,
                             err);
    if (strcmp(looks, "a pickle") == 0)
        return check_pickles(store, path, limits, report, err);
    return SW_OK;
}
