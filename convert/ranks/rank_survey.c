#include "ranks/rank_survey.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "model/value.h"
#include "select/sections.h"

#define NONE UINT32_MAX

sw_status swi_rank_survey_begin(const swi_rank_folder *folder, swi_rank_survey *out, sw_error *err)
{
    *out = (swi_rank_survey){.folder = folder};
    sw_status st =
        swi_alloc_array((size_t)folder->world, sizeof *out->places, (void **)&out->places, err);
    if (st == SW_OK)
        st = swi_names_make(&out->rows, err);
    return st == SW_OK ? swi_names_make(&out->slices, err) : st;
}

void swi_rank_survey_end(swi_rank_survey *s)
{
    swi_names_free(s->rows);
    swi_names_free(s->slices);
    free(s->places);
    free(s->lengths);
    free(s->offsets);
    free(s->totals);
    *s = (swi_rank_survey){0};
}

/* ---- leaves --------------------------------------------------------------------------------- */

sw_status swi_rank_leaf_role(const swi_torch_leaf *leaf, sw_role *out, sw_error *err)
{
    swi_path path = {.count = leaf->count};
    swi_section section = {0};
    for (size_t i = 0; i < leaf->count; i++) {
        path.parts[i] = leaf->parts[i];
        path.is_index[i] = leaf->is_index[i];
    }
    sw_status st = swi_section_of(&path, leaf->name, &section, err);
    if (st == SW_OK)
        *out = section.role;
    swi_section_end(&section);
    return st;
}

bool swi_is_numbered_state(const swi_torch_leaf *leaf)
{
    if (leaf->count < 3 || strcmp(leaf->parts[leaf->count - 3], "state") != 0)
        return false;
    const char *number = leaf->parts[leaf->count - 2];
    return number[0] != '\0' && number[strspn(number, "0123456789")] == '\0';
}

sw_status swi_flat_shards_find(const swi_torch_file *tf, const swi_torch_object *object,
                               swi_flat_shards *out, sw_error *err)
{
    swi_flat_shards found = {.count = swi_torch_storage_count(tf)};
    sw_status st =
        swi_alloc_array(found.count, sizeof *found.of_storage, (void **)&found.of_storage, err);
    if (st != SW_OK)
        return st;
    memset(found.of_storage, 0xff, found.count * sizeof *found.of_storage);
    for (size_t i = 0; i < object->tensor_count; i++) {
        const swi_torch_tensor *t = &object->tensors[i];
        const swi_share *share = swi_torch_share_of(object, (uint32_t)i);
        if (share != NULL && share->kind == SWI_SHARE_SHARD && t->axes == 1 && t->elements > 0 &&
            t->storage < found.count)
            found.of_storage[t->storage] = (uint32_t)i;
    }
    *out = found;
    return SW_OK;
}

void swi_flat_shards_free(swi_flat_shards *shards)
{
    free(shards->of_storage);
    *shards = (swi_flat_shards){0};
}

uint32_t swi_flat_shard_under(const swi_flat_shards *shards, const swi_torch_tensor *t)
{
    return t->axes == 1 && t->elements > 0 && t->storage < shards->count
               ? shards->of_storage[t->storage]
               : NONE;
}

/* ---- RS-7: groups --------------------------------------------------------------------------- */

/* Which shard a DTensor's mesh gives the rank; false: it does not divide it, or twice. */
static bool placed_at(const swi_share *share, const swi_mesh *mesh, uint64_t rank,
                      swi_rank_place *out)
{
    const swi_placements *p = &share->placements;
    int64_t number = swi_mesh_number(mesh, (int64_t)rank);
    uint64_t rest = (uint64_t)number;
    *out = (swi_rank_place){0};
    if (number < 0)
        return false;
    for (uint32_t a = p->axes; a-- > 0;) {
        uint64_t at = rest % p->size[a];
        rest /= p->size[a];
        if (p->at[a].kind == SWI_REPLICATE || p->size[a] == 1)
            continue;
        out->several = out->several || out->group > 0;
        out->group = p->size[a];
        out->index = at;
    }
    return out->group > 0;
}

