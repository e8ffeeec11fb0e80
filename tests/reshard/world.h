/*
 * Synthetic checkpoints for the tests of reshard: tensors whose elements are a hash of tensor and
 * flat index, cut by random meshes into pieces of every kind that a catalog can hold, in files of a
 * memory store. Everything is built from the definitions, without the code under test.
 */
#ifndef RESHARD_WORLD_H
#define RESHARD_WORLD_H

#include "harness/harness.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/crc32.h"
#include "execute_parts.h"
#include "io/filecache.h"
#include "io/store.h"
#include "layout.h"
#include "model/catalog.h"

#define WORLD_TENSORS_MAX 8
#define WORLD_RECORDS_MAX 32768
#define WORLD_FILES 4

typedef struct world_tensor {
    char name[32];
    sw_dtype dtype;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    uint64_t elements;
    int64_t repeat[SW_MAX_AXES]; /* on each axis so many elements are one that is stored; 0: not */
} world_tensor;

/* What the test's kind of blob says of a record; blob.aux is its index. */
typedef struct world_record {
    uint32_t crc;
    bool has_crc;
    bool swap;
    bool strided;
    bool encoded;        /* behind a prefix, each byte changed; `crc` vouches for it */
    atomic_uint decoded; /* how often */
    uint64_t start;
    uint64_t stored;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    int64_t stride[SW_MAX_AXES];
} world_record;

static world_record world_records[WORLD_RECORDS_MAX];
static uint32_t world_record_count;

typedef struct world {
    harness_prng prng;
    uint32_t count;
    world_tensor tensors[WORLD_TENSORS_MAX];
    swi_store *store;
    sw_catalog *catalog;
    swi_filecache *cache;
    swi_source source;
    bool crc;      /* records with CRC */
    bool encoded;  /* records that are read whole and decoded */
    bool strided;  /* records with strides and the other byte order */
    bool replicas; /* some pieces twice */
    bool plain;    /* dense pieces in the shape's own view; those of a layout in turns of files */
    bool late;     /* a layout asks for sums and ends each file with them */
    const int64_t *fixed_parts; /* how axes are cut; NULL: at random */
} world;

static inline uint64_t world_below(world *w, uint64_t n)
{
    return harness_random_below(&w->prng, n);
}

/* The bits of an element. */
static inline uint64_t world_value(uint32_t tensor, uint64_t flat)
{
    harness_prng prng = {.state = (uint64_t)tensor << 40 ^ flat};
    return harness_random(&prng);
}

/* The flat index of the first element that is stored as the same one. */
static inline uint64_t world_stored(const world_tensor *t, uint64_t flat)
{
    uint64_t stored = 0, stride = 1;
    for (uint32_t k = t->axes; k > 0; k--) {
        uint64_t size = (uint64_t)t->shape[k - 1], each = (uint64_t)t->repeat[k - 1];
        stored += flat % size / each * each * stride;
        flat /= size;
        stride *= size;
    }
    return stored;
}

static inline void world_put(uint8_t *at, const world_tensor *t, uint32_t id, uint64_t flat)
{
    if (t->repeat[0] != 0)
        flat = world_stored(t, flat);
    uint64_t v[2] = {world_value(id, flat), ~world_value(id, flat)};
    memcpy(at, v, sw_dtype_bytes(t->dtype));
}

/* ---- shapes --------------------------------------------------------------------------------- */

static inline void world_tensor_make(world *w, uint32_t id)
{
    static const sw_dtype types[] = {SW_U8, SW_BF16, SW_F32, SW_I64, SW_C128, SW_F16, SW_BOOL};
    world_tensor *t = &w->tensors[id];
    (void)snprintf(t->name, sizeof t->name, "t%u", id);
    t->dtype = types[world_below(w, 7)];
    t->axes = (uint32_t)world_below(w, 5);
    t->elements = 1;
    for (uint32_t k = 0; k < t->axes; k++) {
        t->shape[k] = (int64_t)world_below(w, 13) + (world_below(w, 20) != 0);
        t->elements *= (uint64_t)t->shape[k];
    }
}

