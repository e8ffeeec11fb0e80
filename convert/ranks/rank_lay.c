/* Laying out files of ranks (RF-20 to RF-24). */
#include "ranks/rank_lay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/report.h"
#include "base/text.h"
#include "codec/crc32.h"
#include "model/value.h"
#include "ranks/rank_laying.h"
#include "target/model_config.h"
#include "target/st_file.h"
#include "target/target.h"
#include "torch/torch.h"
#include "torch/torch_lay.h"

#define NONE UINT32_MAX
#define PATH_BYTES 64

/* What makes the object of a file. */
typedef struct late_object {
    const swi_rank_plan *plan;
    const swi_rank_series *series;
    uint32_t rank;
} late_object;

typedef struct laying {
    const swi_target_in *in;
    swi_layout *layout;
    swi_rank_plan *plan;
    late_object *objects;         /* by series and rank */
    bool given;                   /* the plan is the layout's */
    const swi_chosen **chosen_of; /* by tensor of the source */
    const swi_state_part **leaf_of;
    uint32_t *owner_entry;   /* by tensor of the source: the first entry of its elements */
    swi_rank_series *series; /* that is walked now, */
    uint32_t of_rank;        /* the object of this rank; NONE: that of all */
    uint32_t *rank_map;
    swi_buf object, name;
} laying;

/* ---- which tensors there are -------------------------------------------------------------------
 */

static sw_status check_dtype(const swi_rank_entry *e, const char *name, sw_error *err)
{
    swi_quoted q;
    if (swi_torch_dtype_name(e->dtype) != NULL)
        return SW_OK;
    return swi_fail(err, SW_ERR_UNSUPPORTED,
                    "tensor \"%s\" is %s, which torch does not have; leave it out with --drop",
                    swi_quote_str(&q, name), sw_dtype_name(e->dtype));
}

/* RF-23: what is tied, and divided alike, shares its elements again. */
static void tie(const laying *l, uint32_t id, const sw_tensor_info *info)
{
    swi_rank_entry *e = &l->plan->entries[id];
    const uint32_t owner = info->alias_of >= 0 ? (uint32_t)info->alias_of : e->source;
    uint32_t *first = &l->owner_entry[owner];
    e->same_as = id;
    if (info->role == SW_ROLE_OPTIMIZER) /* TS-15 */
        return;
    if (*first == NONE) {
        *first = id;
        return;
    }
    const swi_rank_entry *f = &l->plan->entries[*first];
    if (f->dtype == e->dtype && f->axes == e->axes &&
        memcmp(f->shape, e->shape, e->axes * sizeof *e->shape) == 0 &&
        swi_rank_cut_same(&f->how, &e->how))
        e->same_as = *first;
}

static sw_status add_entry(laying *l, uint32_t tensor, sw_error *err)
{
    swi_rank_plan *plan = l->plan;
    sw_tensor_info info;
    sw_status st = swi_grow_array((void **)&plan->entries, &plan->capacity, plan->count + 1,
                                  sizeof *plan->entries, err);
    if (st != SW_OK)
        return st;
    sw_catalog_tensor(sw_checkpoint_catalog(l->in->source), tensor, &info);
    swi_rank_entry *e = &plan->entries[plan->count];
    *e = (swi_rank_entry){
        .source = tensor, .leaf = l->leaf_of[tensor], .axes = info.axes, .of_rank = l->of_rank};
    e->dtype = l->chosen_of[tensor] != NULL ? l->chosen_of[tensor]->dtype : info.dtype;
    memcpy(e->shape, info.shape, sizeof e->shape);
    st = check_dtype(e, info.name, err);
    if (st == SW_OK && e->leaf != NULL)
        st = plan->in.cut(plan->in.ctx, e->leaf, &e->how, err);
    if (st == SW_OK && e->how.form == SWI_RANK_DTENSOR)
        st = swi_rank_place(plan, e, err);
    if (st != SW_OK)
        return st;
    plan->entry_of[tensor] = (uint32_t)plan->count++;
    tie(l, plan->entry_of[tensor], &info);
    return SW_OK;
}

