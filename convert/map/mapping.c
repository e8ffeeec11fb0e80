#include "map/mapping.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "map/mapping_parts.h"
#include "source/derive.h"

/* ---- beginning --------------------------------------------------------------------------------
 */

/* Places of atoms in their tensors. */
static sw_status set_tables(swi_mapping *m, sw_error *err)
{
    const uint32_t atoms = swi_model_atom_count(m->model);
    sw_status st = swi_alloc_array(atoms, sizeof *m->place, (void **)&m->place, err);
    if (st == SW_OK)
        st = swi_alloc_array(m->model->group_count, sizeof *m->there, (void **)&m->there, err);
    if (st == SW_OK)
        st = swi_alloc_array(m->model->map->rule_count, sizeof *m->effects, (void **)&m->effects,
                             err);
    for (uint32_t t = 0; st == SW_OK && t < swi_names_count(m->from->names); t++) {
        uint32_t place = 0;
        for (uint32_t a = m->from->tensors[t].first; a != SWI_NO_TENSOR; a = m->from->next[a])
            m->place[a] = place++;
    }
    return st;
}

sw_status swi_mapping_begin(const swi_mapping_in *in, swi_mapping **out, sw_error *err)
{
    swi_mapping *m = NULL;
    const swi_map_side *to = &in->model->map->sides[in->to];
    if (!in->model->sides[in->to].able)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "side %s of map %s cannot hold this model: it can when %s", to->name,
                        in->model->map->name, to->when ? swi_expr_text(to->when) : "");
    sw_status st = swi_alloc_array(1, sizeof *m, (void **)&m, err);
    if (st != SW_OK)
        return st;
    m->in = *in;
    m->model = in->model;
    m->from = &in->model->sides[in->from];
    m->to = &in->model->sides[in->to];
    m->catalog = sw_checkpoint_catalog(in->source);
    st = swi_derive_begin(in->source, &m->builder, err);
    if (st == SW_OK)
        st = set_tables(m, err);
    if (st == SW_OK)
        *out = m;
    else
        swi_mapping_free(m);
    return st;
}

void swi_mapping_free(swi_mapping *m)
{
    if (m == NULL)
        return;
    swi_builder_free(m->builder);
    free(m->place);
    free(m->there);
    free(m->musts);
    free(m->scales.tensor);
    free(m->effects);
    swi_arena_free(&m->arena);
    free(m);
}

/* ---- what is left behind ----------------------------------------------------------------------
 */

static const char *to_name(const swi_mapping *m)
{
    return swi_model_side_name(m->model, m->in.to);
}

/* The target has it under this or another name. */
static bool goes_on(const swi_mapping *m, uint32_t atom)
{
    uint32_t at = atom;
    do {
        if (swi_side_has(m->to, at))
            return true;
        at = swi_next_tied(m->model, at);
    } while (at != atom);
    return false;
}

static uint64_t atom_elements(const swi_mapping *m, uint32_t atom)
{
    uint64_t n = 0;
    (void)swi_shape_elements(m->model->atoms[atom].axes, m->model->atoms[atom].shape, &n);
    return n;
}

/* An atom of the source as a tensor of the derived catalog. */
static sw_status atom_tensor(swi_mapping *m, const swi_present *have, uint32_t from, uint32_t atom,
                             uint32_t *tensor, sw_error *err)
{
    swi_shaped shaped;
    if (swi_mapping_is_plain(m->model, m->in.from, from)) {
        *tensor = have->tensor[from];
        return SW_OK;
    }
    sw_status st = swi_mapping_atom(m, have, from, atom, &shaped, err);
    if (st != SW_OK)
        return st;
    st = swi_mapping_put(m, swi_names_at(m->from->names, from, NULL), SW_ROLE_OTHER, &shaped,
                         tensor, err);
    swi_shaped_free(&shaped);
    return st;
}

/* MAP-7: a constant that the target does not store must be what the map says. */
static sw_status leave_constant(swi_mapping *m, const swi_present *have, uint32_t from,
                                uint32_t atom, sw_error *err)
{
    const swi_map_rule *r = &m->model->map->rules[m->model->atoms[atom].rule];
    swi_must must = {.kind = SWI_MUST_FILL, .name = swi_names_at(m->from->names, from, NULL)};
    sw_tensor_info info;
    swi_quoted q;
    (void)sw_catalog_tensor(m->catalog, have->tensor[from], &info);
    if (!sw_dtype_is_float(info.dtype))
        return swi_fail_at(err, SW_ERR_CONFLICT, "MAP-7", 0,
                           "tensor \"%s\" is %s, and by the map a constant of type %s",
                           swi_quote_str(&q, must.name), sw_dtype_name(info.dtype),
                           sw_dtype_name(r->dtype));
    must.pattern = swi_mapping_pattern(r->fill, info.dtype);
    sw_status st = atom_tensor(m, have, from, atom, &must.tensor, err);
    return st == SW_OK ? swi_mapping_must(m, &must, err) : st;
}

