/* Filling the tables of a catalog. What can be wrong with its content is found by the freeze. */
#include "model/catalog_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"

sw_status swi_builder_make(const sw_limits *limits, swi_builder **out, sw_error *err)
{
    void *p = NULL;
    swi_builder *b = NULL;
    sw_catalog *c = NULL;
    sw_status status = swi_alloc_array(1, sizeof *b, &p, err);
    if (status != SW_OK)
        goto done;
    b = p;
    b->limits = sw_limits_resolve(limits);
    status = swi_alloc_array(1, sizeof *c, &p, err);
    if (status != SW_OK)
        goto done;
    c = b->catalog = p;
    status = swi_names_make(&c->names, err);
    if (status == SW_OK)
        status = swi_names_make(&c->paths, err);
    if (status == SW_OK)
        status = swi_names_make(&c->value_names, err);
    if (status != SW_OK)
        goto done;
    *out = b;
    b = NULL;
done:
    swi_builder_free(b);
    return status;
}

void swi_builder_free(swi_builder *builder)
{
    if (builder == NULL)
        return;
    sw_catalog_free(builder->catalog);
    free(builder->tensor_of);
    free(builder);
}

void swi_builder_threads(swi_builder *builder, uint32_t threads)
{
    builder->threads = threads;
}

static sw_status check_name(const char *what, const char *name, size_t size, sw_error *err)
{
    swi_quoted q;
    if (size > 0 && (memchr(name, 0, size) != NULL || !swi_utf8_valid(name, size)))
        return swi_fail(err, SW_ERR_FORMAT, "%s \"%s\": the name is not valid UTF-8", what,
                        swi_quote(&q, name, size));
    return SW_OK;
}

sw_status swi_builder_file(swi_builder *builder, const char *path, uint64_t bytes, uint32_t *id,
                           sw_error *err)
{
    sw_catalog *c = builder->catalog;
    uint32_t n = swi_names_count(c->paths);
    int64_t known = swi_names_find(c->paths, path, strlen(path));
    swi_quoted q;
    if (known >= 0) {
        if (c->file_bytes[known] != bytes)
            return swi_fail(err, SW_ERR_CONFLICT,
                            "%s: was %" PRIu64 " bytes long, is now %" PRIu64
                            ": it is being written to",
                            swi_quote_str(&q, path), c->file_bytes[known], bytes);
        *id = (uint32_t)known;
        return SW_OK;
    }
    if (n >= builder->limits.files)
        return swi_fail(err, SW_ERR_LIMIT, "more than %" PRIu64 " files", builder->limits.files);
    sw_status status = swi_grow_array((void **)&c->file_bytes, &c->file_capacity, (size_t)n + 1,
                                      sizeof *c->file_bytes, err);
    if (status == SW_OK)
        status = swi_names_add(c->paths, path, strlen(path), &n, NULL, err);
    if (status != SW_OK)
        return status;
    c->file_bytes[n] = bytes;
    *id = n;
    return SW_OK;
}

sw_status swi_builder_kind(sw_catalog *c, const swi_blob_ops *ops, uint8_t *kind, sw_error *err)
{
    for (uint8_t i = 0; i < c->kind_count; i++) {
        if (c->kinds[i] == ops) {
            *kind = i;
            return SW_OK;
        }
    }
    if (ops == NULL || c->kind_count == SWI_BLOB_KINDS_MAX)
        return swi_fail(err, SW_ERR_ARG, "a blob without a kind, or more than %d kinds",
                        SWI_BLOB_KINDS_MAX);
    c->kinds[c->kind_count] = ops;
    *kind = c->kind_count++;
    return SW_OK;
}

sw_status swi_builder_blob(swi_builder *builder, const swi_blob *blob, uint32_t *id, sw_error *err)
{
    sw_catalog *c = builder->catalog;
    uint8_t record[SWI_RECORD_MAX];
    uint8_t kind = 0;
    if (blob->file >= swi_names_count(c->paths) && blob->ops != &swi_blob_constant)
        return swi_fail(err, SW_ERR_ARG, "a blob of file %" PRIu32 ", which is not there",
                        blob->file);
    /* Values have blobs as well as pieces. */
    if (c->blobs.count >= builder->limits.pieces || c->blobs.count >= UINT32_MAX - 1)
        return swi_fail(err, SW_ERR_LIMIT, "more than %" PRIu64 " blobs", builder->limits.pieces);
    sw_status status = swi_builder_kind(c, blob->ops, &kind, err);
    if (status == SW_OK)
        status = swi_packed_add(&c->blobs, record, swi_pack_blob(blob, kind, record), err);
    if (status == SW_OK)
        *id = (uint32_t)(c->blobs.count - 1);
    return status;
}

