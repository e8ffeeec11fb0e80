/* Files of ranks that are torch.save's: one plain dict from names to tensors. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "codec/crc32.h"
#include "codec/pickle.h"
#include "model/value.h"
#include "sharded/container.h"
#include "torch/torch.h"
#include "torch/torch_lay.h"

/* ---- reading -----------------------------------------------------------------------------------
 */

typedef struct torch_kept {
    swi_torch_filling fill;
    swi_torch_ranks ranks;
} torch_kept;

static sw_status place(void *ctx, const swi_torch_met *met, swi_torch_box *out, sw_error *err)
{
    swi_sharded_reading *r = ctx;
    const swi_torch_tensor *t = met->tensor;
    const swi_rank_tensor_in in = {met->leaf->name, t->dtype, t->axes, t->shape};
    swi_rank_place where;
    sw_status st = swi_rank_place_of(r, &in, &where, err);
    if (st != SW_OK)
        return st;
    *out = (swi_torch_box){.left_out = where.left_out};
    if (where.left_out)
        return SW_OK;
    out->replicated = where.replicated;
    out->axes = where.axes;
    memcpy(out->shape, where.shape, sizeof out->shape);
    memcpy(out->local, where.local->shape, sizeof out->local);
    out->parts = where.local->parts;
    out->part_count = where.local->count;
    return SW_OK;
}

static sw_status begin(swi_sharded_reading *r, sw_error *err)
{
    torch_kept *kept = NULL;
    sw_status st = swi_alloc_array(1, sizeof *kept, (void **)&kept, err);
    if (st != SW_OK)
        return st;
    r->kept = kept;
    kept->ranks = (swi_torch_ranks){.place = place, .ctx = r};
    st = swi_torch_filling_begin(r->o, &kept->fill, err);
    kept->fill.ranks = &kept->ranks;
    return st;
}

static sw_status finish(swi_sharded_reading *r, sw_error *err)
{
    const torch_kept *kept = r->kept;
    return swi_torch_say_checksums(&kept->fill, err);
}

static void end(swi_sharded_reading *r)
{
    torch_kept *kept = r->kept;
    if (kept != NULL)
        swi_torch_filling_end(&kept->fill);
    free(kept);
    r->kept = NULL;
}

typedef struct visiting {
    const swi_torch_object *object;
    swi_rank_visit_fn visit;
    void *ctx;
} visiting;

static sw_status visit_leaf(void *ctx, const swi_torch_leaf *leaf, sw_error *err)
{
    const visiting *v = ctx;
    uint32_t number;
    if (!sw_value_tensor(v->object->graph, leaf->node, &number))
        return SW_OK;
    const swi_torch_tensor *t = &v->object->tensors[number];
    const swi_rank_tensor_in in = {leaf->name, t->dtype, t->axes, t->shape};
    return v->visit(v->ctx, &in, err);
}

static sw_status visit_object(const swi_torch_file *tf, const swi_reader *reader,
                              swi_rank_visit_fn visit, void *ctx, sw_error *err)
{
    swi_torch_object object = {0};
    visiting v = {&object, visit, ctx};
    bool too_deep;
    sw_status st = swi_torch_object_make(tf, reader, false, &object, err);
    if (st == SW_OK)
        st = swi_torch_walk(&object, visit_leaf, &v, &too_deep, err);
    swi_torch_object_free(&object);
    return st;
}

/* Objects are kept for their values; most have none. */
static sw_status fill(swi_sharded_reading *r, uint32_t i, const swi_torch_file *tf, sw_error *err)
{
    torch_kept *kept = r->kept;
    swi_torch_kept *all = kept->fill.kept;
    const swi_rank_file *f = &r->list.items[i];
    swi_torch_object object = {0};
    size_t values = all->value_count;
    kept->ranks.rank = f->is.rank;
    swi_opening_memory(r->o, 2 * swi_graph_memory(swi_torch_graph(tf)));
    sw_status st = swi_torch_object_make(tf, swi_filecache_reader(r->cache), false, &object, err);
    if (st == SW_OK)
        st = swi_torch_fill(&kept->fill, tf, f->path, f->bytes, &object, err);
    else
        swi_torch_object_free(&object);
    if (st == SW_OK && all->value_count == values)
        swi_torch_object_free(&all->objects[--all->object_count]);
    return st;
}

