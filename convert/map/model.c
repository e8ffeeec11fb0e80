#include "map/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "codec/json_write.h"
#include "map/model_parts.h"

/* ---- names of `let` ---------------------------------------------------------------------------
 */

static const swi_map_let *find_let(const swi_map_let *lets, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(lets[i].name, name) == 0)
            return &lets[i];
    return NULL;
}

static sw_status set_let(swi_model *m, const swi_map_let *let, sw_error *err)
{
    sw_error cause = {0};
    swi_expr_var *var = &m->lets[m->let_vars.count];
    var->name = let->name;
    sw_status st = swi_expr_eval(let->expr, &m->scope, &var->value, &cause);
    if (st == SW_OK) {
        m->let_vars.count++;
        return SW_OK;
    }
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    return swi_yaml_fail(m->map->doc, let->at, err, st, "NT-2", "let %s: \"%s\": %s%s%s", let->name,
                         swi_expr_text(let->expr), cause.text, m->config_file ? "; from " : "",
                         m->config_file ? m->config_file : "");
}

/* MAP-14: a side whose configuration is at hand says some names in its own way, and first. */
static sw_status set_lets(swi_model *m, size_t side, sw_error *err)
{
    const swi_map *map = m->map;
    const swi_map_side *own = side < map->side_count ? &map->sides[side] : NULL;
    const size_t own_count = own != NULL ? own->let_count : 0;
    sw_status st =
        swi_alloc_array(own_count + map->let_count, sizeof *m->lets, (void **)&m->lets, err);
    m->let_vars.items = m->lets;
    for (size_t i = 0; st == SW_OK && i < own_count; i++)
        st = set_let(m, &own->lets[i], err);
    for (size_t i = 0; st == SW_OK && i < map->let_count; i++)
        if (find_let(own_count > 0 ? own->lets : NULL, own_count, map->lets[i].name) == NULL)
            st = set_let(m, &map->lets[i], err);
    return st;
}

/* ---- making -----------------------------------------------------------------------------------
 */

static sw_status make_sides(swi_model *m, sw_error *err)
{
    sw_status st = swi_alloc_array(m->map->side_count, sizeof *m->sides, (void **)&m->sides, err);
    for (size_t i = 0; st == SW_OK && i < m->map->side_count; i++)
        st = swi_names_make(&m->sides[i].names, err);
    return st == SW_OK ? swi_names_make(&m->atom_names, err) : st;
}

sw_status swi_model_make(swi_map *map, swi_model_config *config, size_t side,
                         const sw_limits *limits, swi_model **out, sw_error *err)
{
    swi_model *m = NULL;
    sw_status st = swi_alloc_array(1, sizeof *m, (void **)&m, err);
    if (st != SW_OK) {
        swi_map_free(map);
        swi_model_config_free(config);
        return st;
    }
    m->map = map;
    m->config = config->graph;
    m->config_text = config->text;
    m->config_size = config->size;
    m->untied = config->untied;
    m->limits = sw_limits_resolve(limits);
    m->config_var = (swi_expr_var){
        .name = "config",
        .value = m->config != NULL ? swi_expr_of_json(m->config, config->root) : swi_expr_none()};
    m->config_vars = (swi_expr_vars){.items = &m->config_var, .count = 1};
    m->outer = (swi_expr_scope){.find = swi_expr_find_var, .ctx = &m->config_vars};
    m->scope = (swi_expr_scope){.find = swi_expr_find_var, .ctx = &m->let_vars, .outer = &m->outer};
    if (m->config != NULL) {
        st = swi_alloc_array(strlen(config->file) + 1, 1, (void **)&m->config_file, err);
        if (st == SW_OK)
            memcpy(m->config_file, config->file, strlen(config->file));
    }
    *config = (swi_model_config){0};
    if (st == SW_OK)
        st = make_sides(m, err);
    if (st == SW_OK)
        st = set_lets(m, side, err);
    if (st == SW_OK)
        st = swi_model_expand(m, err);
    if (st == SW_OK)
        *out = m;
    else
        swi_model_free(m);
    return st;
}

void swi_model_config_free(swi_model_config *config)
{
    sw_value_graph_free(config->graph);
    free(config->text);
    *config = (swi_model_config){0};
}

void swi_model_free(swi_model *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; m->sides != NULL && i < m->map->side_count; i++) {
        swi_side *s = &m->sides[i];
        swi_names_free(s->names);
        free(s->tensors);
        free(s->tensor_of);
        free(s->next);
        free(s->prefers);
        free(s->layouts);
    }
    free(m->sides);
    swi_names_free(m->atom_names);
    free(m->atoms);
    free(m->lets);
    free(m->config_file);
    free(m->config_text);
    sw_value_graph_free(m->config);
    swi_map_free(m->map);
    free(m);
}

