/*
 * Random layouts of rank files: arrays made of slices of several parts of a tensor, pieces that
 * several ranks hold, whole or in part. What belongs where is kept as it was asked for, so that
 * what was written is compared with that and not with what the layout made of it.
 */
#ifndef RESHARD_RANKS_H
#define RESHARD_RANKS_H

#include "world.h"

#define RANKS_BLOCKS_MAX 256
#define RANKS_PARTS_MAX 12

typedef struct rank_block {
    uint32_t tensor, file;
    uint64_t at, bytes;
    bool as_piece; /* it is one part and asked for as that */
    swi_block block;
    int64_t view[SW_MAX_AXES], shape[SW_MAX_AXES];
    swi_block_part parts[RANKS_PARTS_MAX];
} rank_block;

typedef struct ranks {
    world *w;
    bool copies;
    sw_dtype dtypes[WORLD_TENSORS_MAX]; /* in the destination; NONE: that of the source */
    int64_t scales[WORLD_TENSORS_MAX];  /* tensor of the source, or -1 */
    bool left_out[WORLD_TENSORS_MAX];   /* not in the destination */
    rank_block blocks[RANKS_BLOCKS_MAX];
    uint32_t count;
    uint64_t size[WORLD_FILES];
    uint32_t id[WORLD_TENSORS_MAX]; /* in the layout */
    swi_layout *layout;
} ranks;

static inline void ranks_begin(ranks *r, world *w, bool copies)
{
    *r = (ranks){.w = w, .copies = copies};
    for (uint32_t i = 0; i < WORLD_TENSORS_MAX; i++)
        r->scales[i] = -1;
}

static inline sw_dtype ranks_dtype(const ranks *r, uint32_t tensor)
{
    return r->dtypes[tensor] != SW_DTYPE_NONE ? r->dtypes[tensor] : r->w->tensors[tensor].dtype;
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* A block in some view of the tensor, of no parts yet, of the whole shape. */
static inline rank_block *ranks_block(ranks *r, uint32_t tensor)
{
    const world_tensor *t = &r->w->tensors[tensor];
    world_cut whole = {0};
    swi_piece p;
    assert_true(r->count < RANKS_BLOCKS_MAX);
    rank_block *b = &r->blocks[r->count++];
    memcpy(whole.length, t->shape, sizeof whole.length);
    world_view(r->w, t, &whole, &p);
    *b = (rank_block){.tensor = tensor, .block = {.axes = p.axes}};
    memcpy(b->view, p.view, sizeof b->view);
    memcpy(b->shape, p.view, sizeof b->shape);
    return b;
}

/* Puts it at the end of some file, now and then behind a gap. */
static inline void ranks_place(ranks *r, rank_block *b)
{
    b->file = (uint32_t)world_below(r->w, WORLD_FILES - 1);
    b->bytes = sw_dtype_bytes(ranks_dtype(r, b->tensor));
    for (uint32_t k = 0; k < b->block.axes; k++)
        b->bytes *= (uint64_t)b->shape[k];
    if (world_below(r->w, 3) == 0)
        r->size[b->file] += world_below(r->w, 20);
    b->at = r->size[b->file];
    r->size[b->file] += b->bytes;
    b->as_piece = b->block.part_count == 1 && world_below(r->w, 2) == 0;
}

/* Rank `rank` of `of`: a slice of each of the parts that axis k is made of, in any order. */
static inline void ranks_fused(ranks *r, uint32_t tensor, const rank_block *like, uint32_t k,
                               const int64_t *bounds, uint32_t parts, int64_t rank, int64_t of)
{
    rank_block *b = ranks_block(r, tensor);
    int64_t end = 0;
    uint32_t first = (uint32_t)world_below(r->w, parts);
    b->block.axes = like->block.axes;
    memcpy(b->view, like->view, sizeof b->view);
    memcpy(b->shape, like->view, sizeof b->shape);
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t n = (first + i) % parts;
        swi_block_part *part = &b->parts[b->block.part_count++];
        *part = (swi_block_part){0};
        memcpy(part->length, like->view, sizeof part->length);
        world_chunk(bounds[n + 1] - bounds[n], of, rank, &part->offset[k], &part->length[k]);
        part->offset[k] += bounds[n];
        part->place[k] = end;
        end += part->length[k];
    }
    b->shape[k] = end;
    ranks_place(r, b);
}

