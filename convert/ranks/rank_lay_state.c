/* The state dict as the series of files that hold it, and what of it each rank has of its own. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "model/value.h"
#include "ranks/file_rank.h"
#include "ranks/rank_laying.h"
#include "select/sections.h"

typedef enum part_of { OF_MODEL = 0, OF_OPTIMIZER, OF_EXTRA } part_of;

/* How their files are called, and where whoever reads them has what is in them. */
static const struct {
    const char *name, *prefix;
} known[] = {
    [OF_MODEL] = {"model", "model"},
    [OF_OPTIMIZER] = {"optim", "optimizer"},
    [OF_EXTRA] = {"extra_state", "extra_state"},
};

typedef struct dividing {
    swi_rank_plan *plan;
    const swi_target_in *in;
    uint8_t *part;                         /* by leaf: part_of */
    size_t cut[OF_EXTRA];                  /* parts of the paths that are the section of it */
    const swi_state_part *first[OF_EXTRA]; /* a leaf of it; NULL: there is none */
    bool hoisted; /* what the source had in a section of that name is at the top of its files */
    swi_section section;
    swi_state_part *kept;          /* room for the leaves of one */
    swi_names *names;              /* of the leaves, when ranks have values of their own */
    size_t at[SWI_PATH_PARTS_MAX]; /* where the last path led; the next is near */
} dividing;

/* ---- which leaf is of what ---------------------------------------------------------------------
 */

/* How many parts of the path are its section. */
static sw_status section_of(dividing *d, const swi_state_part *leaf, size_t *cut, sw_role *role,
                            sw_error *err)
{
    size_t size = 0;
    sw_status st = swi_section_of_leaf(leaf, &d->section, err);
    if (st != SW_OK)
        return st;
    const size_t whole = d->section.section.size - 1;
    for (*cut = 0; *cut < leaf->parts && size < whole; (*cut)++) {
        const char *part = leaf->path[*cut];
        size += strlen(part + (part[0] == '#')) + (*cut > 0);
    }
    *role = d->section.role;
    return SW_OK;
}

static bool same_section(const swi_state_part *a, const swi_state_part *b, size_t cut)
{
    if (a->parts < cut || b->parts < cut)
        return false;
    for (size_t i = 0; i < cut; i++)
        if (strcmp(a->path[i], b->path[i]) != 0)
            return false;
    return true;
}

/* The section of the first tensor of the model, and of the first one of an optimizer. */
static sw_status find_sections(dividing *d, sw_error *err)
{
    for (size_t i = 0; i < d->in->leaf_count; i++) {
        const swi_state_part *leaf = &d->in->leaves[i];
        size_t cut;
        sw_role role;
        if (leaf->tensor == NULL)
            continue;
        sw_status st = section_of(d, leaf, &cut, &role, err);
        if (st != SW_OK)
            return st;
        if (role == SW_ROLE_OTHER)
            continue;
        const part_of of = role == SW_ROLE_OPTIMIZER ? OF_OPTIMIZER : OF_MODEL;
        if (d->first[of] != NULL)
            continue;
        d->first[of] = leaf;
        d->cut[of] = cut;
    }
    return SW_OK;
}

/* What lies at the top beside sections is no part of a model that lies in one. */
static sw_status set_parts(dividing *d, sw_error *err)
{
    for (size_t i = 0; i < d->in->leaf_count; i++) {
        const swi_state_part *leaf = &d->in->leaves[i];
        size_t cut;
        sw_role role;
        sw_status st = section_of(d, leaf, &cut, &role, err);
        if (st != SW_OK)
            return st;
        d->part[i] = OF_EXTRA;
        for (uint8_t of = OF_MODEL; of < OF_EXTRA; of++) {
            const sw_role its = of == OF_MODEL ? SW_ROLE_PARAMETER : SW_ROLE_OPTIMIZER;
            if (role == its && d->first[of] != NULL && cut == d->cut[of] &&
                same_section(leaf, d->first[of], cut))
                d->part[i] = of;
        }
    }
    return SW_OK;
}

/* ---- series ------------------------------------------------------------------------------------
 */

/* Adds the pairs of a DICT to another; *clash: one of its keys is there. */
static sw_status add_pairs(sw_value_graph *g, sw_value to, sw_value from, const char *but,
                           bool *clash, sw_error *err)
{
    sw_value pair[2], there;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && sw_value_pair(g, from, i, &pair[0], &pair[1]); i++) {
        if (but != NULL && swi_value_text_is(g, pair[0], but))
            continue;
        *clash = *clash || swi_dict_find(g, to, pair[0], &there);
        st = swi_graph_set_items(g, to, pair, 1, err);
    }
    return st;
}

