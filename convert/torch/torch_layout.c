/*
 * A torch.save file as a target: the state dict as it is, in the zip form or in the one before 1.6.
 * Clauses TS-n are those of specs/torch.md.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"
#include "codec/crc32.h"
#include "model/value.h"
#include "state/state.h"
#include "torch/torch.h"
#include "torch/torch_lay.h"
#include "torch/torch_storages.h"

/* In the layout; the destination has the name that was asked for. */
#define FILE_NAME "checkpoint.pt"

#define NOT_MET UINT32_MAX

typedef struct laying {
    const swi_target_in *in;
    const sw_catalog *source;
    swi_layout *layout;
    swi_torch_out out;
    sw_value root;
    const swi_chosen **chosen_of; /* by tensor of the source; NULL: not chosen by name */
    uint32_t *placed_of;          /* by tensor of the source */
    swi_torch_placed *tensors;    /* as they come up in the object */
    size_t tensor_count, tensor_capacity;
    swi_torch_storages storages;
    swi_torch_carried *carried; /* in that order too; their storages come behind the others */
    size_t carried_count, carried_capacity, carried_next;
    swi_torch_out_storage *all_storages;
    const char **name_of; /* by tensor of `tensors` that fills; NULL: the walk does not meet it */
    swi_arena names;
    swi_torch_emitter emitter;
    swi_buf object;
    swi_torch_laid laid;
} laying;

/* ---- options -----------------------------------------------------------------------------------
 */

static sw_status parse_options(laying *l, sw_error *err)
{
    const char *options = l->in->options;
    swi_quoted q;
    l->out.form = SWI_TORCH_ZIP;
    if (strcmp(options, "form=legacy") == 0)
        l->out.form = SWI_TORCH_LEGACY;
    else if (*options != '\0' && strcmp(options, "form=zip") != 0)
        return swi_fail(err, SW_ERR_ARG,
                        "--to torch:%s: not an option; there is form=zip (the usual one) and "
                        "form=legacy, which torch wrote before 1.6",
                        swi_quote_str(&q, options));
    return SW_OK;
}

/* ---- the object --------------------------------------------------------------------------------
 */

static sw_status add_carried(laying *l, const swi_torch_carried *storage, sw_error *err)
{
    sw_status st = swi_grow_array((void **)&l->carried, &l->carried_capacity, l->carried_count + 1,
                                  sizeof *l->carried, err);
    if (st == SW_OK)
        l->carried[l->carried_count++] = *storage;
    return st;
}

/* Storages of tensors that are parts of values, with their bytes. */
static sw_status meet_storage(laying *l, swi_pickle_writer *w, const sw_value_graph *graph,
                              sw_value v, sw_error *err)
{
    swi_torch_carried storage;
    sw_status st = swi_torch_need_carried(graph, v, &storage, err);
    if (st != SW_OK)
        return st;
    if (storage.untyped && l->out.form == SWI_TORCH_LEGACY)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "holds a tensor of a dtype that the form before 1.6 cannot hold; use "
                        "form=zip, or leave it out with --drop");
    st = add_carried(l, &storage, err);
    return st == SW_OK ? swi_pickle_op(w, 'N', err) : st;
}

/* The first pass: which tensors there are, in their order. */
static sw_status meet_tensor(void *ctx, swi_pickle_writer *w, const sw_value_graph *graph,
                             sw_value v, sw_error *err)
{
    laying *l = ctx;
    uint32_t tensor;
    if (!sw_value_tensor(graph, v, &tensor))
        return meet_storage(l, w, graph, v, err);
    if (l->placed_of[tensor] == NOT_MET) {
        sw_tensor_info info;
        const swi_chosen *c = l->chosen_of[tensor];
        sw_status st = swi_grow_array((void **)&l->tensors, &l->tensor_capacity,
                                      l->tensor_count + 1, sizeof *l->tensors, err);
        if (st != SW_OK)
            return st;
        sw_catalog_tensor(l->source, tensor, &info);
        l->placed_of[tensor] = (uint32_t)l->tensor_count;
        l->tensors[l->tensor_count++] =
            (swi_torch_placed){.source = tensor, .dtype = c != NULL ? c->dtype : info.dtype};
    }
    return swi_pickle_op(w, 'N', err);
}

/* The second: as views of their storages. */
static sw_status emit_tensor(void *ctx, swi_pickle_writer *w, const sw_value_graph *graph,
                             sw_value v, sw_error *err)
{
    laying *l = ctx;
    uint32_t tensor;
    sw_tensor_info info;
    int64_t stride[SW_MAX_AXES];
    if (!sw_value_tensor(graph, v, &tensor)) {
        size_t i = l->carried_next++; /* in the order of the first pass */
        return swi_torch_emit_carried(&l->emitter, w, &l->carried[i],
                                      (uint32_t)(l->storages.count + i), err);
    }
    const swi_torch_placed *t = &l->tensors[l->placed_of[tensor]];
    sw_catalog_tensor(l->source, tensor, &info);
    swi_torch_placed_strides(l->source, t, &info, stride);
    const swi_torch_out_tensor out = {.dtype = t->dtype,
                                      .storage = t->storage,
                                      .storage_elements = l->storages.items[t->storage].elements,
                                      .start_elements = t->start_elements,
                                      .axes = info.axes,
                                      .shape = info.shape,
                                      .stride_elements = stride};
    return swi_torch_emit(&l->emitter, w, &out, err);
}

