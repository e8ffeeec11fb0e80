#include "native/native_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "container/digest_list.h"
#include "native/native_state.h"
#include "pool.h"
#include "target/st_file.h"

/* Chunks begin at multiples of it: a line of the processor's cache. */
#define ALIGN 64U
#define WRITER "shardwright " SW_VERSION_STRING

/* ---- making ---------------------------------------------------------------------------------- */

sw_status swi_native_plan_make(swi_native_plan **out, sw_error *err)
{
    swi_native_plan *plan = NULL;
    sw_status st = swi_alloc_array(1, sizeof *plan, (void **)&plan, err);
    if (st != SW_OK)
        return st;
    plan->manifest.major = SWI_NATIVE_MAJOR;
    plan->manifest.minor = SWI_NATIVE_MINOR;
    plan->manifest.writer = WRITER;
    st = swi_chunk_coder_make(&plan->coder, err);
    if (st == SW_OK)
        *out = plan;
    else
        free(plan);
    return st;
}

static void free_writing(swi_native_writing *w)
{
    free(w->pieces);
    free(w->chunk_ends);
    free(w->chunks);
    free(w->chunk_element);
    free(w->whole);
    swi_buf_free(&w->values);
}

void swi_native_plan_free(void *p)
{
    swi_native_plan *plan = p;
    if (plan == NULL)
        return;
    for (uint32_t r = 0; r < plan->rank_count; r++)
        free_writing(&plan->ranks[r]);
    free(plan->ranks);
    free(plan->tensors);
    free(plan->manifest.meshes);
    free(plan->manifest.layouts);
    free(plan->manifest.shards);
    free(plan->manifest.assets);
    swi_chunk_coder_free(plan->coder);
    swi_arena_free(&plan->arena);
    free(plan);
}

sw_status swi_native_plan_ranks(swi_native_plan *plan, uint32_t ranks, sw_error *err)
{
    sw_status st = swi_alloc_array(ranks, sizeof *plan->ranks, (void **)&plan->ranks, err);
    if (st == SW_OK)
        st = swi_alloc_array(ranks, sizeof *plan->manifest.shards, (void **)&plan->manifest.shards,
                             err);
    if (st != SW_OK)
        return st;
    plan->rank_count = ranks;
    plan->manifest.shard_count = ranks;
    for (uint32_t r = 0; r < ranks; r++) {
        plan->ranks[r].plan = plan;
        plan->ranks[r].rank = r;
    }
    return SW_OK;
}

sw_status swi_native_plan_tensors(swi_native_plan *plan, uint32_t count, sw_error *err)
{
    plan->tensor_count = plan->manifest.tensors = count;
    return swi_alloc_array(count, sizeof *plan->tensors, (void **)&plan->tensors, err);
}

/* ---- layouts --------------------------------------------------------------------------------- */

static bool same_mesh(const swi_native_mesh *a, const swi_native_mesh *b)
{
    bool same = a->axes == b->axes;
    for (uint32_t k = 0; same && k < a->axes; k++)
        same = a->axis[k].size == b->axis[k].size && strcmp(a->axis[k].name, b->axis[k].name) == 0;
    return same;
}

static sw_status find_mesh(swi_native_plan *plan, const swi_native_mesh *mesh, uint32_t *out,
                           sw_error *err)
{
    swi_native_manifest *m = &plan->manifest;
    for (*out = 0; *out < m->mesh_count; (*out)++)
        if (same_mesh(&m->meshes[*out], mesh))
            return SW_OK;
    sw_status st = swi_grow_array((void **)&m->meshes, &plan->mesh_capacity, m->mesh_count + 1,
                                  sizeof *m->meshes, err);
    swi_native_mesh made = *mesh;
    for (uint32_t a = 0; st == SW_OK && a < mesh->axes; a++)
        st = swi_arena_text(&plan->arena, mesh->axis[a].name, strlen(mesh->axis[a].name),
                            &made.axis[a].name, err);
    if (st == SW_OK)
        m->meshes[m->mesh_count++] = made;
    return st;
}

static bool same_layout(const swi_native_layout *a, const swi_native_layout *b, uint32_t axes)
{
    bool same = a->kind == b->kind && (a->kind != SWI_NATIVE_DTENSOR || a->mesh == b->mesh);
    for (uint32_t k = 0; same && a->kind == SWI_NATIVE_DTENSOR && k < axes; k++)
        same = a->at[k].kind == b->at[k].kind && a->at[k].dim == b->at[k].dim &&
               a->at[k].factor == b->at[k].factor &&
               (a->at[k].kind != SWI_NATIVE_PARTIAL || strcmp(a->at[k].op, b->at[k].op) == 0);
    return same;
}