/* What of one tensor is left behind, in elements. */
typedef struct leaving {
    uint64_t lost;    /* the side cannot hold it, as the map says */
    uint64_t unnamed; /* the map does not say what the side calls it */
    size_t line;      /* of the rule, or of its side */
} leaving;

static sw_status say_leaving(const swi_mapping *m, uint32_t from, const leaving *l, sw_error *err)
{
    const char *map = swi_model_name(m->model);
    swi_finding_in in = {.severity = SW_WARNING,
                         .code = "map-lost",
                         .tensor = swi_names_at(m->from->names, from, NULL)};
    if (l->unnamed == 0)
        return swi_report_add(m->in.report, &in, err,
                              "side %s of map %s cannot hold it (line %zu): %" PRIu64
                              " elements are left behind",
                              to_name(m), map, l->line, l->lost);
    in.severity = SW_DEFECT;
    in.status = SW_ERR_UNSUPPORTED;
    return swi_report_add(m->in.report, &in, err,
                          "map %s does not say what side %s calls it (line %zu): %" PRIu64
                          " elements would be left behind",
                          map, to_name(m), l->line, l->unnamed);
}

/* MAP-2, MAP-5: an atom of a tensor that is there, which the target's side does not have. */
static sw_status leave_atom(swi_mapping *m, const swi_present *have, uint32_t from, uint32_t atom,
                            leaving *l, sw_error *err)
{
    const uint32_t rule = m->model->atoms[atom].rule;
    const swi_map_form *f = swi_form_of(m->model, m->in.to, rule);
    const swi_yaml *doc = m->model->map->doc;
    const uint64_t n = atom_elements(m, atom);
    if (goes_on(m, atom))
        return SW_OK;
    if (m->model->map->rules[rule].fills)
        return leave_constant(m, have, from, atom, err);
    if (f->has == SWI_MAP_NOT) {
        l->unnamed += n;
        l->line = swi_yaml_line(doc, m->model->map->rules[rule].at);
        return SW_OK;
    }
    l->lost += n;
    m->effects[rule].lost += n;
    l->line = l->unnamed > 0 ? l->line : swi_yaml_line(doc, f->at);
    return SW_OK;
}

static sw_status look_at_tensor(swi_mapping *m, const swi_present *have, uint32_t t, leaving *l,
                                sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t a = m->from->tensors[t].first; st == SW_OK && a != SWI_NO_TENSOR;
         a = m->from->next[a])
        st = leave_atom(m, have, t, a, l, err);
    if (st == SW_OK && l->lost + l->unnamed > 0)
        st = say_leaving(m, t, l, err);
    return st == SW_OK && m->in.from != m->in.to ? swi_mapping_pads(m, have, t, err) : st;
}

static sw_status look_at_rest(swi_mapping *m, const swi_present *have, sw_error *err)
{
    sw_status st = SW_OK;
    uint64_t unnamed = 0;
    const char *first = "";
    swi_quoted q;
    for (uint32_t t = 0; st == SW_OK && t < swi_names_count(m->from->names); t++) {
        leaving l = {0};
        if (have->tensor[t] == SWI_NO_TENSOR)
            continue;
        st = look_at_tensor(m, have, t, &l, err);
        if (l.unnamed > 0 && unnamed++ == 0)
            first = swi_names_at(m->from->names, t, NULL);
    }
    if (st != SW_OK || unnamed == 0)
        return st;
    return swi_fail(err, SW_ERR_UNSUPPORTED,
                    "map %s does not say what side %s calls %" PRIu64
                    " of the tensors, first \"%s\"; the report lists them; --drop leaves them out, "
                    "--map takes a map that says it",
                    swi_model_name(m->model), to_name(m), unnamed, swi_quote_str(&q, first));
}

/* ---- ties -------------------------------------------------------------------------------------
 */

static bool is_present(const swi_mapping *m, const swi_present *have, uint32_t atom,
                       uint32_t *tensor)
{
    *tensor = m->from->tensor_of[atom];
    return *tensor != SWI_NO_TENSOR && have->tensor[*tensor] != SWI_NO_TENSOR;
}

