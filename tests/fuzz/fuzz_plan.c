/*
 * Any catalog, however hostile its numbers: either it is refused, or its plan passes the check and
 * moving it by windows gives the same bytes as loading each tensor at once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "execute_parts.h"
#include "io/filecache.h"
#include "io/store.h"
#include "load.h"
#include "model/catalog.h"

#define FILE_BYTES 16384U
#define TENSORS 3U
#define RECORDS 64U
#define MOVED_MAX (UINT64_C(1) << 18)

/* A failed promise: the fuzzer and the replay both stop here. */
#define PROMISE(x)                                                                                 \
    do {                                                                                           \
        if (!(x))                                                                                  \
            __builtin_trap();                                                                      \
    } while (0)

typedef struct input {
    swi_cursor cursor;
    swi_extent extents[RECORDS]; /* what resolve says, by aux */
    uint32_t records;
} input;

static uint8_t take_u8(input *in)
{
    uint8_t v = 0;
    (void)swi_get_u8(&in->cursor, &v);
    return v;
}

/* Mostly small numbers ('0' to '?' in a seed), now and then any. */
static int64_t take_number(input *in)
{
    uint8_t head = take_u8(in);
    uint64_t wide = 0;
    if (head < 0xf0)
        return head % 16;
    if (head < 0xf8)
        return head == 0xf0 ? -1 : take_u8(in);
    (void)swi_get_u64le(&in->cursor, &wide);
    return (int64_t)wide;
}

/* ---- the blobs ------------------------------------------------------------------------------ */

typedef struct fuzz_reader {
    swi_reader reader;
    const swi_reader *inner;
    input *in;
} fuzz_reader;

static sw_status fuzz_read(const swi_reader *self, uint32_t file, uint64_t offset, void *data,
                           size_t size, sw_error *err)
{
    const fuzz_reader *f = self->ctx;
    return f->inner->read(f->inner, file, offset, data, size, err);
}

static sw_status fuzz_resolve(const swi_blob *blob, const swi_reader *reader,
                              const swi_blob_want *want, swi_extent *out, sw_error *err)
{
    const fuzz_reader *f = reader->ctx;
    if (blob->aux >= f->in->records)
        return swi_fail(err, SW_ERR_CORRUPT, "no such record");
    *out = f->in->extents[blob->aux];
    out->file = blob->file;
    out->dtype = want->dtype;
    return SW_OK;
}

static sw_status fuzz_check(const swi_blob *blob, const swi_reader *reader,
                            const swi_blob_label *label, uint8_t *buffer, size_t buffer_bytes,
                            sw_report *report, swi_blob_check *tally, sw_error *err)
{
    (void)reader;
    (void)label;
    (void)buffer;
    (void)buffer_bytes;
    (void)report;
    (void)err;
    tally->checked_bytes += blob->stored_bytes;
    return SW_OK;
}

static const swi_blob_ops fuzz_ops = {
    .kind = "fuzz", .resolve = fuzz_resolve, .check = fuzz_check, .load_value = NULL};

static void take_extent(input *in, swi_extent *out, const swi_blob *blob)
{
    uint8_t flags = take_u8(in);
    *out = (swi_extent){
        .offset_bytes = blob->offset_bytes,
        .stored_bytes = blob->stored_bytes,
        .strided = flags & 1,
        .swap = flags & 2,
    };
    if ((flags & 4) != 0)
        out->start_bytes = (uint64_t)take_number(in);
    if (!out->strided)
        return;
    out->axes = take_u8(in) % 4;
    for (uint32_t k = 0; k < out->axes; k++) {
        out->shape[k] = take_number(in);
        out->stride_bytes[k] = take_number(in);
    }
}

/* ---- the catalog ---------------------------------------------------------------------------- */

static bool add_piece(input *in, swi_builder *builder, uint32_t tensor, uint32_t file)
{
    swi_piece p = {.axes = take_u8(in) % 5, .base_bytes = take_number(in)};
    swi_blob blob = {.ops = &swi_blob_slice, .file = file};
    if (in->records == RECORDS)
        return false;
    for (uint32_t k = 0; k < p.axes; k++) {
        p.view[k] = take_number(in);
        p.offset[k] = take_number(in);
        p.length[k] = take_number(in);
        p.stride_bytes[k] = take_number(in);
    }
    blob.offset_bytes = (uint64_t)take_number(in);
    blob.stored_bytes = (uint64_t)take_number(in);
    blob.bytes = blob.stored_bytes;
    if (take_u8(in) % 4 == 0) {
        blob.ops = &fuzz_ops;
        blob.bytes = (uint64_t)take_number(in);
        blob.aux = in->records;
        take_extent(in, &in->extents[in->records++], &blob);
    }
    return swi_builder_blob(builder, &blob, &p.blob, NULL) == SW_OK &&
           swi_builder_piece(builder, tensor, &p, NULL) == SW_OK;
}

