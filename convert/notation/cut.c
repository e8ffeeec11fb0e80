/* How one tensor is cut: see division.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/divisor.h"
#include "base/text.h"
#include "notation/division_parts.h"

static const swi_rule *rule_of(const swi_cut *cut)
{
    return &cut->division->rules->rules[cut->rule];
}

/* ---- one dimension -------------------------------------------------------------------------- */

/*
 * What of a part of a dimension the ranks of one axis after another leave. `units` stay whole where
 * the rule wants it so (LAY-2: units of one element; LAY-4), and length is a multiple of them.
 */
typedef struct run {
    int64_t offset, length;
    bool even, copies;
    uint64_t units;
} run;

/* So many ranks hold the same units; 0: they cannot be given out. */
static uint64_t ranks_per_unit(const run *r, uint64_t ranks)
{
    if (r->units % ranks == 0)
        return 1;
    return r->copies && ranks % r->units == 0 ? ranks / r->units : 0;
}

static void take(run *r, uint64_t ranks, uint64_t coordinate)
{
    if (!r->even) {
        swi_chunk(ranks, coordinate, &r->offset, &r->length);
        return;
    }
    uint64_t unit = r->units > 0 ? (uint64_t)r->length / r->units : 0;
    uint64_t per = ranks_per_unit(r, ranks);
    r->units = per > 1 ? 1 : r->units / ranks;
    r->length = (int64_t)(r->units * unit);
    r->offset += (int64_t)(coordinate / per) * r->length;
}

static size_t part_count(const swi_cut *cut, uint32_t dim)
{
    const swi_rule *rule = rule_of(cut);
    return (int32_t)dim == rule->first_split && rule->part_count > 0 ? rule->part_count : 1;
}

/* Part p of a dimension, before any axis splits it; the part begins at `offset`. */
static run begin(const swi_cut *cut, uint32_t dim, size_t p, int64_t offset)
{
    const swi_rule *rule = rule_of(cut);
    const swi_rule_numbers *n = &cut->division->numbers[cut->rule];
    bool first = (int32_t)dim == rule->first_split;
    run r = {.offset = offset, .length = cut->view[dim], .even = rule->even};
    if (first && rule->part_count > 0)
        r.length = n->parts[p];
    r.units = (uint64_t)r.length;
    if (first && rule->unit_count > 0) {
        r.even = true;
        r.copies = (rule->copies >> p & 1) != 0;
        r.units = (uint64_t)n->units[rule->unit_count > 1 ? p : 0];
    }
    return r;
}

/* ---- proving that a rule fits --------------------------------------------------------------- */

typedef struct fitting {
    swi_cut *cut;
    const char *name;
} fitting;

static sw_status misfit(const fitting *f, const char *clause, sw_error *err, const char *text)
{
    const swi_rule *rule = rule_of(f->cut);
    swi_quoted q;
    return swi_yaml_fail(f->cut->division->rules->doc, rule->node, err, SW_ERR_CONFLICT, clause,
                         "tensor \"%s\" %s", swi_quote_str(&q, f->name), text);
}

static sw_status uneven(const fitting *f, uint32_t dim, const run *r, uint32_t split, sw_error *err)
{
    const swi_cut *cut = f->cut;
    const swi_rule *rule = rule_of(cut);
    const swi_rules *rules = cut->division->rules;
    uint64_t ranks = cut->splits[split].ranks;
    bool units = (int32_t)dim == rule->first_split && rule->unit_count > 0;
    bool copies = units && !r->copies && ranks % r->units == 0;
    char text[256];
    (void)snprintf(text, sizeof text,
                   "dimension %" PRIu32 ": %" PRIu64 " %s cannot be divided evenly among %" PRIu64
                   " ranks (axis %s)%s",
                   dim, r->units, units ? "units" : "elements", ranks,
                   rules->meshes[rule->mesh].axis[cut->splits[split].axis].name,
                   copies ? "; with copies: true several ranks hold the same unit"
                          : "; choose a number of ranks that fits");
    return misfit(f, units ? "LAY-4" : "LAY-2", err, text);
}

