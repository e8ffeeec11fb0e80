#include "flat/unflatten.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "flat/unflatten_parts.h"
#include "shaped.h"

/* ---- what was noted ---------------------------------------------------------------------------
 */

static sw_status take_note(swi_unflat *u, const swi_row_note *note, sw_error *err)
{
    const char *section, *name;
    swi_quoted q, r;
    u->tensors[note->tensor].is_row = true;
    if (note->unit == NULL) {
        u->has_optimizers = true;
        u->shards = note->shards > u->shards ? note->shards : u->shards;
        return SW_OK;
    }
    sw_checkpoint_split_name(u->in.base, note->tensor, &section, &name);
    if (u->has_model && strcmp(section, u->section) != 0)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "FS-6", 0,
                           "flat parameters lie under \"%s\" and under \"%s\": one model at a time "
                           "can be read",
                           swi_quote_str(&q, u->section), swi_quote_str(&r, section));
    u->has_model = true;
    u->section = section;
    return SW_OK;
}

/* Without rows of its own the model is the section that is called so, or the top. */
static void find_model_section(swi_unflat *u)
{
    const char *section, *name;
    for (size_t i = 0; !u->has_model && i < u->tensor_count; i++) {
        sw_tensor_info info;
        (void)sw_catalog_tensor(u->catalog, i, &info);
        sw_checkpoint_split_name(u->in.base, i, &section, &name);
        if (info.role == SW_ROLE_PARAMETER && strcmp(section, "model") == 0)
            u->section = section;
    }
}

static sw_status begin(swi_unflat *u, sw_error *err)
{
    u->catalog = sw_checkpoint_catalog(u->in.base);
    u->tensor_count = sw_catalog_tensor_count(u->catalog);
    u->section = "";
    u->shards = 1;
    sw_status st = swi_alloc_array(u->tensor_count, sizeof *u->tensors, (void **)&u->tensors, err);
    for (size_t i = 0; st == SW_OK && i < u->in.notes->row_count; i++)
        st = take_note(u, &u->in.notes->rows[i], err);
    find_model_section(u);
    const char *given = u->in.options != NULL ? u->in.options->param_names : NULL;
    if (st == SW_OK && u->has_optimizers && given != NULL)
        st = swi_param_names_read(given, &u->in.limits, false, &u->given, err);
    return st;
}

/* ---- one source of shapes ---------------------------------------------------------------------
 */

static void forget_shapes(swi_unflat *u)
{
    for (size_t i = 0; u->tensors != NULL && i < u->tensor_count; i++)
        u->tensors[i] = (swi_unflat_tensor){.is_row = u->tensors[i].is_row};
    free(u->left_out);
    free(u->places);
    free(u->single_of);
    u->left_out = NULL;
    u->places = NULL;
    u->single_of = NULL;
    u->align = 0;
    swi_rows_free(&u->units);
    swi_rows_free(&u->singles);
    swi_shapes_free(u->shapes);
    u->shapes = NULL;
}

static sw_status all_have_rows(const swi_unflat *u, sw_error *err)
{
    for (size_t i = 0; i < u->tensor_count; i++) {
        sw_tensor_info info;
        swi_quoted q;
        if (!u->tensors[i].is_row || u->tensors[i].row != NULL)
            continue;
        (void)sw_catalog_tensor(u->catalog, i, &info);
        return swi_fail_at(err, SW_ERR_CONFLICT, "FS-10", 0,
                           "\"%s\" is flat, and no optimizer has it for a state",
                           swi_quote_str(&q, info.name));
    }
    return SW_OK;
}

static sw_status settle_model(swi_unflat *u, sw_error *err)
{
    sw_status st = u->has_model ? swi_unflat_fit(u, err) : swi_unflat_units(u, err);
    return st == SW_OK ? swi_unflat_name_rows(u, err) : st;
}

static sw_status settle_states(swi_unflat *u, const swi_state *state, sw_error *err)
{
    if (u->has_optimizers && state->graph == NULL)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "the state dict cannot be read");
    sw_status st = u->has_optimizers ? swi_unflat_states(u, state, err) : SW_OK;
    return st == SW_OK ? all_have_rows(u, err) : st;
}

static sw_status fail_with(const sw_error *cause, sw_error *err)
{
    if (err != NULL)
        *err = *cause;
    return cause->status;
}