/* ---- operations in numbers ---------------------------------------------------------------------
 */

sw_status swi_model_rearrange(const swi_model *m, const swi_map_form *form, uint32_t part,
                              uint32_t axes, const int64_t *shape, bool *has, swi_rearrange *out,
                              sw_error *err)
{
    const swi_einops *e = form->rearrange != NULL ? form->rearrange[part] : NULL;
    sw_error cause = {0};
    *has = e != NULL;
    if (e == NULL)
        return SW_OK;
    sw_status st = swi_einops_solve(e, false, shape, axes, &m->scope, out, &cause);
    if (st == SW_OK)
        return SW_OK;
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    return swi_yaml_fail(m->map->doc, form->at, err, st, "MAP-3", "rearrange \"%s\": %s",
                         swi_einops_text(e), cause.text);
}

sw_status swi_model_shape(const swi_model *m, const swi_map_form *form, const swi_atom *atom,
                          uint32_t *axes, int64_t *shape, sw_error *err)
{
    swi_rearrange how;
    bool has;
    sw_status st =
        swi_model_rearrange(m, form, atom->part, atom->axes, atom->shape, &has, &how, err);
    *axes = atom->axes;
    memcpy(shape, atom->shape, sizeof atom->shape);
    if (st != SW_OK || !has)
        return st;
    *axes = how.out_axes;
    for (uint32_t d = 0, k = 0; d < how.out_axes; d++) {
        shape[d] = 1;
        for (uint32_t i = 0; i < how.out_count[d]; i++)
            shape[d] *= how.size[how.order[k++]];
    }
    return SW_OK;
}

sw_status swi_model_groups(const swi_model *m, const swi_map_form *form, int64_t *out,
                           sw_error *err)
{
    sw_error cause = {0};
    *out = 1;
    if (form->groups == NULL)
        return SW_OK;
    sw_status st = swi_expr_eval_int(form->groups, &m->scope, out, &cause);
    if (st == SW_OK && *out > 0)
        return SW_OK;
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    return swi_yaml_fail(m->map->doc, form->at, err, st == SW_OK ? SW_ERR_CONFLICT : st, "MAP-3",
                         "groups \"%s\": %s", swi_expr_text(form->groups),
                         st == SW_OK ? "it must be at least 1" : cause.text);
}

/* ---- what it tells ----------------------------------------------------------------------------
 */

void swi_model_identify(const swi_model *m, swi_identity *identity)
{
    swi_identity_number(identity, m->map->text_size);
    swi_identity_bytes(identity, m->map->text, m->map->text_size);
    swi_identity_number(identity, m->config_size);
    swi_identity_bytes(identity, m->config_text, m->config_size);
    swi_identity_number(identity, m->untied);
}

const char *swi_model_name(const swi_model *m)
{
    return m->map->name;
}

size_t swi_model_side_count(const swi_model *m)
{
    return m->map->side_count;
}

const char *swi_model_side_name(const swi_model *m, size_t side)
{
    return m->map->sides[side].name;
}

int64_t swi_model_side(const swi_model *m, const char *name)
{
    for (size_t i = 0; i < m->map->side_count; i++)
        if (strcmp(m->map->sides[i].name, name) == 0)
            return (int64_t)i;
    return -1;
}

size_t swi_model_tensor_count(const swi_model *m, size_t side)
{
    return m->sides[side].own;
}

bool swi_model_tensor_at(const swi_model *m, size_t side, size_t i, swi_model_tensor *out)
{
    const swi_side *s = &m->sides[side];
    if (i >= s->own)
        return false;
    const swi_side_tensor *t = &s->tensors[i];
    const swi_map_rule *r = &m->map->rules[t->rule];
    const swi_atom *first = &m->atoms[t->first];
    const sw_dtype cast = r->forms[side].cast;
    *out = (swi_model_tensor){.name = swi_names_at(s->names, (uint32_t)i, NULL),
                              .axes = t->axes,
                              .dtype = cast != SW_DTYPE_NONE ? cast : r->dtype,
                              .optional = r->optional || first->group != SWI_NO_TENSOR,
                              .constant = r->fills,
                              .buffer = r->buffer};
    memcpy(out->shape, t->shape, sizeof out->shape);
    if (t->count == 1 && first->tie != SWI_NO_TENSOR && swi_side_has(s, first->tie))
        out->tied_to = swi_names_at(s->names, s->tensor_of[first->tie], NULL);
    return true;
}

size_t swi_model_copy_count(const swi_model *m, size_t side)
{
    return swi_names_count(m->sides[side].names) - m->sides[side].own;
}