static sw_status write_object(laying *l, sw_value v, swi_pickle_leaf_fn leaf, sw_error *err)
{
    swi_pickle_writer w;
    l->object.size = 0;
    sw_status st = swi_pickle_begin(&w, &l->object, 2, err);
    if (st == SW_OK)
        st = swi_pickle_emit(&w, l->in->state->graph, v, leaf, l, err);
    return st == SW_OK ? swi_pickle_op(&w, '.', err) : st;
}

/* The object cannot be written: the leaf because of which, and its own error. */
static sw_status name_culprit(laying *l, sw_error *err)
{
    swi_quoted q;
    sw_error cause = {0};
    for (size_t i = 0; i < l->in->leaf_count; i++) {
        const swi_state_part *leaf = &l->in->leaves[i];
        sw_status st = write_object(l, leaf->value, meet_tensor, &cause);
        if (st == SW_OK)
            continue;
        if (err != NULL)
            *err = cause;
        return swi_error_prefix(err, "value \"%s\"", swi_quote_str(&q, leaf->name));
    }
    return SW_ERR_UNSUPPORTED;
}

static sw_status make_tables(laying *l, sw_error *err)
{
    size_t count = sw_catalog_tensor_count(l->source);
    sw_status st = swi_alloc_array(count, sizeof *l->placed_of, (void **)&l->placed_of, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *l->chosen_of, (void **)&l->chosen_of, err);
    if (st != SW_OK)
        return st;
    memset(l->placed_of, 0xff, count * sizeof *l->placed_of);
    for (size_t i = l->in->count; i-- > 0;)
        l->chosen_of[l->in->chosen[i].source] = &l->in->chosen[i];
    return SW_OK;
}

/* TS-14: torch cannot load untyped storages from the form before 1.6. */
static sw_status check_dtypes(const laying *l, sw_error *err)
{
    for (size_t i = 0; l->out.form == SWI_TORCH_LEGACY && i < l->tensor_count; i++) {
        const swi_torch_placed *t = &l->tensors[i];
        sw_tensor_info info;
        swi_quoted q;
        if (swi_torch_has_class(t->dtype))
            continue;
        sw_catalog_tensor(l->source, t->source, &info);
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "tensor \"%s\" is %s, which the form before 1.6 cannot hold; use "
                        "form=zip, or leave it out with --drop",
                        swi_quote_str(&q, info.name), sw_dtype_name(t->dtype));
    }
    return SW_OK;
}

static sw_status list_storages(laying *l, sw_error *err)
{
    size_t count = (size_t)l->storages.count + l->carried_count;
    if (count >= UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "torch file: more storages than can be numbered");
    sw_status st = swi_alloc_array(count, sizeof *l->all_storages, (void **)&l->all_storages, err);
    for (uint32_t i = 0; st == SW_OK && i < count; i++)
        l->all_storages[i] =
            i < l->storages.count ? l->storages.items[i] : l->carried[i - l->storages.count].is;
    l->out.storages = l->all_storages;
    l->out.storage_count = (uint32_t)count;
    return st;
}

static sw_status make_object(laying *l, sw_error *err)
{
    sw_status st = swi_state_keep(l->in->state, l->in->leaves, l->in->leaf_count, &l->root, err);
    if (st == SW_OK)
        st = make_tables(l, err);
    if (st == SW_OK) {
        st = write_object(l, l->root, meet_tensor, err);
        if (st == SW_ERR_UNSUPPORTED)
            st = name_culprit(l, err);
    }
    if (st == SW_OK)
        st = check_dtypes(l, err);
    if (st == SW_OK)
        st = swi_torch_place(l->source, swi_checkpoint_own_tensors(l->in->source), l->tensors,
                             l->tensor_count, l->in->report, &l->storages, err);
    l->emitter = (swi_torch_emitter){.form = l->out.form, .remembers = true};
    if (st == SW_OK)
        st = write_object(l, l->root, emit_tensor, err);
    if (st != SW_OK)
        return st;
    l->out.object = l->object.data;
    l->out.object_size = l->object.size;
    l->out.object_crc32 = swi_crc32(0, l->object.data, l->object.size);
    return list_storages(l, err);
}

/* ---- the file ----------------------------------------------------------------------------------
 */