/* The first pass over the object of a series: which tensors there are, in their order. */
static sw_status meet(void *ctx, swi_pickle_writer *w, const sw_value_graph *graph, sw_value v,
                      sw_error *err)
{
    laying *l = ctx;
    uint32_t tensor;
    sw_status st = SW_OK;
    if (!sw_value_tensor(graph, v, &tensor))
        return swi_pickle_op(w, 'N', err);
    if (l->plan->entry_of[tensor] == NONE)
        st = add_entry(l, tensor, err);
    if (st != SW_OK)
        return st;
    swi_rank_series *s = l->series;
    const uint32_t id = l->plan->entries[l->plan->entry_of[tensor]].same_as;
    if (l->plan->entries[id].of_rank != l->of_rank)
        l->plan->entries[id].of_rank = NONE;
    if (s->storage_of[id] == NONE) {
        s->entries[s->count] = id;
        s->storage_of[id] = s->count++;
    }
    return swi_pickle_op(w, 'N', err);
}

static sw_status meet_value(laying *l, sw_value v, uint32_t of_rank, sw_error *err)
{
    swi_pickle_writer w;
    l->of_rank = of_rank;
    l->object.size = 0;
    sw_status st = swi_pickle_begin(&w, &l->object, 2, err);
    return st == SW_OK ? swi_pickle_emit(&w, l->plan->graph, v, meet, l, err) : st;
}

/* The object cannot be written: the leaf because of which, and its own error. */
static sw_status name_culprit(laying *l, sw_error *err)
{
    swi_quoted q;
    sw_error cause = {0};
    for (size_t i = 0; i < l->in->leaf_count; i++) {
        const swi_state_part *leaf = &l->in->leaves[i];
        if (leaf->tensor != NULL || meet_value(l, leaf->value, NONE, &cause) == SW_OK)
            continue;
        if (err != NULL)
            *err = cause;
        return swi_error_prefix(err, "value \"%s\"", swi_quote_str(&q, leaf->name));
    }
    return SW_ERR_UNSUPPORTED;
}

static sw_status meet_series(laying *l, swi_rank_series *s, sw_error *err)
{
    const size_t count = sw_catalog_tensor_count(sw_checkpoint_catalog(l->in->source));
    swi_arena *arena = &l->plan->arena;
    l->series = s;
    sw_status st =
        swi_arena_alloc(arena, count * sizeof *s->storage_of, (void **)&s->storage_of, err);
    if (st == SW_OK)
        st = swi_arena_alloc(arena, count * sizeof *s->entries, (void **)&s->entries, err);
    if (st != SW_OK)
        return st;
    memset(s->storage_of, 0xff, count * sizeof *s->storage_of);
    st = meet_value(l, s->root, NONE, err);
    for (uint32_t r = 0; st == SW_OK && s->root_of != NULL && r < l->plan->ranks; r++)
        st = meet_value(l, s->root_of[r], r, err);
    return st == SW_ERR_UNSUPPORTED ? name_culprit(l, err) : st;
}

/* ---- tensors of the layout ---------------------------------------------------------------------
 */

static bool has_copies(const laying *l, uint32_t id)
{
    const swi_rank_entry *e = &l->plan->entries[id];
    size_t files = 0;
    for (size_t i = 0; i < l->plan->series_count; i++)
        files += l->plan->series[i].storage_of[id] != NONE;
    if (files > 1 || e->of_rank != NONE)
        return files > 1;
    return (e->how.form == SWI_RANK_WHOLE ? l->plan->ranks : e->how.cut.copies) > 1;
}

static sw_status lay_tensor(laying *l, swi_rank_entry *e, const char *name, sw_error *err)
{
    sw_tensor_info info;
    sw_catalog_tensor(sw_checkpoint_catalog(l->in->source), e->source, &info);
    const swi_tensor_in in = {.name = name,
                              .name_size = strlen(name),
                              .dtype = e->dtype,
                              .axes = e->axes,
                              .shape = e->shape,
                              .role = info.role};
    const swi_chosen *chosen = l->chosen_of[e->source];
    sw_status st = chosen != NULL ? swi_target_tensor(l->layout, &in, chosen, &e->tensor, err)
                                  : swi_layout_tensor(l->layout, &in, e->source, &e->tensor, err);
    if (st == SW_OK && info.elements > 0 && has_copies(l, (uint32_t)(e - l->plan->entries)))
        st = swi_layout_replicas(l->layout, e->tensor, err);
    e->laid = st == SW_OK;
    return st;
}