static void note_place(swi_rank_survey *s, uint64_t rank, const swi_share *share,
                       const swi_mesh *mesh)
{
    swi_rank_place *known = &s->places[rank];
    swi_rank_place place = {0};
    if (share->kind == SWI_SHARE_SHARD) {
        if (share->group == 0 || share->group_rank < 0 ||
            (uint64_t)share->group_rank >= share->group)
            return;
        place = (swi_rank_place){.group = share->group, .index = (uint64_t)share->group_rank};
    } else if (!placed_at(share, mesh, rank, &place)) {
        return;
    }
    if (known->group == 0)
        *known = place;
    known->several = known->several || place.several || known->group != place.group ||
                     known->index != place.index;
}

/* ---- one file ------------------------------------------------------------------------------- */

typedef struct looking {
    swi_rank_survey *s;
    const swi_file_of_rank *file;
    const swi_torch_object *object;
    swi_flat_shards flats;
} looking;

static sw_status add_length(looking *l, const swi_torch_leaf *leaf, const swi_torch_tensor *t,
                            sw_error *err)
{
    swi_rank_survey *s = l->s;
    size_t world = (size_t)s->folder->world, need = 0;
    uint32_t id;
    bool is_new;
    sw_status st = swi_names_add(s->rows, leaf->name, strlen(leaf->name), &id, &is_new, err);
    if (st == SW_OK && !swi_mul_size((size_t)id + 1, world, &need))
        st = swi_fail(err, SW_ERR_LIMIT, "more states than can be counted");
    if (st == SW_OK)
        st = swi_grow_array((void **)&s->lengths, &s->length_capacity, need, sizeof *s->lengths,
                            err);
    if (st != SW_OK)
        return st;
    int64_t *lengths = s->lengths + (size_t)id * world;
    for (size_t r = 0; is_new && r < world; r++)
        lengths[r] = -1;
    lengths[l->file->rank] = (int64_t)t->elements;
    return SW_OK;
}

/* Some optimizers count in a tensor of one axis: it is no shard of anything. */
static bool is_step(const swi_torch_leaf *leaf, const swi_torch_tensor *t)
{
    return t->elements == 1 && strcmp(leaf->parts[leaf->count - 1], "step") == 0;
}

static sw_status look_at_plain(looking *l, const swi_torch_leaf *leaf, const swi_torch_tensor *t,
                               sw_role role, sw_error *err)
{
    uint32_t id;
    if (swi_flat_shard_under(&l->flats, t) != NONE)
        return swi_names_add(l->s->slices, leaf->name, strlen(leaf->name), &id, NULL, err);
    if (role == SW_ROLE_PARAMETER)
        l->s->matrices = l->s->matrices || t->axes > 1;
    if (role != SW_ROLE_OPTIMIZER || t->axes == 0 || !swi_is_numbered_state(leaf) ||
        is_step(leaf, t))
        return SW_OK;
    if (t->axes == 1)
        return add_length(l, leaf, t, err);
    l->s->other_states = true;
    return SW_OK;
}

static sw_status look_at_leaf(void *ctx, const swi_torch_leaf *leaf, sw_error *err)
{
    looking *l = ctx;
    swi_rank_survey *s = l->s;
    uint32_t number;
    sw_role role = SW_ROLE_OTHER;
    if (!sw_value_tensor(l->object->graph, leaf->node, &number))
        return SW_OK;
    const swi_share *share = swi_torch_share_of(l->object, number);
    sw_status st = swi_rank_leaf_role(leaf, &role, err);
    s->sections = s->sections || (leaf->count > 1 && role != SW_ROLE_OTHER);
    if (st != SW_OK || share == NULL)
        return st == SW_OK ? look_at_plain(l, leaf, &l->object->tensors[number], role, err) : st;
    s->placed = s->placed || share->kind == SWI_SHARE_PLACED;
    s->sharded = s->sharded || share->kind == SWI_SHARE_SHARD;
    if (role != SW_ROLE_PARAMETER) {
        s->other_states =
            s->other_states || (share->kind == SWI_SHARE_PLACED && swi_is_numbered_state(leaf));
        return SW_OK;
    }
    s->flat = s->flat || swi_has_suffix(leaf->name, "flat_param");
    s->matrices = s->matrices || share->axes > 1;
    note_place(s, l->file->rank, share, swi_mesh_of(&l->object->meshes, share));
    return SW_OK;
}

