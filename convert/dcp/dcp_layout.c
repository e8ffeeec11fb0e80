/*
 * A DCP folder as a target: what the ranks of an FSDP2 run would have written. Parameters and their
 * optimizer states are cut in boxes (leaf_division.h), each written once; everything else is
 * written whole. Clauses DCP-n are those of specs/dcp.md.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"
#include "container/torch_file.h"
#include "dcp/dcp.h"
#include "ranks/rank_lay.h"
#include "state/state.h"
#include "target/leaf_division.h"

/* What the archive around a box is made of when the CRC is known. */
typedef struct frame {
    sw_dtype dtype;
    uint32_t axes;
    const int64_t *shape; /* of the box */
    uint32_t sum;
} frame;

/* An item of a .distcp file. */
typedef struct item {
    uint32_t rank;
    const int64_t *at, *shape;          /* of a tensor's box */
    uint64_t offset, head, bytes, tail; /* an object is all head */
} item;

typedef struct laying {
    const swi_target_in *in;
    swi_layout *layout;
    swi_leaf_division division;
    uint32_t ranks;
    frame *frames;      /* of boxes, with their shapes in one block, which the layout owns */
    size_t frame_count; /* that the layout was given */
    int64_t *shapes;    /* of the boxes, behind the frames */
    int64_t *places;    /* of the boxes */
    size_t numbers;     /* of those that are taken */
    item *items;        /* of the leaves in order */
    size_t *first_item; /* of each leaf, and one past the last */
    uint64_t *used;     /* by rank: bytes of its file */
    uint32_t *files;    /* by rank */
    char (*paths)[32];
    swi_local local;
    swi_buf head, tail;
} laying;

