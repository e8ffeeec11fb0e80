/*
 * A DCP folder as a target: what N ranks of an FSDP2 run would have written. Parameters and their
 * optimizer states are cut in rows as torch.chunk cuts them, one part a rank; everything else is
 * written once. Clauses DCP-n are those of specs/dcp.md.
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
#include "state/state.h"

#define RANKS_MAX 16384U

/* What the archives around a tensor's parts are made of when the CRCs are known. */
typedef struct tensor {
    sw_dtype dtype;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    int64_t rows; /* of each part but the last; 0: it is not cut */
} tensor;

typedef struct frame {
    const tensor *of;
    int64_t rows;
    uint32_t sum;
} frame;

/* An item of a .distcp file. */
typedef struct item {
    uint32_t rank;
    int64_t row, rows;
    uint64_t offset, head, bytes, tail; /* an object is all head */
} item;

typedef struct laying {
    const swi_target_in *in;
    swi_layout *layout;
    uint32_t ranks, replicate;
    tensor *tensors; /* as in->chosen; in one block behind the frames, which the layout owns */
    frame *frames;
    size_t frame_count; /* that the layout was given */
    item *items;        /* of the leaves in order */
    size_t *first_item; /* of each leaf, and one past the last */
    uint64_t *used;     /* by rank: bytes of its file */
    uint32_t *files;    /* by rank */
    char (*paths)[32];
    swi_buf head, tail;
} laying;

/* ---- options -------------------------------------------------------------------------------- */

static bool parse_count(const char *text, size_t size, uint32_t *out)
{
    uint32_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || n > RANKS_MAX)
            return false;
        n = n * 10 + (uint32_t)(text[i] - '0');
    }
    *out = n;
    return n > 0 && n <= RANKS_MAX;
}

static bool parse_option(laying *l, const char *text, size_t size)
{
    static const char *const names[] = {"ranks=", "dp=", "replicate="};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(names[i]);
        if (size > n && strncmp(text, names[i], n) == 0)
            return parse_count(text + n, size - n, i == 2 ? &l->replicate : &l->ranks);
    }
    return false;
}

static sw_status parse_options(laying *l, sw_error *err)
{
    const char *options = l->in->options;
    swi_quoted q;
    l->ranks = l->replicate = 1;
    while (*options != '\0') {
        const char *end = strchr(options, ',');
        size_t n = end ? (size_t)(end - options) : strlen(options);
        if (!parse_option(l, options, n))
            return swi_fail(err, SW_ERR_ARG,
                            "--to dcp:%s: not an option; there are ranks=N (or dp=N) and "
                            "replicate=R, together up to %u ranks",
                            swi_quote(&q, options, n), RANKS_MAX);
        options += n + (end != NULL);
    }
    if (l->replicate > RANKS_MAX / l->ranks)
        return swi_fail(err, SW_ERR_ARG, "--to dcp: more than %u ranks in all", RANKS_MAX);
    return SW_OK;
}

/* ---- how tensors are cut ----------------------------------------------------------------------
 */

static bool is_cut(const laying *l, const sw_tensor_info *info)
{
    return l->ranks > 1 && info->role != SW_ROLE_OTHER && info->axes > 0 && info->elements > 0;
}

static sw_status set_tensor(const laying *l, size_t i, size_t *parts, sw_error *err)
{
    sw_tensor_info info;
    tensor *t = &l->tensors[i];
    const swi_chosen *c = &l->in->chosen[i];
    swi_quoted q;
    sw_catalog_tensor(sw_checkpoint_catalog(l->in->source), c->source, &info);
    t->dtype = c->dtype;
    t->axes = info.axes;
    memcpy(t->shape, info.shape, sizeof t->shape);
    *parts = 1;
    if (swi_torch_dtype_name(c->dtype) == NULL)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "tensor \"%s\" is %s, which torch does not have; leave it out with --drop",
                        swi_quote_str(&q, c->name), sw_dtype_name(c->dtype));
    if (!is_cut(l, &info))
        return SW_OK;
    int64_t ranks = (int64_t)l->ranks, size = info.shape[0];
    t->rows = size / ranks + (size % ranks != 0);
    *parts = (size_t)(size / t->rows + (size % t->rows != 0));
    return SW_OK;
}

static const tensor *tensor_of(const laying *l, const swi_state_part *leaf)
{
    return &l->tensors[leaf->tensor - l->in->chosen];
}