/* ---- a sound one, cut in a grid, perhaps with one number changed ------------------------------
 */

typedef struct cut {
    int64_t shape[4], parts[4];
    uint64_t at;    /* where the next blob lies */
    uint32_t spoil; /* piece in which a number is changed */
} cut;

/* The strides of the axes in some order, with gaps; returns the bytes that they need. */
static uint64_t take_strides(input *in, swi_piece *p, uint32_t element_bytes)
{
    uint8_t order = take_u8(in), gap = take_u8(in) % 16;
    uint64_t bytes = element_bytes;
    for (uint32_t n = 0; n < p->axes; n++) {
        uint32_t k = order % 2 == 0 ? p->axes - 1 - n : (n + order / 2) % p->axes;
        if (n == gap)
            bytes += element_bytes;
        p->stride_bytes[k] = (int64_t)bytes;
        bytes *= (uint64_t)p->length[k];
    }
    return bytes;
}

/* Whether the blob's record is permuted too, as two axes. */
static void take_record(input *in, swi_blob *blob, uint32_t element_bytes)
{
    uint8_t kind = take_u8(in) % 16;
    if (kind < 8 || in->records == RECORDS || blob->bytes % element_bytes != 0)
        return;
    swi_extent *e = &in->extents[in->records];
    int64_t elements = (int64_t)(blob->bytes / element_bytes), outer = 1 + kind % 4;
    while (elements % outer != 0)
        outer--;
    blob->ops = &fuzz_ops;
    blob->aux = in->records++;
    blob->stored_bytes += element_bytes;
    *e = (swi_extent){
        .offset_bytes = blob->offset_bytes,
        .stored_bytes = blob->stored_bytes,
        .strided = kind >= 12,
        .swap = kind % 2,
        .start_bytes = element_bytes,
        .axes = 2,
        .shape = {outer, elements / outer},
        .stride_bytes = {element_bytes, element_bytes * outer},
    };
}

static void spoil(input *in, swi_piece *p)
{
    int64_t *const numbers[] = {&p->base_bytes, &p->offset[0], &p->length[0], &p->stride_bytes[0],
                                &p->view[0],    &p->offset[1], &p->length[1], &p->stride_bytes[1]};
    *numbers[take_u8(in) % 8] = take_number(in);
}

static bool add_grid_piece(input *in, swi_builder *builder, const swi_tensor_in *t, uint32_t id,
                           cut *c, uint32_t number)
{
    swi_piece p = {.axes = t->axes};
    uint32_t element_bytes = sw_dtype_bytes(t->dtype), n = number;
    for (uint32_t k = t->axes; k > 0; k--) {
        int64_t i = n % c->parts[k - 1],
                step = (c->shape[k - 1] + c->parts[k - 1] - 1) / c->parts[k - 1];
        n /= (uint32_t)c->parts[k - 1];
        p.view[k - 1] = c->shape[k - 1];
        p.offset[k - 1] = i * step < c->shape[k - 1] ? i * step : c->shape[k - 1];
        p.length[k - 1] = c->shape[k - 1] - p.offset[k - 1];
        if (p.length[k - 1] > step)
            p.length[k - 1] = step;
    }
    swi_blob blob = {.ops = &swi_blob_slice, .offset_bytes = c->at};
    blob.bytes = blob.stored_bytes = take_strides(in, &p, element_bytes);
    take_record(in, &blob, element_bytes);
    c->at += blob.stored_bytes;
    if (number == c->spoil)
        spoil(in, &p);
    return swi_builder_blob(builder, &blob, &p.blob, NULL) == SW_OK &&
           swi_builder_piece(builder, id, &p, NULL) == SW_OK;
}

