/* Reading a frozen catalog. */
#include "model/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/catalog_tables.h"

void sw_catalog_free(sw_catalog *catalog)
{
    if (catalog == NULL)
        return;
    swi_names_free(catalog->names);
    free(catalog->tensors);
    free(catalog->shapes);
    swi_packed_free(&catalog->pieces);
    free(catalog->order);
    swi_packed_free(&catalog->blobs);
    swi_packed_free(&catalog->wants);
    swi_names_free(catalog->paths);
    free(catalog->file_bytes);
    swi_names_free(catalog->value_names);
    free(catalog->values);
    free(catalog);
}

size_t sw_catalog_tensor_count(const sw_catalog *catalog)
{
    return catalog->tensor_count;
}

size_t sw_catalog_value_count(const sw_catalog *catalog)
{
    return catalog->value_count;
}

size_t sw_catalog_file_count(const sw_catalog *catalog)
{
    return swi_names_count(catalog->paths);
}

uint64_t sw_catalog_piece_count(const sw_catalog *catalog)
{
    return catalog->piece_count;
}

uint64_t sw_catalog_memory(const sw_catalog *catalog)
{
    return sizeof *catalog + swi_names_memory(catalog->names) +
           catalog->tensor_capacity * sizeof *catalog->tensors +
           catalog->shape_capacity * sizeof *catalog->shapes + swi_packed_memory(&catalog->pieces) +
           catalog->order_capacity * sizeof *catalog->order + swi_packed_memory(&catalog->blobs) +
           swi_packed_memory(&catalog->wants) + swi_names_memory(catalog->paths) +
           catalog->file_capacity * sizeof *catalog->file_bytes +
           swi_names_memory(catalog->value_names) +
           catalog->value_capacity * sizeof *catalog->values;
}

/* The tensor whose pieces these are: itself, or the one that it is another name of. */
static const swi_tensor_row *holder_of(const sw_catalog *c, const swi_tensor_row *t)
{
    return t->piece_count == 0 && t->alias_of != SWI_NO_ALIAS ? &c->tensors[t->alias_of] : t;
}

bool sw_catalog_tensor(const sw_catalog *catalog, size_t i, sw_tensor_info *out)
{
    if (i >= catalog->tensor_count)
        return false;
    const swi_tensor_row *t = &catalog->tensors[i];
    const swi_tensor_row *holder = holder_of(catalog, t);
    *out = (sw_tensor_info){
        .name = swi_names_at(catalog->names, (uint32_t)i, NULL),
        .dtype = (sw_dtype)t->dtype,
        .axes = t->axes,
        .elements = t->elements,
        .bytes = t->elements * sw_dtype_bytes((sw_dtype)t->dtype),
        .piece_count = holder->piece_count,
        .held_elements = holder->held,
        .role = (sw_role)t->role,
        .alias_of = t->alias_of == SWI_NO_ALIAS ? -1 : (int64_t)t->alias_of,
    };
    if (t->axes > 0)
        memcpy(out->shape, swi_shape_of(catalog, t), t->axes * sizeof(int64_t));
    return true;
}

bool sw_catalog_value_at(const sw_catalog *catalog, size_t i, sw_value_info *out)
{
    if (i >= catalog->value_count)
        return false;
    const swi_value_row *v = &catalog->values[i];
    swi_blob blob;
    swi_catalog_blob(catalog, v->blob, &blob);
    *out = (sw_value_info){
        .name = swi_names_at(catalog->value_names, v->key, NULL),
        .rank = v->rank,
        .bytes = blob.stored_bytes,
    };
    return true;
}

bool sw_catalog_file(const sw_catalog *catalog, size_t i, sw_file_info *out)
{
    if (i >= sw_catalog_file_count(catalog))
        return false;
    *out = (sw_file_info){
        .path = swi_names_at(catalog->paths, (uint32_t)i, NULL),
        .bytes = catalog->file_bytes[i],
    };
    return true;
}