/* Counts the parts; makes room for all that follows. */
static sw_status make_room(laying *l, sw_error *err)
{
    size_t count = l->in->count, bytes = 0, frames = 0, items = 0, parts;
    void *room;
    tensor *tensors = NULL;
    sw_status st = swi_alloc_array(count, sizeof *tensors, (void **)&tensors, err);
    if (st == SW_OK)
        st = swi_alloc_array(l->in->leaf_count + 1, sizeof *l->first_item, (void **)&l->first_item,
                             err);
    l->tensors = tensors;
    for (size_t i = 0; st == SW_OK && i < l->in->leaf_count; i++) {
        const swi_state_part *leaf = &l->in->leaves[i];
        parts = 1;
        if (leaf->tensor != NULL) {
            st = set_tensor(l, (size_t)(leaf->tensor - l->in->chosen), &parts, err);
            frames += parts;
        }
        items += parts;
        l->first_item[i + 1] = items;
    }
    if (st == SW_OK && (!swi_mul_size(frames, sizeof *l->frames, &bytes) ||
                        !swi_add_size(bytes, count * sizeof *tensors, &bytes)))
        st = swi_fail_nomem(err);
    if (st == SW_OK)
        st = swi_alloc_array(bytes, 1, &room, err);
    if (st == SW_OK) {
        l->frames = room;
        l->tensors =
            memcpy((char *)room + frames * sizeof *l->frames, tensors, count * sizeof *tensors);
    }
    free(tensors);
    if (st == SW_OK)
        st = swi_alloc_array(items, sizeof *l->items, (void **)&l->items, err);
    const size_t ranks = (size_t)l->ranks * l->replicate;
    if (st == SW_OK)
        st = swi_alloc_array(ranks, sizeof *l->used, (void **)&l->used, err);
    if (st == SW_OK)
        st = swi_alloc_array(ranks, sizeof *l->files, (void **)&l->files, err);
    if (st == SW_OK)
        st = swi_alloc_array(ranks, sizeof *l->paths, (void **)&l->paths, err);
    return st;
}

/* ---- where items lie --------------------------------------------------------------------------
 */