static void tensor_of(const laying *l, const swi_state_part *leaf, sw_tensor_info *out)
{
    sw_catalog_tensor(sw_checkpoint_catalog(l->in->source), leaf->tensor->source, out);
    out->dtype = leaf->tensor->dtype;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

/* What there is once: a holding of a tensor, and the ranks that may write it. */
typedef struct holding {
    const swi_cut *cut; /* NULL: the whole tensor, of any rank */
    uint64_t number;
} holding;

/* The boxes of a leaf's tensor, holding by holding: l->local has those of each. */
typedef sw_status (*holding_fn)(laying *l, size_t leaf, const holding *h, sw_error *err);

static sw_status each_holding(laying *l, size_t leaf, holding_fn fn, sw_error *err)
{
    const swi_state_part *part = &l->in->leaves[leaf];
    swi_cut cut;
    bool whole;
    sw_tensor_info info;
    sw_status st = swi_leaf_cut(&l->division, part, &whole, &cut, err);
    if (st == SW_OK && whole) {
        const holding all = {.cut = NULL};
        tensor_of(l, part, &info);
        l->local.axes = info.axes;
        l->local.count = 1;
        memset(&l->local.parts[0], 0, sizeof l->local.parts[0]);
        memcpy(l->local.parts[0].length, info.shape, sizeof info.shape);
        return fn(l, leaf, &all, err);
    }
    for (uint64_t i = 0; st == SW_OK && i < cut.holdings; i++) {
        const holding h = {.cut = &cut, .number = i};
        swi_cut_local(&cut, i, &l->local);
        st = fn(l, leaf, &h, err);
    }
    return st;
}

static sw_status count_boxes(laying *l, size_t leaf, const holding *h, sw_error *err)
{
    (void)h;
    (void)err;
    l->first_item[leaf + 1] += l->local.count;
    l->numbers += l->local.count * l->local.axes;
    return SW_OK;
}

static sw_status check_dtype(const swi_state_part *leaf, sw_error *err)
{
    const swi_chosen *c = leaf->tensor;
    swi_quoted q;
    if (swi_torch_dtype_name(c->dtype) != NULL)
        return SW_OK;
    return swi_fail(err, SW_ERR_UNSUPPORTED,
                    "tensor \"%s\" is %s, which torch does not have; leave it out with --drop",
                    swi_quote_str(&q, c->name), sw_dtype_name(c->dtype));
}

static sw_status make_frames(laying *l, size_t frames, sw_error *err)
{
    size_t bytes = 0, shapes = 0;
    void *room;
    if (!swi_mul_size(frames, sizeof *l->frames, &bytes) ||
        !swi_mul_size(l->numbers, sizeof *l->shapes, &shapes) ||
        !swi_add_size(bytes, shapes, &bytes))
        return swi_fail_nomem(err);
    sw_status st = swi_alloc_array(bytes, 1, &room, err);
    if (st == SW_OK) {
        l->frames = room;
        l->shapes = (void *)(l->frames + frames);
        st = swi_alloc_array(l->numbers, sizeof *l->places, (void **)&l->places, err);
    }
    l->numbers = 0;
    return st;
}

/* Counts the boxes; makes room for all that follows. */
static sw_status make_room(laying *l, sw_error *err)
{
    size_t frames = 0, items = 0;
    sw_status st =
        swi_alloc_array(l->in->leaf_count + 1, sizeof *l->first_item, (void **)&l->first_item, err);
    for (size_t i = 0; st == SW_OK && i < l->in->leaf_count; i++) {
        const swi_state_part *leaf = &l->in->leaves[i];
        if (leaf->tensor != NULL) {
            st = check_dtype(leaf, err);
            if (st == SW_OK)
                st = each_holding(l, i, count_boxes, err);
            frames += l->first_item[i + 1];
        }
        items += leaf->tensor != NULL ? l->first_item[i + 1] : 1;
        l->first_item[i + 1] = items;
    }
    if (st == SW_OK)
        st = make_frames(l, frames, err);
    if (st == SW_OK)
        st = swi_alloc_array(items, sizeof *l->items, (void **)&l->items, err);
    if (st == SW_OK)
        st = swi_alloc_array(l->ranks, sizeof *l->used, (void **)&l->used, err);
    if (st == SW_OK)
        st = swi_alloc_array(l->ranks, sizeof *l->files, (void **)&l->files, err);
    if (st == SW_OK)
        st = swi_alloc_array(l->ranks, sizeof *l->paths, (void **)&l->paths, err);
    return st;
}

/* ---- where items lie --------------------------------------------------------------------------
 */

/* Of the ranks of a holding the one with the least to write, as torch's planner has it. */
static uint32_t least_loaded(const laying *l, const holding *h)
{
    const uint64_t copies = h->cut != NULL ? h->cut->copies : l->ranks;
    uint32_t best = UINT32_MAX;
    for (uint64_t k = 0; k < copies; k++) {
        uint32_t r = (uint32_t)(h->cut != NULL ? swi_cut_rank(h->cut, h->number, k) : k);
        if (best == UINT32_MAX || l->used[r] < l->used[best])
            best = r;
    }
    return best;
}

static sw_status place(laying *l, item *it, sw_error *err)
{
    uint64_t *used = &l->used[it->rank];
    it->offset = *used;
    if (swi_add_u64(*used, it->head, used) && swi_add_u64(*used, it->bytes, used) &&
        swi_add_u64(*used, it->tail, used) && *used <= (uint64_t)INT64_MAX)
        return SW_OK;
    return swi_fail(err, SW_ERR_LIMIT, "a file would be too large");
}

static sw_status write_around(const frame *f, uint32_t crc, swi_buf *head, swi_buf *tail,
                              sw_error *err)
{
    const swi_torch_around in = {
        .dtype = f->dtype, .axes = f->axes, .shape = f->shape, .crc32 = crc};
    head->size = tail->size = 0;
    return swi_torch_write_around(head, tail, &in, err);
}

/* The next box of all, its numbers copied. */
static void take_box(laying *l, const swi_block_part *box, item *it)
{
    const size_t size = l->local.axes * sizeof(int64_t);
    it->at = memcpy(l->places + l->numbers, box->offset, size);
    it->shape = memcpy(l->shapes + l->numbers, box->length, size);
    l->numbers += l->local.axes;
}

/* first_item[leaf + 1] is where the next item goes, and so at last one past the leaf's. */
static sw_status place_holding(laying *l, size_t leaf, const holding *h, sw_error *err)
{
    sw_tensor_info info;
    sw_status st = SW_OK;
    const uint32_t rank = l->local.count > 0 ? least_loaded(l, h) : 0;
    tensor_of(l, &l->in->leaves[leaf], &info);
    for (size_t p = 0; st == SW_OK && p < l->local.count; p++) {
        item *it = &l->items[l->first_item[leaf + 1]];
        const bool first = l->first_item[leaf + 1]++ == l->first_item[leaf];
        const size_t shape_bytes = info.axes * sizeof(int64_t);
        take_box(l, &l->local.parts[p], it);
        it->rank = rank;
        it->bytes = sw_dtype_bytes(info.dtype);
        for (uint32_t k = 0; k < info.axes; k++)
            it->bytes *= (uint64_t)it->shape[k];
        const frame f = {.dtype = info.dtype, .axes = info.axes, .shape = it->shape};
        if (first || memcmp(it->shape, it[-1].shape, shape_bytes) != 0)
            st = write_around(&f, 0, &l->head, &l->tail, err);
        it->head = l->head.size;
        it->tail = l->tail.size;
        if (st == SW_OK)
            st = place(l, it, err);
    }
    return st;
}

static sw_status place_tensor(laying *l, size_t leaf, sw_error *err)
{
    l->first_item[leaf + 1] = l->first_item[leaf];
    return each_holding(l, leaf, place_holding, err);
}

/* What cannot be written as it is: with the tensors in it as parts, if there are any. */
static sw_status write_carried(laying *l, sw_value v, sw_error *err)
{
    sw_value_graph *own = NULL;
    sw_error refusal = {0}, *inner = err != NULL ? &refusal : NULL;
    sw_status st = swi_state_carry(l->in, v, &own, &v, inner);
    if (st == SW_OK && own == NULL)
        return SW_ERR_UNSUPPORTED; /* in the words of `err` */
    l->head.size = 0;
    if (st == SW_OK)
        st = swi_torch_write_graph(&l->head, own, v, inner);
    sw_value_graph_free(own);
    if (err != NULL)
        *err = refusal;
    return st;
}

/* The object's archive, in l->head. Few values hold tensors: only what is refused is looked at. */
static sw_status write_value(laying *l, size_t leaf, sw_error *err)
{
    swi_quoted q;
    const sw_value v = l->in->leaves[leaf].value;
    l->head.size = 0;
    sw_status st = swi_torch_write_graph(&l->head, l->in->state->graph, v, err);
    if (st == SW_ERR_UNSUPPORTED)
        st = write_carried(l, v, err);
    if (st == SW_OK)
        return SW_OK;
    return swi_error_prefix(err, "value \"%s\"", swi_quote_str(&q, l->in->leaves[leaf].name));
}

static sw_status place_all(laying *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < l->in->leaf_count; i++) {
        if (l->in->leaves[i].tensor != NULL) {
            st = place_tensor(l, i, err);
            continue;
        }
        item *it = &l->items[l->first_item[i]];
        st = write_value(l, i, err);
        it->head = l->head.size;
        if (st == SW_OK)
            st = place(l, it, err);
    }
    return st;
}