sw_status swi_rank_survey_file(void *ctx, const swi_file_of_rank *file, const swi_torch_file *tf,
                               swi_torch_object *object, sw_error *err)
{
    looking l = {.s = ctx, .file = file, .object = object};
    bool too_deep;
    sw_status st = swi_flat_shards_find(tf, object, &l.flats, err);
    if (st == SW_OK)
        st = swi_torch_walk(object, look_at_leaf, &l, &too_deep, err);
    swi_flat_shards_free(&l.flats);
    return st;
}

/* ---- RS-8: rows ----------------------------------------------------------------------------- */

static bool are_rows(const swi_rank_survey *s)
{
    int64_t version = s->folder->fsdp_version;
    if (swi_names_count(s->rows) == 0 || version > 1)
        return false;
    if (s->folder->world == 1 && s->other_states)
        return false; /* of one rank FSDP1 divides nothing, and flattens all or nothing */
    return version == 1 || s->sharded || s->flat || (!s->other_states && s->matrices);
}

/* Shards for all ranks: as the model tells, else one each. */
static void settle_places(swi_rank_survey *s)
{
    uint64_t world = s->folder->world;
    bool told = false;
    for (uint64_t r = 0; r < world; r++) {
        if (s->places[r].group > 0 && !told)
            s->shards = s->places[r].group;
        told = told || s->places[r].group > 0;
    }
    for (uint64_t r = 0; r < world; r++) {
        swi_rank_place *p = &s->places[r];
        if (!told)
            *p = (swi_rank_place){.group = world, .index = r};
        else if (p->group != s->shards)
            p->several = true;
    }
    if (!told)
        s->shards = world;
}

/* One row: the shards of a group one behind the other; those of other groups are the same. */
static sw_status settle_row(swi_rank_survey *s, size_t row, int64_t *shard, sw_error *err)
{
    size_t world = (size_t)s->folder->world;
    const int64_t *lengths = s->lengths + row * world;
    int64_t *offsets = s->offsets + row * world, total = 0;
    memset(shard, 0xff, (size_t)s->shards * sizeof *shard);
    for (size_t r = 0; r < world; r++) {
        const swi_rank_place *p = &s->places[r];
        if (!p->several && shard[p->index] < lengths[r])
            shard[p->index] = lengths[r];
    }
    for (uint64_t i = 0; i < s->shards; i++) {
        int64_t length = shard[i] > 0 ? shard[i] : 0;
        shard[i] = total;
        if (!swi_add_i64(total, length, &total))
            return swi_fail(err, SW_ERR_LIMIT, "a row of more elements than can be counted");
    }
    s->totals[row] = total;
    for (size_t r = 0; r < world; r++) {
        const swi_rank_place *p = &s->places[r];
        int64_t end = p->several ? 0 : p->index + 1 < s->shards ? shard[p->index + 1] : total;
        bool fits = !p->several && (lengths[r] < 0 || shard[p->index] + lengths[r] == end);
        offsets[r] = fits ? shard[p->index] : -1;
    }
    return SW_OK;
}

sw_status swi_rank_survey_settle(swi_rank_survey *s, sw_error *err)
{
    size_t rows = swi_names_count(s->rows), world = (size_t)s->folder->world, all = 0;
    int64_t *shard = NULL;
    sw_status st = SW_OK;
    s->has_rows = are_rows(s);
    settle_places(s);
    if (!s->has_rows)
        return SW_OK;
    if (!swi_mul_size(rows, world, &all))
        return swi_fail(err, SW_ERR_LIMIT, "more states than can be counted");
    st = swi_alloc_array(all, sizeof *s->offsets, (void **)&s->offsets, err);
    if (st == SW_OK)
        st = swi_alloc_array(rows, sizeof *s->totals, (void **)&s->totals, err);
    if (st == SW_OK)
        st = swi_alloc_array((size_t)s->shards, sizeof *shard, (void **)&shard, err);
    for (size_t i = 0; st == SW_OK && i < rows; i++)
        st = settle_row(s, i, shard, err);
    free(shard);
    return st;
}
