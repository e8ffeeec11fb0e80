/*
 * Writing one torch.save archive, root "archive", with the records and the order of torch 2.13
 * (specs/torch_zip.md, TF-10). Deterministic: the serialization id is made of names and CRCs.
 */
#include "container/torch_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "codec/crc32.h"
#include "model/piece.h"

#define ALIGNMENT 64u

typedef struct archive {
    swi_zip_writer *zip;
    swi_buf *out, *behind;
    uint64_t names_hash, crcs_hash;
} archive;

/* FNV-1a */
static uint64_t hash_bytes(uint64_t h, const void *data, size_t size)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* What a record holds. */
typedef struct payload {
    const void *data; /* NULL: it lies elsewhere, and what follows it goes to archive.behind */
    uint64_t size;
    uint32_t crc;
} payload;

static sw_status add_payload(archive *a, const char *name, const payload *in, sw_error *err)
{
    sw_status st = swi_zip_writer_begin(a->zip, name, in->size, a->out, err);
    if (st == SW_OK && in->data != NULL && in->size > 0)
        st = swi_buf_append(a->out, in->data, (size_t)in->size, err);
    if (in->data == NULL)
        a->out = a->behind;
    if (st == SW_OK)
        st = swi_zip_writer_end(a->zip, in->crc, a->out, err);
    a->names_hash = hash_bytes(a->names_hash, name, strlen(name));
    a->crcs_hash = hash_bytes(a->crcs_hash, &in->crc, sizeof in->crc);
    return st;
}

static sw_status add_record(archive *a, const char *name, const void *data, size_t size,
                            sw_error *err)
{
    const payload in = {.data = data, .size = size, .crc = swi_crc32(0, data, size)};
    return add_payload(a, name, &in, err);
}

static sw_status add_records(archive *a, const swi_buf *pickle, const payload *storage,
                             sw_error *err)
{
    sw_status st = add_record(a, "archive/data.pkl", pickle->data, pickle->size, err);
    if (st == SW_OK)
        st = add_record(a, "archive/.format_version", "1", 1, err);
    if (st == SW_OK)
        st = add_record(a, "archive/.storage_alignment", "64", 2, err);
    if (st == SW_OK)
        st = add_record(a, "archive/byteorder", "little", 6, err);
    if (st == SW_OK && storage != NULL)
        st = add_payload(a, "archive/data/0", storage, err);
    if (st == SW_OK)
        st = add_record(a, "archive/version", "3\n", 2, err);
    char serial[41];
    snprintf(serial, sizeof(serial), "%020" PRIu64 "%020" PRIu64, a->names_hash, a->crcs_hash);
    if (st == SW_OK)
        st = add_record(a, "archive/.data/serialization_id", serial, 40, err);
    if (st == SW_OK)
        st = swi_zip_writer_finish(a->zip, a->out, err);
    return st;
}

/*
 * The whole archive around data.pkl and at most one storage (NULL: none). `behind` takes what
 * follows a storage that lies elsewhere.
 */
static sw_status write_archive(swi_buf *out, swi_buf *behind, const swi_buf *pickle,
                               const payload *storage, sw_error *err)
{
    size_t before = out->size, before_behind = behind != NULL ? behind->size : 0;
    archive a = {.out = out,
                 .behind = behind,
                 .names_hash = 0xcbf29ce484222325u,
                 .crcs_hash = 0xcbf29ce484222325u};
    sw_status st = swi_zip_writer_make(ALIGNMENT, &a.zip, err);
    if (st == SW_OK)
        st = add_records(&a, pickle, storage, err);
    swi_zip_writer_free(a.zip);
    if (st != SW_OK) {
        out->size = before;
        if (behind != NULL)
            behind->size = before_behind;
    }
    return st;
}

/* ---- data.pkl of a bare tensor ----------------------------------------------------------- */

/* An emitter that stays failed, so that the code reads like the pickle. */
typedef struct emitter {
    swi_pickle_writer w;
    sw_status st;
    sw_error *err;
} emitter;

static void op(emitter *e, char opcode)
{
    if (e->st == SW_OK)
        e->st = swi_pickle_op(&e->w, opcode, e->err);
}

static void integer(emitter *e, int64_t v)
{
    if (e->st == SW_OK)
        e->st = swi_pickle_int(&e->w, v, e->err);
}

static void text(emitter *e, const char *s)
{
    if (e->st == SW_OK)
        e->st = swi_pickle_str(&e->w, s, strlen(s), e->err);
}

static void global(emitter *e, const char *module, const char *name)
{
    if (e->st == SW_OK)
        e->st = swi_pickle_global(&e->w, module, name, e->err);
}

