/*
 * Series of files of ranks become one checkpoint: each tensor goes where its file records that it
 * belongs. Nothing is ever decided by comparing what tensors hold.
 */
#include "ranks/rank_folder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/rank_survey.h"
#include "select/names.h"
#include "select/sections.h"

#define FLAT "flat_param"

/* A view of a flat parameter, whose tensor of the catalog may come later. */
typedef struct slice {
    const char *name; /* of the parameter */
    uint32_t flat;    /* the tensor of the file; then the number of its name in `lines` */
    uint64_t at, elements;
} slice;

/* A 1-D shard of the file that is put in. */
typedef struct line {
    uint32_t tensor, name; /* number in the file, and of its name in `lines` */
} line;

typedef struct reading {
    swi_opening *o;
    swi_rank_folder folder;
    swi_rank_survey survey;
    swi_rank_reading r;
    swi_block_part box;      /* of the tensor that was placed last */
    swi_torch_object object; /* of the file that is put in: borrowed */
    swi_flat_shards shards;  /* in it */
    line *here;              /* in it */
    size_t here_count, here_capacity;
    swi_names *lines;   /* names of 1-D shards */
    swi_names *flats;   /* those of flat parameters */
    const char **units; /* of each, the module's name */
    size_t unit_capacity;
    slice *slices;
    size_t slice_count, slice_capacity;
} reading;

/* ---- placing -------------------------------------------------------------------------------- */

static sw_status whole(reading *r, const swi_torch_met *met, swi_torch_box *out)
{
    const swi_torch_tensor *t = met->tensor;
    out->replicated = r->folder.world > 1;
    out->axes = t->axes;
    memcpy(out->shape, t->shape, sizeof out->shape);
    memcpy(out->local, t->shape, sizeof out->local);
    memcpy(r->box.length, t->shape, sizeof r->box.length);
    return SW_OK;
}

/* RS-6: the box of this rank under the placements of a DTensor. */
static sw_status by_placements(reading *r, const swi_torch_met *met, swi_torch_box *out,
                               sw_error *err)
{
    const swi_share *share = met->share;
    const swi_placements *p = &share->placements;
    int64_t number = swi_mesh_number(met->mesh, (int64_t)r->r.ranks.rank);
    uint64_t shards = 1;
    if (number < 0)
        return swi_fail_at(err, SW_ERR_CONFLICT, "RS-6", 0,
                           "its mesh does not have the rank of this file");
    for (uint32_t a = 0; a < p->axes; a++)
        shards *= p->at[a].kind != SWI_REPLICATE ? p->size[a] : 1;
    out->replicated = shards < r->folder.world;
    return swi_placed_box(p, (uint64_t)number, out->axes, out->shape, r->box.offset, r->box.length,
                          err);
}

static sw_status by_box(reading *r, const swi_torch_met *met, swi_torch_box *out)
{
    const swi_share *share = met->share;
    out->replicated = share->group > 0 && share->group < r->folder.world;
    memcpy(r->box.offset, share->offset, sizeof r->box.offset);
    memcpy(r->box.length, share->length, sizeof r->box.length);
    return SW_OK;
}

/* The name in the module, without what wraps it; appended and terminated. */
static sw_status module_name(const swi_torch_leaf *leaf, swi_buf *out, sw_error *err)
{
    swi_path path = {.count = leaf->count};
    swi_section section = {0};
    uint64_t removed = 0;
    for (size_t i = 0; i < leaf->count; i++) {
        path.parts[i] = leaf->parts[i];
        path.is_index[i] = leaf->is_index[i];
    }
    sw_status st = swi_section_of(&path, leaf->name, &section, err);
    if (st == SW_OK)
        st = swi_clean_name((const char *)section.name.data, false, out, &removed, err);
    swi_section_end(&section);
    return st;
}

