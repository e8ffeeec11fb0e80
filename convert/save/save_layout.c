/* Meshes and placements of what is saved: checked, kept once each, and what a rank has by them. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "native/manifest.h"
#include "save/save.h"

_Static_assert(SW_PLACEMENT_OP_MAX == SWI_NATIVE_OP_MAX, "an op that can be saved can be written");

/* ---- checking ------------------------------------------------------------------------------- */

static sw_status wrong(const sw_tensor_data *t, const char *what, sw_error *err)
{
    swi_quoted q;
    return swi_fail(err, SW_ERR_ARG, "\"%s\": %s", swi_quote_str(&q, t->name), what);
}

static sw_status check_mesh(const sw_save *s, const sw_tensor_data *t, uint64_t *count,
                            sw_error *err)
{
    const sw_mesh *m = t->placed->mesh;
    *count = 1;
    if (m == NULL || m->axes == 0 || m->axes > SW_MESH_AXES_MAX)
        return wrong(t, "its placements need a mesh of 1 to 8 axes", err);
    for (uint32_t a = 0; a < m->axes; a++) {
        if (m->name[a] == NULL || m->name[a][0] == '\0' ||
            !swi_utf8_valid(m->name[a], strlen(m->name[a])))
            return wrong(t, "an axis of its mesh has no name that is text in UTF-8", err);
        for (uint32_t b = 0; b < a; b++)
            if (strcmp(m->name[a], m->name[b]) == 0)
                return wrong(t, "two axes of its mesh have the same name", err);
        if (m->size[a] == 0 || !swi_mul_u64(*count, m->size[a], count) || *count > s->ranks)
            return wrong(t, "its mesh is not of 1 to so many ranks as sw_save_options.ranks says",
                         err);
    }
    return SW_OK;
}

/* Of a mesh that is new: each of its ranks is one of the save, once. */
static sw_status check_ranks(const sw_save *s, const sw_tensor_data *t, const swi_saved_layout *l,
                             sw_error *err)
{
    for (uint64_t i = 0; l->ranks != NULL && i < l->count; i++) {
        if (l->ranks[i] >= s->ranks)
            return wrong(t, "its mesh has a rank that sw_save_options.ranks does not have", err);
        for (uint64_t k = 0; k < i; k++)
            if (l->ranks[k] == l->ranks[i])
                return wrong(t, "its mesh has a rank twice", err);
    }
    return SW_OK;
}

static sw_status take_placement(const sw_tensor_data *t, const sw_placement *p, swi_placement *out,
                                sw_error *err)
{
    switch (p->kind) {
    case SW_REPLICATE:
        *out = (swi_placement){.kind = SWI_REPLICATE};
        return SW_OK;
    case SW_SHARD:
    case SW_STRIDED_SHARD:
        if (p->dim >= t->axes)
            return wrong(t, "a placement is of a dimension that it does not have", err);
        if (p->kind == SW_STRIDED_SHARD && p->split_factor == 0)
            return wrong(t, "a strided placement has a split factor of at least 1", err);
        *out = (swi_placement){.kind = p->kind == SW_SHARD ? SWI_SHARD : SWI_STRIDED_SHARD,
                               .dim = p->dim,
                               .split_factor = p->kind == SW_SHARD ? 0 : p->split_factor};
        return SW_OK;
    case SW_PARTIAL:
        if (p->op == NULL || !swi_native_is_op(p->op, strlen(p->op)))
            return wrong(
                t, "the op of a Partial placement is of 1 to 32 letters, digits and _: \"sum\"",
                err);
        *out = (swi_placement){.kind = SWI_PARTIAL, .op = p->op};
        return SW_OK;
    }
    return wrong(t, "a placement of no known kind", err);
}

/* As the caller has it, borrowed. */
static sw_status take(const sw_save *s, const sw_tensor_data *t, swi_saved_layout *out,
                      sw_error *err)
{
    const sw_mesh *m = t->placed->mesh;
    sw_status st = check_mesh(s, t, &out->count, err);
    if (st != SW_OK)
        return st;
    out->ranks = m->ranks;
    out->placements.axes = m->axes;
    out->terms = 1;
    for (uint32_t a = 0; st == SW_OK && a < m->axes; a++) {
        swi_placement *p = &out->placements.at[a];
        out->names[a] = m->name[a];
        out->placements.size[a] = m->size[a];
        st = take_placement(t, &t->placed->at[a], p, err);
        out->partial = out->partial || p->kind == SWI_PARTIAL;
        out->replicated = out->replicated || (p->kind == SWI_REPLICATE && m->size[a] > 1);
        out->terms *= p->kind == SWI_PARTIAL ? m->size[a] : 1;
    }
    return st;
}