static sw_status read_torch(swi_sharded_reading *r, uint32_t i, swi_rank_visit_fn visit, void *ctx,
                            sw_status *unreadable, sw_error *cause, sw_error *err)
{
    const swi_reader *reader = swi_filecache_reader(r->cache);
    const swi_rank_file *f = &r->list.items[i];
    swi_torch_file *tf = NULL;
    swi_pickle_unsafe unsafe = {0};
    sw_status st = SW_OK;
    *unreadable = swi_torch_open_file(reader, i, f->bytes, &unsafe, &tf, cause);
    if (visit == NULL) {
        st = swi_pickle_report(&unsafe, f->path, "", r->o->report, err);
        ((torch_kept *)r->kept)->fill.kept->unsafe |= unsafe.total > 0;
    }
    if (st == SW_OK && *unreadable == SW_OK)
        st = visit != NULL ? visit_object(tf, reader, visit, ctx, err) : fill(r, i, tf, err);
    swi_torch_free(tf);
    return st;
}

/* ---- laying out --------------------------------------------------------------------------------
 */

/* MT-2: what torch.save writes of a dict of contiguous tensors, each with its own storage. */
static sw_status emit(const swi_rank_share *shares, size_t count, swi_buf *out, sw_error *err)
{
    swi_torch_emitter emitter = {.form = SWI_TORCH_ZIP, .remembers = true};
    swi_pickle_writer w;
    sw_status st = swi_pickle_begin(&w, out, 2, err);
    if (st == SW_OK)
        st = swi_pickle_op(&w, '}', err);
    if (st == SW_OK && count > 0)
        st = swi_pickle_op(&w, '(', err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        const swi_rank_share *s = &shares[i];
        swi_piece dense = {.axes = s->axes};
        memcpy(dense.length, s->shape, sizeof dense.length);
        swi_piece_make_dense(&dense, 1);
        const uint64_t elements = s->bytes / sw_dtype_bytes(s->chosen->dtype);
        const swi_torch_out_tensor tensor = {.dtype = s->chosen->dtype,
                                             .storage = (uint32_t)i,
                                             .storage_elements = elements,
                                             .axes = s->axes,
                                             .shape = s->shape,
                                             .stride_elements = dense.stride_bytes};
        st = swi_pickle_str(&w, s->chosen->name, strlen(s->chosen->name), err);
        if (st == SW_OK)
            st = swi_torch_emit(&emitter, &w, &tensor, err);
    }
    if (st == SW_OK && count > 0)
        st = swi_pickle_op(&w, 'u', err);
    return st == SW_OK ? swi_pickle_op(&w, '.', err) : st;
}

static sw_status lay_shares(swi_sharded_laying *l, const char *path, const swi_torch_out *out,
                            const swi_rank_share *shares, sw_error *err)
{
    const uint8_t **data = NULL; /* none is at hand */
    swi_torch_laid laid = {0};
    sw_status st = swi_alloc_array(out->storage_count, sizeof *data, (void **)&data, err);
    const swi_torch_lay_in in = {.path = path, .out = out, .data = data};
    if (st == SW_OK)
        st = swi_torch_lay(l->layout, &in, &laid, err);
    for (size_t i = 0; st == SW_OK && i < out->storage_count; i++)
        st = swi_rank_share_lay(l, &shares[i], laid.file, laid.storage_at[i], err);
    swi_torch_laid_free(&laid);
    free(data);
    return st;
}

static sw_status lay_torch(swi_sharded_laying *l, const char *path, const swi_rank_share *shares,
                           size_t count, sw_error *err)
{
    swi_torch_out_storage *storages = NULL;
    swi_buf object = {0};
    if (count >= UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "torch file: more storages than can be numbered");
    sw_status st = swi_alloc_array(count, sizeof *storages, (void **)&storages, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        const sw_dtype dtype = shares[i].chosen->dtype;
        storages[i] = (swi_torch_out_storage){dtype, shares[i].bytes / sw_dtype_bytes(dtype)};
    }
    if (st == SW_OK)
        st = emit(shares, count, &object, err);
    if (st == SW_OK) {
        const swi_torch_out out = {.form = SWI_TORCH_ZIP,
                                   .object = object.data,
                                   .object_size = object.size,
                                   .object_crc32 = swi_crc32(0, object.data, object.size),
                                   .storages = storages,
                                   .storage_count = (uint32_t)count};
        st = lay_shares(l, path, &out, shares, err);
    }
    swi_buf_free(&object);
    free(storages);
    return st;
}

const swi_rank_container swi_rank_container_torch = {
    .begin = begin,
    .finish = finish,
    .end = end,
    .read = read_torch,
    .lay = lay_torch,
};