/* All of a tensor over some ranks, split inside of each of some parts of an axis. */
static inline void ranks_cover(ranks *r, uint32_t tensor)
{
    world *w = r->w;
    int64_t bounds[4] = {0}, of = 1 + (int64_t)world_below(w, 3);
    rank_block like = *ranks_block(r, tensor);
    r->count--;
    if (like.block.axes == 0) {
        rank_block *b = ranks_block(r, tensor);
        b->block.part_count = 1;
        ranks_place(r, b);
        return;
    }
    uint32_t k = (uint32_t)world_below(w, like.block.axes), parts = 1 + (uint32_t)world_below(w, 3);
    for (uint32_t i = 1; i <= parts; i++)
        bounds[i] =
            bounds[i - 1] + (int64_t)world_below(w, (uint64_t)(like.view[k] - bounds[i - 1] + 1));
    bounds[parts] = like.view[k];
    for (int64_t rank = 0; rank < of; rank++)
        ranks_fused(r, tensor, &like, k, bounds, parts, rank, of);
}

/* Cuts a part in two on some axis. */
static inline void ranks_split(ranks *r, rank_block *b)
{
    world *w = r->w;
    size_t i = (size_t)world_below(w, b->block.part_count);
    uint32_t k = (uint32_t)world_below(w, b->block.axes);
    if (b->parts[i].length[k] < 2)
        return;
    swi_block_part *part = &b->parts[b->block.part_count++];
    *part = b->parts[i];
    int64_t at = 1 + (int64_t)world_below(w, (uint64_t)(part->length[k] - 1));
    b->parts[i].length[k] = at;
    part->length[k] -= at;
    part->place[k] += at;
}

/* A copy: an array of any size whose parts come from anywhere in the tensor. */
static inline void ranks_copy(ranks *r, uint32_t tensor)
{
    world *w = r->w;
    rank_block *b = ranks_block(r, tensor);
    b->block.part_count = 1;
    bool whole = world_below(w, 3) == 0;
    for (uint32_t k = 0; k < b->block.axes; k++) {
        if (!whole && b->view[k] > 0)
            b->shape[k] = 1 + (int64_t)world_below(w, (uint64_t)b->view[k]);
        b->parts[0].length[k] = b->shape[k];
    }
    for (uint64_t n = whole || b->block.axes == 0 ? 0 : world_below(w, 6); n > 0; n--)
        ranks_split(r, b);
    for (size_t i = 0; i < b->block.part_count; i++)
        for (uint32_t k = 0; k < b->block.axes; k++)
            b->parts[i].offset[k] =
                (int64_t)world_below(w, (uint64_t)(b->view[k] - b->parts[i].length[k] + 1));
    ranks_place(r, b);
}

/* ---- the layout ----------------------------------------------------------------------------- */

static inline void ranks_add_block(ranks *r, rank_block *b)
{
    sw_error err = {0};
    uint32_t es = sw_dtype_bytes(ranks_dtype(r, b->tensor)), id = r->id[b->tensor];
    b->block.view = b->view;
    b->block.shape = b->shape;
    b->block.parts = b->parts;
    if (!b->as_piece) {
        assert_ok(swi_layout_block(r->layout, id, b->file, b->at, &b->block, &err), &err);
        return;
    }
    swi_piece p = {.axes = b->block.axes};
    memcpy(p.view, b->view, sizeof p.view);
    memcpy(p.offset, b->parts[0].offset, sizeof p.offset);
    memcpy(p.length, b->parts[0].length, sizeof p.length);
    swi_piece_make_dense(&p, es);
    assert_ok(swi_layout_piece(r->layout, id, b->file, b->at, b->bytes, &p, &err), &err);
}