sw_status swi_native_plan_layout(swi_native_plan *plan, const swi_native_layout *layout,
                                 const swi_native_mesh *mesh, uint32_t *out, sw_error *err)
{
    swi_native_manifest *m = &plan->manifest;
    swi_native_layout made = *layout;
    sw_status st = made.kind == SWI_NATIVE_DTENSOR ? find_mesh(plan, mesh, &made.mesh, err) : SW_OK;
    if (st != SW_OK)
        return st;
    for (*out = 0; *out < m->layout_count; (*out)++)
        if (same_layout(&m->layouts[*out], &made, mesh->axes))
            return SW_OK;
    st = swi_grow_array((void **)&m->layouts, &plan->layout_capacity, m->layout_count + 1,
                        sizeof *m->layouts, err);
    for (uint32_t a = 0; st == SW_OK && made.kind == SWI_NATIVE_DTENSOR && a < mesh->axes; a++)
        if (made.at[a].kind == SWI_NATIVE_PARTIAL)
            st = swi_arena_text(&plan->arena, made.at[a].op, strlen(made.at[a].op), &made.at[a].op,
                                err);
    if (st == SW_OK)
        m->layouts[m->layout_count++] = made;
    return st;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

sw_status swi_native_plan_piece(swi_native_plan *plan, uint32_t rank, const swi_native_piece *piece,
                                sw_error *err)
{
    swi_native_writing *w = &plan->ranks[rank];
    uint64_t chunks;
    const uint32_t element = sw_dtype_bytes(plan->tensors[piece->tensor].dtype);
    if (!swi_native_grid_count(piece, element, &chunks) ||
        !swi_add_u64(w->chunk_count, chunks, &w->chunk_count))
        return swi_fail(err, SW_ERR_LIMIT, "tensor \"%s\" is too large",
                        plan->tensors[piece->tensor].name);
    sw_status st = swi_grow_array((void **)&w->pieces, &w->piece_capacity, w->piece_count + 1,
                                  sizeof *w->pieces, err);
    if (st == SW_OK)
        w->pieces[w->piece_count++] = *piece;
    return st;
}

static bool is_whole(const swi_native_plan *plan, const swi_native_piece *piece, uint64_t chunks)
{
    const swi_native_tensor *t = &plan->tensors[piece->tensor];
    bool whole = chunks == 1 && !piece->flat && piece->axes == t->axes;
    for (uint32_t k = 0; whole && k < t->axes; k++)
        whole = piece->length[k] == t->shape[k];
    return whole;
}

static sw_status cut_chunks(swi_native_writing *w, sw_error *err)
{
    uint64_t end = 0;
    size_t at = 0;
    for (size_t i = 0; i < w->piece_count; i++) {
        const swi_native_piece *piece = &w->pieces[i];
        const uint32_t element = sw_dtype_bytes(w->plan->tensors[piece->tensor].dtype);
        uint64_t chunks = 0;
        (void)swi_native_grid_count(piece, element, &chunks);
        w->whole[i] = is_whole(w->plan, piece, chunks);
        for (uint64_t c = 0; c < chunks; c++) {
            int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
            uint64_t bytes = element;
            swi_native_grid_box(piece, c, offset, length);
            for (uint32_t k = 0; k < piece->axes; k++)
                bytes *= (uint64_t)length[k];
            if (!swi_add_u64(end, bytes, &end) || end > (uint64_t)INT64_MAX)
                return swi_fail(err, SW_ERR_LIMIT, "a file would be too large");
            w->chunk_element[at] = (uint8_t)element;
            w->chunk_ends[at++] = end;
        }
    }
    return SW_OK;
}

static sw_status make_chunks(swi_native_writing *w, sw_error *err)
{
    const size_t n = (size_t)w->chunk_count;
    sw_status st = swi_alloc_array(n, sizeof *w->chunk_ends, (void **)&w->chunk_ends, err);
    if (st == SW_OK)
        st = swi_alloc_array(n, sizeof *w->chunks, (void **)&w->chunks, err);
    if (st == SW_OK)
        st = swi_alloc_array(n, 1, (void **)&w->chunk_element, err);
    if (st == SW_OK)
        st = swi_alloc_array(w->piece_count, sizeof *w->whole, (void **)&w->whole, err);
    return st == SW_OK ? cut_chunks(w, err) : st;
}

/* ---- while it is written ----------------------------------------------------------------------
 */

static size_t chunk_room(size_t raw_bytes)
{
    return SWI_CHUNK_STORED_MAX(raw_bytes);
}

static sw_status encode(void *ctx, size_t chunk, const uint8_t *raw, size_t size, uint8_t *out,
                        size_t *out_size, sw_error *err)
{
    swi_native_writing *w = ctx;
    swi_native_chunk *c = &w->chunks[chunk];
    swi_chunk_codec codec;
    sw_status st = swi_chunk_encode(w->plan->coder, w->plan->choice, w->chunk_element[chunk], raw,
                                    size, out, out_size, &codec, err);
    if (st != SW_OK)
        return st;
    c->codec = (uint8_t)codec;
    c->stored_bytes = (uint32_t)*out_size;
    return swi_digest_bytes(&(swi_bytes){out, *out_size}, 1, &c->digest, err);
}

static void placed(void *ctx, size_t chunk, uint64_t offset, size_t size)
{
    swi_native_writing *w = ctx;
    (void)size;
    w->chunks[chunk].offset_bytes = offset;
}

static swi_native_head head_of(const swi_native_writing *w)
{
    swi_native_head head = {.rank = w->rank, .world = w->plan->rank_count, .align = ALIGN};
    memcpy(head.save_id, w->plan->manifest.save_id, sizeof head.save_id);
    return head;
}

static sw_status finish(void *ctx, uint64_t end, swi_buf *tail, sw_error *err)
{
    swi_native_writing *w = ctx;
    const swi_native_head head = head_of(w);
    swi_native_file *file = &w->plan->manifest.shards[w->rank];
    const char *name = file->file;
    const swi_native_tail in = {.pieces = w->pieces,
                                .piece_count = w->piece_count,
                                .chunks = w->chunks,
                                .chunk_count = (size_t)w->chunk_count,
                                .values = w->values.data,
                                .values_bytes = w->values.size,
                                .chunks_end = end,
                                .threads = 1,
                                .whole = w->whole};
    sw_status st = swi_native_tail_write(&head, &in, tail, file, err);
    file->file = name;
    return st;
}

static sw_status make_table(void *ctx, const swi_digest *digests, swi_buf *out, sw_error *err)
{
    swi_native_plan *plan = ctx;
    swi_native_manifest *m = &plan->manifest;
    swi_digest_list list = {0};
    const size_t before = out->size;
    sw_status st = SW_OK;
    m->has_content = true;
    for (uint32_t i = 0; st == SW_OK && i < plan->tensor_count; i++) {
        swi_native_tensor *t = &plan->tensors[i];
        /* NAT-7: what its terms will be when they are added up has no digest yet. */
        t->has_digest = !swi_native_layout_is_partial(m, t->layout);
        m->has_content = m->has_content && t->has_digest;
        if (!t->has_digest)
            continue;
        t->digest = digests[i];
        st = swi_digest_list_add(&list, t->name, t->name_size, &t->digest, err);
    }
    if (st == SW_OK)
        st = swi_digest_list_end(&list, err);
    if (m->has_content)
        m->content = list.root;
    swi_digest_list_free(&list);
    if (st == SW_OK)
        st = swi_native_table_write(plan->tensors, plan->tensor_count, out, err);
    m->table.bytes = out->size - before;
    return st == SW_OK ? swi_section_digest(out->data + before, out->size - before,
                                            swi_work_threads(NULL), &m->table.digest, err)
                       : st;
}

static sw_status make_manifest(void *ctx, const swi_digest *digests, swi_buf *out, sw_error *err)
{
    swi_native_plan *plan = ctx;
    (void)digests;
    return swi_native_manifest_write(&plan->manifest, out, err);
}

/* ---- laying ------------------------------------------------------------------------------------
 */

/* Of what is known before a byte is written: the same for the same input. */
static sw_status choose_save_id(swi_native_plan *plan, const void *state, size_t size,
                                sw_error *err)
{
    swi_buf all = {0};
    swi_digest digest;
    sw_status st = swi_native_table_write(plan->tensors, plan->tensor_count, &all, err);
    if (st == SW_OK)
        st = swi_buf_append(&all, state, size, err);
    for (uint32_t r = 0; st == SW_OK && r < plan->rank_count; r++)
        st = swi_buf_append(&all, plan->ranks[r].values.data, plan->ranks[r].values.size, err);
    if (st == SW_OK)
        st = swi_section_digest(all.data, all.size, 0, &digest, err);
    if (st == SW_OK)
        memcpy(plan->manifest.save_id, digest.bytes, sizeof plan->manifest.save_id);
    swi_buf_free(&all);
    return st;
}

sw_status swi_native_plan_values(swi_native_plan *plan, const swi_target_in *in, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t r = 0; st == SW_OK && r < plan->rank_count; r++)
        st = swi_native_write_rank_values(in, r, plan->rank_count, &plan->ranks[r].values, err);
    return st;
}