#define NO_ATTEMPT SIZE_MAX

/* Which of the sources of shapes fits the model, if not its optimizer. */
typedef struct trying {
    size_t model;  /* the first that fits the model */
    sw_error *why; /* what speaks against the first that did not fit */
} trying;

/* *done: it fits all. */
static sw_status try_shapes(swi_unflat *u, const swi_state *state, size_t attempt, bool given,
                            trying *t, bool *done, sw_error *err)
{
    sw_error cause = {0};
    sw_status st = settle_model(u, &cause);
    const bool model = st == SW_OK;
    if (model)
        st = settle_states(u, state, &cause);
    *done = st == SW_OK;
    if (*done)
        return SW_OK;
    forget_shapes(u);
    if (swi_could_not_work(st) || (given && !model))
        return fail_with(&cause, err);
    if (t->why->status == SW_OK)
        *t->why = cause;
    if (model && u->has_model && t->model == NO_ATTEMPT)
        t->model = attempt;
    return SW_OK;
}

/*
 * The first shapes that fit all; else those that fit the model, whose weights need no optimizer
 * (FS-15). *why: what speaks against the first that did not fit.
 */
static sw_status find_shapes(swi_unflat *u, const swi_state *state, sw_error *why, sw_error *err)
{
    trying t = {.model = NO_ATTEMPT, .why = why};
    bool done = false, given;
    sw_status st = SW_OK;
    for (size_t attempt = 0; st == SW_OK; attempt++) {
        st = swi_unflat_shapes(u, attempt, &u->shapes, &given, err);
        if (st != SW_OK || u->shapes == NULL)
            break;
        st = try_shapes(u, state, attempt, given, &t, &done, err);
        if (done)
            return SW_OK;
        if (given) /* there are no others */
            break;
    }
    if (st != SW_OK || t.model == NO_ATTEMPT)
        return st;
    u->states_stay = true;
    st = swi_unflat_shapes(u, t.model, &u->shapes, &given, err);
    return st == SW_OK ? settle_model(u, err) : st;
}

/* ---- tensors of the new catalog ---------------------------------------------------------------
 */

typedef struct making {
    swi_unflat *u;
    swi_builder *builder;
    swi_buf name;
} making;

static sw_status note_made(swi_unflat *u, uint32_t id, const char *section, const char *name,
                           sw_error *err)
{
    sw_status st =
        swi_grow_array((void **)&u->made, &u->made_capacity, (size_t)id + 1, sizeof *u->made, err);
    if (st == SW_OK)
        st = swi_arena_text(&u->arena, name, strlen(name), &u->made[id].name, err);
    if (st == SW_OK)
        u->made[id].section = section;
    return st;
}

/* The name in its section: what stands behind "model.". */
static const char *inner_name(const char *full, const char *section)
{
    const size_t size = strlen(section);
    return size > 0 && strncmp(full, section, size) == 0 && full[size] == '.' ? full + size + 1
                                                                              : full;
}

static sw_status keep(making *m, uint32_t tensor, sw_error *err)
{
    swi_unflat *u = m->u;
    const char *section, *name;
    swi_shaped shaped = {0};
    sw_tensor_info info;
    uint32_t id;
    (void)sw_catalog_tensor(u->catalog, tensor, &info);
    sw_checkpoint_split_name(u->in.base, tensor, &section, &name);
    sw_status st = swi_shaped_take(u->catalog, tensor, &shaped, err);
    if (st == SW_OK && info.alias_of >= 0)
        shaped.count = 0; /* it shows those of its owner */
    const swi_shaped_name called = {
        .name = info.name, .name_size = strlen(info.name), .role = info.role};
    if (st == SW_OK)
        st = swi_shaped_put(m->builder, &called, &shaped, &id, err);
    swi_shaped_free(&shaped);
    if (st != SW_OK)
        return st;
    u->tensors[tensor].first = id;
    return note_made(u, id, section, name, err);
}

static sw_status full_name(making *m, const swi_unflat_tensor *t, const char *parameter,
                           sw_error *err)
{
    m->name.size = 0;
    sw_status st = swi_buf_printf(&m->name, err, "%s%s%s%s", t->before, parameter,
                                  t->after != NULL ? "." : "", t->after != NULL ? t->after : "");
    return st == SW_OK ? swi_buf_u8(&m->name, 0, err) : st;
}