/* MAP-6: all of a ring that are there must be equal, each to the one that is before it. */
static sw_status check_ties(swi_mapping *m, const swi_present *have, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t a = 0; st == SW_OK && a < swi_model_atom_count(m->model); a++) {
        uint32_t t, u, before = SWI_NO_TENSOR;
        if (!is_present(m, have, a, &t))
            continue;
        for (uint32_t b = swi_next_tied(m->model, a); b != a; b = swi_next_tied(m->model, b))
            if (b < a && is_present(m, have, b, &u) && (before == SWI_NO_TENSOR || b > before))
                before = b;
        if (before == SWI_NO_TENSOR)
            continue;
        (void)is_present(m, have, before, &u);
        swi_must must = {.kind = SWI_MUST_EQUAL,
                         .name = swi_names_at(m->from->names, t, NULL),
                         .other_name = swi_names_at(m->from->names, u, NULL)};
        st = atom_tensor(m, have, t, a, &must.tensor, err);
        if (st == SW_OK)
            st = atom_tensor(m, have, u, before, &must.other, err);
        if (st == SW_OK)
            st = swi_mapping_must(m, &must, err);
    }
    return st;
}

/* ---- the target's tensors ---------------------------------------------------------------------
 */

typedef enum found { FOUND_ALL, FOUND_NONE, FOUND_SOME } found;

/* Whether all atoms of a tensor of `to` have a source; *lacking: the first that has none. */
static found look_for(const swi_mapping *m, const swi_present *have, uint32_t id, uint32_t *lacking)
{
    uint32_t from, as;
    bool some = false, none = false;
    for (uint32_t a = m->to->tensors[id].first; a != SWI_NO_TENSOR; a = m->to->next[a]) {
        if (swi_mapping_is_there(m, a) && (m->model->map->rules[m->model->atoms[a].rule].fills ||
                                           swi_mapping_source(m, have, a, &from, &as))) {
            some = true;
        } else {
            *lacking = none ? *lacking : a;
            none = true;
        }
    }
    return !none ? FOUND_ALL : some ? FOUND_SOME : FOUND_NONE;
}

static sw_status lacks(const swi_mapping *m, uint32_t id, uint32_t atom, sw_error *err)
{
    swi_quoted q, r;
    return swi_fail(err, SW_ERR_INCOMPLETE,
                    "tensor \"%s\" of side %s needs \"%s\", which the source does not have; take "
                    "all of it with --only, or none",
                    swi_quote_str(&q, swi_names_at(m->to->names, id, NULL)), to_name(m),
                    swi_quote_str(&r, swi_names_at(m->model->atom_names, atom, NULL)));
}

static sw_status build(swi_mapping *m, const swi_present *have, uint32_t id, sw_role role,
                       uint32_t *tensor, sw_error *err)
{
    swi_shaped shaped;
    sw_status st = swi_mapping_build(m, have, id, &shaped, err);
    if (st != SW_OK)
        return st;
    st = swi_mapping_put(m, swi_names_at(m->to->names, id, NULL), role, &shaped, tensor, err);
    uint64_t elements = 0;
    (void)swi_shape_elements(shaped.axes, shaped.shape, &elements);
    if (role == SW_ROLE_PARAMETER)
        m->effects[m->to->tensors[id].rule].bytes += elements * sw_dtype_bytes(shaped.dtype);
    swi_shaped_free(&shaped);
    return st;
}

/* A float8 tensor without scales cannot be dequantised. */
static sw_status needs_no_scale(const swi_mapping *m, const swi_present *have, uint32_t id,
                                sw_error *err)
{
    for (uint32_t a = m->to->tensors[id].first; a != SWI_NO_TENSOR; a = m->to->next[a]) {
        uint32_t from, as;
        sw_tensor_info info;
        swi_quoted q;
        if (!swi_mapping_source(m, have, a, &from, &as))
            continue;
        (void)sw_catalog_tensor(m->catalog, have->tensor[from], &info);
        if (!sw_dtype_is_float(info.dtype) || sw_dtype_bytes(info.dtype) > 1)
            continue;
        const char *suffix = m->model->map->scales.suffix;
        return swi_fail_at(err, SW_ERR_INCOMPLETE, "MAP-10", 0,
                           "tensor \"%s\" is %s and its block scales are missing: \"%s%s\"",
                           swi_quote_str(&q, info.name), sw_dtype_name(info.dtype),
                           swi_names_at(m->from->names, from, NULL), suffix ? suffix : "");
    }
    return SW_OK;
}

