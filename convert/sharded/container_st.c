/* Files of ranks that are safetensors. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "container/safetensors.h"
#include "sharded/container.h"
#include "target/st_file.h"

/* ---- reading -----------------------------------------------------------------------------------
 */

static sw_status visit_all(const swi_st *st, swi_rank_visit_fn visit, void *ctx, sw_error *err)
{
    sw_status status = SW_OK;
    for (size_t i = 0; status == SW_OK && i < swi_st_count(st); i++) {
        swi_st_tensor t;
        swi_st_at(st, i, &t);
        const swi_rank_tensor_in in = {t.name, t.dtype, t.axes, t.shape};
        status = visit(ctx, &in, err);
    }
    return status;
}

static sw_status make_tensor(swi_sharded_reading *r, const swi_st_tensor *t,
                             const swi_rank_place *place, sw_error *err)
{
    const swi_tensor_in in = {.name = t->name,
                              .name_size = t->name_size,
                              .dtype = t->dtype,
                              .axes = place->axes,
                              .shape = place->shape,
                              .role = SW_ROLE_PARAMETER};
    return swi_builder_tensor(r->o->builder, &in, &r->seen[place->number].id, err);
}

/* The boxes of the whole that the local tensor is made of. */
static sw_status add_pieces(swi_sharded_reading *r, const swi_st_tensor *t,
                            const swi_rank_place *place, uint32_t file, sw_error *err)
{
    const swi_blob blob = {.ops = &swi_blob_slice,
                           .file = file,
                           .offset_bytes = t->offset_bytes,
                           .stored_bytes = t->bytes,
                           .bytes = t->bytes};
    swi_piece whole = {.axes = t->axes};
    sw_status st = swi_builder_blob(r->o->builder, &blob, &whole.blob, err);
    memcpy(whole.length, t->shape, t->axes * sizeof *t->shape);
    swi_piece_make_dense(&whole, sw_dtype_bytes(t->dtype));
    for (size_t i = 0; st == SW_OK && i < place->local->count; i++) {
        const swi_block_part *part = &place->local->parts[i];
        swi_piece piece = whole;
        for (uint32_t k = 0; k < t->axes; k++) {
            piece.view[k] = place->shape[k];
            piece.offset[k] = part->offset[k];
            piece.length[k] = part->length[k];
            piece.base_bytes += part->place[k] * whole.stride_bytes[k];
        }
        st = swi_builder_piece(r->o->builder, r->seen[place->number].id, &piece, err);
    }
    return st;
}

static sw_status add_tensor(swi_sharded_reading *r, const swi_st_tensor *t, uint32_t file,
                            sw_error *err)
{
    const swi_rank_tensor_in in = {t->name, t->dtype, t->axes, t->shape};
    swi_rank_place place;
    sw_status st = swi_rank_place_of(r, &in, &place, err);
    if (st != SW_OK || place.left_out)
        return st;
    swi_rank_seen *seen = &r->seen[place.number];
    if (t->dtype == SW_DTYPE_NONE) {
        seen->told = true;
        return swi_rank_say(r, SW_ERR_UNSUPPORTED, "unknown-dtype", t->name, err,
                            "its element type is not known here");
    }
    if (seen->id == UINT32_MAX)
        st = make_tensor(r, t, &place, err);
    else if (!swi_builder_same(r->o->builder, seen->id, t->dtype, place.axes, place.shape)) {
        swi_builder_mark(r->o->builder, seen->id, SW_ERR_CONFLICT);
        return swi_rank_say(r, SW_ERR_CONFLICT, "bad-tensor", t->name, err,
                            "it is %s here and of another type in files of other ranks",
                            sw_dtype_name(t->dtype));
    }
    if (st == SW_OK && place.replicated)
        swi_builder_allow_replicas(r->o->builder, seen->id);
    return st == SW_OK && t->bytes > 0 ? add_pieces(r, t, &place, file, err) : st;
}

static sw_status fill(swi_sharded_reading *r, uint32_t i, const swi_st *st, sw_error *err)
{
    const swi_rank_file *f = &r->list.items[i];
    uint32_t file;
    swi_opening_memory(r->o, swi_st_memory(st) + swi_st_data_offset(st));
    sw_status status = swi_builder_file(r->o->builder, f->path, f->bytes, &file, err);
    for (size_t k = 0; status == SW_OK && k < swi_st_count(st); k++) {
        swi_st_tensor t;
        swi_st_at(st, k, &t);
        status = add_tensor(r, &t, file, err);
    }
    return status;
}

static sw_status read_st(swi_sharded_reading *r, uint32_t i, swi_rank_visit_fn visit, void *ctx,
                         sw_status *unreadable, sw_error *cause, sw_error *err)
{
    swi_st *st = NULL;
    *unreadable =
        swi_st_open(swi_filecache_reader(r->cache), i, r->list.items[i].bytes, &st, cause);
    sw_status status = SW_OK;
    if (*unreadable == SW_OK)
        status = visit != NULL ? visit_all(st, visit, ctx, err) : fill(r, i, st, err);
    swi_st_free(st);
    return status;
}

/* ---- laying out --------------------------------------------------------------------------------
 */

static sw_status lay_st(swi_sharded_laying *l, const char *path, const swi_rank_share *shares,
                        size_t count, sw_error *err)
{
    swi_st_tensor *heads = NULL;
    uint32_t file = 0;
    sw_status st = swi_alloc_array(count, sizeof *heads, (void **)&heads, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        const swi_chosen *c = shares[i].chosen;
        heads[i] = (swi_st_tensor){.name = c->name,
                                   .name_size = strlen(c->name),
                                   .dtype = c->dtype,
                                   .axes = shares[i].axes};
        memcpy(heads[i].shape, shares[i].shape, sizeof heads[i].shape);
    }
    const swi_st_file in = {.path = path, .tensors = heads, .count = count};
    if (st == SW_OK)
        st = swi_st_file_lay(l->layout, &in, &file, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = swi_rank_share_lay(l, &shares[i], file, heads[i].offset_bytes, err);
    free(heads);
    return st;
}

const swi_rank_container swi_rank_container_safetensors = {
    .read = read_st,
    .check = swi_st_file_check_dtypes,
    .lay = lay_st,
};