/* FS-12: elements of the row as a tensor of the parameter's shape. */
static sw_status cut(const swi_shaped *row, const swi_row_item *item, const swi_shape *shape,
                     swi_shaped *out, sw_error *err)
{
    const int64_t at = (int64_t)item->at, elements = (int64_t)item->elements;
    swi_shaped flat = {0};
    sw_status st = swi_shaped_cut(row, &at, &elements, &flat, err);
    if (st == SW_OK)
        st = swi_shaped_reshape(&flat, shape->axes, shape->shape, out, err);
    swi_shaped_free(&flat);
    return st;
}

static sw_status put_item(making *m, uint32_t tensor, const swi_shaped *whole, size_t i,
                          sw_error *err)
{
    swi_unflat *u = m->u;
    const swi_unflat_tensor *t = &u->tensors[tensor];
    const swi_row_item *item = &t->row->items[i];
    const swi_shape *shape = &u->shapes->items[item->parameter];
    const char *section, *ignored;
    sw_tensor_info info;
    swi_shaped shaped = {0};
    uint32_t id;
    (void)sw_catalog_tensor(u->catalog, tensor, &info);
    sw_checkpoint_split_name(u->in.base, tensor, &section, &ignored);
    sw_status st = full_name(m, t, shape->name, err);
    if (st == SW_OK)
        st = t->is_row ? cut(whole, item, shape, &shaped, err)
                       : swi_shaped_copy(whole, &shaped, err);
    const swi_shaped_name called = {
        .name = (const char *)m->name.data, .name_size = m->name.size - 1, .role = info.role};
    if (st == SW_OK) {
        if (shaped.defect == SW_ERR_INCOMPLETE)
            shaped.defect = SW_OK; /* whether it has a hole itself will be seen */
        st = swi_shaped_put(m->builder, &called, &shaped, &id, err);
    }
    swi_shaped_free(&shaped);
    if (st != SW_OK)
        return st;
    if (i == 0)
        u->tensors[tensor].first = id;
    return note_made(u, id, section, inner_name(called.name, section), err);
}

static sw_status put_items(making *m, uint32_t tensor, sw_error *err)
{
    const swi_unflat_tensor *t = &m->u->tensors[tensor];
    swi_shaped whole = {0};
    sw_status st = swi_shaped_take(m->u->catalog, tensor, &whole, err);
    for (size_t i = 0; st == SW_OK && i < t->row->count; i++)
        st = put_item(m, tensor, &whole, i, err);
    swi_shaped_free(&whole);
    return st;
}

/* FS-13: another name of a parameter, which a row has once. */
static sw_status put_tied(making *m, size_t shape, uint32_t owner, sw_error *err)
{
    swi_unflat *u = m->u;
    const swi_shape *s = &u->shapes->items[shape];
    const swi_unflat_tensor named = {.before = u->model_before};
    sw_tensor_info info;
    uint32_t id;
    (void)sw_catalog_tensor(u->catalog, u->model_row, &info);
    sw_status st = full_name(m, &named, s->name, err);
    const swi_tensor_in in = {.name = (const char *)m->name.data,
                              .name_size = m->name.size - 1,
                              .dtype = info.dtype,
                              .axes = s->axes,
                              .shape = s->shape,
                              .role = SW_ROLE_PARAMETER};
    if (st == SW_OK)
        st = swi_builder_tensor(m->builder, &in, &id, err);
    if (st != SW_OK)
        return st;
    swi_builder_alias(m->builder, id, owner);
    u->tied[shape] = id;
    return note_made(u, id, u->section, s->name, err);
}

/* The tensor of the new catalog that a parameter of the model became. */
uint32_t swi_unflat_parameter(const swi_unflat *u, size_t shape)
{
    for (size_t n = 0; n < u->in.notes->row_count; n++) {
        const swi_unflat_tensor *t = &u->tensors[u->in.notes->rows[n].tensor];
        if (u->in.notes->rows[n].unit == NULL)
            continue;
        for (size_t i = 0; i < t->row->count; i++)
            if (t->row->items[i].parameter == shape)
                return t->first + (uint32_t)i;
    }
    return SWI_NOT_MADE;
}