sw_status swi_native_plan_lay_shard(swi_native_plan *plan, uint32_t rank, swi_layout *layout,
                                    sw_error *err)
{
    swi_native_writing *w = &plan->ranks[rank];
    char name[SWI_NATIVE_SHARD_NAME];
    swi_native_shard_name(rank, plan->rank_count, name);
    sw_status st = make_chunks(w, err);
    if (st == SW_OK)
        st = swi_arena_text(&plan->arena, name, strlen(name), &plan->manifest.shards[rank].file,
                            err);
    const uint64_t bytes =
        st == SW_OK && w->chunk_count > 0 ? w->chunk_ends[w->chunk_count - 1] : 0;
    if (st == SW_OK)
        st = swi_layout_file(layout, name, bytes, &w->file, err);
    const swi_packing packing = {.chunk_ends = w->chunk_ends,
                                 .chunks = (size_t)w->chunk_count,
                                 .align = ALIGN,
                                 .head = w->head,
                                 .head_bytes = sizeof w->head,
                                 .room = chunk_room,
                                 .encode = encode,
                                 .placed = placed,
                                 .finish = finish,
                                 .ctx = w};
    return st == SW_OK ? swi_layout_pack(layout, w->file, &packing, err) : st;
}

sw_status swi_native_plan_lay_state(swi_native_plan *plan, const swi_target_in *in,
                                    swi_layout *layout, sw_error *err)
{
    swi_native_file *file = &plan->manifest.state;
    swi_buf text = {0};
    sw_status st = swi_native_write_state(in, &text, err);
    file->file = SWI_NATIVE_STATE;
    file->bytes = text.size;
    if (st == SW_OK)
        st = swi_section_digest(text.data, text.size, 0, &file->digest, err);
    if (st == SW_OK)
        st = choose_save_id(plan, text.data, text.size, err);
    for (uint32_t r = 0; st == SW_OK && r < plan->rank_count; r++) {
        const swi_native_head head = head_of(&plan->ranks[r]);
        swi_native_head_write(&head, plan->ranks[r].head);
    }
    if (st == SW_OK)
        st = swi_lay_bytes(layout, SWI_NATIVE_STATE, text.data, text.size, err);
    swi_buf_free(&text);
    return st;
}