static sw_status fit_run(const fitting *f, uint32_t dim, run r, bool is_first_part, sw_error *err)
{
    swi_cut *cut = f->cut;
    for (uint32_t s = 0; s < cut->split_axes; s++) {
        uint64_t per = 1;
        if (cut->splits[s].dim != dim)
            continue;
        if (r.even)
            per = ranks_per_unit(&r, cut->splits[s].ranks);
        if (per == 0)
            return uneven(f, dim, &r, s, err);
        uint64_t both = is_first_part ? per : swi_common_divisor(cut->splits[s].per, per);
        cut->overlap =
            cut->overlap || both != per || (!is_first_part && both != cut->splits[s].per);
        cut->splits[s].per = both;
        take(&r, cut->splits[s].ranks, 0);
    }
    return SW_OK;
}

/* LAY-3, LAY-4 */
static sw_status fit_dimension(const fitting *f, uint32_t dim, sw_error *err)
{
    const swi_cut *cut = f->cut;
    const size_t parts = part_count(cut, dim);
    int64_t at = 0;
    char text[160];
    for (size_t p = 0; p < parts; p++) {
        run r = begin(cut, dim, p, at);
        if (r.even && r.units > 0 && (uint64_t)r.length % r.units != 0) {
            (void)snprintf(text, sizeof text,
                           "dimension %" PRIu32 ": a part of %" PRId64
                           " elements is not made of %" PRIu64 " equal units",
                           dim, r.length, r.units);
            return misfit(f, "LAY-4", err, text);
        }
        sw_status st = fit_run(f, dim, r, p == 0, err);
        if (st != SW_OK)
            return st;
        if (!swi_add_i64(at, r.length, &at))
            at = -1;
        if (at < 0)
            break;
    }
    if (at == cut->view[dim])
        return SW_OK;
    (void)snprintf(text, sizeof text,
                   "dimension %" PRIu32 ": the parts are not together its size of %" PRId64
                   " elements",
                   dim, cut->view[dim]);
    return misfit(f, "LAY-3", err, text);
}

/* LAY-1: no entry without a dimension, but a single number is whole everywhere. */
static sw_status set_splits(const fitting *f, sw_error *err)
{
    swi_cut *cut = f->cut;
    const swi_rule *rule = rule_of(cut);
    const swi_mesh_sizes *mesh = &cut->division->meshes[rule->mesh];
    char text[128];
    for (uint32_t d = 0; d < rule->entry_count && cut->axes > 0; d++) {
        const swi_rules_entry *e = &rule->entries[d];
        if (d >= cut->axes && e->count > 0) {
            (void)snprintf(text, sizeof text,
                           "has %" PRIu32 " dimensions, and this rule splits number %" PRIu32
                           " (from 0); write a rule for it before this one",
                           cut->axes, d);
            return misfit(f, "LAY-1", err, text);
        }
        for (uint32_t k = 0; k < e->count; k++) {
            uint32_t s = cut->split_axes++;
            cut->splits[s].dim = d;
            cut->splits[s].axis = e->axis[k];
            cut->splits[s].ranks = mesh->size[e->axis[k]];
            cut->splits[s].per = 1;
        }
    }
    return SW_OK;
}

static sw_status set_view(const fitting *f, uint32_t axes, const int64_t *shape, sw_error *err)
{
    swi_cut *cut = f->cut;
    cut->axes = axes;
    if (axes > 0)
        memcpy(cut->view, shape, axes * sizeof *shape);
    if (!rule_of(cut)->flat)
        return SW_OK;
    int64_t elements = 1;
    for (uint32_t d = 0; d < axes; d++)
        if (!swi_mul_i64(elements, shape[d], &elements))
            return misfit(f, "LAY-5", err, "has too many elements");
    cut->axes = 1;
    cut->view[0] = elements;
    return SW_OK;
}