static sw_status put_all_tied(making *m, sw_error *err)
{
    swi_unflat *u = m->u;
    sw_status st = swi_alloc_array(u->shapes->count, sizeof *u->tied, (void **)&u->tied, err);
    for (size_t i = 0; st == SW_OK && i < u->shapes->count; i++) {
        const swi_shape *s = &u->shapes->items[i];
        u->tied[i] = SWI_NOT_MADE;
        if (!u->has_model || s->tied_to < 0 || (u->left_out != NULL && u->left_out[i]))
            continue;
        const uint32_t owner = swi_unflat_parameter(u, (size_t)s->tied_to);
        if (owner != SWI_NOT_MADE)
            st = put_tied(m, i, owner, err);
    }
    return st;
}

/* "model." before the names of parameters. */
static sw_status name_model(swi_unflat *u, sw_error *err)
{
    swi_buf before = {0};
    sw_status st = SW_OK;
    if (u->section[0] != '\0')
        st = swi_buf_printf(&before, err, "%s.", u->section);
    if (st == SW_OK)
        st = swi_arena_text(&u->arena, before.size > 0 ? (const char *)before.data : "",
                            before.size, &u->model_before, err);
    swi_buf_free(&before);
    for (size_t n = 0; n < u->in.notes->row_count; n++) {
        const swi_row_note *note = &u->in.notes->rows[n];
        if (note->unit == NULL)
            continue;
        u->model_row = note->tensor;
        u->tensors[note->tensor].before = u->model_before;
    }
    return st;
}

static sw_status make_catalog(swi_unflat *u, sw_catalog **out, sw_error *err)
{
    making m = {.u = u};
    sw_tensor_info info;
    sw_status st = name_model(u, err);
    if (st == SW_OK)
        st = swi_builder_from(u->catalog, &u->in.limits, &m.builder, err);
    for (uint32_t i = 0; st == SW_OK && i < u->tensor_count; i++) {
        if (u->tensors[i].row != NULL)
            st = put_items(&m, i, err);
        else if (u->tensors[i].first != SWI_NOT_MADE)
            st = keep(&m, i, err);
    }
    for (uint32_t i = 0; st == SW_OK && i < u->tensor_count; i++) {
        (void)sw_catalog_tensor(u->catalog, i, &info);
        if (info.alias_of >= 0 && u->tensors[i].row == NULL && u->tensors[i].first != SWI_NOT_MADE)
            swi_builder_alias(m.builder, u->tensors[i].first, u->tensors[info.alias_of].first);
    }
    if (st == SW_OK)
        st = put_all_tied(&m, err);
    swi_buf_free(&m.name);
    if (st == SW_OK)
        return swi_builder_freeze(m.builder, u->in.report, out, err);
    swi_builder_free(m.builder);
    return st;
}

/* ---- what is said -----------------------------------------------------------------------------
 */

static sw_status say_done(const swi_unflat *u, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_NOTE, .code = "unflattened"};
    uint64_t model = 0, states = 0;
    char how[64] = "";
    for (size_t n = 0; n < u->in.notes->row_count; n++) {
        model += u->in.notes->rows[n].unit != NULL;
        states += u->in.notes->rows[n].unit == NULL && !u->states_stay;
    }
    if (model > 0 && u->align == 0)
        (void)snprintf(how, sizeof how, ", at the places that are recorded");
    else if (model > 0 && u->align > 1)
        (void)snprintf(how, sizeof how, ", aligned to %" PRIu32 " elements", u->align);
    return swi_report_add(u->in.report, &in, err,
                          "%" PRIu64 " flat parameters and %" PRIu64
                          " flat states hold those of %zu parameters%s (shapes: %s)",
                          model, states, u->singles.count, how, u->shapes->from);
}

/* Rows that stay, and the first of them. */
static size_t rows_that_stay(const swi_unflat *u, uint32_t *first)
{
    size_t count = 0;
    for (size_t n = u->in.notes->row_count; n-- > 0;) {
        if (u->states_stay && u->in.notes->rows[n].unit != NULL)
            continue;
        *first = u->in.notes->rows[n].tensor;
        count++;
    }
    return count;
}