/* ---- laying ------------------------------------------------------------------------------------
 */

static sw_status lay_files(laying *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t r = 0; st == SW_OK && r < l->ranks; r++) {
        if (l->used[r] == 0)
            continue;
        snprintf(l->paths[r], sizeof l->paths[r], "__%" PRIu32 "_0.distcp", r);
        st = swi_layout_file(l->layout, l->paths[r], l->used[r], &l->files[r], err);
    }
    return st;
}

static sw_status make_part(const frame *f, uint32_t crc, bool head, uint8_t *out, size_t size,
                           sw_error *err)
{
    swi_buf parts[2] = {{0}, {0}};
    sw_status st = write_around(f, crc, &parts[0], &parts[1], err);
    const swi_buf *part = &parts[head ? 0 : 1];
    if (st == SW_OK && part->size != size)
        st = swi_fail(err, SW_ERR_ARG, "an archive's frame has %zu bytes, not %zu", part->size,
                      size);
    if (st == SW_OK)
        memcpy(out, part->data, size);
    swi_buf_free(&parts[0]);
    swi_buf_free(&parts[1]);
    return st;
}

static sw_status make_head(void *ctx, const uint32_t *sums, uint8_t *out, size_t size,
                           sw_error *err)
{
    (void)sums;
    return make_part(ctx, 0, true, out, size, err);
}