/* The cuts of an axis: torch.chunk in n, tails and empty ones as they come. */
static inline void world_chunk(int64_t size, int64_t n, int64_t i, int64_t *at, int64_t *length)
{
    int64_t step = (size + n - 1) / n;
    *at = step * i < size ? step * i : size;
    *length = size - *at < step ? size - *at : step;
}

typedef struct world_cut { /* one box of the grid that cuts a tensor */
    int64_t offset[SW_MAX_AXES];
    int64_t length[SW_MAX_AXES];
} world_cut;

/* A random grid: rows, columns or several axes; returns how many boxes. */
static inline uint32_t world_grid(world *w, const world_tensor *t, int64_t parts[SW_MAX_AXES])
{
    uint32_t count = 1;
    for (uint32_t k = 0; k < t->axes; k++) {
        parts[k] = world_below(w, 2) != 0 ? 1 : (int64_t)world_below(w, 5) + 1;
        if (w->fixed_parts != NULL)
            parts[k] = w->fixed_parts[k];
        count *= (uint32_t)parts[k];
    }
    return count;
}

static inline void world_cut_at(const world_tensor *t, const int64_t parts[SW_MAX_AXES], uint32_t n,
                                world_cut *cut)
{
    for (uint32_t k = t->axes; k > 0; k--) {
        world_chunk(t->shape[k - 1], parts[k - 1], n % (uint32_t)parts[k - 1], &cut->offset[k - 1],
                    &cut->length[k - 1]);
        n /= (uint32_t)parts[k - 1];
    }
}

/*
 * The piece of a cut in a view: the shape itself, sometimes with an axis split in two (when the cut
 * is whole in it) or with neighbours joined.
 */
static inline void world_view(world *w, const world_tensor *t, const world_cut *cut, swi_piece *p)
{
    *p = (swi_piece){0};
    for (uint32_t k = 0; k < t->axes; k++) {
        int64_t size = t->shape[k], half = size % 2 == 0 ? 2 : size % 3 == 0 ? 3 : 1;
        bool whole = cut->length[k] == size && !w->plain;
        if (whole && half > 1 && p->axes + 2 < SW_MAX_AXES && world_below(w, 4) == 0) {
            p->view[p->axes] = p->length[p->axes] = size / half;
            p->view[p->axes + 1] = p->length[p->axes + 1] = half;
            p->axes += 2;
            continue;
        }
        if (whole && k > 0 && size > 0 && p->axes > 0 && world_below(w, 4) == 0) {
            p->view[p->axes - 1] *= size;
            p->offset[p->axes - 1] *= size;
            p->length[p->axes - 1] *= size;
            continue;
        }
        p->view[p->axes] = size;
        p->offset[p->axes] = cut->offset[k];
        p->length[p->axes] = cut->length[k];
        p->axes++;
    }
}

/* Strides in a random order of axes; with `gaps` some bytes stay free. Returns bytes needed. */
static inline uint64_t world_strides(world *w, swi_piece *p, uint32_t element_bytes, bool gaps)
{
    uint32_t order[SW_MAX_AXES];
    for (uint32_t k = 0; k < p->axes; k++)
        order[k] = p->axes - 1 - k;
    for (uint32_t k = 0; !w->plain && k + 1 < p->axes && world_below(w, 2) == 0; k++) {
        uint32_t j = (uint32_t)world_below(w, p->axes);
        uint32_t swap = order[k];
        order[k] = order[j];
        order[j] = swap;
    }
    uint64_t bytes = element_bytes;
    for (uint32_t n = 0; n < p->axes; n++) {
        uint32_t k = order[n];
        if (gaps && world_below(w, 4) == 0)
            bytes += element_bytes * world_below(w, 3);
        p->stride_bytes[k] = (int64_t)bytes;
        bytes *= (uint64_t)p->length[k];
    }
    /* Now and then an axis that runs backwards. */
    for (uint32_t k = 0; gaps && bytes > 0 && k < p->axes; k++) {
        if (world_below(w, 4) != 0)
            continue;
        p->base_bytes += p->stride_bytes[k] * (p->length[k] - 1);
        p->stride_bytes[k] = -p->stride_bytes[k];
    }
    return bytes;
}