bool swi_model_copy_at(const swi_model *m, size_t side, size_t i, swi_model_tensor *out)
{
    const swi_side *s = &m->sides[side];
    if (i >= swi_model_copy_count(m, side))
        return false;
    const uint32_t id = s->own + (uint32_t)i, first = s->tensors[id].first;
    for (uint32_t a = m->atoms[first].ring; a != first; a = m->atoms[a].ring) {
        const uint32_t owner = s->tensor_of[a];
        if (owner >= s->own || !swi_model_tensor_at(m, side, owner, out))
            continue;
        out->tied_to = out->name;
        out->name = swi_names_at(s->names, id, NULL);
        return true;
    }
    return false;
}

int64_t swi_model_tensor_find(const swi_model *m, size_t side, const char *name)
{
    const int64_t id = swi_names_find(m->sides[side].names, name, strlen(name));
    return id < m->sides[side].own ? id : -1;
}

bool swi_model_ignores(const swi_model *m, size_t side, const char *name)
{
    const swi_map_side *s = &m->map->sides[side];
    for (size_t i = 0; i < s->ignore_count; i++)
        if (swi_pattern_match(s->ignore[i], name, strlen(name), NULL))
            return true;
    return false;
}

size_t swi_model_layout_count(const swi_model *m, size_t side)
{
    return m->map->sides[side].layout_count;
}

const swi_rules *swi_model_layout(const swi_model *m, size_t side, size_t i)
{
    return m->map->sides[side].layouts[m->sides[side].layouts[i]].rules;
}

const swi_expr_scope *swi_model_scope(const swi_model *m)
{
    return &m->scope;
}

const char *swi_model_config_name(const swi_model *m, size_t side)
{
    return m->map->sides[side].config;
}

/* ---- configuration files -----------------------------------------------------------------------
 */

static sw_status write_scalar(swi_json_writer *out, const swi_expr_value *v, sw_error *err)
{
    switch (v->kind) {
    case SWI_EXPR_NONE:
        swi_json_null(out);
        return SW_OK;
    case SWI_EXPR_BOOL:
        swi_json_bool(out, v->truth);
        return SW_OK;
    case SWI_EXPR_INT:
        swi_json_int(out, v->integer);
        return SW_OK;
    case SWI_EXPR_FLOAT:
        swi_json_float(out, v->number);
        return SW_OK;
    case SWI_EXPR_TEXT:
        swi_json_text(out, v->text, v->size);
        return SW_OK;
    default:
        return swi_fail(err, SW_ERR_UNSUPPORTED, "it is %s; a file is written with plain values",
                        swi_expr_kind_name(v->kind));
    }
}

static sw_status write_value(swi_json_writer *out, const swi_expr_value *v, sw_error *err)
{
    if (v->kind != SWI_EXPR_LIST)
        return write_scalar(out, v, err);
    sw_status st = SW_OK;
    swi_json_begin_array(out);
    for (size_t i = 0; st == SW_OK && i < v->count; i++) {
        const swi_expr_value item = swi_expr_item(v, i);
        st = write_scalar(out, &item, err);
    }
    swi_json_end(out);
    return st;
}

static sw_status write_key(const swi_model *m, const swi_map_key *key, const swi_expr_scope *scope,
                           swi_json_writer *out, sw_error *err)
{
    swi_expr_value v;
    sw_error cause = {0};
    sw_status st = swi_expr_eval(key->expr, scope, &v, &cause);
    if (st == SW_OK && v.kind == SWI_EXPR_NONE)
        return SW_OK; /* as if it were not there */
    swi_json_key_str(out, key->key);
    if (st == SW_OK)
        st = write_value(out, &v, &cause);
    if (st == SW_OK)
        return SW_OK;
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    return swi_yaml_fail(m->map->doc, key->at, err, st, "MAP-16", "write %s: %s", key->key,
                         cause.text);
}

sw_status swi_model_write_config(const swi_model *m, size_t side, const swi_expr_scope *sizes,
                                 swi_buf *out, sw_error *err)
{
    const swi_map_side *s = &m->map->sides[side];
    swi_expr_scope scope = sizes != NULL ? *sizes : m->scope;
    swi_json_writer writer;
    if (s->key_count == 0)
        return swi_fail(err, SW_ERR_NOTFOUND,
                        "map %s does not say how to write the configuration of side %s",
                        m->map->name, s->name);
    if (sizes != NULL)
        scope.outer = &m->scope;
    swi_json_start(&writer, out, SWI_JSON_INDENT);
    swi_json_begin_object(&writer);
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < s->key_count; i++)
        st = write_key(m, &s->keys[i], &scope, &writer, err);
    swi_json_end(&writer);
    if (st == SW_OK)
        st = swi_json_finish(&writer, err);
    return st == SW_OK ? swi_buf_append_str(out, "\n", err) : st;
}