static sw_status make_tail(void *ctx, const uint32_t *sums, uint8_t *out, size_t size,
                           sw_error *err)
{
    const frame *f = ctx;
    return make_part(f, sums[f->sum], false, out, size, err);
}

/* The archive around the data. The first of all brings the frames into the layout's hands. */
static sw_status lay_around(laying *l, const item *it, const sw_tensor_info *t, sw_error *err)
{
    uint32_t file = l->files[it->rank];
    frame *f = &l->frames[l->frame_count];
    *f = (frame){.dtype = t->dtype, .axes = t->axes, .shape = it->shape};
    swi_late late = {.offset_bytes = it->offset,
                     .size = (size_t)it->head,
                     .make = make_head,
                     .ctx = f,
                     .free_ctx = l->frame_count == 0 ? free : NULL};
    sw_status st = swi_layout_late(l->layout, file, &late, err);
    if (st != SW_OK)
        return st;
    l->frame_count++;
    st = swi_layout_sum(l->layout, file, it->offset + it->head, it->bytes, &f->sum, err);
    late.offset_bytes = it->offset + it->head + it->bytes;
    late.size = (size_t)it->tail;
    late.make = make_tail;
    late.free_ctx = NULL;
    return st == SW_OK ? swi_layout_late(l->layout, file, &late, err) : st;
}

static sw_status lay_tensor(laying *l, size_t leaf, sw_error *err)
{
    const swi_chosen *c = l->in->leaves[leaf].tensor;
    sw_tensor_info info;
    uint32_t id;
    tensor_of(l, &l->in->leaves[leaf], &info);
    const swi_tensor_in in = {.name = c->name,
                              .name_size = strlen(c->name),
                              .dtype = info.dtype,
                              .axes = info.axes,
                              .shape = info.shape,
                              .role = info.role};
    const size_t shape_bytes = info.axes * sizeof(int64_t);
    sw_status st = swi_layout_tensor(l->layout, &in, c->source, &id, err);
    for (size_t i = l->first_item[leaf]; st == SW_OK && i < l->first_item[leaf + 1]; i++) {
        const item *it = &l->items[i];
        swi_piece piece = {.axes = info.axes};
        memcpy(piece.view, info.shape, sizeof piece.view);
        memcpy(piece.offset, it->at, shape_bytes);
        memcpy(piece.length, it->shape, shape_bytes);
        swi_piece_make_dense(&piece, sw_dtype_bytes(info.dtype));
        st = lay_around(l, it, &info, err);
        if (st == SW_OK && it->bytes > 0)
            st = swi_layout_piece(l->layout, id, l->files[it->rank], it->offset + it->head,
                                  it->bytes, &piece, err);
    }
    return st;
}

static sw_status lay_all(laying *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < l->in->leaf_count; i++) {
        if (l->in->leaves[i].tensor != NULL) {
            st = lay_tensor(l, i, err);
            continue;
        }
        const item *it = &l->items[l->first_item[i]];
        st = write_value(l, i, err);
        if (st == SW_OK)
            st = swi_layout_literal(l->layout, l->files[it->rank], it->offset, l->head.data,
                                    l->head.size, err);
    }
    return st;
}