/* Calls fn for every element of the piece with its flat index and its byte in the blob. */
typedef void (*world_element_fn)(void *ctx, uint64_t flat, uint64_t byte);
static inline void world_each(const swi_piece *p, world_element_fn fn, void *ctx)
{
    int64_t at[SW_MAX_AXES] = {0};
    for (uint32_t k = 0; k < p->axes; k++)
        if (p->length[k] == 0)
            return;
    for (;;) {
        uint64_t flat = 0;
        int64_t byte = p->base_bytes;
        for (uint32_t k = 0; k < p->axes; k++) {
            flat = flat * (uint64_t)p->view[k] + (uint64_t)(p->offset[k] + at[k]);
            byte += at[k] * p->stride_bytes[k];
        }
        fn(ctx, flat, (uint64_t)byte);
        uint32_t k = p->axes;
        while (k > 0 && ++at[k - 1] == p->length[k - 1])
            at[--k] = 0;
        if (k == 0)
            return;
    }
}

/* ---- the test's kind of blob ------------------------------------------------------------------
 */

static inline sw_status world_resolve(const swi_blob *blob, const swi_reader *reader,
                                      const swi_blob_want *want, swi_extent *out, sw_error *err)
{
    const world_record *r = &world_records[blob->aux];
    (void)reader;
    (void)err;
    *out = (swi_extent){
        .file = blob->file,
        .offset_bytes = blob->offset_bytes,
        .stored_bytes = r->stored,
        .has_crc = r->has_crc && !r->encoded,
        .encoded = r->encoded,
        .crc32 = r->crc,
        .swap = r->swap,
        .dtype = want->dtype,
        .strided = r->strided,
        .start_bytes = r->start,
        .axes = r->axes,
    };
    memcpy(out->shape, r->shape, sizeof out->shape);
    memcpy(out->stride_bytes, r->stride, sizeof out->stride_bytes);
    return SW_OK;
}

static inline sw_status world_check(const swi_blob *blob, const swi_reader *reader,
                                    const swi_blob_label *label, uint8_t *buffer,
                                    size_t buffer_bytes, sw_report *report, swi_blob_check *tally,
                                    sw_error *err)
{
    const world_record *r = &world_records[blob->aux];
    uint32_t crc = 0;
    for (uint64_t done = 0; done < r->stored;) {
        size_t n = r->stored - done < buffer_bytes ? (size_t)(r->stored - done) : buffer_bytes;
        sw_status status =
            reader->read(reader, blob->file, blob->offset_bytes + done, buffer, n, err);
        if (status != SW_OK)
            return status;
        crc = swi_crc32(crc, buffer, n);
        done += n;
    }
    if (!r->has_crc && !r->encoded) {
        tally->unchecked_bytes += r->stored;
        return SW_OK;
    }
    if (crc == r->crc) {
        tally->checked_bytes += r->stored;
        return SW_OK;
    }
    const swi_finding_in in = {SW_DEFECT,   SW_ERR_CORRUPT, "crc-mismatch",    label->file,
                               label->name, true,           blob->offset_bytes};
    return swi_report_add(report, &in, err, "crc is %08x, expected %08x", crc, r->crc);
}

#define WORLD_PREFIX 3U

static inline uint8_t world_code(uint64_t i)
{
    return (uint8_t)(0xa7 ^ (i * 29));
}