static sw_status lay_file(laying *l, sw_error *err)
{
    const uint8_t **data = NULL;
    sw_status st = swi_alloc_array(l->out.storage_count, sizeof *data, (void **)&data, err);
    for (size_t i = 0; st == SW_OK && i < l->carried_count; i++)
        data[l->storages.count + i] = l->carried[i].data;
    const swi_torch_lay_in in = {.path = FILE_NAME, .out = &l->out, .data = data};
    if (st == SW_OK)
        st = swi_torch_lay(l->layout, &in, &l->laid, err);
    free(data);
    return st;
}

/* ---- tensors -----------------------------------------------------------------------------------
 */

/* The first name of what fills is its own; all other names see what is there. */
static sw_status on_name(void *ctx, const swi_torch_leaf *leaf, sw_error *err)
{
    laying *l = ctx;
    uint32_t tensor;
    if (!sw_value_tensor(l->in->state->graph, leaf->node, &tensor) ||
        l->placed_of[tensor] == NOT_MET)
        return SW_OK;
    const swi_torch_placed *t = &l->tensors[l->placed_of[tensor]];
    const char **first = &l->name_of[l->placed_of[tensor]];
    const swi_layout_view view = {.name = leaf->name, .source = tensor, .dtype = t->dtype};
    if (!t->fills || *first != NULL)
        return swi_layout_see(l->layout, &view, err);
    return swi_arena_text(&l->names, leaf->name, strlen(leaf->name), first, err);
}

/* The names that whoever reads the file will find, those inside tuples and objects too. */
static sw_status find_names(laying *l, sw_error *err)
{
    const swi_torch_object object = {.graph = l->in->state->graph, .root = l->root};
    bool too_deep;
    sw_status st = swi_alloc_array(l->tensor_count, sizeof *l->name_of, (void **)&l->name_of, err);
    return st == SW_OK ? swi_torch_walk(&object, on_name, l, &too_deep, err) : st;
}

static sw_status lay_tensor(laying *l, const swi_torch_filler *f, sw_error *err)
{
    const swi_torch_placed *t = &l->tensors[f->tensor];
    sw_tensor_info info;
    int64_t stride[SW_MAX_AXES];
    uint32_t id, unit = sw_dtype_bytes(t->dtype);
    sw_catalog_tensor(l->source, t->source, &info);
    const char *name = l->name_of[f->tensor] != NULL ? l->name_of[f->tensor] : info.name;
    const swi_tensor_in in = {.name = name,
                              .name_size = strlen(name),
                              .dtype = t->dtype,
                              .axes = info.axes,
                              .shape = info.shape,
                              .role = info.role};
    sw_status st = swi_layout_tensor(l->layout, &in, t->source, &id, err);
    if (st != SW_OK || info.elements == 0)
        return st;
    swi_piece piece = {.axes = info.axes};
    memcpy(piece.view, info.shape, sizeof piece.view);
    memcpy(piece.length, info.shape, sizeof piece.length);
    swi_torch_placed_strides(l->source, t, &info, stride);
    for (uint32_t k = 0; k < info.axes; k++)
        piece.stride_bytes[k] = stride[k] * (int64_t)unit;
    return swi_layout_piece(l->layout, id, l->laid.file,
                            l->laid.storage_at[t->storage] + t->start_elements * unit,
                            info.elements * unit, &piece, err);
}

/* TS-11: what no tensor sees of a shared storage. */
static sw_status lay_gap(laying *l, const swi_torch_filler *f, uint64_t from, sw_error *err)
{
    uint32_t unit = sw_dtype_bytes(l->tensors[f->tensor].dtype);
    if (f->start_elements == from)
        return SW_OK;
    return swi_layout_fill(l->layout, l->laid.file, l->laid.storage_at[f->storage] + from * unit,
                           (f->start_elements - from) * unit, 0, err);
}

static sw_status lay_tensors(laying *l, sw_error *err)
{
    uint64_t end = 0;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < l->storages.filler_count; i++) {
        const swi_torch_filler *f = &l->storages.fillers[i];
        sw_tensor_info info;
        if (i == 0 || f->storage != f[-1].storage)
            end = 0;
        st = lay_gap(l, f, end, err);
        if (st == SW_OK)
            st = lay_tensor(l, f, err);
        sw_catalog_tensor(l->source, l->tensors[f->tensor].source, &info);
        end = f->start_elements + info.elements;
    }
    return st;
}

sw_status swi_torch_layout(const swi_target_in *in, swi_layout *layout, sw_error *err)
{
    laying l = {.in = in, .source = sw_checkpoint_catalog(in->source), .layout = layout};
    sw_status st = parse_options(&l, err);
    if (st == SW_OK)
        st = make_object(&l, err);
    if (st == SW_OK)
        st = lay_file(&l, err);
    if (st == SW_OK)
        st = find_names(&l, err);
    if (st == SW_OK)
        st = lay_tensors(&l, err);
    swi_torch_storages_free(&l.storages);
    swi_buf_free(&l.object);
    free(l.tensors);
    free(l.placed_of);
    free(l.chosen_of);
    swi_torch_laid_free(&l.laid);
    free(l.name_of);
    swi_arena_free(&l.names);
    free(l.carried);
    free(l.all_storages);
    return st;
}