/* LAY-6: the first rule is the one. */
static bool find_rule(const swi_rules *rules, const char *name, size_t *out)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < rules->count; i++)
        for (size_t p = 0; p < rules->rules[i].pattern_count; p++)
            if (swi_pattern_match(rules->rules[i].patterns[p], name, size, NULL)) {
                *out = i;
                return true;
            }
    return false;
}

static sw_status no_rule(const swi_rules *rules, const char *name, sw_error *err)
{
    swi_quoted q, file;
    return swi_fail_at(err, SW_ERR_NOTFOUND, "LAY-6", 0,
                       "no rule of the layout %s matches tensor \"%s\"; a last rule for all "
                       "others is  {tensor: \"**\", dims: [%s]}",
                       swi_quote_str(&file, swi_yaml_file(rules->doc)), swi_quote_str(&q, name),
                       rules->meshes[0].axis[0].name);
}

sw_status swi_divide_by(const swi_division *division, size_t rule, const char *name, uint32_t axes,
                        const int64_t *shape, swi_cut *out, sw_error *err)
{
    swi_cut cut = {.division = division, .rule = rule, .holdings = 1};
    const fitting f = {.cut = &cut, .name = name};
    swi_quoted q;
    const sw_error *failure = division->numbers[rule].failure;
    if (failure != NULL) {
        if (err != NULL)
            *err = *failure;
        (void)swi_error_prefix(err, "tensor \"%s\"", swi_quote_str(&q, name));
        return failure->status;
    }
    sw_status st = set_view(&f, axes, shape, err);
    if (st == SW_OK)
        st = set_splits(&f, err);
    for (uint32_t d = 0; st == SW_OK && d < cut.axes; d++)
        st = fit_dimension(&f, d, err);
    if (st != SW_OK)
        return st;
    for (uint32_t s = 0; s < cut.split_axes; s++)
        cut.holdings *= cut.splits[s].ranks / cut.splits[s].per;
    cut.copies = swi_division_ranks(division) / cut.holdings;
    *out = cut;
    return SW_OK;
}

sw_status swi_divide(const swi_division *division, const char *name, uint32_t axes,
                     const int64_t *shape, swi_cut *out, sw_error *err)
{
    size_t rule;
    if (!find_rule(division->rules, name, &rule))
        return no_rule(division->rules, name, err);
    return swi_divide_by(division, rule, name, axes, shape, out, err);
}

/* ---- ranks and holdings --------------------------------------------------------------------- */

/* What a mesh axis says of the holding, and what not: coordinate = holding x per + copy. */
typedef struct digits {
    uint64_t holding[SWI_MESH_AXES_MAX], per[SWI_MESH_AXES_MAX];
} digits;

static digits digits_of(const swi_cut *cut, uint64_t holding)
{
    const swi_rule *rule = rule_of(cut);
    const swi_mesh_sizes *mesh = &cut->division->meshes[rule->mesh];
    digits out = {{0}, {0}};
    memcpy(out.per, mesh->size, sizeof out.per);
    for (uint32_t s = cut->split_axes; s-- > 0;) {
        uint32_t axis = cut->splits[s].axis;
        uint64_t count = cut->splits[s].ranks / cut->splits[s].per;
        out.holding[axis] = holding % count;
        out.per[axis] = cut->splits[s].per;
        holding /= count;
    }
    return out;
}

uint32_t swi_cut_axes(const swi_cut *cut, swi_cut_axis out[SWI_MESH_AXES_MAX], uint32_t *mesh)
{
    const size_t number = rule_of(cut)->mesh;
    const swi_rules_mesh *named = &cut->division->rules->meshes[number];
    for (uint32_t a = 0; a < named->axes; a++)
        out[a] = (swi_cut_axis){.name = named->axis[a].name,
                                .size = cut->division->meshes[number].size[a]};
    for (uint32_t s = 0; s < cut->split_axes; s++) {
        swi_cut_axis *axis = &out[cut->splits[s].axis];
        axis->splits = true;
        axis->dim = cut->splits[s].dim;
        axis->turn = s;
    }
    *mesh = (uint32_t)number;
    return named->axes;
}