static inline sw_status world_decode(const swi_blob *blob, const uint8_t *stored, uint8_t *out,
                                     sw_error *err)
{
    world_record *r = &world_records[blob->aux];
    uint32_t crc = swi_crc32(0, stored, r->stored);
    (void)atomic_fetch_add(&r->decoded, 1);
    if (crc != r->crc)
        return swi_fail(err, SW_ERR_CORRUPT, "crc is %08x, expected %08x", crc, r->crc);
    for (uint64_t i = 0; i < blob->bytes; i++)
        out[i] = stored[WORLD_PREFIX + i] ^ world_code(i);
    return SW_OK;
}

static const swi_blob_ops world_ops = {
    .kind = "test", .resolve = world_resolve, .check = world_check, .load_value = NULL};
static const swi_blob_ops world_encoded_ops = {.kind = "test-encoded",
                                               .resolve = world_resolve,
                                               .check = world_check,
                                               .decode = world_decode,
                                               .load_value = NULL};

/* ---- building a source ------------------------------------------------------------------------
 */

typedef struct world_fill {
    uint8_t *bytes;
    const world_tensor *t;
    uint32_t id;
} world_fill;

static inline void world_fill_one(void *ctx, uint64_t flat, uint64_t byte)
{
    const world_fill *f = ctx;
    world_put(f->bytes + byte, f->t, f->id, flat);
}

typedef struct world_builder {
    swi_builder *builder;
    swi_file *files[WORLD_FILES];
    uint64_t at[WORLD_FILES];
    uint32_t file_ids[WORLD_FILES];
} world_builder;

static inline void world_write(world_builder *b, uint32_t file, const void *data, size_t size)
{
    sw_error err = {0};
    assert_ok(swi_file_write(b->files[file], b->at[file], data, size, &err), &err);
    b->at[file] += size;
}

static inline uint8_t *world_encode(const uint8_t *dense, uint64_t bytes, world_record *r)
{
    r->encoded = true;
    r->stored = WORLD_PREFIX + bytes;
    uint8_t *record = calloc(1, r->stored);
    assert_non_null(record);
    for (uint64_t i = 0; i < bytes; i++)
        record[WORLD_PREFIX + i] = dense[i] ^ world_code(i);
    return record;
}

/*
 * The dense bytes of a blob as a record: encoded, permuted with gaps and swapped, or as they are.
 */
static inline uint8_t *world_make_record(world *w, const world_tensor *t, const uint8_t *dense,
                                         uint64_t bytes, world_record *r)
{
    uint32_t es = sw_dtype_bytes(t->dtype), unit = sw_dtype_swap_bytes(t->dtype);
    uint64_t elements = bytes / es;
    swi_piece shape = {.axes = 2, .view = {1, (int64_t)elements}};
    *r = (world_record){.stored = bytes};
    if (w->encoded && (w->plain || world_below(w, 4) != 0))
        return world_encode(dense, bytes, r);
    if (!w->strided || world_below(w, 2) == 0) {
        uint8_t *copy = malloc(bytes);
        assert_non_null(copy);
        memcpy(copy, dense, bytes);
        return copy;
    }
    for (int64_t n = 2; n < 9; n++)
        if (elements % (uint64_t)n == 0)
            shape.view[0] = n;
    shape.view[1] = (int64_t)elements / shape.view[0];
    memcpy(shape.length, shape.view, sizeof shape.length);
    uint64_t room = world_strides(w, &shape, es, true);
    r->strided = true;
    r->swap = world_below(w, 2) == 0;
    r->start = world_below(w, 3) * es + (uint64_t)shape.base_bytes;
    r->stored = room + r->start - (uint64_t)shape.base_bytes;
    r->axes = 2;
    memcpy(r->shape, shape.view, sizeof r->shape);
    memcpy(r->stride, shape.stride_bytes, sizeof r->stride);
    uint8_t *record = calloc(1, r->stored);
    assert_non_null(record);
    for (uint64_t e = 0; e < elements; e++) {
        uint64_t i = e / (uint64_t)shape.view[1], j = e % (uint64_t)shape.view[1];
        int64_t from_start = (int64_t)i * r->stride[0] + (int64_t)j * r->stride[1];
        uint8_t *at = record + (int64_t)r->start + from_start;
        for (uint32_t k = 0; k < es; k++)
            at[k] = dense[e * es + (r->swap ? k / unit * unit + unit - 1 - k % unit : k)];
    }
    return record;
}

