/*
 * What the tests of convert/ share: runs of verify and convert with all that they say, the sample,
 * DCP folders and safetensors files from a few words, and folders compared byte by byte.
 */
#ifndef TESTS_CONVERT_FIXTURE_H
#define TESTS_CONVERT_FIXTURE_H

#include "harness/harness.h"

#include <dirent.h>
#include <errno.h>
#include <shardwright_convert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "container/dcp_store.h"
#include "container/safetensors.h"
#include "container/torch_file.h"

#define test_in_dir(name)                                                                          \
    cmocka_unit_test_setup_teardown(name, harness_dir_setup, harness_dir_teardown)

/* ---- runs ---------------------------------------------------------------------------------- */

typedef struct outcome {
    sw_status status;
    sw_error err;
    sw_report *report;
    sw_verify_summary verified;
    sw_convert_summary converted;
} outcome;

static inline void outcome_begin(outcome *o)
{
    *o = (outcome){0};
    assert_ok(sw_report_make(&o->report, &o->err), &o->err);
}

static inline void outcome_free(outcome *o)
{
    sw_report_free(o->report);
    *o = (outcome){0};
}

/* What runs are given that say nothing themselves: a map, and whose names the source has. */
static struct {
    const char *map, *from_names;
} fixture_model;

static inline void run_verify(const char *path, outcome *o)
{
    const sw_verify_options options = {.open = {.map = fixture_model.map}};
    outcome_begin(o);
    o->status = sw_verify(path, &options, o->report, &o->verified, &o->err);
    sw_report_sort(o->report);
}

static inline void run_convert(const char *source, const char *dest,
                               const sw_convert_options *options, outcome *o)
{
    sw_convert_options given = options != NULL ? *options : (sw_convert_options){.to = "hf"};
    if (given.open.map == NULL) {
        given.open.map = fixture_model.map;
        given.from_names = fixture_model.from_names;
    }
    outcome_begin(o);
    o->status = sw_convert(source, dest, &given, NULL, NULL, o->report, &o->converted, &o->err);
    sw_report_sort(o->report);
}

static inline uint64_t bad_findings(const outcome *o)
{
    return sw_report_total(o->report, SW_DEFECT) + sw_report_total(o->report, SW_DANGER);
}

static inline void show_outcome(const outcome *o)
{
    print_error("status %s: %s\n", sw_status_name(o->status), o->err.text);
    for (size_t i = 0; i < sw_report_count(o->report); i++) {
        const sw_finding *f = sw_report_at(o->report, i);
        print_error("%s [%s] %s \"%s\": %s\n", sw_severity_name(f->severity), f->code, f->file,
                    f->tensor, f->message);
    }
}

static inline const sw_finding *find_finding(const outcome *o, const char *code, const char *file,
                                             const char *tensor)
{
    for (size_t i = 0; i < sw_report_count(o->report); i++) {
        const sw_finding *f = sw_report_at(o->report, i);
        if (strcmp(f->code, code) == 0 && (file == NULL || strcmp(f->file, file) == 0) &&
            (tensor == NULL || strcmp(f->tensor, tensor) == 0))
            return f;
    }
    return NULL;
}

/* The finding of that code, file and tensor (NULL: any); its message has the text. */
static inline const sw_finding *assert_found(const outcome *o, sw_severity severity,
                                             const char *code, const char *file, const char *tensor,
                                             const char *text)
{
    const sw_finding *f = find_finding(o, code, file, tensor);
    if (f == NULL || f->severity != severity || strstr(f->message, text) == NULL) {
        show_outcome(o);
        fail_msg("no %s [%s] %s \"%s\" with \"%s\"", sw_severity_name(severity), code,
                 file ? file : "*", tensor ? tensor : "*", text);
    }
    return f;
}

static inline void assert_fine(const outcome *o)
{
    if (o->status != SW_OK || bad_findings(o) > 0)
        show_outcome(o);
    assert_int_equal(o->status, SW_OK);
    assert_int_equal(bad_findings(o), 0);
}