/* ---- keeping -------------------------------------------------------------------------------- */

static bool same_placement(const swi_placement *a, const swi_placement *b)
{
    return a->kind == b->kind && a->dim == b->dim && a->split_factor == b->split_factor &&
           (a->kind != SWI_PARTIAL || strcmp(a->op, b->op) == 0);
}

static bool same_layout(const swi_saved_layout *a, const swi_saved_layout *b)
{
    bool same =
        a->placements.axes == b->placements.axes && (a->ranks == NULL) == (b->ranks == NULL) &&
        a->count == b->count &&
        (a->ranks == NULL || memcmp(a->ranks, b->ranks, (size_t)a->count * sizeof *a->ranks) == 0);
    for (uint32_t k = 0; same && k < a->placements.axes; k++)
        same = a->placements.size[k] == b->placements.size[k] &&
               strcmp(a->names[k], b->names[k]) == 0 &&
               same_placement(&a->placements.at[k], &b->placements.at[k]);
    return same;
}

static sw_status copy_text(sw_save *s, const char **text, sw_error *err)
{
    return swi_arena_text(&s->arena, *text, strlen(*text), text, err);
}

static sw_status keep(sw_save *s, swi_saved_layout *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t a = 0; st == SW_OK && a < l->placements.axes; a++) {
        st = copy_text(s, &l->names[a], err);
        if (st == SW_OK && l->placements.at[a].kind == SWI_PARTIAL)
            st = copy_text(s, &l->placements.at[a].op, err);
    }
    if (st == SW_OK && l->ranks != NULL) {
        const size_t size = (size_t)l->count * sizeof *l->ranks;
        void *ranks;
        st = swi_arena_alloc(&s->arena, size, &ranks, err);
        if (st == SW_OK)
            l->ranks = memcpy(ranks, l->ranks, size);
    }
    if (st == SW_OK)
        st = swi_grow_array((void **)&s->layouts, &s->layout_capacity, s->layout_count + 1,
                            sizeof *s->layouts, err);
    if (st == SW_OK)
        s->layouts[s->layout_count++] = *l;
    return st;
}

sw_status swi_save_layout(sw_save *s, const sw_tensor_data *t, uint32_t *out, sw_error *err)
{
    swi_saved_layout made = {0};
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
    if (t->placed == NULL) {
        *out = SWI_SAVED_NO_LAYOUT;
        return SW_OK;
    }
    sw_status st = take(s, t, &made, err);
    if (st != SW_OK)
        return st;
    for (*out = 0; *out < s->layout_count; (*out)++)
        if (same_layout(&s->layouts[*out], &made))
            return SW_OK;
    made.computed = swi_placed_box(&made.placements, 0, t->axes, t->shape, offset, length, NULL) ==
                    SW_OK; /* whether it is depends on the mesh alone */
    st = check_ranks(s, t, &made, err);
    return st == SW_OK ? keep(s, &made, err) : st;
}

/* ---- a rank --------------------------------------------------------------------------------- */

/* Its place in the mesh; `count`: it has none. */
static uint64_t number_of(const swi_saved_layout *l, uint32_t rank)
{
    if (l->ranks == NULL)
        return rank < l->count ? rank : l->count;
    uint64_t i = 0;
    while (i < l->count && l->ranks[i] != rank)
        i++;
    return i;
}

/* Ranks that differ along axes that are Partial have different terms. */
static uint64_t term_of(const swi_placements *p, uint64_t number)
{
    uint64_t term = 0, unit = 1;
    for (uint32_t a = p->axes; a-- > 0; number /= p->size[a]) {
        if (p->at[a].kind != SWI_PARTIAL)
            continue;
        term += number % p->size[a] * unit;
        unit *= p->size[a];
    }
    return term;
}

sw_status swi_save_place(const swi_saved_layout *l, const sw_tensor_data *t, int64_t *offset,
                         int64_t *length, uint64_t *term, sw_error *err)
{
    swi_quoted q;
    const uint64_t number = number_of(l, t->rank);
    if (number == l->count)
        return swi_fail(err, SW_ERR_ARG, "\"%s\": rank %" PRIu32 " is not in its mesh",
                        swi_quote_str(&q, t->name), t->rank);
    *term = term_of(&l->placements, number);
    if (!l->computed && t->part != SW_PART_PLACED)
        return SW_OK;
    sw_status st = swi_placed_box(&l->placements, number, t->axes, t->shape, offset, length, err);
    return st == SW_OK ? st : swi_error_prefix(err, "\"%s\"", swi_quote_str(&q, t->name));
}