/* Outer axes of blocks, inner ones of no stride; the blocks divide the shape. Returns bytes. */
static inline uint64_t world_repeated(const world_tensor *t, swi_piece *p)
{
    uint64_t bytes = sw_dtype_bytes(t->dtype);
    *p = (swi_piece){.axes = 2 * t->axes};
    for (uint32_t k = t->axes; k > 0; k--) {
        p->view[2 * k - 1] = p->length[2 * k - 1] = t->repeat[k - 1];
        p->view[2 * k - 2] = p->length[2 * k - 2] = t->shape[k - 1] / t->repeat[k - 1];
        p->stride_bytes[2 * k - 2] = (int64_t)bytes;
        bytes *= (uint64_t)p->length[2 * k - 2];
    }
    return bytes;
}

/* A piece in a view and strides of its own. */
static inline uint64_t world_cut_piece(world *w, const world_tensor *t, const world_cut *cut,
                                       swi_piece *p)
{
    world_view(w, t, cut, p);
    return world_strides(w, p, sw_dtype_bytes(t->dtype), !w->plain && world_below(w, 4) == 0);
}

static inline void world_add_piece(world *w, world_builder *b, uint32_t tensor, uint32_t id,
                                   const world_cut *cut)
{
    const world_tensor *t = &w->tensors[id];
    sw_error err = {0};
    swi_piece p;
    uint64_t bytes = t->repeat[0] != 0 ? world_repeated(t, &p) : world_cut_piece(w, t, cut, &p);
    if (bytes == 0)
        return;
    uint8_t *dense = calloc(1, bytes);
    assert_non_null(dense);
    world_fill fill = {.bytes = dense, .t = t, .id = id};
    world_each(&p, world_fill_one, &fill);
    uint32_t file = (uint32_t)world_below(w, WORLD_FILES);
    uint8_t junk[7] = {1, 2, 3, 4, 5, 6, 7};
    world_write(b, file, junk, world_below(w, 8));
    assert_true(world_record_count < WORLD_RECORDS_MAX);
    world_record *r = &world_records[world_record_count];
    uint8_t *record = world_make_record(w, t, dense, bytes, r);
    r->has_crc = w->crc;
    r->crc = swi_crc32(0, record, r->stored);
    bool plain = !w->crc && !r->strided;
    swi_blob blob = {
        .ops = r->encoded ? &world_encoded_ops
               : plain    ? &swi_blob_slice
                          : &world_ops,
        .file = b->file_ids[file],
        .aux = world_record_count++,
        .offset_bytes = b->at[file],
        .stored_bytes = r->stored,
        .bytes = bytes,
    };
    world_write(b, file, record, r->stored);
    assert_ok(swi_builder_blob(b->builder, &blob, &p.blob, &err), &err);
    assert_ok(swi_builder_piece(b->builder, tensor, &p, &err), &err);
    free(dense);
    free(record);
}

static inline void world_add_tensor(world *w, world_builder *b, uint32_t id)
{
    const world_tensor *t = &w->tensors[id];
    sw_error err = {0};
    uint32_t tensor;
    swi_tensor_in in = {t->name, strlen(t->name), t->dtype, t->axes, t->shape, SW_ROLE_PARAMETER};
    assert_ok(swi_builder_tensor(b->builder, &in, &tensor, &err), &err);
    int64_t parts[SW_MAX_AXES];
    uint32_t count = world_grid(w, t, parts);
    if (t->repeat[0] != 0)
        count = 1;
    if (w->replicas)
        swi_builder_allow_replicas(b->builder, tensor);
    for (uint32_t n = 0; n < count; n++) {
        world_cut cut;
        world_cut_at(t, parts, n, &cut);
        world_add_piece(w, b, tensor, id, &cut);
        for (uint32_t again = 0; w->replicas && again < world_below(w, 3); again++) {
            swi_piece p = {0};
            (void)p;
            world_add_piece(w, b, tensor, id, &cut);
        }
    }
}