/* Of ranks first, first + step ... the one with the least to write, as torch's planner has it. */
static uint32_t least_loaded(const laying *l, uint32_t first, uint32_t step)
{
    uint32_t best = first;
    for (uint32_t r = first; r < l->ranks * l->replicate; r += step)
        if (l->used[r] < l->used[best])
            best = r;
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

static sw_status write_around(const tensor *t, int64_t rows, uint32_t crc, swi_buf *head,
                              swi_buf *tail, sw_error *err)
{
    int64_t shape[SW_MAX_AXES];
    const swi_torch_around in = {.dtype = t->dtype, .axes = t->axes, .shape = shape, .crc32 = crc};
    memcpy(shape, t->shape, sizeof shape);
    if (t->rows > 0)
        shape[0] = rows;
    head->size = tail->size = 0;
    return swi_torch_write_around(head, tail, &in, err);
}

static sw_status place_tensor(laying *l, size_t leaf, sw_error *err)
{
    const tensor *t = tensor_of(l, &l->in->leaves[leaf]);
    size_t first = l->first_item[leaf], count = l->first_item[leaf + 1] - first;
    uint64_t row_bytes = sw_dtype_bytes(t->dtype);
    sw_status st = SW_OK;
    for (uint32_t k = t->rows > 0; k < t->axes; k++)
        row_bytes *= (uint64_t)t->shape[k];
    for (size_t k = 0; st == SW_OK && k < count; k++) {
        item *it = &l->items[first + k];
        it->rows = 1;
        if (t->rows > 0) {
            it->row = (int64_t)k * t->rows;
            it->rows = t->shape[0] - it->row < t->rows ? t->shape[0] - it->row : t->rows;
        }
        it->rank = t->rows > 0 ? least_loaded(l, (uint32_t)k, l->ranks) : least_loaded(l, 0, 1);
        it->bytes = row_bytes * (uint64_t)it->rows;
        if (k == 0 || it->rows != it[-1].rows)
            st = write_around(t, it->rows, 0, &l->head, &l->tail, err);
        it->head = l->head.size;
        it->tail = l->tail.size;
        if (st == SW_OK)
            st = place(l, it, err);
    }
    return st;
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
    for (uint32_t r = 0; st == SW_OK && r < l->ranks * l->replicate; r++) {
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
    sw_status st = write_around(f->of, f->rows, crc, &parts[0], &parts[1], err);
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
static sw_status lay_around(laying *l, const item *it, const tensor *t, sw_error *err)
{
    uint32_t file = l->files[it->rank];
    frame *f = &l->frames[l->frame_count];
    *f = (frame){.of = t, .rows = it->rows};
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
    const tensor *t = tensor_of(l, &l->in->leaves[leaf]);
    sw_tensor_info info;
    uint32_t id;
    sw_catalog_tensor(sw_checkpoint_catalog(l->in->source), c->source, &info);
    const swi_tensor_in in = {.name = c->name,
                              .name_size = strlen(c->name),
                              .dtype = c->dtype,
                              .axes = t->axes,
                              .shape = t->shape,
                              .role = info.role};
    sw_status st = swi_layout_tensor(l->layout, &in, c->source, &id, err);
    for (size_t i = l->first_item[leaf]; st == SW_OK && i < l->first_item[leaf + 1]; i++) {
        const item *it = &l->items[i];
        swi_piece piece = {.axes = t->axes};
        memcpy(piece.view, t->shape, sizeof piece.view);
        memcpy(piece.length, t->shape, sizeof piece.length);
        if (t->rows > 0) {
            piece.offset[0] = it->row;
            piece.length[0] = it->rows;
        }
        swi_piece_make_dense(&piece, sw_dtype_bytes(c->dtype));
        st = lay_around(l, it, t, err);
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
    int64_t (*offsets)[SW_MAX_AXES], (*lengths)[SW_MAX_AXES];
} index_room;

static void set_chunk(const laying *l, const index_room *room, size_t i, const tensor *t)
{
    const item *it = &l->items[i];
    room->chunks[i] = (swi_dcp_write_chunk){.offset = room->offsets[i],
                                            .length = room->lengths[i],
                                            .path = l->paths[it->rank],
                                            .offset_bytes = it->offset,
                                            .stored_bytes = it->head + it->bytes + it->tail};
    if (t == NULL)
        return;
    memcpy(room->lengths[i], t->shape, sizeof room->lengths[i]);
    if (t->rows > 0) {
        room->offsets[i][0] = it->row;
        room->lengths[i][0] = it->rows;
    }
}

static void set_index(const laying *l, const index_room *room)
{
    for (size_t i = 0; i < l->in->leaf_count; i++) {
        const swi_state_part *leaf = &l->in->leaves[i];
        const tensor *t = leaf->tensor != NULL ? tensor_of(l, leaf) : NULL;
        size_t first = l->first_item[i], end = l->first_item[i + 1];
        for (size_t k = first; k < end; k++)
            set_chunk(l, room, k, t);
        room->items[i] = (swi_dcp_write_item){.name = leaf->name,
                                              .path_parts = leaf->path,
                                              .path_count = leaf->parts,
                                              .is_object = t == NULL,
                                              .chunks = &room->chunks[first],
                                              .chunk_count = end - first};
        if (t == NULL)
            continue;
        room->items[i].dtype = t->dtype;
        room->items[i].axes = t->axes;
        room->items[i].shape = t->shape;
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
        st = swi_alloc_array(items, sizeof *room.offsets, (void **)&room.offsets, err);
    if (st == SW_OK)
        st = swi_alloc_array(items, sizeof *room.lengths, (void **)&room.lengths, err);
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
    free(room.offsets);
    free(room.lengths);
    return st;
}

sw_status swi_dcp_layout(const swi_target_in *in, swi_layout *layout, sw_error *err)
{
    laying l = {.in = in, .layout = layout};
    sw_status st = parse_options(&l, err);
    if (st == SW_OK)
        st = make_room(&l, err);
    if (st == SW_OK)
        st = place_all(&l, err);
    if (st == SW_OK)
        st = lay_files(&l, err);
    if (st == SW_OK)
        st = lay_all(&l, err);
    if (st == SW_OK)
        st = lay_index(&l, err);
    if (l.frame_count == 0)
        free(l.frames);
    free(l.items);
    free(l.first_item);
    free(l.used);
    free(l.files);
    free(l.paths);
    swi_buf_free(&l.head);
    swi_buf_free(&l.tail);
    return st;
}