/* RS-9: "layers.0._flat_param" is the row of "layers.0". */
static sw_status note_flat(reading *r, const swi_torch_leaf *leaf, sw_error *err)
{
    uint32_t id;
    bool is_new;
    swi_buf unit = {0};
    sw_status st = swi_names_add(r->flats, leaf->name, strlen(leaf->name), &id, &is_new, err);
    if (st != SW_OK || !is_new)
        return st;
    st = swi_grow_array((void **)&r->units, &r->unit_capacity, (size_t)id + 1, sizeof *r->units,
                        err);
    if (st == SW_OK)
        st = module_name(leaf, &unit, err);
    if (st == SW_OK) {
        size_t size = strlen((const char *)unit.data) - strlen(FLAT);
        while (size > 0 && (unit.data[size - 1] == '_' || unit.data[size - 1] == '.'))
            size--;
        st = swi_arena_text(&r->r.arena, (const char *)unit.data, size, &r->units[id], err);
    }
    swi_buf_free(&unit);
    return st;
}

/* Which tensor of the file has which name, for the views of it. */
static sw_status note_line(reading *r, const swi_torch_met *met, sw_error *err)
{
    const char *name = met->leaf->name;
    line l = {.tensor = (uint32_t)(met->tensor - r->object.tensors)};
    sw_status st = swi_names_add(r->lines, name, strlen(name), &l.name, NULL, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&r->here, &r->here_capacity, r->here_count + 1, sizeof l, err);
    if (st == SW_OK)
        r->here[r->here_count++] = l;
    return st == SW_OK && swi_has_suffix(name, FLAT) ? note_flat(r, met->leaf, err) : st;
}

static sw_status by_share(reading *r, const swi_torch_met *met, swi_torch_box *out, sw_error *err)
{
    const swi_share *share = met->share;
    sw_status st = SW_OK;
    out->axes = share->axes;
    memcpy(out->shape, share->shape, sizeof out->shape);
    st = share->kind == SWI_SHARE_PLACED ? by_placements(r, met, out, err) : by_box(r, met, out);
    memcpy(out->local, r->box.length, sizeof out->local);
    return st == SW_OK && share->kind == SWI_SHARE_SHARD && share->axes == 1
               ? note_line(r, met, err)
               : st;
}

/* RS-9: what a plain 1-D tensor in the bytes of a flat parameter is of it. */
static sw_status note_slice(reading *r, const swi_torch_met *met, uint32_t under, sw_error *err)
{
    const swi_torch_tensor *t = met->tensor, *flat = &r->object.tensors[under];
    const swi_share *share = swi_torch_share_of(&r->object, under);
    swi_buf name = {0};
    slice s = {.flat = under, .elements = t->elements};
    if (t->start_elements < flat->start_elements ||
        t->start_elements - flat->start_elements > flat->elements ||
        t->elements > flat->elements - (t->start_elements - flat->start_elements))
        return swi_fail_at(err, SW_ERR_CORRUPT, "RS-9", 0,
                           "it lies over the end of the flat parameter that it is a part of");
    s.at = (uint64_t)share->offset[0] + (t->start_elements - flat->start_elements);
    sw_status st =
        swi_grow_array((void **)&r->slices, &r->slice_capacity, r->slice_count + 1, sizeof s, err);
    if (st == SW_OK)
        st = module_name(met->leaf, &name, err);
    if (st == SW_OK)
        st = swi_arena_text(&r->r.arena, (const char *)name.data, strlen((char *)name.data),
                            &s.name, err);
    swi_buf_free(&name);
    if (st == SW_OK)
        r->slices[r->slice_count++] = s;
    return st;
}