/* The first name of what is written is its own; all others see what is there. */
static sw_status on_name(void *ctx, const swi_torch_leaf *leaf, sw_error *err)
{
    laying *l = ctx;
    uint32_t tensor;
    if (!sw_value_tensor(l->plan->graph, leaf->node, &tensor) || l->plan->entry_of[tensor] == NONE)
        return SW_OK;
    swi_rank_entry *e = &l->plan->entries[l->plan->entry_of[tensor]];
    l->name.size = 0;
    sw_status st = swi_buf_printf(&l->name, err, "%s%s%s", l->series->prefix,
                                  leaf->count > 0 ? "." : "", leaf->count > 0 ? leaf->name : "");
    if (st == SW_OK && l->of_rank != NONE)
        st = swi_buf_printf(&l->name, err, ".rank%" PRIu32, l->of_rank);
    if (st == SW_OK)
        st = swi_buf_u8(&l->name, '\0', err);
    if (st != SW_OK)
        return st;
    const char *name = (const char *)l->name.data;
    swi_rank_entry *owner = &l->plan->entries[e->same_as];
    if (e == owner && !e->laid)
        return lay_tensor(l, e, name, err);
    if (l->of_rank != NONE)
        return SW_OK;
    const swi_layout_view view = {.name = name, .source = tensor, .dtype = e->dtype};
    return swi_layout_see(l->layout, &view, err);
}

/* What is in the objects of ranks alone has the rank in its name. */
static sw_status lay_object(laying *l, sw_value root, uint32_t of_rank, sw_error *err)
{
    const swi_torch_object object = {.graph = l->plan->graph, .root = root};
    bool too_deep;
    l->of_rank = of_rank;
    return swi_torch_walk(&object, on_name, l, &too_deep, err);
}

static sw_status lay_tensors(laying *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < l->plan->series_count; i++) {
        const swi_rank_series *s = l->series = &l->plan->series[i];
        st = lay_object(l, s->root, NONE, err);
        for (uint32_t r = 0; st == SW_OK && s->root_of != NULL && r < l->plan->ranks; r++)
            st = lay_object(l, s->root_of[r], r, err);
    }
    return st;
}

/* ---- files -------------------------------------------------------------------------------------
 */

static sw_status make_object(void *ctx, const uint32_t *sums, uint8_t *out, size_t size,
                             sw_error *err)
{
    const late_object *of = ctx;
    swi_rank_carried carried = {0};
    swi_buf object = {0};
    (void)sums;
    sw_status st = swi_rank_emit(of->plan, of->series, of->rank, &object, &carried, err);
    if (st == SW_OK && object.size != size)
        st = swi_fail(err, SW_ERR_ARG, "an object has %zu bytes, not %zu", object.size, size);
    if (st == SW_OK)
        memcpy(out, object.data, size);
    swi_buf_free(&object);
    free(carried.items);
    return st;
}

static void free_plan(swi_rank_plan *plan)
{
    if (plan == NULL)
        return;
    if (plan->in.free_ctx != NULL)
        plan->in.free_ctx(plan->in.ctx);
    free(plan->entries);
    swi_arena_free(&plan->arena);
    free(plan);
}

/* The first of all late objects brings the plan into the layout's hands. */
static void free_by_object(void *ctx)
{
    const late_object *of = ctx;
    free_plan((swi_rank_plan *)(uintptr_t)of->plan);
}

typedef struct file_parts {
    swi_torch_out_storage *storages;
    const uint8_t **data;
    swi_rank_carried carried;
} file_parts;