static bool add_grid(input *in, swi_builder *builder, swi_tensor_in *t, bool replicas)
{
    cut c = {.at = take_u8(in)};
    uint32_t pieces = 1, id;
    t->shape = c.shape;
    for (uint32_t k = 0; k < t->axes; k++) {
        c.shape[k] = take_u8(in) % 8 + 1;
        c.parts[k] = take_u8(in) % 4 + 1;
        pieces *= (uint32_t)c.parts[k];
    }
    c.spoil = take_u8(in) % 64;
    if (swi_builder_tensor(builder, t, &id, NULL) != SW_OK)
        return false;
    if (replicas)
        swi_builder_allow_replicas(builder, id);
    for (uint32_t n = 0; n < pieces * (1 + replicas); n++)
        if (!add_grid_piece(in, builder, t, id, &c, n % pieces))
            return false;
    return true;
}

static bool add_tensor(input *in, swi_builder *builder, uint32_t n, uint32_t file)
{
    static const sw_dtype types[] = {SW_U8, SW_BF16, SW_F32, SW_F64, SW_C128};
    int64_t shape[4];
    char name[2] = {(char)('a' + n), 0};
    uint8_t head = take_u8(in);
    swi_tensor_in t = {.name = name, .name_size = 1, .dtype = types[head % 5], .shape = shape};
    t.axes = head / 8 % 4;
    if ((head & 0x40) == 0)
        return add_grid(in, builder, &t, (head & 0x80) != 0);
    for (uint32_t k = 0; k < t.axes; k++)
        shape[k] = take_number(in);
    uint32_t id;
    if (swi_builder_tensor(builder, &t, &id, NULL) != SW_OK)
        return false;
    if ((head & 0x80) != 0)
        swi_builder_allow_replicas(builder, id);
    for (uint32_t pieces = take_u8(in) % 8; pieces > 0; pieces--)
        if (!add_piece(in, builder, id, file))
            return false;
    return true;
}

static sw_catalog *make_catalog(input *in)
{
    swi_builder *builder = NULL;
    sw_catalog *catalog = NULL;
    uint32_t file;
    PROMISE(swi_builder_make(NULL, &builder, NULL) == SW_OK);
    bool ok = swi_builder_file(builder, "in", FILE_BYTES, &file, NULL) == SW_OK;
    for (uint32_t n = 0; n < TENSORS && ok; n++)
        ok = add_tensor(in, builder, n, file);
    if (!ok) {
        swi_builder_free(builder);
        return NULL;
    }
    return swi_builder_freeze(builder, NULL, &catalog, NULL) == SW_OK ? catalog : NULL;
}

/* Every sound tensor of the catalog, dense, one after another in one file; types may widen. */
static swi_layout *make_layout(input *in, const sw_catalog *catalog)
{
    swi_layout *layout = NULL;
    sw_tensor_info info;
    uint64_t offset = 0;
    uint32_t file, id;
    for (uint32_t t = 0; t < sw_catalog_tensor_count(catalog); t++) {
        (void)sw_catalog_tensor(catalog, t, &info);
        if (swi_tensor_defect(catalog, t) == SW_OK && info.bytes <= MOVED_MAX)
            offset += info.bytes;
    }
    uint64_t pad = take_u8(in) % 16;
    PROMISE(swi_layout_make(NULL, &layout, NULL) == SW_OK);
    PROMISE(swi_layout_file(layout, "out", offset + pad, &file, NULL) == SW_OK);
    PROMISE(swi_layout_fill(layout, file, offset, pad, 0x77, NULL) == SW_OK);
    offset = 0;
    for (uint32_t t = 0; t < sw_catalog_tensor_count(catalog); t++) {
        swi_piece p = {0};
        (void)sw_catalog_tensor(catalog, t, &info);
        if (swi_tensor_defect(catalog, t) != SW_OK || info.bytes > MOVED_MAX)
            continue;
        swi_tensor_in to = {info.name, strlen(info.name), info.dtype,
                            info.axes, info.shape,        info.role};
        PROMISE(swi_layout_tensor(layout, &to, t, &id, NULL) == SW_OK);
        p.axes = info.axes;
        memcpy(p.view, info.shape, sizeof p.view);
        memcpy(p.length, info.shape, sizeof p.length);
        swi_piece_make_dense(&p, sw_dtype_bytes(info.dtype));
        PROMISE(swi_layout_piece(layout, id, file, offset, info.bytes, &p, NULL) == SW_OK);
        offset += info.bytes;
    }
    PROMISE(swi_layout_freeze(layout, NULL) == SW_OK);
    return layout;
}