static inline const char *world_path(uint32_t file)
{
    static const char *const paths[WORLD_FILES] = {"a/f0", "a/f1", "b/f2", "f3"};
    return paths[file];
}

/* Opens the source of a world whose tensors are set, while another one is open. */
static inline void world_build_beside(world *w)
{
    sw_error err = {0};
    world_builder b = {0};
    sw_limits limits = sw_limits_resolve(NULL);
    assert_ok(swi_store_open_memory(&w->store, &err), &err);
    assert_ok(swi_builder_make(&limits, &b.builder, &err), &err);
    for (uint32_t f = 0; f < WORLD_FILES; f++) {
        assert_ok(swi_store_create(w->store, world_path(f), &b.files[f], &err), &err);
        assert_ok(swi_builder_file(b.builder, world_path(f), UINT32_MAX, &b.file_ids[f], &err),
                  &err);
    }
    for (uint32_t id = 0; id < w->count; id++)
        world_add_tensor(w, &b, id);
    for (uint32_t f = 0; f < WORLD_FILES; f++) {
        assert_ok(swi_file_sync(b.files[f], &err), &err);
        swi_file_close(b.files[f]);
    }
    sw_report *report = NULL;
    assert_ok(sw_report_make(&report, &err), &err);
    assert_ok(swi_builder_freeze(b.builder, report, &w->catalog, &err), &err);
    for (uint32_t id = 0; id < w->count; id++)
        if (swi_tensor_defect(w->catalog, id) != SW_OK)
            fail_msg("the test's own catalog: %s", sw_report_at(report, 0)->message);
    sw_report_free(report);
    assert_ok(swi_filecache_make(w->store, WORLD_FILES, swi_catalog_path_of, w->catalog, &limits,
                                 &w->cache, &err),
              &err);
    w->source = (swi_source){.catalog = w->catalog, .reader = swi_filecache_reader(w->cache)};
}

static inline void world_build(world *w)
{
    world_record_count = 0;
    world_build_beside(w);
}

static inline void world_make(world *w, uint64_t seed)
{
    w->prng.state = seed;
    w->count = 1 + (uint32_t)world_below(w, WORLD_TENSORS_MAX);
    for (uint32_t id = 0; id < w->count; id++)
        world_tensor_make(w, id);
    world_build(w);
}

static inline void world_free(world *w)
{
    swi_filecache_free(w->cache);
    sw_catalog_free(w->catalog);
    swi_store_close(w->store);
}

/* ---- a target ------------------------------------------------------------------------------- */

/* Writes into a store; counts what is asked of it. */
typedef struct world_sink {
    swi_store *store;
    const swi_layout *layout;
    uint32_t opened, finished;
    uint32_t last_finished;
    bool done[64];
    swi_sink sink;
} world_sink;

static inline sw_status world_sink_open(void *ctx, uint32_t file, swi_file **out, sw_error *err)
{
    world_sink *s = ctx;
    const sw_catalog *catalog = swi_layout_catalog(s->layout);
    swi_file *f = NULL;
    sw_status status = swi_store_create(s->store, swi_catalog_path(catalog, file), &f, err);
    if (status == SW_OK)
        status = swi_file_reserve(f, swi_catalog_file_bytes(catalog, file), err);
    if (status != SW_OK) {
        swi_file_close(f);
        return status;
    }
    s->opened++;
    *out = f;
    return SW_OK;
}

static inline sw_status world_sink_finish(void *ctx, uint32_t file, swi_file *written,
                                          sw_error *err)
{
    world_sink *s = ctx;
    sw_status status = swi_file_sync(written, err);
    swi_file_close(written);
    s->finished++;
    s->last_finished = file;
    if (file < 64)
        s->done[file] = true;
    return status;
}