static sw_status list_storages(const laying *l, const swi_rank_series *s, uint32_t rank,
                               file_parts *p, uint32_t *count, sw_error *err)
{
    const uint32_t mesh = l->plan->meshes_needed;
    const size_t all = (size_t)s->count + mesh + p->carried.count;
    if (all >= UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "torch file: more storages than can be numbered");
    sw_status st = swi_alloc_array(all, sizeof *p->storages, (void **)&p->storages, err);
    if (st == SW_OK)
        st = swi_alloc_array(all, sizeof *p->data, (void **)&p->data, err);
    for (uint32_t i = 0; st == SW_OK && i < s->count; i++) {
        const swi_rank_entry *e = &l->plan->entries[s->entries[i]];
        swi_local local;
        uint64_t elements = 0;
        swi_rank_local(e, rank, &local);
        if (!swi_shape_elements(local.axes, local.shape, &elements))
            st = swi_fail(err, SW_ERR_LIMIT, "a tensor is too large");
        p->storages[i] = (swi_torch_out_storage){.dtype = e->dtype, .elements = elements};
    }
    if (st != SW_OK)
        return st;
    if (mesh > 0) {
        p->storages[s->count] = (swi_torch_out_storage){SW_I32, l->plan->ranks};
        p->data[s->count] = (const uint8_t *)l->rank_map;
    }
    for (size_t i = 0; i < p->carried.count; i++) {
        p->storages[s->count + mesh + i] = p->carried.items[i].is;
        p->data[s->count + mesh + i] = p->carried.items[i].data;
    }
    *count = (uint32_t)all;
    return SW_OK;
}

static sw_status lay_pieces(laying *l, const swi_rank_series *s, uint32_t rank,
                            const swi_torch_laid *laid, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < s->count; i++) {
        const swi_rank_entry *e = &l->plan->entries[s->entries[i]];
        swi_local local;
        swi_rank_local(e, rank, &local);
        if (local.count == 0)
            continue;
        const swi_block block = swi_local_block(&local);
        st = swi_layout_block(l->layout, e->tensor, laid->file, laid->storage_at[i], &block, err);
    }
    return st;
}

/* RF-21 */
static sw_status lay_parts(laying *l, const swi_rank_series *s, late_object *of, file_parts *p,
                           sw_error *err)
{
    char path[PATH_BYTES];
    swi_torch_out out = {.form = SWI_TORCH_ZIP};
    swi_torch_lay_object object = {
        .make = make_object, .ctx = of, .free_ctx = l->given ? NULL : free_by_object};
    swi_torch_laid laid = {0};
    l->object.size = 0;
    sw_status st = swi_rank_emit(l->plan, s, of->rank, &l->object, &p->carried, err);
    if (st == SW_OK)
        st = list_storages(l, s, of->rank, p, &out.storage_count, err);
    if (st != SW_OK)
        return st;
    out.storages = p->storages;
    out.object_size = l->object.size;
    out.object_crc32 = swi_crc32(0, l->object.data, l->object.size);
    (void)snprintf(path, sizeof path, "%s_world_size_%" PRIu32 "_rank_%" PRIu32 ".pt", s->name,
                   l->plan->ranks, of->rank);
    const swi_torch_lay_in in = {.path = path, .out = &out, .data = p->data, .object = &object};
    st = swi_torch_lay(l->layout, &in, &laid, err);
    l->given = l->given || object.given;
    if (st == SW_OK)
        st = lay_pieces(l, s, of->rank, &laid, err);
    swi_torch_laid_free(&laid);
    return st;
}

static sw_status lay_file(laying *l, const swi_rank_series *s, late_object *of, sw_error *err)
{
    file_parts parts = {0};
    sw_status st = lay_parts(l, s, of, &parts, err);
    free(parts.storages);
    free(parts.data);
    free(parts.carried.items);
    return st;
}

static sw_status lay_files(laying *l, sw_error *err)
{
    swi_rank_plan *plan = l->plan;
    const size_t files = plan->series_count * plan->ranks;
    sw_status st = swi_alloc_array(plan->ranks, sizeof *l->rank_map, (void **)&l->rank_map, err);
    if (st == SW_OK)
        st = swi_arena_alloc(&plan->arena, files * sizeof *l->objects, (void **)&l->objects, err);
    for (uint32_t r = 0; st == SW_OK && r < plan->ranks; r++)
        l->rank_map[r] = r;
    for (size_t i = 0; st == SW_OK && i < files; i++) {
        swi_rank_series *s = &plan->series[i / plan->ranks];
        l->objects[i] = (late_object){plan, s, (uint32_t)(i % plan->ranks)};
        st = lay_file(l, s, &l->objects[i], err);
    }
    return st;
}