/* ---- the index ---------------------------------------------------------------------------------
 */

typedef struct index_room {
    swi_dcp_write_item *items;
    swi_dcp_write_chunk *chunks;
    sw_tensor_info *tensors; /* of the leaves */
} index_room;

static void set_index(const laying *l, const index_room *room)
{
    for (size_t i = 0; i < l->in->leaf_count; i++) {
        const swi_state_part *leaf = &l->in->leaves[i];
        size_t first = l->first_item[i], end = l->first_item[i + 1];
        for (size_t k = first; k < end; k++) {
            const item *it = &l->items[k];
            room->chunks[k] =
                (swi_dcp_write_chunk){.offset = it->at,
                                      .length = it->shape,
                                      .path = l->paths[it->rank],
                                      .offset_bytes = it->offset,
                                      .stored_bytes = it->head + it->bytes + it->tail};
        }
        room->items[i] = (swi_dcp_write_item){.name = leaf->name,
                                              .path_parts = leaf->path,
                                              .path_count = leaf->parts,
                                              .is_object = leaf->tensor == NULL,
                                              .chunks = &room->chunks[first],
                                              .chunk_count = end - first};
        if (leaf->tensor == NULL)
            continue;
        tensor_of(l, leaf, &room->tensors[i]);
        room->items[i].dtype = room->tensors[i].dtype;
        room->items[i].axes = room->tensors[i].axes;
        room->items[i].shape = room->tensors[i].shape;
    }
}

static sw_status lay_index(laying *l, sw_error *err)
{
    index_room room = {0};
    size_t leaves = l->in->leaf_count, items = l->first_item[leaves];
    uint32_t file;
    sw_status st = swi_alloc_array(leaves, sizeof *room.items, (void **)&room.items, err);
    if (st == SW_OK)
        st = swi_alloc_array(items, sizeof *room.chunks, (void **)&room.chunks, err);
    if (st == SW_OK)
        st = swi_alloc_array(leaves, sizeof *room.tensors, (void **)&room.tensors, err);
    l->head.size = 0;
    if (st == SW_OK) {
        set_index(l, &room);
        st = swi_dcp_meta_write(&l->head, room.items, leaves, err);
    }
    if (st == SW_OK)
        st = swi_layout_file(l->layout, ".metadata", l->head.size, &file, err);
    if (st == SW_OK)
        st = swi_layout_literal(l->layout, file, 0, l->head.data, l->head.size, err);
    free(room.items);
    free(room.chunks);
    free(room.tensors);
    return st;
}

static sw_status lay_out(laying *l, sw_error *err)
{
    const swi_leaf_division_in in = swi_leaf_division_dcp(l->in);
    sw_status st = swi_leaf_division_make(&in, &l->division, err);
    if (st != SW_OK)
        return st;
    l->ranks = l->division.ranks;
    st = make_room(l, err);
    if (st == SW_OK)
        st = place_all(l, err);
    if (st == SW_OK)
        st = lay_files(l, err);
    if (st == SW_OK)
        st = lay_all(l, err);
    if (st == SW_OK)
        st = lay_index(l, err);
    return st == SW_OK ? swi_leaf_division_say(&l->division, err) : st;
}

sw_status swi_dcp_layout(const swi_target_in *in, swi_layout *layout, sw_error *err)
{
    laying *l = NULL;
    if (swi_rank_files_asked(in->options))
        return swi_rank_layout(in, layout, err);
    sw_status st = swi_alloc_array(1, sizeof *l, (void **)&l, err);
    if (st != SW_OK)
        return st;
    l->in = in;
    l->layout = layout;
    st = lay_out(l, err);
    swi_leaf_division_end(&l->division);
    if (l->frame_count == 0)
        free(l->frames);
    free(l->places);
    free(l->items);
    free(l->first_item);
    free(l->used);
    free(l->files);
    free(l->paths);
    swi_buf_free(&l->head);
    swi_buf_free(&l->tail);
    free(l);
    return st;
}