/* MAP-10: of its atoms all have block scales, or none. */
static sw_status find_scaled(const swi_mapping *m, const swi_present *have, uint32_t id, bool *out,
                             sw_error *err)
{
    bool some = false, none = false;
    swi_quoted q;
    for (uint32_t a = m->to->tensors[id].first; a != SWI_NO_TENSOR; a = m->to->next[a]) {
        uint32_t from, as;
        const bool scaled =
            swi_mapping_source(m, have, a, &from, &as) && m->scales.tensor[from] != SWI_NO_TENSOR;
        some = some || scaled;
        none = none || !scaled;
    }
    *out = some;
    const char *name = swi_names_at(m->to->names, id, NULL);
    if (!some && m->in.dequantise)
        return needs_no_scale(m, have, id, err);
    if (some && none)
        return swi_fail_at(err, SW_ERR_CONFLICT, "MAP-10", 0,
                           "tensor \"%s\": of those that it is made of some have block scales, "
                           "some have not",
                           swi_quote_str(&q, name));
    if (some && !m->in.dequantise && m->in.from != m->in.to)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "MAP-10", 0,
                           "tensor \"%s\" is float8 with block scales, which side %s does not "
                           "get; --dequant multiplies them in",
                           swi_quote_str(&q, name), to_name(m));
    return SW_OK;
}

static sw_status make_tensor(swi_mapping *m, const swi_present *have, uint32_t id, swi_mapped *out,
                             sw_error *err)
{
    const uint32_t rule = m->to->tensors[id].rule;
    uint32_t scale, from, as;
    bool scaled;
    sw_tensor_info info;
    const bool has_source = swi_mapping_source(m, have, m->to->tensors[id].first, &from, &as);
    *out = (swi_mapped){.constant = !has_source,
                        .name = swi_names_at(m->to->names, id, NULL),
                        .scale = -1,
                        .dtype = swi_form_of(m->model, m->in.to, rule)->cast};
    sw_status st = find_scaled(m, have, id, &scaled, err);
    if (st == SW_OK && swi_mapping_is_same(m, have, id, &out->tensor)) {
        (void)sw_catalog_tensor(m->catalog, out->tensor, &info);
        m->effects[rule].bytes += info.bytes;
    } else if (st == SW_OK) {
        st = build(m, have, id, SW_ROLE_PARAMETER, &out->tensor, err);
    }
    if (st == SW_OK && scaled && m->in.dequantise) {
        st = build(m, &m->scales, id, SW_ROLE_OTHER, &scale, err);
        out->scale = scale;
        m->effects[rule].scaled++;
    }
    m->effects[rule].tensors++;
    return st;
}

/* Companions that stay beside what they scale. */
static sw_status keep_scales(swi_mapping *m, swi_mapped_list *out, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t t = 0; st == SW_OK && t < swi_names_count(m->from->names); t++) {
        sw_tensor_info info;
        swi_mapped *made = &out->items[out->count];
        if (m->scales.tensor[t] == SWI_NO_TENSOR || m->in.dequantise || m->in.from != m->in.to)
            continue;
        (void)sw_catalog_tensor(m->catalog, m->scales.tensor[t], &info);
        *made = (swi_mapped){.tensor = m->scales.tensor[t], .scale = -1};
        swi_buf name = {0};
        st = swi_buf_printf(&name, err, "%s%s", swi_names_at(m->from->names, t, NULL),
                            m->model->map->scales.suffix);
        if (st == SW_OK)
            st = swi_arena_text(&m->arena, (const char *)name.data, name.size, &made->name, err);
        swi_buf_free(&name);
        out->count++;
    }
    return st;
}

/* A name that the side leaves out, for what the source has under such a name too. */
static bool is_wanted_copy(const swi_mapping *m, const swi_present *have, uint32_t id)
{
    const uint32_t from = m->from->tensor_of[m->to->tensors[id].first];
    return m->in.copies && from != SWI_NO_TENSOR && have->tensor[from] != SWI_NO_TENSOR;
}

static sw_status make_all(swi_mapping *m, const swi_present *have, swi_mapped_list *out,
                          sw_error *err)
{
    const uint32_t count = swi_names_count(m->to->names);
    const size_t scales = swi_names_count(m->from->names);
    sw_status st = swi_alloc_array(count + scales, sizeof *out->items, (void **)&out->items, err);
    for (uint32_t id = 0; st == SW_OK && id < count; id++) {
        uint32_t lacking = SWI_NO_TENSOR;
        if (id >= m->to->own && !is_wanted_copy(m, have, id))
            continue;
        switch (look_for(m, have, id, &lacking)) {
        case FOUND_NONE:
            break;
        case FOUND_SOME:
            st = lacks(m, id, lacking, err);
            break;
        default:
            st = make_tensor(m, have, id, &out->items[out->count], err);
            out->count += st == SW_OK;
        }
    }
    return st == SW_OK ? keep_scales(m, out, err) : st;
}