static inline void world_sink_make(world_sink *s, const swi_layout *layout)
{
    sw_error err = {0};
    *s = (world_sink){.layout = layout};
    assert_ok(swi_store_open_memory(&s->store, &err), &err);
    s->sink = (swi_sink){.ctx = s, .open = world_sink_open, .finish = world_sink_finish};
}

typedef struct world_target {
    uint64_t at; /* of the piece that is laid out next */
    uint32_t file;
    swi_piece piece;
    uint32_t tensor;
    uint64_t bytes;
} world_target;

#define WORLD_TARGETS_MAX 2048

/* Two passes: the first finds the sizes of the files. */
typedef struct world_plan {
    world_target items[WORLD_TARGETS_MAX];
    uint32_t count;
    uint64_t size[WORLD_FILES];
    struct {
        uint32_t file;
        uint64_t at, size;
    } gaps[WORLD_TARGETS_MAX];
    uint32_t gap_count;
} world_plan;

static inline void world_place(world *w, world_plan *plan, uint32_t id, const world_cut *cut)
{
    const world_tensor *t = &w->tensors[id];
    swi_piece p;
    world_view(w, t, cut, &p);
    uint64_t bytes = world_strides(w, &p, sw_dtype_bytes(t->dtype), false);
    /* The last file stays empty. */
    uint32_t file = (uint32_t)world_below(w, WORLD_FILES - 1);
    if (w->plain)
        file = plan->count % 2;
    if (bytes == 0)
        return;
    uint64_t gap = world_below(w, 3) == 0 ? world_below(w, 20) : 0;
    if (gap > 0) {
        plan->gaps[plan->gap_count].file = file;
        plan->gaps[plan->gap_count].at = plan->size[file];
        plan->gaps[plan->gap_count++].size = gap;
        plan->size[file] += gap;
    }
    assert_true(plan->count < WORLD_TARGETS_MAX);
    plan->items[plan->count++] = (world_target){plan->size[file], file, p, id, bytes};
    plan->size[file] += bytes;
}

#define WORLD_SUMS 6

/* The sums, little-endian. */
static inline sw_status world_make_late(void *ctx, const uint32_t *sums, uint8_t *out, size_t size,
                                        sw_error *err)
{
    (void)ctx;
    (void)err;
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)(sums[i / 4] >> (8 * (i % 4)));
    return SW_OK;
}

/* Of random ranges, some empty, some touching. They end what is `size` bytes long so far. */
static inline void world_add_late(world *w, swi_layout *layout, uint32_t file, uint64_t size)
{
    sw_error err = {0};
    uint64_t at = 0;
    swi_late late = {.offset_bytes = size, .size = 4 * WORLD_SUMS, .make = world_make_late};
    for (uint32_t i = 0; i < WORLD_SUMS; i++) {
        uint32_t sum;
        at += world_below(w, 2) * world_below(w, (size - at) / 2 + 1);
        uint64_t bytes = world_below(w, size - at + 1);
        assert_ok(swi_layout_sum(layout, file, at, bytes, &sum, &err), &err);
        assert_int_equal(sum, i);
        at += bytes;
    }
    assert_ok(swi_layout_late(layout, file, &late, &err), &err);
}