/* RS-8: this rank's shard of what FSDP1's optimizer keeps flat. */
static sw_status in_row(reading *r, size_t row, const swi_torch_met *met, swi_torch_box *out,
                        sw_error *err)
{
    const swi_rank_survey *s = &r->survey;
    size_t at = row * (size_t)r->folder.world + (size_t)r->r.ranks.rank;
    const swi_rank_place *place = &s->places[r->r.ranks.rank];
    if (met->tensor->axes != 1)
        return swi_fail_at(err, SW_ERR_CONFLICT, "RS-8", 0,
                           "it is a row of elements on other ranks");
    if (place->several)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "RS-8", 0,
                           "nothing tells which shard of the state this rank has: the model's "
                           "tensors are divided in several ways, or not known here");
    if (s->offsets[at] < 0)
        return swi_fail_at(err, SW_ERR_CONFLICT, "RS-8", 0,
                           "it has %" PRIu64
                           " elements, and the replica of this shard on another rank has others",
                           met->tensor->elements);
    out->axes = 1;
    out->shape[0] = s->totals[row];
    out->local[0] = r->box.length[0] = (int64_t)met->tensor->elements;
    r->box.offset[0] = s->offsets[at];
    out->replicated = s->shards < r->folder.world;
    return SW_OK;
}

static sw_status plain(reading *r, const swi_torch_met *met, swi_torch_box *out, sw_error *err)
{
    const swi_torch_leaf *leaf = met->leaf;
    const swi_torch_tensor *t = met->tensor;
    size_t size = strlen(leaf->name);
    sw_role role = SW_ROLE_OTHER;
    uint32_t under = swi_flat_shard_under(&r->shards, t);
    if (under != UINT32_MAX || (t->elements == 0 && t->axes == 1 &&
                                swi_names_find(r->survey.slices, leaf->name, size) >= 0)) {
        out->left_out = true;
        return under != UINT32_MAX ? note_slice(r, met, under, err) : SW_OK;
    }
    int64_t row = r->survey.has_rows ? swi_names_find(r->survey.rows, leaf->name, size) : -1;
    if (row >= 0)
        return in_row(r, (size_t)row, met, out, err);
    sw_status st = swi_rank_leaf_role(leaf, &role, err);
    out->is_own = role == SW_ROLE_OTHER || (leaf->count == 1 && r->survey.sections);
    return st == SW_OK && !out->is_own ? whole(r, met, out) : st;
}

static sw_status place(void *ctx, const swi_torch_met *met, swi_torch_box *out, sw_error *err)
{
    reading *r = ctx;
    r->box = (swi_block_part){{0}, {0}, {0}};
    out->parts = &r->box;
    out->part_count = 1;
    return met->share != NULL ? by_share(r, met, out, err) : plain(r, met, out, err);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* The slices of this file get the names of what they are views of. */
static void link_slices(reading *r, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < r->slice_count; i++) {
        slice s = r->slices[i];
        size_t k = 0;
        while (k < r->here_count && r->here[k].tensor != s.flat)
            k++;
        if (k == r->here_count)
            continue; /* its shard has no name in the state dict: it is no row either */
        s.flat = r->here[k].name;
        r->slices[kept++] = s;
    }
    r->slice_count = kept;
    r->here_count = 0;
}

static sw_status put(void *ctx, const swi_file_of_rank *file, const swi_torch_file *tf,
                     swi_torch_object *object, sw_error *err)
{
    reading *r = ctx;
    size_t first = r->slice_count;
    r->object = *object;
    sw_status st = swi_flat_shards_find(tf, object, &r->shards, err);
    if (st == SW_OK)
        st = swi_rank_reading_put(&r->r, file, tf, object, err);
    link_slices(r, first);
    swi_flat_shards_free(&r->shards);
    return st;
}

/* In each series rank after rank: the first one that has a name is the lowest. */
static sw_status add_files(reading *r, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < r->folder.count; i++) {
        const swi_rank_series *s = &r->folder.series[i];
        for (size_t k = 0; st == SW_OK && k < s->count; k++) {
            const swi_file_of_rank file = {
                .path = s->files[k].name, .item = s->item, .series = i, .rank = s->files[k].rank};
            bool there;
            st = swi_rank_reading_add(&r->r, &file, &there, err);
        }
    }
    return st;
}

/* ---- notes and facts ------------------------------------------------------------------------ */