static void tuple(emitter *e, uint32_t count, const int64_t *items)
{
    op(e, '(');
    for (uint32_t i = 0; i < count; i++)
        integer(e, items[i]);
    op(e, 't');
}

static void storage(emitter *e, const char *class, int64_t count)
{
    op(e, '(');
    text(e, "storage");
    global(e, class != NULL ? "torch" : "torch.storage", class != NULL ? class : "UntypedStorage");
    text(e, "0");
    text(e, "cpu");
    integer(e, count);
    op(e, 't');
    op(e, 'Q'); /* BINPERSID */
}

static sw_status emit_tensor(swi_buf *pickle, sw_dtype dtype, uint32_t axes, const int64_t *shape,
                             uint64_t elements, sw_error *err)
{
    const char *class = swi_torch_class_of(dtype);
    uint32_t unit = class != NULL ? 1 : sw_dtype_bytes(dtype);
    int64_t stride[SW_MAX_AXES], run = 1;
    for (uint32_t k = axes; k-- > 0;) {
        stride[k] = run;
        run *= shape[k] > 0 ? shape[k] : 1;
    }
    emitter e = {.err = err};
    e.st = swi_pickle_begin(&e.w, pickle, 2, err);
    global(&e, "torch._utils", class != NULL ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    op(&e, '(');
    storage(&e, class, (int64_t)(elements * unit));
    integer(&e, 0);
    tuple(&e, axes, shape);
    tuple(&e, axes, stride);
    op(&e, '\x89'); /* NEWFALSE: requires_grad */
    global(&e, "collections", "OrderedDict");
    op(&e, ')');
    op(&e, 'R');
    if (class == NULL)
        global(&e, "torch", swi_torch_dtype_name(dtype));
    op(&e, 't');
    op(&e, 'R');
    op(&e, '.');
    return e.st;
}

/* Bytes of a dense tensor; SW_ERR_ARG when there can be none such. */
static sw_status tensor_bytes(sw_dtype dtype, uint32_t axes, const int64_t *shape,
                              uint64_t *elements, uint64_t *bytes, sw_error *err)
{
    if (axes > SW_MAX_AXES || !swi_shape_elements(axes, shape, elements) ||
        !swi_mul_u64(*elements, sw_dtype_bytes(dtype), bytes) || *bytes > (uint64_t)INT64_MAX)
        return swi_fail(err, SW_ERR_ARG, "torch file: a tensor of that shape cannot be");
    if (swi_torch_dtype_name(dtype) == NULL)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "torch file: no dtype %s", sw_dtype_name(dtype));
    return SW_OK;
}

sw_status swi_torch_write_tensor(swi_buf *out, sw_dtype dtype, uint32_t axes, const int64_t *shape,
                                 const void *data, sw_error *err)
{
    swi_buf pickle = {0};
    uint64_t elements, bytes;
    size_t size;
    sw_status st = tensor_bytes(dtype, axes, shape, &elements, &bytes, err);
    if (st == SW_OK && !swi_u64_to_size(bytes, &size))
        st = swi_fail(err, SW_ERR_ARG, "torch file: a tensor of that shape cannot be");
    if (st == SW_OK)
        st = emit_tensor(&pickle, dtype, axes, shape, elements, err);
    if (st == SW_OK) {
        const payload storage = {
            .data = bytes > 0 ? data : "", .size = bytes, .crc = swi_crc32(0, data, (size_t)bytes)};
        st = write_archive(out, NULL, &pickle, &storage, err);
    }
    swi_buf_free(&pickle);
    return st;
}

sw_status swi_torch_write_around(swi_buf *head, swi_buf *tail, const swi_torch_around *in,
                                 sw_error *err)
{
    swi_buf pickle = {0};
    uint64_t elements, bytes;
    sw_status st = tensor_bytes(in->dtype, in->axes, in->shape, &elements, &bytes, err);
    if (st == SW_OK)
        st = emit_tensor(&pickle, in->dtype, in->axes, in->shape, elements, err);
    if (st == SW_OK) {
        const payload storage = {.size = bytes, .crc = in->crc32};
        st = write_archive(head, tail, &pickle, &storage, err);
    }
    swi_buf_free(&pickle);
    return st;
}

sw_status swi_torch_write_value(swi_buf *out, swi_emit_fn emit, void *ctx, sw_error *err)
{
    swi_buf pickle = {0};
    swi_pickle_writer w;
    sw_status st = swi_pickle_begin(&w, &pickle, 2, err);
    if (st == SW_OK)
        st = emit(ctx, &w, err);
    if (st == SW_OK)
        st = swi_pickle_op(&w, '.', err);
    if (st == SW_OK)
        st = write_archive(out, NULL, &pickle, NULL, err);
    swi_buf_free(&pickle);
    return st;
}