sw_status swi_native_plan_lay_asset(swi_native_plan *plan, const char *path, const void *data,
                                    size_t size, swi_layout *layout, sw_error *err)
{
    swi_native_manifest *m = &plan->manifest;
    swi_native_file made = {.bytes = size};
    sw_status st = swi_grow_array((void **)&m->assets, &plan->asset_capacity, m->asset_count + 1,
                                  sizeof *m->assets, err);
    if (st == SW_OK)
        st = swi_arena_text(&plan->arena, path, strlen(path), &made.file, err);
    if (st == SW_OK)
        st = swi_section_digest(data, size, 0, &made.digest, err);
    if (st == SW_OK)
        st = swi_lay_bytes(layout, path, data, size, err);
    if (st != SW_OK)
        return st;
    size_t at = m->asset_count++;
    for (; at > 0 && strcmp(m->assets[at - 1].file, path) > 0; at--)
        m->assets[at] = m->assets[at - 1];
    m->assets[at] = made;
    return SW_OK;
}

sw_status swi_native_plan_lay_last(swi_native_plan *plan, swi_layout *layout, bool *given,
                                   sw_error *err)
{
    uint32_t file;
    const swi_made table = {.make = make_table, .ctx = plan};
    const swi_made manifest = {
        .make = make_manifest, .ctx = plan, .free_ctx = swi_native_plan_free};
    plan->manifest.table.file = SWI_NATIVE_TABLE;
    sw_status st = swi_layout_made(layout, SWI_NATIVE_TABLE, &table, &file, err);
    if (st == SW_OK)
        st = swi_layout_made(layout, SWI_NATIVE_MANIFEST, &manifest, &file, err);
    *given = st == SW_OK;
    return st;
}
