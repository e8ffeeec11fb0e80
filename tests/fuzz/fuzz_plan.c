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
#include "transform.h"

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

/* The last bytes of the record, changed; over and over where it is shorter. */
static sw_status fuzz_decode(const swi_blob *blob, const uint8_t *stored, uint8_t *out,
                             sw_error *err)
{
    uint64_t skip = blob->stored_bytes > blob->bytes ? blob->stored_bytes - blob->bytes : 0;
    if (blob->stored_bytes % 13 == 12)
        return swi_fail(err, SW_ERR_CORRUPT, "not what was written");
    for (uint64_t i = 0; i < blob->bytes; i++)
        out[i] = blob->stored_bytes > 0 ? stored[(skip + i) % blob->stored_bytes] ^ 0x5a : 0;
    return SW_OK;
}

static const swi_blob_ops fuzz_ops = {
    .kind = "fuzz", .resolve = fuzz_resolve, .check = fuzz_check, .load_value = NULL};
static const swi_blob_ops fuzz_encoded_ops = {.kind = "fuzz-encoded",
                                              .resolve = fuzz_resolve,
                                              .check = fuzz_check,
                                              .decode = fuzz_decode,
                                              .load_value = NULL};

/* Whether it is of the kind that decodes, encoded or not. */
static bool take_extent(input *in, swi_extent *out, const swi_blob *blob)
{
    uint8_t flags = take_u8(in);
    *out = (swi_extent){
        .offset_bytes = blob->offset_bytes,
        .stored_bytes = blob->stored_bytes,
        .strided = flags & 1,
        .swap = flags & 2,
        .encoded = flags & 8,
    };
    if ((flags & 4) != 0)
        out->start_bytes = (uint64_t)take_number(in);
    if (out->strided)
        out->axes = take_u8(in) % 4;
    for (uint32_t k = 0; k < out->axes; k++) {
        out->shape[k] = take_number(in);
        out->stride_bytes[k] = take_number(in);
    }
    return (flags & 16) != 0;
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
        if (take_extent(in, &in->extents[in->records++], &blob))
            blob.ops = &fuzz_encoded_ops;
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

/* Whether the blob's record is encoded, or permuted too, as two axes. */
static void take_record(input *in, swi_blob *blob, uint32_t element_bytes)
{
    uint8_t kind = take_u8(in) % 16;
    if (kind < 6 || in->records == RECORDS || blob->bytes % element_bytes != 0)
        return;
    swi_extent *e = &in->extents[in->records];
    int64_t elements = (int64_t)(blob->bytes / element_bytes), outer = 1 + kind % 4;
    while (elements % outer != 0)
        outer--;
    blob->ops = &fuzz_ops;
    blob->aux = in->records++;
    blob->stored_bytes += element_bytes;
    if (kind < 8) {
        blob->ops = &fuzz_encoded_ops;
        *e = (swi_extent){.offset_bytes = blob->offset_bytes,
                          .stored_bytes = blob->stored_bytes,
                          .encoded = true};
        return;
    }
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

/* How a tensor is to be in the destination. */
typedef struct form {
    bool moved, twice, scaled;
    int64_t turn;        /* so many rows come last: two parts of one array; 0: it is one piece */
    sw_tensor_info info; /* with the type that it is to have */
    uint64_t bytes;      /* of one copy */
} form;

/* Products are of a tensor with itself. */
static form take_form(input *in, const sw_catalog *catalog, uint32_t tensor)
{
    form f = {0};
    (void)sw_catalog_tensor(catalog, tensor, &f.info);
    f.moved = swi_tensor_defect(catalog, tensor) == SW_OK && f.info.bytes <= MOVED_MAX;
    uint8_t kind = take_u8(in);
    f.twice = (kind & 1) != 0;
    f.scaled = (kind & 2) != 0 && swi_scale_possible(f.info.dtype, f.info.dtype, SW_BF16);
    if (f.info.axes > 0 && f.info.shape[0] > 0 && (kind & 4) != 0)
        f.turn = kind / 8 % f.info.shape[0];
    if (f.scaled)
        f.info.dtype = SW_BF16;
    f.bytes = f.info.elements * sw_dtype_bytes(f.info.dtype);
    return f;
}

static void add_form(swi_layout *layout, const form *f, uint32_t source, uint32_t file,
                     uint64_t offset)
{
    swi_tensor_in to = {f->info.name, strlen(f->info.name), f->info.dtype,
                        f->info.axes, f->info.shape,        f->info.role};
    swi_block_part parts[2] = {0};
    uint32_t id;
    for (uint32_t k = 0; k < f->info.axes; k++)
        parts[0].length[k] = parts[1].length[k] = f->info.shape[k];
    parts[0].offset[0] = parts[1].length[0] = f->turn;
    parts[0].length[0] -= f->turn;
    parts[1].place[0] = parts[0].length[0];
    const swi_block block = {.axes = f->info.axes,
                             .view = f->info.shape,
                             .shape = f->info.shape,
                             .parts = parts,
                             .part_count = f->turn > 0 ? 2 : 1};
    PROMISE(swi_layout_tensor(layout, &to, source, &id, NULL) == SW_OK);
    if (f->twice)
        PROMISE(swi_layout_replicas(layout, id, NULL) == SW_OK);
    if (f->scaled)
        PROMISE(swi_layout_scale(layout, id, source, NULL) == SW_OK);
    for (uint32_t copy = 0; copy <= f->twice; copy++, offset += f->bytes)
        PROMISE(swi_layout_block(layout, id, file, offset, &block, NULL) == SW_OK);
}

/* Every sound tensor of the catalog, one after another in one file. */
static swi_layout *make_layout(input *in, const sw_catalog *catalog, form forms[TENSORS])
{
    swi_layout *layout = NULL;
    uint64_t bytes = 0;
    uint32_t file;
    uint64_t pad = take_u8(in) % 16;
    for (uint32_t t = 0; t < sw_catalog_tensor_count(catalog); t++) {
        forms[t] = take_form(in, catalog, t);
        bytes += forms[t].moved ? forms[t].bytes * (1 + forms[t].twice) : 0;
    }
    PROMISE(swi_layout_make(NULL, &layout, NULL) == SW_OK);
    PROMISE(swi_layout_file(layout, "out", bytes + pad, &file, NULL) == SW_OK);
    PROMISE(swi_layout_fill(layout, file, bytes, pad, 0x77, NULL) == SW_OK);
    bytes = 0;
    for (uint32_t t = 0; t < sw_catalog_tensor_count(catalog); t++) {
        if (!forms[t].moved)
            continue;
        add_form(layout, &forms[t], t, file, bytes);
        bytes += forms[t].bytes * (1 + forms[t].twice);
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

/* The whole of a tensor at once, as it is to be written. */
static uint8_t *load_form(const swi_source *source, const form *f, uint32_t tensor)
{
    sw_tensor_info info;
    sw_tally ignored = {0};
    (void)sw_catalog_tensor(source->catalog, tensor, &info);
    uint8_t *whole = malloc(info.bytes + 1), *made = malloc(f->bytes + 1);
    PROMISE(whole != NULL && made != NULL);
    PROMISE(swi_load_interval(source, tensor, 0, info.elements, whole, NULL) == SW_OK);
    const swi_scale_in scaled = {whole, info.dtype, whole, info.dtype};
    if (f->scaled)
        swi_scale(&scaled, made, f->info.dtype, (size_t)info.elements, &ignored);
    else
        memcpy(made, whole, info.bytes);
    free(whole);
    return made;
}

static void compare(const swi_source *source, const form forms[TENSORS], const uint8_t *out)
{
    for (uint32_t t = 0; t < sw_catalog_tensor_count(source->catalog); t++) {
        const form *f = &forms[t];
        if (!f->moved)
            continue;
        uint8_t *whole = load_form(source, f, t);
        uint64_t turned =
            f->turn > 0 ? f->bytes / (uint64_t)f->info.shape[0] * (uint64_t)f->turn : 0;
        for (uint32_t copy = 0; copy <= f->twice; copy++, out += f->bytes) {
            PROMISE(memcmp(whole + turned, out, f->bytes - turned) == 0);
            PROMISE(memcmp(whole, out + f->bytes - turned, turned) == 0);
        }
        free(whole);
    }
}

static void move(input *in, const sw_catalog *catalog, const swi_layout *layout,
                 const form forms[TENSORS], const swi_reader *reader)
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
    const swi_chunk_sizes sizes = swi_chunk_sizes_of(catalog);
    const swi_execute_in job = {
        .source = &source,
        .layout = layout,
        .sink = &sink,
        .budget = {.threads = 1,
                   .window_bytes = (size_t)window,
                   .out_bytes = (size_t)window + 64,
                   .bounce_bytes = sizes.stored > 64 ? (size_t)sizes.stored : 64,
                   .chunk_slots = 2,
                   .chunk_bytes = sizes.raw},
    };
    uint8_t *out = NULL;
    size_t size;
    if (swi_execute_job(&job, NULL, NULL, NULL) == SW_OK) {
        PROMISE(swi_store_read_all(t.store, "out", UINT32_MAX, &out, &size, NULL) == SW_OK);
        PROMISE(size == t.bytes);
        compare(&source, forms, out);
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
    form forms[TENSORS];
    swi_layout *layout = make_layout(&in, catalog, forms);
    move(&in, catalog, layout, forms, swi_filecache_reader(cache));
    swi_layout_free(layout);
    swi_filecache_free(cache);
    swi_store_close(store);
    sw_catalog_free(catalog);
    return 0;
}