/* The run failed with this status and text; `dest` (NULL: none) is not there. */
static inline void assert_run_refused(const outcome *o, sw_status status, const char *text,
                                      const char *dest)
{
    if (o->status != status || strstr(o->err.text, text) == NULL)
        show_outcome(o);
    assert_int_equal(o->status, status);
    assert_error(&o->err, status, text);
    if (dest != NULL)
        assert_false(harness_exists(dest));
}

/* One run of convert that must be refused so. */
static inline void assert_refuses(const char *source, const char *dest,
                                  const sw_convert_options *options, sw_status status,
                                  const char *text)
{
    outcome o;
    run_convert(source, dest, options, &o);
    assert_run_refused(&o, status, text, dest);
    outcome_free(&o);
}

static inline sw_checkpoint *open_good(const char *path)
{
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    const sw_open_options options = {.map = fixture_model.map};
    assert_ok(sw_checkpoint_open(path, &options, NULL, &c, &err), &err);
    return c;
}

/* All elements of the tensor as floats (it must be float32); free them. */
static inline float *read_floats(const sw_checkpoint *c, const char *name, sw_tensor_info *info)
{
    sw_error err = {0};
    int64_t at = sw_catalog_find(sw_checkpoint_catalog(c), name);
    if (at < 0)
        fail_msg("no tensor %s", name);
    assert_true(sw_catalog_tensor(sw_checkpoint_catalog(c), (size_t)at, info));
    assert_int_equal(info->dtype, SW_F32);
    float *data = calloc(info->elements + 1, sizeof *data);
    assert_non_null(data);
    assert_ok(sw_checkpoint_read(c, (size_t)at, 0, info->elements, data, &err), &err);
    return data;
}

/* The float32 tensor has this shape and element i is base + i. */
static inline void assert_ramp(const char *path, const char *name, uint32_t axes,
                               const int64_t *shape, float base)
{
    sw_checkpoint *c = open_good(path);
    sw_tensor_info info;
    float *data = read_floats(c, name, &info);
    assert_int_equal(info.axes, axes);
    for (uint32_t k = 0; k < axes; k++)
        assert_int_equal(info.shape[k], shape[k]);
    for (uint64_t i = 0; i < info.elements; i++)
        if (data[i] != base + (float)i)
            fail_msg("%s: element %llu is %g", name, (unsigned long long)i, (double)data[i]);
    free(data);
    sw_checkpoint_close(c);
}

static inline void make_demo(const char *dest)
{
    sw_error err = {0};
    assert_ok(sw_demo(dest, &err), &err);
}

/* ---- folders ------------------------------------------------------------------------------- */

#define FILES_MAX 64

typedef struct folder_files {
    char names[FILES_MAX][128];
    size_t count;
} folder_files;

static inline int name_order(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Names of the files of a folder, sorted; folders in it are left out. */
static inline folder_files list_files(const char *dir)
{
    folder_files out = {0};
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (e->d_type == DT_DIR)
            continue;
        assert_true(out.count < FILES_MAX);
        snprintf(out.names[out.count++], sizeof out.names[0], "%.127s", e->d_name);
    }
    closedir(d);
    qsort(out.names, out.count, sizeof out.names[0], name_order);
    return out;
}

static inline bool same_file(const char *a, const char *b)
{
    size_t n, m;
    uint8_t *p = harness_read(a, &n), *q = harness_read(b, &m);
    bool same = n == m && memcmp(p, q, n) == 0;
    free(p);
    free(q);
    return same;
}

static inline void assert_same_folder(const char *a, const char *b)
{
    folder_files x = list_files(a), y = list_files(b);
    assert_int_equal(x.count, y.count);
    for (size_t i = 0; i < x.count; i++) {
        assert_string_equal(x.names[i], y.names[i]);
        if (!same_file(harness_path(a, "%s", x.names[i]), harness_path(b, "%s", x.names[i])))
            fail_msg("%s of %s and %s differ", x.names[i], a, b);
    }
}

/* How many entries of the folder's parent begin with NAME.partial-: what killed runs left. */
static inline size_t count_partials(const char *dir, const char *name)
{
    char start[160];
    size_t count = 0;
    int n = snprintf(start, sizeof start, "%s.partial-", name);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        count += strncmp(e->d_name, start, (size_t)n) == 0;
    closedir(d);
    return count;
}

/* ---- safetensors from text ------------------------------------------------------------------ */