/* FS-14, FS-15 */
static sw_status say_unknown(const swi_unflat *u, const sw_error *why, sw_error *err)
{
    sw_tensor_info info;
    uint32_t first = 0;
    const size_t count = rows_that_stay(u, &first);
    (void)sw_catalog_tensor(u->catalog, first, &info);
    const swi_finding_in in = {.severity = SW_WARNING,
                               .status = SW_ERR_INCOMPLETE,
                               .code = "flat-parameters",
                               .tensor = info.name};
    const bool known = why->status != SW_OK;
    return swi_report_add(
        u->in.report, &in, err,
        "%" PRIu64 " elements of parameters one behind the other, as FSDP1 flattens them (%zu such "
        "tensors): %s; give --shapes a torch state dict of the model, its config.json, or a "
        "document (specs/shapes.md)",
        info.elements, count,
        known ? why->text : "their names, shapes and order are not in the files");
}

/* ---- all of it --------------------------------------------------------------------------------
 */

/* A state dict with tensors that are defects is not taken apart: *why, and no shapes. */
static sw_status settle_all(swi_unflat *u, swi_state *state, sw_error *why, sw_error *err)
{
    sw_status st = SW_OK;
    if (u->has_optimizers)
        st = swi_checkpoint_state(u->in.base, state, why);
    if (st == SW_OK || st == SW_ERR_UNSUPPORTED) /* then `why` is what speaks against all */
        return find_shapes(u, state, why, err);
    return fail_with(why, err);
}

sw_status swi_unflatten(const swi_unflat_in *in, swi_unflat **out, sw_catalog **catalog,
                        sw_error *err)
{
    swi_unflat *u = NULL;
    swi_state state = {0};
    sw_catalog *made = NULL;
    sw_error why = {0};
    *out = NULL;
    sw_status st = swi_alloc_array(1, sizeof *u, (void **)&u, err);
    if (st != SW_OK)
        return st;
    u->in = *in;
    st = begin(u, &why);
    if (st == SW_OK)
        st = settle_all(u, &state, &why, err);
    else
        st = st == SW_ERR_UNSUPPORTED ? SW_OK : fail_with(&why, err); /* two models: FS-14 */
    swi_state_free(&state);
    if (st == SW_OK && u->shapes == NULL) {
        st = say_unknown(u, &why, err);
        swi_unflat_free(u);
        return st;
    }
    if (st == SW_OK)
        st = make_catalog(u, &made, err);
    if (st == SW_OK)
        st = say_done(u, err);
    if (st == SW_OK && u->states_stay)
        st = say_unknown(u, &why, err);
    if (st == SW_OK) {
        *out = u;
        *catalog = made;
        return SW_OK;
    }
    sw_catalog_free(made);
    swi_unflat_free(u);
    return st;
}

const swi_rows *swi_unflat_rows(const swi_unflat *u)
{
    return u->has_model ? &u->units : NULL;
}

void swi_unflat_free(swi_unflat *u)
{
    if (u == NULL)
        return;
    forget_shapes(u);
    swi_param_names_free(&u->given);
    free(u->tensors);
    free(u->tied);
    free(u->made);
    swi_arena_free(&u->arena);
    free(u);
}

void swi_unflat_section(const swi_unflat *u, uint32_t tensor, const char **section,
                        const char **name)
{
    *section = u->made[tensor].section;
    *name = u->made[tensor].name;
}

bool swi_unflat_is_partial(const swi_unflat *u)
{
    return u->states_stay;
}

bool swi_unflat_has_names(const swi_unflat *u)
{
    return u != NULL && u->given.count > 0 && !u->states_stay;
}

static void identify_rows(const swi_unflat *u, const swi_rows *rows, swi_identity *identity)
{
    swi_identity_number(identity, rows->count);
    for (size_t r = 0; r < rows->count; r++) {
        const swi_row *row = &rows->items[r];
        swi_identity_text(identity, row->unit);
        for (size_t i = 0; i < row->count; i++) {
            swi_identity_text(identity, u->shapes->items[row->items[i].parameter].name);
            swi_identity_number(identity, row->items[i].at);
            swi_identity_number(identity, row->items[i].elements);
        }
    }
}

void swi_unflat_identify(const swi_unflat *u, swi_identity *identity)
{
    swi_identity_number(identity, u->keyed);
    identify_rows(u, &u->units, identity);
    identify_rows(u, &u->singles, identity);
}