sw_status swi_builder_constant(swi_builder *builder, const void *pattern, uint32_t pattern_bytes,
                               uint64_t bytes, uint32_t *id, sw_error *err)
{
    if (pattern_bytes == 0 || pattern_bytes > SWI_PATTERN_MAX || bytes > INT64_MAX)
        return swi_fail(err, SW_ERR_ARG,
                        "a constant of %" PRIu64 " bytes with a pattern of %" PRIu32
                        ": patterns have 1 to %u bytes",
                        bytes, pattern_bytes, SWI_PATTERN_MAX);
    swi_blob blob = swi_blob_make_constant(pattern, pattern_bytes, bytes);
    return swi_builder_blob(builder, &blob, id, err);
}

/* ---- tensors --------------------------------------------------------------------------------- */

sw_status swi_check_form(const swi_tensor_in *in, uint64_t *elements, sw_error *err)
{
    swi_quoted q;
    uint64_t bytes;
    uint32_t unit = sw_dtype_bytes(in->dtype);
    if (unit == 0)
        return swi_fail(err, SW_ERR_ARG, "tensor \"%s\": no such element type",
                        swi_quote(&q, in->name, in->name_size));
    if (in->axes > SW_MAX_AXES)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "tensor \"%s\": %" PRIu32 " axes, at most %d are supported",
                        swi_quote(&q, in->name, in->name_size), in->axes, SW_MAX_AXES);
    if (!swi_shape_elements(in->axes, in->shape, elements) ||
        !swi_mul_u64(*elements, unit, &bytes) || bytes > INT64_MAX)
        return swi_fail(err, SW_ERR_FORMAT, "tensor \"%s\": a size is negative or too large",
                        swi_quote(&q, in->name, in->name_size));
    return SW_OK;
}

static sw_status reserve_tensor(swi_builder *builder, uint32_t axes, sw_error *err)
{
    sw_catalog *c = builder->catalog;
    uint64_t limit = builder->limits.tensors;
    if (c->tensor_count >= limit || c->tensor_count >= UINT32_MAX - 1 ||
        c->shape_count > UINT32_MAX - SW_MAX_AXES)
        return swi_fail(err, SW_ERR_LIMIT, "more than %" PRIu64 " tensors", limit);
    sw_status status = swi_grow_array((void **)&c->tensors, &c->tensor_capacity,
                                      c->tensor_count + 1, sizeof *c->tensors, err);
    if (status == SW_OK && axes > 0)
        status = swi_grow_array((void **)&c->shapes, &c->shape_capacity, c->shape_count + axes,
                                sizeof *c->shapes, err);
    return status;
}

sw_status swi_builder_tensor(swi_builder *builder, const swi_tensor_in *in, uint32_t *id,
                             sw_error *err)
{
    sw_catalog *c = builder->catalog;
    uint64_t elements;
    uint32_t n;
    bool is_new;
    swi_quoted q;
    sw_status status = check_name("tensor", in->name, in->name_size, err);
    if (status == SW_OK)
        status = swi_check_form(in, &elements, err);
    if (status == SW_OK)
        status = reserve_tensor(builder, in->axes, err);
    if (status == SW_OK)
        status = swi_names_add(c->names, in->name, in->name_size, &n, &is_new, err);
    if (status != SW_OK)
        return status;
    if (!is_new)
        return swi_fail(err, SW_ERR_CONFLICT, "tensor \"%s\" is there twice",
                        swi_quote(&q, in->name, in->name_size));
    swi_row_set(&c->tensors[n], in, elements, (uint32_t)c->shape_count);
    if (in->axes > 0)
        memcpy(c->shapes + c->shape_count, in->shape, in->axes * sizeof(int64_t));
    c->shape_count += in->axes;
    c->tensor_count++;
    *id = n;
    return SW_OK;
}

static sw_status check_piece(const swi_builder *builder, uint32_t tensor, uint32_t blob,
                             uint32_t axes, sw_error *err)
{
    const sw_catalog *c = builder->catalog;
    size_t n = c->pieces.count;
    if (tensor >= c->tensor_count || blob >= c->blobs.count || axes > SW_MAX_AXES)
        return swi_fail(err, SW_ERR_ARG,
                        "a piece of tensor %" PRIu32 ", blob %" PRIu32 ", with %" PRIu32
                        " axes: no such thing",
                        tensor, blob, axes);
    if (n >= builder->limits.pieces || n >= UINT32_MAX - 1)
        return swi_fail(err, SW_ERR_LIMIT, "more than %" PRIu64 " pieces", builder->limits.pieces);
    return SW_OK;
}