/* A file of this header (JSON) and `bytes` bytes of float32 0, 1, 2 ... plus base. */
static inline void write_st(const char *path, const char *header, size_t bytes, float base)
{
    size_t n = strlen(header), size = 8 + n + bytes;
    uint8_t *data = calloc(size, 1);
    assert_non_null(data);
    for (int i = 0; i < 8; i++)
        data[i] = (uint8_t)((uint64_t)n >> (8 * i));
    memcpy(data + 8, header, n);
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        float v = base + (float)(i / 4);
        memcpy(data + 8 + n + i, &v, 4);
    }
    harness_write(path, data, size);
    free(data);
}

/* A file of one float32 tensor of `rows` x `columns`. */
static inline void write_st_one(const char *path, const char *name, int rows, int columns,
                                float base)
{
    char header[256];
    int bytes = rows * columns * 4;
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}", name, rows,
             columns, bytes);
    write_st(path, header, (size_t)bytes, base);
}

/* ---- DCP folders ---------------------------------------------------------------------------- */

#define DCP_RANKS 128
#define DCP_ITEMS 64
#define DCP_CHUNKS 128
#define DCP_PARTS 6

typedef struct dcp_item {
    char key[128];
    char path[DCP_PARTS][96];
    const char *parts[DCP_PARTS];
    size_t path_count;
    bool is_object;
    sw_dtype dtype; /* another than float32 is all zeros */
    uint32_t axes;
    int64_t shape[4];
    float base;
    int64_t offset[DCP_CHUNKS][4], length[DCP_CHUNKS][4];
    int rank[DCP_CHUNKS];
    swi_dcp_write_chunk chunks[DCP_CHUNKS];
    size_t chunk_count;
} dcp_item;

/* A DCP folder that is being made: float32 tensors whose element i is base + i. */
typedef struct dcp_world {
    dcp_item *items;
    size_t count;
    swi_buf files[DCP_RANKS];
    char names[DCP_RANKS][32];
} dcp_world;

static inline dcp_world *dcp_begin(void)
{
    dcp_world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->items = calloc(DCP_ITEMS, sizeof *w->items);
    assert_non_null(w->items);
    for (int r = 0; r < DCP_RANKS; r++)
        snprintf(w->names[r], sizeof w->names[r], "__%d_0.distcp", r);
    return w;
}

/* `path`: the parts of the key in the nested state dict, between '/', with '#' before positions in
 * lists: "model/layers.0.weight", "optimizer/param_groups/#0/lr". */
static inline dcp_item *dcp_key(dcp_world *w, const char *path)
{
    assert_true(w->count < DCP_ITEMS);
    dcp_item *it = &w->items[w->count++];
    for (const char *p = path; *p != '\0' && it->path_count < DCP_PARTS;) {
        size_t n = strcspn(p, "/");
        snprintf(it->path[it->path_count], sizeof it->path[0], "%.*s", (int)n, p);
        it->parts[it->path_count] = it->path[it->path_count];
        it->path_count++;
        p += n + (p[n] == '/');
    }
    size_t size = 0;
    for (const char *p = path; *p != '\0' && size + 1 < sizeof it->key; p++)
        if (*p != '#')
            it->key[size++] = *p == '/' ? '.' : *p;
    return it;
}

static inline dcp_item *dcp_tensor(dcp_world *w, const char *path, uint32_t axes,
                                   const int64_t *shape, float base)
{
    dcp_item *it = dcp_key(w, path);
    it->dtype = SW_F32;
    it->axes = axes;
    it->base = base;
    for (uint32_t k = 0; k < axes; k++)
        it->shape[k] = shape[k];
    return it;
}