/* MAP-12: without a choice of the caller all that the side must have is there. */
static sw_status check_whole(const swi_mapping *m, const swi_present *have, sw_error *err)
{
    for (uint32_t id = 0; !m->in.partial && id < m->to->own; id++) {
        uint32_t lacking = SWI_NO_TENSOR;
        const swi_map_rule *r = &m->model->map->rules[m->to->tensors[id].rule];
        if (!r->optional && swi_mapping_is_there(m, m->to->tensors[id].first) &&
            look_for(m, have, id, &lacking) != FOUND_ALL)
            return lacks(m, id, lacking, err);
    }
    return SW_OK;
}

bool swi_mapping_knows(const swi_mapping *m, const char *name)
{
    return swi_names_find(m->from->names, name, strlen(name)) >= 0;
}

sw_status swi_mapping_model(swi_mapping *m, const swi_named *named, size_t count,
                            swi_mapped_list *out, sw_error *err)
{
    swi_present have = {0};
    swi_mapped_list made = {0};
    sw_status st = swi_mapping_meet(m, named, count, &have, err);
    if (st == SW_OK)
        st = check_whole(m, &have, err);
    if (st == SW_OK)
        st = check_ties(m, &have, err);
    if (st == SW_OK)
        st = look_at_rest(m, &have, err);
    if (st == SW_OK)
        st = make_all(m, &have, &made, err);
    free(have.tensor);
    if (st == SW_OK)
        *out = made;
    else
        free(made.items);
    return st;
}

void swi_mapping_identify(const swi_mapping *m, swi_identity *identity)
{
    swi_model_identify(m->model, identity);
    swi_identity_text(identity, swi_model_side_name(m->model, m->in.from));
    swi_identity_text(identity, to_name(m));
    swi_identity_number(identity, m->in.dequantise);
}

sw_status swi_mapping_end(swi_mapping *m, sw_checkpoint **out, sw_error *err)
{
    swi_builder *builder = m->builder;
    m->builder = NULL;
    return swi_derive_end(m->in.source, builder, out, err);
}

/* ---- for the plan -----------------------------------------------------------------------------
 */

size_t swi_mapping_effect_count(const swi_mapping *m)
{
    return m->model->map->rule_count;
}

static const char *pattern_of(const swi_map_form *f)
{
    return f->has == SWI_MAP_HAS ? swi_pattern_text(f->name) : "";
}

/* "join 0, stack 0"; `undo`: what is undone of the source's side, "split 0". */
static void describe(const swi_map_form *f, bool undo, char *out, size_t room)
{
    size_t n = strlen(out);
    const struct {
        bool is;
        const char *does, *undoes;
    } rows[] = {{f->rearrange != NULL, "rearrange", "rearrange back"},
                {f->join, "join", "split"},
                {f->stack, "stack", "unstack"},
                {f->pad_count > 0, "pad", "trim"},
                {f->cast != SW_DTYPE_NONE && !undo, "cast", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && n < room; i++) {
        if (!rows[i].is)
            continue;
        const int more = snprintf(out + n, room - n, "%s%s", n > 0 ? ", " : "",
                                  undo ? rows[i].undoes : rows[i].does);
        n += more > 0 ? (size_t)more : 0;
    }
}

void swi_mapping_effect_at(const swi_mapping *m, size_t i, swi_mapping_effect *out)
{
    const swi_map_rule *r = &m->model->map->rules[i];
    const swi_map_form *from = &r->forms[m->in.from], *to = &r->forms[m->in.to];
    *out = (swi_mapping_effect){.from = pattern_of(from),
                                .to = pattern_of(to),
                                .line = swi_yaml_line(m->model->map->doc, r->at),
                                .tensors = m->effects[i].tensors,
                                .bytes = m->effects[i].bytes,
                                .lost = m->effects[i].lost};
    if (m->in.from != m->in.to) {
        describe(from, true, out->what, sizeof out->what);
        describe(to, false, out->what, sizeof out->what);
    }
    const size_t n = strlen(out->what);
    if (m->effects[i].scaled > 0)
        snprintf(out->what + n, sizeof out->what - n, "%stimes block scales", n > 0 ? ", " : "");
    out->lossy = to->cast != SW_DTYPE_NONE || m->effects[i].lost > 0 || m->effects[i].scaled > 0;
}