/* RF-21: the files are a section themselves: one of that name in the source is not put into it. */
static sw_status hoist(dividing *d, sw_value *root, sw_error *err)
{
    sw_value_graph *g = d->plan->graph;
    const char *name = known[OF_EXTRA].prefix;
    sw_value inner, made;
    bool clash = false;
    if (sw_value_get_kind(g, *root) != SW_VALUE_DICT || !swi_value_get(g, *root, name, &inner) ||
        sw_value_get_kind(g, inner) != SW_VALUE_DICT)
        return SW_OK;
    sw_status st = swi_graph_dict(g, &made, err);
    if (st == SW_OK)
        st = add_pairs(g, made, inner, NULL, &clash, err);
    if (st == SW_OK)
        st = add_pairs(g, made, *root, name, &clash, err);
    if (st != SW_OK || clash)
        return st;
    d->hoisted = true;
    *root = made;
    return SW_OK;
}

static sw_status add_series(dividing *d, part_of of, sw_error *err)
{
    size_t count = 0;
    swi_rank_plan *plan = d->plan;
    for (size_t i = 0; i < d->in->leaf_count; i++)
        if (d->part[i] == of)
            d->kept[count++] = d->in->leaves[i];
    if (count == 0)
        return SW_OK;
    swi_rank_series *s = &plan->series[plan->series_count];
    *s = (swi_rank_series){.name = known[of].name, .prefix = known[of].prefix};
    swi_state whole = *d->in->state;
    sw_status st = swi_state_keep(d->in->state, d->kept, count, &whole.root, err);
    s->root = whole.root;
    if (st == SW_OK && of != OF_EXTRA && d->cut[of] > 0 &&
        !swi_state_find(&whole, d->first[of]->path, d->cut[of], &s->root))
        st = swi_fail(err, SW_ERR_ARG, "the state dict has no section %s", s->prefix);
    if (st == SW_OK && of == OF_EXTRA)
        st = hoist(d, &s->root, err);
    plan->series_count += st == SW_OK;
    return st;
}

/* ---- values of ranks ---------------------------------------------------------------------------
 */

/* How many ranks wrote the source, as the names of its files tell. */
/* By the names of its files; where these tell nothing, by the values that ranks have of their own.
 */
static uint64_t source_ranks(const sw_checkpoint *source, const swi_state *state)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(source);
    int64_t last = -1;
    for (size_t i = 0; i < sw_catalog_file_count(catalog); i++) {
        sw_file_info file;
        if (!sw_catalog_file(catalog, i, &file))
            continue;
        const int64_t rank = swi_file_rank(file.path);
        last = rank > last ? rank : last;
    }
    for (size_t i = 0, n = last < 0 ? state->scoped_count : 0; i < n; i++)
        last = state->scoped[i].rank > last ? state->scoped[i].rank : last;
    return (uint64_t)(last + 1);
}

static sw_status copy_container(sw_value_graph *g, sw_value from, sw_value *to, sw_error *err)
{
    const bool dict = sw_value_get_kind(g, from) == SW_VALUE_DICT;
    const size_t count = sw_value_size(g, from);
    sw_status st =
        dict ? swi_graph_dict(g, to, err) : swi_graph_sequence(g, SW_VALUE_LIST, NULL, 0, to, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        sw_value pair[2];
        if (dict && sw_value_pair(g, from, i, &pair[0], &pair[1]))
            st = swi_graph_set_items(g, *to, pair, 1, err);
        else if (!dict && sw_value_item(g, from, i, &pair[0]))
            st = swi_graph_append(g, *to, pair, 1, err);
    }
    return st;
}

/* The element of a container that a part of a path names: its place there, sought from *at on. */
static bool find_part(const sw_value_graph *g, sw_value in, const char *part, size_t *at,
                      sw_value *out)
{
    const size_t count = sw_value_size(g, in), first = *at < count ? *at : 0;
    if (part[0] == '#') {
        *at = strtoull(part + 1, NULL, 10);
        return sw_value_item(g, in, *at, out);
    }
    for (size_t i = 0; i < count; i++) {
        sw_value key;
        int64_t number;
        char *end;
        *at = first + i < count ? first + i : first + i - count;
        if (sw_value_pair(g, in, *at, &key, out) &&
            (swi_value_text_is(g, key, part) ||
             (sw_value_int(g, key, &number) && strtoll(part, &end, 10) == number && *end == '\0')))
            return true;
    }
    return false;
}

static sw_value child_at(const sw_value_graph *g, sw_value in, size_t at, sw_value *key)
{
    sw_value child = in;
    if (!sw_value_pair(g, in, at, key, &child))
        (void)sw_value_item(g, in, at, &child);
    return child;
}

static sw_status set_child(sw_value_graph *g, sw_value in, size_t at, sw_value key, sw_value v,
                           sw_error *err)
{
    const sw_value pair[2] = {key, v};
    return sw_value_get_kind(g, in) == SW_VALUE_DICT ? swi_graph_set_items(g, in, pair, 1, err)
                                                     : swi_graph_list_set(g, in, at, v, err);
}