/* A random layout of the world's tensors; types may differ (see `dtypes`, may be NULL). */
static inline swi_layout *world_layout(world *w)
{
    static world_plan plan;
    sw_error err = {0};
    swi_layout *layout = NULL;
    plan = (world_plan){0};
    assert_ok(swi_layout_make(NULL, &layout, &err), &err);
    for (uint32_t id = 0; id < w->count; id++) {
        const world_tensor *t = &w->tensors[id];
        swi_tensor_in in = {t->name, strlen(t->name), t->dtype,
                            t->axes, t->shape,        SW_ROLE_PARAMETER};
        uint32_t tensor;
        int64_t parts[SW_MAX_AXES];
        assert_ok(swi_layout_tensor(layout, &in, id, &tensor, &err), &err);
        uint32_t count = world_grid(w, t, parts);
        for (uint32_t n = 0; n < count; n++) {
            world_cut cut;
            world_cut_at(t, parts, n, &cut);
            world_place(w, &plan, id, &cut);
        }
    }
    for (uint32_t f = 0; f < WORLD_FILES; f++) {
        uint32_t file;
        uint64_t more = w->late ? 4 * WORLD_SUMS : 0;
        assert_ok(swi_layout_file(layout, world_path(f), plan.size[f] + more, &file, &err), &err);
        if (w->late)
            world_add_late(w, layout, file, plan.size[f]);
    }
    for (uint32_t i = 0; i < plan.gap_count; i++) {
        uint8_t text[20];
        memset(text, 0x40 + (int)(i % 64), sizeof text);
        if (i % 2 == 0)
            assert_ok(swi_layout_literal(layout, plan.gaps[i].file, plan.gaps[i].at, text,
                                         plan.gaps[i].size, &err),
                      &err);
        else
            assert_ok(swi_layout_fill(layout, plan.gaps[i].file, plan.gaps[i].at, plan.gaps[i].size,
                                      (uint8_t)(0x50 + i % 5), &err),
                      &err);
    }
    for (uint32_t i = 0; i < plan.count; i++) {
        const world_target *x = &plan.items[i];
        assert_ok(swi_layout_piece(layout, x->tensor, x->file, x->at, x->bytes, &x->piece, &err),
                  &err);
    }
    assert_ok(swi_layout_freeze(layout, &err), &err);
    return layout;
}

/* ---- comparing ------------------------------------------------------------------------------ */

typedef struct world_compare {
    const uint8_t *bytes;
    const world_tensor *t;
    uint32_t id;
} world_compare;

static inline void world_compare_one(void *ctx, uint64_t flat, uint64_t byte)
{
    const world_compare *c = ctx;
    uint8_t expected[16];
    world_put(expected, c->t, c->id, flat);
    if (memcmp(expected, c->bytes + byte, sw_dtype_bytes(c->t->dtype)) != 0)
        fail_msg("tensor %s: element %llu is wrong", c->t->name, (unsigned long long)flat);
}

/* Every element of every piece, and every literal, of what was written. */
static inline void world_verify(const world *w, const swi_layout *layout, const swi_store *store)
{
    const sw_catalog *catalog = swi_layout_catalog(layout);
    uint8_t *files[64] = {NULL};
    sw_error err = {0};
    for (uint32_t f = 0; f < sw_catalog_file_count(catalog); f++) {
        size_t size;
        assert_ok(swi_store_read_all(store, swi_catalog_path(catalog, f), UINT32_MAX, &files[f],
                                     &size, &err),
                  &err);
        assert_int_equal(size, swi_catalog_file_bytes(catalog, f));
        for (size_t i = 0; i < swi_layout_literal_count(layout, f); i++) {
            swi_literal l;
            swi_layout_literal_at(layout, f, i, &l);
            for (uint64_t k = 0; k < l.size; k++)
                assert_int_equal(files[f][l.offset_bytes + k], l.data != NULL ? l.data[k] : l.fill);
        }
    }
    for (uint32_t id = 0; id < w->count; id++) {
        sw_tensor_info info;
        assert_true(sw_catalog_tensor(catalog, id, &info));
        for (uint64_t i = 0; i < info.piece_count; i++) {
            swi_piece p;
            swi_blob blob;
            swi_tensor_piece(catalog, id, i, &p);
            swi_catalog_blob(catalog, p.blob, &blob);
            world_compare c = {files[blob.file] + blob.offset_bytes, &w->tensors[id], id};
            world_each(&p, world_compare_one, &c);
        }
    }
    for (uint32_t f = 0; f < 64; f++)
        free(files[f]);
}

#endif