uint64_t swi_cut_of_rank(const swi_cut *cut, uint64_t rank)
{
    const swi_mesh_sizes *mesh = &cut->division->meshes[rule_of(cut)->mesh];
    uint64_t holding = 0;
    for (uint32_t s = 0; s < cut->split_axes; s++) {
        uint32_t axis = cut->splits[s].axis;
        uint64_t coordinate = rank / mesh->stride[axis] % mesh->size[axis];
        holding =
            holding * (cut->splits[s].ranks / cut->splits[s].per) + coordinate / cut->splits[s].per;
    }
    return holding;
}

uint64_t swi_cut_rank(const swi_cut *cut, uint64_t holding, uint64_t k)
{
    const swi_rule *rule = rule_of(cut);
    const swi_mesh_sizes *mesh = &cut->division->meshes[rule->mesh];
    const digits at = digits_of(cut, holding);
    uint64_t rank = 0;
    for (uint32_t a = cut->division->rules->meshes[rule->mesh].axes; a-- > 0;) {
        rank += (at.holding[a] * at.per[a] + k % at.per[a]) * mesh->stride[a];
        k /= at.per[a];
    }
    return rank;
}

/* ---- what a rank holds ---------------------------------------------------------------------- */

static void split(const swi_cut *cut, const digits *at, uint32_t dim, run *r)
{
    for (uint32_t s = 0; s < cut->split_axes; s++) {
        uint32_t axis = cut->splits[s].axis;
        if (cut->splits[s].dim == dim)
            take(r, cut->splits[s].ranks, at->holding[axis] * cut->splits[s].per);
    }
}

/* The box that all parts share but for the dimension that is a row of parts. */
static bool set_box(const swi_cut *cut, const digits *at, swi_local *out, swi_block_part *box)
{
    bool empty = false;
    memset(box, 0, sizeof *box);
    for (uint32_t d = 0; d < cut->axes; d++) {
        run r = begin(cut, d, 0, 0);
        if (part_count(cut, d) > 1)
            continue;
        split(cut, at, d, &r);
        box->offset[d] = r.offset;
        box->length[d] = out->shape[d] = r.length;
        empty = empty || r.length == 0;
    }
    return !empty;
}

void swi_cut_local(const swi_cut *cut, uint64_t holding, swi_local *out)
{
    const digits at = digits_of(cut, holding);
    const uint32_t dim = cut->split_axes > 0 ? cut->splits[0].dim : 0;
    const size_t parts = cut->axes > 0 ? part_count(cut, dim) : 1;
    swi_block_part box;
    int64_t begins = 0;
    out->axes = cut->axes;
    out->count = 0;
    memcpy(out->view, cut->view, sizeof out->view);
    bool some = set_box(cut, &at, out, &box);
    if (parts == 1) {
        out->parts[0] = box;
        out->count = some;
        return;
    }
    out->shape[dim] = 0;
    for (size_t p = 0; p < parts; p++) {
        run r = begin(cut, dim, p, begins);
        begins += r.length;
        split(cut, &at, dim, &r);
        box.offset[dim] = r.offset;
        box.length[dim] = r.length;
        box.place[dim] = out->shape[dim];
        out->shape[dim] += r.length;
        if (some && r.length > 0)
            out->parts[out->count++] = box;
    }
}

swi_block swi_local_block(const swi_local *local)
{
    return (swi_block){.axes = local->axes,
                       .view = local->view,
                       .shape = local->shape,
                       .parts = local->parts,
                       .part_count = local->count};
}