/* What of `of` no rank's own value has changed yet is copied, once. */
static sw_status own(sw_value_graph *g, sw_value of, sw_value *v, sw_error *err)
{
    return v->bits == of.bits ? copy_container(g, of, v, err) : SW_OK;
}

/* `root`, a rank's form of `of`, whose path leads to `v` from now on; the two share the rest. */
static sw_status replace(dividing *d, sw_value of, sw_value *root, const char *const *path,
                         size_t parts, sw_value v, sw_error *err)
{
    sw_value_graph *g = d->plan->graph;
    sw_status st = own(g, of, root, err);
    sw_value above = *root;
    for (size_t i = 0; st == SW_OK && i < parts; i++) {
        sw_value old, key = above;
        size_t other = 0, *at = i < SWI_PATH_PARTS_MAX ? &d->at[i] : &other;
        if (!find_part(g, of, path[i], at, &old))
            return SW_OK;
        sw_value put = child_at(g, above, *at, &key);
        if (i + 1 == parts)
            put = v;
        else
            st = own(g, old, &put, err);
        if (st == SW_OK)
            st = set_child(g, above, *at, key, put, err);
        above = put;
        of = old;
    }
    return st;
}

static swi_rank_series *series_of(const dividing *d, part_of of)
{
    for (size_t i = 0; i < d->plan->series_count; i++)
        if (strcmp(d->plan->series[i].name, known[of].name) == 0)
            return &d->plan->series[i];
    return NULL;
}

static sw_status give(dividing *d, const swi_state_scoped *scoped, sw_error *err)
{
    swi_rank_plan *plan = d->plan;
    const int64_t i = swi_names_find(d->names, scoped->name, strlen(scoped->name));
    if (i < 0)
        return SW_OK; /* left out */
    const swi_state_part *leaf = &d->in->leaves[i];
    const bool inner = d->hoisted && strcmp(leaf->path[0], known[OF_EXTRA].prefix) == 0;
    const size_t cut = d->part[i] != OF_EXTRA ? d->cut[d->part[i]] : inner;
    swi_rank_series *s = series_of(d, d->part[i]);
    sw_status st = SW_OK;
    if (s->root_of == NULL) {
        st = swi_arena_alloc(&plan->arena, plan->ranks * sizeof *s->root_of, (void **)&s->root_of,
                             err);
        for (uint32_t r = 0; st == SW_OK && r < plan->ranks; r++)
            s->root_of[r] = s->root;
    }
    return st == SW_OK ? replace(d, s->root, &s->root_of[scoped->rank], leaf->path + cut,
                                 leaf->parts - cut, scoped->value, err)
                       : st;
}

static sw_status say_lost(const dividing *d, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_WARNING, .code = "rank-values", .tensor = ""};
    return swi_report_add(d->in->report, &in, err,
                          "%zu values differ from rank to rank, and there are %" PRIu32
                          " ranks now, not %" PRIu64 "; those of the first rank are carried",
                          d->in->state->scoped_count, d->plan->ranks,
                          source_ranks(d->in->source, d->in->state));
}

static sw_status list_names(dividing *d, sw_error *err)
{
    sw_status st = swi_names_make(&d->names, err);
    for (size_t i = 0; st == SW_OK && i < d->in->leaf_count; i++) {
        const char *name = d->in->leaves[i].name; /* no other has it */
        uint32_t id;
        bool is_new;
        st = swi_names_add(d->names, name, strlen(name), &id, &is_new, err);
    }
    return st;
}

static sw_status give_values(dividing *d, sw_error *err)
{
    const swi_state *state = d->in->state;
    sw_status st = SW_OK;
    if (state->scoped_count == 0)
        return SW_OK;
    if (source_ranks(d->in->source, d->in->state) != d->plan->ranks)
        return say_lost(d, err);
    st = list_names(d, err);
    for (size_t i = 0; st == SW_OK && i < state->scoped_count; i++)
        if (state->scoped[i].rank >= 0 && state->scoped[i].rank < (int64_t)d->plan->ranks)
            st = give(d, &state->scoped[i], err);
    return st;
}

sw_status swi_rank_divide_state(swi_rank_plan *plan, sw_error *err)
{
    dividing d = {.plan = plan, .in = plan->in.in};
    const size_t count = d.in->leaf_count;
    sw_status st = swi_alloc_array(count, sizeof *d.part, (void **)&d.part, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *d.kept, (void **)&d.kept, err);
    if (st == SW_OK)
        st = find_sections(&d, err);
    if (st == SW_OK)
        st = set_parts(&d, err);
    for (int of = OF_MODEL; st == SW_OK && of <= OF_EXTRA; of++)
        st = add_series(&d, (part_of)of, err);
    if (st == SW_OK)
        st = give_values(&d, err);
    swi_section_end(&d.section);
    swi_names_free(d.names);
    free(d.part);
    free(d.kept);
    return st;
}
