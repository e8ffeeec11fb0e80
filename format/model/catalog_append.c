/* A catalog behind another in one builder (CAT-28): ids move on, names and paths get a prefix. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/catalog_tables.h"

typedef struct appending {
    swi_builder *builder;
    const sw_catalog *from;
    const swi_append *how;
    uint32_t *files; /* new ids */
    uint32_t first_blob, first_tensor;
    swi_buf name;
} appending;

/* `a`, `b` and `c` one behind the other, terminated; the terminator is no part of a->name.size. */
static sw_status join(appending *a, const char *first, const char *between, const char *last,
                      size_t last_size, sw_error *err)
{
    a->name.size = 0;
    sw_status st = swi_buf_append_str(&a->name, first, err);
    if (st == SW_OK)
        st = swi_buf_append_str(&a->name, between, err);
    if (st == SW_OK)
        st = swi_buf_append(&a->name, last, last_size, err);
    if (st == SW_OK)
        st = swi_buf_u8(&a->name, 0, err);
    if (st == SW_OK)
        a->name.size--;
    return st;
}

static sw_status append_files(appending *a, sw_error *err)
{
    const char *folder = a->how->folder;
    uint32_t count = swi_names_count(a->from->paths);
    void *p = NULL;
    sw_status st = swi_alloc_array((size_t)count + 1, sizeof *a->files, &p, err);
    a->files = p;
    for (uint32_t i = 0; st == SW_OK && i < count; i++) {
        size_t size;
        const char *path = swi_names_at(a->from->paths, i, &size);
        st = join(a, folder, folder[0] != '\0' ? "/" : "", path, size, err);
        if (st == SW_OK)
            st = swi_builder_file(a->builder, (const char *)a->name.data, a->from->file_bytes[i],
                                  &a->files[i], err);
    }
    return st;
}

static sw_status append_blobs(appending *a, sw_error *err)
{
    uint32_t count = swi_catalog_blob_count(a->from), id;
    sw_status st = SW_OK;
    a->first_blob = (uint32_t)a->builder->catalog->blobs.count;
    for (uint32_t i = 0; st == SW_OK && i < count; i++) {
        swi_blob blob;
        swi_catalog_blob(a->from, i, &blob);
        if (blob.file != SWI_NO_FILE)
            blob.file = a->files[blob.file];
        st = swi_builder_blob(a->builder, &blob, &id, err);
    }
    return st;
}

static sw_status append_tensor(appending *a, uint32_t i, sw_error *err)
{
    const swi_tensor_row *row = &a->from->tensors[i];
    uint32_t id;
    size_t size;
    const char *name = swi_names_at(a->from->names, i, &size);
    sw_status st = join(a, a->how->prefix, "", name, size, err);
    const swi_tensor_in in = {.name = (const char *)a->name.data,
                              .name_size = a->name.size,
                              .dtype = (sw_dtype)row->dtype,
                              .axes = row->axes,
                              .shape = swi_shape_of(a->from, row),
                              .role = a->how->has_role ? a->how->role : (sw_role)row->role};
    if (st == SW_OK)
        st = swi_builder_tensor(a->builder, &in, &id, err);
    for (uint32_t k = 0; st == SW_OK && k < row->piece_count; k++) {
        swi_piece piece;
        swi_tensor_piece(a->from, i, k, &piece);
        piece.blob += a->first_blob;
        st = swi_builder_piece(a->builder, id, &piece, err);
    }
    if (st != SW_OK)
        return st;
    if (row->replicas)
        swi_builder_allow_replicas(a->builder, id);
    if (row->defect != SW_OK)
        swi_builder_mark(a->builder, id, (sw_status)row->defect);
    return SW_OK;
}

static void append_aliases(const appending *a)
{
    for (uint32_t i = 0; i < a->from->tensor_count; i++)
        if (a->from->tensors[i].alias_of != SWI_NO_ALIAS)
            swi_builder_alias(a->builder, a->first_tensor + i,
                              a->first_tensor + a->from->tensors[i].alias_of);
}

static sw_status append_values(appending *a, sw_error *err)
{
    sw_status st = SW_OK;
    sw_value_info info;
    for (size_t i = 0; st == SW_OK && sw_catalog_value_at(a->from, i, &info); i++) {
        st = join(a, a->how->prefix, "", info.name, strlen(info.name), err);
        const swi_value_in in = {.name = (const char *)a->name.data,
                                 .name_size = a->name.size,
                                 .rank = info.rank,
                                 .blob = a->first_blob + swi_value_blob(a->from, i)};
        if (st == SW_OK)
            st = swi_builder_value(a->builder, &in, err);
    }
    return st;
}

sw_status swi_builder_append(swi_builder *builder, const sw_catalog *from, const swi_append *how,
                             uint32_t *first_tensor, sw_error *err)
{
    appending a = {.builder = builder,
                   .from = from,
                   .how = how,
                   .first_tensor = (uint32_t)builder->catalog->tensor_count};
    sw_status st = append_files(&a, err);
    if (st == SW_OK)
        st = append_blobs(&a, err);
    for (uint32_t i = 0; st == SW_OK && i < from->tensor_count; i++)
        st = append_tensor(&a, i, err);
    if (st == SW_OK) {
        append_aliases(&a);
        st = append_values(&a, err);
    }
    if (st == SW_OK)
        *first_tensor = a.first_tensor;
    free(a.files);
    swi_buf_free(&a.name);
    return st;
}