static inline void ranks_add_files(ranks *r)
{
    sw_error err = {0};
    for (uint32_t f = 0; f < WORLD_FILES; f++) {
        uint32_t file;
        uint64_t more = r->w->late ? 4 * WORLD_SUMS : 0, at = 0;
        assert_ok(swi_layout_file(r->layout, world_path(f), r->size[f] + more, &file, &err), &err);
        if (r->w->late)
            world_add_late(r->w, r->layout, file, r->size[f]);
        for (uint32_t i = 0; i <= r->count; i++) {
            uint64_t next = i < r->count ? r->blocks[i].at : r->size[f];
            if (i < r->count && r->blocks[i].file != f)
                continue;
            assert_ok(swi_layout_fill(r->layout, file, at, next - at, 0xA5, &err), &err);
            at = next + (i < r->count ? r->blocks[i].bytes : 0);
        }
    }
}

static inline void ranks_make(ranks *r)
{
    sw_error err = {0};
    for (uint32_t id = 0; id < r->w->count; id++) {
        if (r->left_out[id])
            continue;
        ranks_cover(r, id);
        for (uint64_t n = r->copies ? world_below(r->w, 4) : 0; n > 0; n--)
            ranks_copy(r, id);
    }
    assert_ok(swi_layout_make(NULL, &r->layout, &err), &err);
    ranks_add_files(r);
    for (uint32_t id = 0; id < r->w->count; id++) {
        const world_tensor *t = &r->w->tensors[id];
        swi_tensor_in in = {t->name, strlen(t->name), ranks_dtype(r, id),
                            t->axes, t->shape,        SW_ROLE_PARAMETER};
        if (r->left_out[id])
            continue;
        assert_ok(swi_layout_tensor(r->layout, &in, id, &r->id[id], &err), &err);
        if (r->copies)
            assert_ok(swi_layout_replicas(r->layout, r->id[id], &err), &err);
        if (r->scales[id] >= 0)
            assert_ok(swi_layout_scale(r->layout, r->id[id], (uint32_t)r->scales[id], &err), &err);
    }
    for (uint32_t i = 0; i < r->count; i++)
        ranks_add_block(r, &r->blocks[i]);
    assert_ok(swi_layout_freeze(r->layout, &err), &err);
}

/* ---- scaled tensors ------------------------------------------------------------------------- */

/* Tensors 1 and 3 are factors of 0 and 2, of blocks of many sizes. */
static inline void ranks_scaled_world(world *w, uint64_t seed)
{
    static const sw_dtype types[] = {SW_F8_E4M3FN, SW_F8_E5M2, SW_F8_E4M3FNUZ, SW_F8_E5M2FNUZ,
                                     SW_F16,       SW_BF16,    SW_F32};
    static const sw_dtype factor_types[] = {SW_F32, SW_BF16, SW_F8_E8M0FNU};
    w->prng.state = seed;
    w->count = 5;
    for (uint32_t id = 0; id < w->count; id++)
        world_tensor_make(w, id);
    for (uint32_t id = 0; id < 4; id += 2) {
        world_tensor *t = &w->tensors[id], *factor = &w->tensors[id + 1];
        t->dtype = types[world_below(w, 7)];
        memcpy(factor->shape, t->shape, sizeof factor->shape);
        factor->axes = t->axes;
        factor->elements = t->elements;
        factor->dtype = factor_types[world_below(w, 3)];
        factor->repeat[0] = 1;
        for (uint32_t k = 0; k < t->axes; k++) {
            int64_t each = 1 + (int64_t)world_below(w, 13);
            while (t->shape[k] % each != 0)
                each--;
            factor->repeat[k] = t->shape[k] > 0 ? each : 1;
        }
    }
    world_build(w);
}