/* ---- moving --------------------------------------------------------------------------------- */

typedef struct target {
    swi_store *store;
    uint64_t bytes;
} target;

static sw_status open_out(void *ctx, uint32_t file, swi_file **out, sw_error *err)
{
    const target *t = ctx;
    (void)file;
    sw_status status = swi_store_create(t->store, "out", out, err);
    return status == SW_OK ? swi_file_reserve(*out, t->bytes, err) : status;
}

static sw_status finish_out(void *ctx, uint32_t file, swi_file *written, sw_error *err)
{
    (void)ctx;
    (void)file;
    (void)err;
    swi_file_close(written);
    return SW_OK;
}

static void compare(const swi_source *source, const swi_layout *layout, const uint8_t *out)
{
    const sw_catalog *target_catalog = swi_layout_catalog(layout);
    for (uint32_t t = 0; t < sw_catalog_tensor_count(target_catalog); t++) {
        sw_tensor_info info;
        (void)sw_catalog_tensor(target_catalog, t, &info);
        uint8_t *whole = malloc(info.bytes + 1);
        PROMISE(whole != NULL);
        PROMISE(swi_load_interval(source, swi_layout_source(layout, t), 0, info.elements, whole,
                                  NULL) == SW_OK);
        PROMISE(memcmp(whole, out, info.bytes) == 0);
        out += info.bytes;
        free(whole);
    }
}

static void move(input *in, const sw_catalog *catalog, const swi_layout *layout,
                 const swi_reader *reader)
{
    fuzz_reader wrapped = {.reader = *reader, .inner = reader, .in = in};
    wrapped.reader.ctx = &wrapped;
    wrapped.reader.read = fuzz_read;
    const swi_source source = {.catalog = catalog, .reader = &wrapped.reader};
    uint64_t window = 16 + take_u8(in);
    swi_plan *plan = NULL;
    if (swi_plan_make(catalog, layout, window, NULL, NULL, &plan, NULL) != SW_OK)
        return;
    PROMISE(swi_plan_check(plan, catalog, layout, NULL, NULL) == SW_OK);
    swi_plan_free(plan);
    target t = {.bytes = swi_catalog_file_bytes(swi_layout_catalog(layout), 0)};
    PROMISE(swi_store_open_memory(&t.store, NULL) == SW_OK);
    const swi_sink sink = {.ctx = &t, .open = open_out, .finish = finish_out};
    const swi_execute_in job = {
        .source = &source,
        .layout = layout,
        .sink = &sink,
        .budget = {.threads = 1, .window_bytes = (size_t)window, .bounce_bytes = 64},
    };
    uint8_t *out = NULL;
    size_t size;
    if (swi_execute_job(&job, NULL, NULL, NULL) == SW_OK) {
        PROMISE(swi_store_read_all(t.store, "out", UINT32_MAX, &out, &size, NULL) == SW_OK);
        PROMISE(size == t.bytes);
        compare(&source, layout, out);
        free(out);
    }
    swi_store_close(t.store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const no_path = "in";
    input in = {.cursor = swi_cursor_make(data, size)};
    uint8_t bytes[FILE_BYTES];
    swi_store *store = NULL;
    swi_file *file = NULL;
    swi_filecache *cache = NULL;
    sw_catalog *catalog = make_catalog(&in);
    if (catalog == NULL)
        return 0;
    for (uint32_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    PROMISE(swi_store_open_memory(&store, NULL) == SW_OK);
    PROMISE(swi_store_create(store, no_path, &file, NULL) == SW_OK);
    PROMISE(swi_file_write(file, 0, bytes, sizeof bytes, NULL) == SW_OK);
    swi_file_close(file);
    sw_limits limits = sw_limits_resolve(NULL);
    PROMISE(swi_filecache_make(store, 1, swi_catalog_path_of, catalog, &limits, &cache, NULL) ==
            SW_OK);
    swi_layout *layout = make_layout(&in, catalog);
    move(&in, catalog, layout, swi_filecache_reader(cache));
    swi_layout_free(layout);
    swi_filecache_free(cache);
    swi_store_close(store);
    sw_catalog_free(catalog);
    return 0;
}