/* A box of the tensor, stored by a rank with the values that belong there. */
static inline void dcp_chunk(dcp_world *w, dcp_item *it, int rank, const int64_t *offset,
                             const int64_t *length)
{
    sw_error err = {0};
    assert_true(it->chunk_count < DCP_CHUNKS && rank < DCP_RANKS);
    size_t c = it->chunk_count++, n = 1;
    for (uint32_t k = 0; k < it->axes; k++) {
        it->offset[c][k] = offset[k];
        it->length[c][k] = length[k];
        n *= (size_t)length[k];
    }
    float *data = calloc(n + 1, 16);
    assert_non_null(data);
    for (size_t i = 0; i < n && it->dtype == SW_F32; i++) {
        uint64_t flat = 0, rest = i, at[4] = {0};
        for (uint32_t k = it->axes; k-- > 0; rest /= (uint64_t)length[k])
            at[k] = (uint64_t)offset[k] + rest % (uint64_t)length[k];
        for (uint32_t k = 0; k < it->axes; k++)
            flat = flat * (uint64_t)it->shape[k] + at[k];
        data[i] = it->base + (float)flat;
    }
    uint64_t start = w->files[rank].size;
    assert_ok(swi_torch_write_tensor(&w->files[rank], it->dtype, it->axes, length, data, &err),
              &err);
    free(data);
    it->rank[c] = rank;
    it->chunks[c] = (swi_dcp_write_chunk){.offset = it->offset[c],
                                          .length = it->length[c],
                                          .path = w->names[rank],
                                          .offset_bytes = start,
                                          .stored_bytes = w->files[rank].size - start};
}

/* The whole tensor by one rank. */
static inline dcp_item *dcp_whole(dcp_world *w, const char *path, int rank, uint32_t axes,
                                  const int64_t *shape, float base)
{
    static const int64_t zero[4] = {0};
    dcp_item *it = dcp_tensor(w, path, axes, shape, base);
    dcp_chunk(w, it, rank, zero, shape);
    return it;
}

static inline sw_status emit_int(void *ctx, swi_pickle_writer *writer, sw_error *err)
{
    return swi_pickle_int(writer, *(const int64_t *)ctx, err);
}

static inline void dcp_object(dcp_world *w, const char *path, int rank, swi_emit_fn emit, void *ctx)
{
    sw_error err = {0};
    dcp_item *it = dcp_key(w, path);
    it->is_object = true;
    uint64_t start = w->files[rank].size;
    assert_ok(swi_torch_write_value(&w->files[rank], emit, ctx, &err), &err);
    it->rank[0] = rank;
    it->chunks[it->chunk_count++] = (swi_dcp_write_chunk){
        .path = w->names[rank], .offset_bytes = start, .stored_bytes = w->files[rank].size - start};
}

/* The index of what rank `only` wrote (-1: of all), as `name` in the folder. */
static inline void dcp_write_index(dcp_world *w, const char *dir, const char *name, int only)
{
    swi_dcp_write_item items[DCP_ITEMS];
    sw_error err = {0};
    swi_buf out = {0};
    size_t count = 0;
    for (size_t i = 0; i < w->count; i++) {
        dcp_item *it = &w->items[i];
        size_t first = 0, n = it->chunk_count;
        if (only >= 0) {
            while (first < it->chunk_count && it->rank[first] != only)
                first++;
            for (n = 0; first + n < it->chunk_count && it->rank[first + n] == only;)
                n++;
            if (n == 0)
                continue;
        }
        items[count++] = (swi_dcp_write_item){.name = it->key,
                                              .path_parts = it->parts,
                                              .path_count = it->path_count,
                                              .is_object = it->is_object,
                                              .dtype = it->dtype,
                                              .axes = it->axes,
                                              .shape = it->shape,
                                              .chunks = &it->chunks[first],
                                              .chunk_count = n};
    }
    assert_ok(swi_dcp_meta_write(&out, items, count, &err), &err);
    harness_write(harness_path(dir, "%s", name), out.data, out.size);
    swi_buf_free(&out);
}

static inline void dcp_write_files(dcp_world *w, const char *dir)
{
    for (int r = 0; r < DCP_RANKS; r++)
        if (w->files[r].size > 0)
            harness_write(harness_path(dir, "%s", w->names[r]), w->files[r].data, w->files[r].size);
}

static inline void dcp_free(dcp_world *w)
{
    for (int r = 0; r < DCP_RANKS; r++)
        swi_buf_free(&w->files[r]);
    free(w->items);
    free(w);
}

/* Files and `.metadata`; ends the world. */
static inline void dcp_end(dcp_world *w, const char *dir)
{
    dcp_write_files(w, dir);
    dcp_write_index(w, dir, ".metadata", -1);
    dcp_free(w);
}

#endif