/* The tensor of the catalog that has this name, or -1: what was wrong with it is said. */
static int64_t tensor_of(const reading *r, const char *name)
{
    int64_t id = swi_names_find(r->r.fill.names, name, strlen(name));
    return id >= 0 && (size_t)id < r->r.fill.id_capacity &&
                   r->r.fill.id_of[id] != SWI_TORCH_NO_TENSOR
               ? (int64_t)r->r.fill.id_of[id]
               : -1;
}

static sw_status note_rows(reading *r, sw_error *err)
{
    const swi_rank_survey *s = &r->survey;
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < swi_names_count(r->flats); i++) {
        int64_t id = tensor_of(r, swi_names_at(r->flats, i, NULL));
        if (id >= 0)
            st = swi_opening_row(r->o, (uint32_t)id, r->units[i], s->shards, err);
    }
    for (uint32_t i = 0; st == SW_OK && s->has_rows && i < swi_names_count(s->rows); i++) {
        int64_t id = tensor_of(r, swi_names_at(s->rows, i, NULL));
        if (id >= 0)
            st = swi_opening_row(r->o, (uint32_t)id, NULL, s->shards, err);
    }
    for (size_t i = 0; st == SW_OK && i < r->slice_count; i++) {
        const slice *v = &r->slices[i];
        int64_t id = tensor_of(r, swi_names_at(r->lines, v->flat, NULL));
        if (id >= 0)
            st = swi_opening_row_slice(r->o, (uint32_t)id, v->name, v->at, v->elements, err);
    }
    return st;
}

static const char *kind_of(const swi_rank_survey *s)
{
    if (s->flat)
        return swi_names_count(s->slices) > 0 ? "FSDP1 local (use_orig_params=True)"
                                              : "FSDP1 local (use_orig_params=False)";
    if (s->sharded)
        return "FSDP1 sharded (ShardedTensor)";
    if (s->placed)
        return s->has_rows || s->folder->fsdp_version == 1 ? "FSDP1 sharded (DTensor)"
                                                           : "FSDP2 (DTensor)";
    return "whole tensors on each rank";
}

static sw_status add_facts(reading *r, sw_error *err)
{
    const swi_rank_survey *s = &r->survey;
    uint64_t world = r->folder.world;
    sw_status st = swi_opening_fact(r->o, "ranks", err, "%" PRIu64, world);
    if (st == SW_OK)
        st = swi_opening_fact(r->o, "kind", err, "%s", kind_of(s));
    if (st == SW_OK && s->shards > 0 && s->shards < world)
        st = swi_opening_fact(r->o, "replicas", err, "%" PRIu64 " of %" PRIu64 " shards",
                              world / s->shards, s->shards);
    return st == SW_OK ? swi_torch_say_checksums(&r->r.fill, err) : st;
}

sw_status swi_rank_folder_open(swi_opening *o, sw_error *err)
{
    reading r = {.o = o};
    sw_status st = swi_rank_reading_begin(o, place, &r, &r.r, err);
    if (st == SW_OK)
        st = swi_names_make(&r.lines, err);
    if (st == SW_OK)
        st = swi_names_make(&r.flats, err);
    if (st == SW_OK)
        st = swi_rank_folder_find(o, &r.folder, err);
    if (st == SW_OK)
        st = swi_rank_survey_begin(&r.folder, &r.survey, err);
    if (st == SW_OK)
        st = add_files(&r, err);
    if (st == SW_OK)
        st = swi_rank_reading_each(&r.r, swi_rank_survey_file, &r.survey, err);
    if (st == SW_OK)
        st = swi_rank_survey_settle(&r.survey, err);
    if (st == SW_OK)
        st = swi_rank_reading_each(&r.r, put, &r, err);
    if (st == SW_OK)
        st = note_rows(&r, err);
    if (st == SW_OK)
        st = add_facts(&r, err);
    swi_rank_reading_end(&r.r);
    swi_rank_survey_end(&r.survey);
    swi_rank_folder_free(&r.folder);
    swi_names_free(r.lines);
    swi_names_free(r.flats);
    free(r.units);
    free(r.here);
    free(r.slices);
    return st;
}