int64_t sw_catalog_find(const sw_catalog *catalog, const char *name)
{
    return swi_names_find(catalog->names, name, strlen(name));
}

uint32_t swi_catalog_blob_count(const sw_catalog *catalog)
{
    return (uint32_t)catalog->blobs.count;
}

void swi_catalog_blob(const sw_catalog *catalog, uint32_t id, swi_blob *out)
{
    uint8_t kind;
    swi_unpack_blob(swi_packed_at(&catalog->blobs, id), &kind, out);
    out->ops = catalog->kinds[kind];
}

const char *swi_catalog_path(const sw_catalog *catalog, uint32_t file)
{
    return file == SWI_NO_FILE ? "" : swi_names_at(catalog->paths, file, NULL);
}

const char *swi_catalog_path_of(const void *catalog, uint32_t file)
{
    return swi_catalog_path(catalog, file);
}

uint64_t swi_catalog_file_bytes(const sw_catalog *catalog, uint32_t file)
{
    return file == SWI_NO_FILE ? UINT64_MAX : catalog->file_bytes[file];
}

uint32_t swi_tensor_axes(const sw_catalog *catalog, uint32_t tensor)
{
    return catalog->tensors[tensor].axes;
}

sw_status swi_tensor_defect(const sw_catalog *catalog, uint32_t tensor)
{
    return (sw_status)catalog->tensors[tensor].defect;
}

sw_status swi_tensor_refuse(const sw_catalog *catalog, uint32_t tensor, sw_error *err)
{
    const sw_status defect = swi_tensor_defect(catalog, tensor);
    sw_tensor_info info;
    swi_quoted q;
    if (defect == SW_OK || !sw_catalog_tensor(catalog, tensor, &info))
        return defect;
    const char *name = swi_quote_str(&q, info.name);
    if (defect == SW_ERR_UNSUPPORTED)
        return swi_fail(err, defect,
                        "tensor \"%s\" holds what is not read as a tensor; verify tells why", name);
    return swi_fail(err, defect, "tensor \"%s\" is damaged (%s); verify lists all that is wrong",
                    name, sw_status_name(defect));
}

void swi_tensor_piece(const sw_catalog *catalog, uint32_t tensor, uint64_t i, swi_piece *out)
{
    const swi_tensor_row *t = holder_of(catalog, &catalog->tensors[tensor]);
    swi_pack_context ctx = swi_context_of(catalog, t);
    size_t at = (size_t)t->first_piece + (size_t)i;
    if (catalog->order != NULL)
        at = catalog->order[at];
    swi_unpack_piece(&ctx, swi_packed_at(&catalog->pieces, at), out);
}

void swi_piece_want(const sw_catalog *catalog, uint32_t tensor, uint64_t i, swi_blob_want *out)
{
    sw_dtype dtype = (sw_dtype)holder_of(catalog, &catalog->tensors[tensor])->dtype;
    uint32_t size = sw_dtype_bytes(dtype);
    swi_piece p;
    swi_blob blob;
    *out = (swi_blob_want){.dtype = dtype};
    swi_tensor_piece(catalog, tensor, i, &p);
    if (catalog->wants.count > 0) {
        if (p.blob < catalog->wants.count)
            swi_unpack_want(swi_packed_at(&catalog->wants, p.blob), out);
        return;
    }
    swi_catalog_blob(catalog, p.blob, &blob);
    if (p.base_bytes != 0 || !swi_piece_is_dense(&p, size) ||
        swi_piece_elements(&p) * size != blob.bytes)
        return;
    out->has_shape = true;
    out->axes = p.axes;
    memcpy(out->shape, p.length, p.axes * sizeof p.length[0]);
}

bool swi_tensor_has_replicas(const sw_catalog *catalog, uint32_t tensor)
{
    return holder_of(catalog, &catalog->tensors[tensor])->replicas;
}

uint32_t swi_value_blob(const sw_catalog *catalog, size_t i)
{
    return catalog->values[i].blob;
}