static sw_status add_piece(swi_builder *builder, uint32_t tensor, const uint8_t *record,
                           size_t size, sw_error *err)
{
    sw_catalog *c = builder->catalog;
    size_t n = c->pieces.count;
    sw_status status = swi_grow_array((void **)&builder->tensor_of, &builder->tensor_of_capacity,
                                      n + 1, sizeof *builder->tensor_of, err);
    if (status == SW_OK)
        status = swi_packed_add(&c->pieces, record, size, err);
    if (status != SW_OK)
        return status;
    builder->tensor_of[n] = tensor;
    return SW_OK;
}

sw_status swi_builder_piece(swi_builder *builder, uint32_t tensor, const swi_piece *piece,
                            sw_error *err)
{
    sw_catalog *c = builder->catalog;
    uint8_t record[SWI_RECORD_MAX];
    sw_status status = check_piece(builder, tensor, piece->blob, piece->axes, err);
    if (status != SW_OK || swi_piece_is_empty(piece))
        return status;
    swi_pack_context ctx = swi_context_of(c, &c->tensors[tensor]);
    return add_piece(builder, tensor, record, swi_pack_piece(&ctx, piece, record), err);
}

bool swi_builder_same(const swi_builder *builder, uint32_t id, sw_dtype dtype, uint32_t axes,
                      const int64_t *shape)
{
    if (id >= builder->catalog->tensor_count)
        return false;
    const swi_tensor_row *t = &builder->catalog->tensors[id];
    return t->dtype == dtype && t->axes == axes &&
           (axes == 0 ||
            memcmp(swi_shape_of(builder->catalog, t), shape, axes * sizeof *shape) == 0);
}

void swi_builder_allow_replicas(swi_builder *builder, uint32_t tensor)
{
    if (tensor < builder->catalog->tensor_count)
        builder->catalog->tensors[tensor].replicas = true;
}

void swi_builder_alias(swi_builder *builder, uint32_t alias, uint32_t owner)
{
    size_t count = builder->catalog->tensor_count;
    if (alias < count && owner < count && alias != owner)
        builder->catalog->tensors[alias].alias_of = owner;
    builder->has_aliases = true;
}

void swi_builder_mark(swi_builder *builder, uint32_t tensor, sw_status defect)
{
    if (tensor < builder->catalog->tensor_count)
        swi_mark(&builder->catalog->tensors[tensor], defect);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The name, and for the value of one rank a 0 byte and the rank: unique, and read as the name. */
static sw_status value_key(swi_names *names, const swi_value_in *in, uint32_t *id, sw_error *err)
{
    swi_buf key = {0};
    bool is_new = true;
    swi_quoted q;
    sw_status status = swi_buf_append(&key, in->name, in->name_size, err);
    if (status == SW_OK && in->rank >= 0)
        status = swi_buf_u8(&key, 0, err);
    if (status == SW_OK && in->rank >= 0)
        status = swi_buf_printf(&key, err, "%" PRId64, in->rank);
    if (status == SW_OK)
        status = swi_names_add(names, key.data != NULL ? key.data : (const uint8_t *)"", key.size,
                               id, &is_new, err);
    if (status == SW_OK && !is_new)
        status = swi_fail(err, SW_ERR_CONFLICT, "value \"%s\" is there twice",
                          swi_quote(&q, in->name, in->name_size));
    swi_buf_free(&key);
    return status;
}

sw_status swi_builder_value(swi_builder *builder, const swi_value_in *in, sw_error *err)
{
    sw_catalog *c = builder->catalog;
    uint32_t key;
    sw_status status = check_name("value", in->name, in->name_size, err);
    if (status != SW_OK)
        return status;
    if (in->blob >= c->blobs.count)
        return swi_fail(err, SW_ERR_ARG, "a value in blob %" PRIu32 ", which is not there",
                        in->blob);
    if (c->value_count >= builder->limits.tensors)
        return swi_fail(err, SW_ERR_LIMIT, "more than %" PRIu64 " values", builder->limits.tensors);
    status = swi_grow_array((void **)&c->values, &c->value_capacity, c->value_count + 1,
                            sizeof *c->values, err);
    if (status == SW_OK)
        status = value_key(c->value_names, in, &key, err);
    if (status != SW_OK)
        return status;
    c->values[c->value_count++] =
        (swi_value_row){.rank = in->rank < 0 ? -1 : in->rank, .key = key, .blob = in->blob};
    return SW_OK;
}