/* In the layout they are. */
static inline void ranks_scale(ranks *r)
{
    static const sw_dtype types[] = {SW_BF16, SW_F16, SW_F32};
    for (uint32_t id = 0; id < 4; id += 2) {
        r->dtypes[id] = types[world_below(r->w, 3)];
        r->scales[id] = id + 1;
    }
}

/* ---- comparing ------------------------------------------------------------------------------ */

/* Calls fn for each element of the block: its flat index, and its byte in the file. */
static inline void ranks_each(const rank_block *b, uint32_t element_bytes, world_element_fn fn,
                              void *ctx)
{
    int64_t stride[SW_MAX_AXES] = {0}, size = element_bytes;
    for (uint32_t k = b->block.axes; k > 0; k--) {
        stride[k - 1] = size;
        size *= b->shape[k - 1];
    }
    for (size_t i = 0; i < b->block.part_count; i++) {
        const swi_block_part *part = &b->parts[i];
        swi_piece p = {.axes = b->block.axes, .base_bytes = (int64_t)b->at};
        memcpy(p.view, b->view, sizeof p.view);
        memcpy(p.offset, part->offset, sizeof p.offset);
        memcpy(p.length, part->length, sizeof p.length);
        memcpy(p.stride_bytes, stride, sizeof p.stride_bytes);
        for (uint32_t k = 0; k < b->block.axes; k++)
            p.base_bytes += part->place[k] * stride[k];
        world_each(&p, fn, ctx);
    }
}

typedef struct ranks_compare {
    const uint8_t *file, *expected;
    uint32_t tensor, element_bytes;
} ranks_compare;

static inline void ranks_compare_one(void *ctx, uint64_t flat, uint64_t byte)
{
    const ranks_compare *c = ctx;
    if (memcmp(c->file + byte, c->expected + flat * c->element_bytes, c->element_bytes) != 0)
        fail_msg("tensor t%u: element %llu is wrong", c->tensor, (unsigned long long)flat);
}

/* All bytes of the files: elements in every copy, and what fills the gaps. expected[tensor] dense.
 */
static inline void ranks_verify(const ranks *r, uint8_t *const *expected, const swi_store *store)
{
    for (uint32_t f = 0; f < WORLD_FILES; f++) {
        sw_error err = {0};
        uint8_t *data;
        size_t size;
        uint64_t held = 0, fills = 0;
        assert_ok(swi_store_read_all(store, world_path(f), UINT32_MAX, &data, &size, &err), &err);
        for (uint32_t i = 0; i < r->count; i++) {
            const rank_block *b = &r->blocks[i];
            uint32_t es = sw_dtype_bytes(ranks_dtype(r, b->tensor));
            ranks_compare c = {data, expected[b->tensor], b->tensor, es};
            if (b->file != f)
                continue;
            ranks_each(b, es, ranks_compare_one, &c);
            held += b->bytes;
        }
        for (size_t i = 0; i < swi_layout_literal_count(r->layout, f); i++) {
            swi_literal l;
            swi_layout_literal_at(r->layout, f, i, &l);
            for (uint64_t n = 0; n < l.size; n++)
                assert_int_equal(data[l.offset_bytes + n], 0xA5);
            fills += l.size;
        }
        assert_int_equal(held + fills, r->size[f]);
        free(data);
    }
}

/* What the source holds; free each. */
static inline void ranks_expect(const ranks *r, uint8_t *expected[WORLD_TENSORS_MAX])
{
    for (uint32_t id = 0; id < r->w->count; id++) {
        const world_tensor *t = &r->w->tensors[id];
        uint32_t es = sw_dtype_bytes(t->dtype);
        expected[id] = malloc((size_t)t->elements * es + 1);
        assert_non_null(expected[id]);
        for (uint64_t i = 0; i < t->elements; i++)
            world_put(expected[id] + i * es, t, id, i);
    }
}

static inline void ranks_free(ranks *r)
{
    swi_layout_free(r->layout);
}

#endif