/* RF-24 */
static sw_status lay_beside(laying *l, sw_error *err)
{
    const swi_assets *assets = l->in->assets;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && assets != NULL && i < assets->count; i++) {
        const swi_asset *a = &assets->items[i];
        l->name.size = 0;
        st = swi_buf_printf(&l->name, err, "huggingface/%s", a->path);
        if (st == SW_OK)
            st = swi_buf_u8(&l->name, '\0', err);
        if (st == SW_OK)
            st = swi_lay_bytes(l->layout, (const char *)l->name.data, a->data, a->size, err);
    }
    l->name.size = 0;
    if (st == SW_OK)
        st = swi_buf_printf(&l->name, err,
                            "{\n    \"FSDP_version\": %d,\n    \"world_size\": %" PRIu32 "\n}",
                            l->plan->in.fsdp_version, l->plan->ranks);
    return st == SW_OK
               ? swi_lay_bytes(l->layout, "fsdp_config.json", l->name.data, l->name.size, err)
               : st;
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

static sw_status make_tables(laying *l, sw_error *err)
{
    const size_t count = sw_catalog_tensor_count(sw_checkpoint_catalog(l->in->source));
    swi_rank_plan *plan = l->plan;
    sw_status st = swi_arena_alloc(&plan->arena, count * sizeof *plan->entry_of,
                                   (void **)&plan->entry_of, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *l->chosen_of, (void **)&l->chosen_of, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *l->leaf_of, (void **)&l->leaf_of, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *l->owner_entry, (void **)&l->owner_entry, err);
    if (st != SW_OK)
        return st;
    memset(plan->entry_of, 0xff, count * sizeof *plan->entry_of);
    memset(l->owner_entry, 0xff, count * sizeof *l->owner_entry);
    for (size_t i = l->in->count; i-- > 0;)
        l->chosen_of[l->in->chosen[i].source] = &l->in->chosen[i];
    for (size_t i = l->in->leaf_count; i-- > 0;)
        if (l->in->leaves[i].tensor != NULL)
            l->leaf_of[l->in->leaves[i].tensor->source] = &l->in->leaves[i];
    return SW_OK;
}

static sw_status check_ranks(uint64_t ranks, sw_error *err)
{
    if (ranks <= SWI_RANK_LAY_MAX)
        return SW_OK;
    return swi_fail(err, SW_ERR_LIMIT,
                    "%" PRIu64 " ranks with files of their own; at most %u, as each file says who "
                    "they all are: use files=dcp",
                    ranks, SWI_RANK_LAY_MAX);
}

static sw_status lay_out(laying *l, sw_error *err)
{
    const uint64_t ranks = swi_division_ranks(l->plan->in.division);
    sw_status st = check_ranks(ranks, err);
    if (st != SW_OK)
        return st;
    l->plan->ranks = (uint32_t)ranks;
    l->plan->graph = l->in->state->graph;
    st = make_tables(l, err);
    if (st == SW_OK)
        st = swi_rank_divide_state(l->plan, err);
    for (size_t i = 0; st == SW_OK && i < l->plan->series_count; i++)
        st = meet_series(l, &l->plan->series[i], err);
    if (st == SW_OK)
        st = lay_tensors(l, err);
    if (st == SW_OK)
        st = lay_files(l, err);
    return st == SW_OK ? lay_beside(l, err) : st;
}

static sw_status make_plan(const swi_rank_lay_in *in, swi_rank_plan **out, sw_error *err)
{
    sw_status st = swi_alloc_array(1, sizeof **out, (void **)out, err);
    if (st == SW_OK)
        (*out)->in = *in;
    else if (in->free_ctx != NULL)
        in->free_ctx(in->ctx);
    return st;
}

sw_status swi_rank_lay(const swi_rank_lay_in *in, swi_layout *layout, sw_error *err)
{
    laying l = {.in = in->in, .layout = layout};
    sw_status st = make_plan(in, &l.plan, err);
    if (st == SW_OK)
        st = lay_out(&l, err);
    if (st == SW_OK)
        l.plan->in.in = NULL; /* is no longer there when the rest is made */
    if (!l.given)
        free_plan(l.plan);
    free(l.chosen_of);
    free(l.leaf_of);
    free(l.owner_entry);
    free(l.rank_map);
    swi_buf_free(&l.object);
    swi_buf_free(&l.name);
    return st;
}
