/* States of optimizers that are rows: whose they are. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "flat/unflatten_parts.h"

/* ---- parameters as the optimizer counts them --------------------------------------------------
 */

/* The rows that the optimizer's parameters are. */
static const swi_rows *rows_of(const swi_unflat *u, swi_unflat_keyed keyed)
{
    return keyed == SWI_KEYED_BY_UNIT ? &u->units : &u->singles;
}

static const char *name_of(const swi_unflat *u, swi_unflat_keyed keyed, size_t r)
{
    return keyed == SWI_KEYED_BY_UNIT
               ? u->unit_names[r]
               : u->shapes->items[u->singles.items[r].items[0].parameter].name;
}

/* Elements of a state of it: of a unit with the padding of the shards, which the optimizer has. */
static uint64_t elements_of(const swi_unflat *u, swi_unflat_keyed keyed, size_t r)
{
    const uint64_t total = rows_of(u, keyed)->items[r].total;
    uint64_t all = total;
    if (keyed == SWI_KEYED_BY_UNIT &&
        !swi_mul_u64(swi_row_shard(total, u->shards), u->shards, &all))
        return total;
    return all;
}

static bool is_noted(const swi_unflat *u, uint32_t tensor)
{
    return u->tensors[tensor].is_row;
}

/* The names that a lifting is given, and what they are. */
typedef struct naming {
    const swi_unflat *u;
    swi_unflat_keyed keyed;
    const char **names;
    const swi_row **rows; /* NULL: no row is called so */
    uint64_t *elements;
    size_t count;
} naming;

/* A parameter's state is cut where its row in the model is, for the ranks cut both alike. */
static bool cut_alike(const swi_unflat *u, uint32_t parameter, uint32_t tensor)
{
    const swi_unflat_place *place = u->places != NULL ? &u->places[parameter] : NULL;
    sw_tensor_info info;
    uint64_t shards;
    if (place == NULL || place->shard == 0 || swi_tensor_has_replicas(u->catalog, tensor) ||
        !sw_catalog_tensor(u->catalog, tensor, &info) || info.elements == 0 ||
        info.held_elements != info.elements)
        return true;
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece piece;
        swi_tensor_piece(u->catalog, tensor, i, &piece);
        const uint64_t end = swi_piece_end(&piece);
        if (end < info.elements && (place->at + end) % place->shard != 0)
            return false;
    }
    shards = (place->at + info.elements - 1) / place->shard - place->at / place->shard + 1;
    return info.piece_count == shards;
}

/* FS-10: as many elements, cut at the same places; counters tell nothing. */
static bool may_be(const void *ctx, size_t i, uint32_t tensor)
{
    const naming *n = ctx;
    sw_tensor_info info;
    if (!is_noted(n->u, tensor) || n->rows[i] == NULL)
        return true;
    return sw_catalog_tensor(n->u->catalog, tensor, &info) && info.elements == n->elements[i] &&
           (n->keyed == SWI_KEYED_BY_UNIT ||
            cut_alike(n->u, n->rows[i]->items[0].parameter, tensor));
}

static void name_rows(naming *n)
{
    const swi_rows *rows = rows_of(n->u, n->keyed);
    for (size_t r = 0; r < rows->count; r++) {
        n->names[r] = name_of(n->u, n->keyed, r);
        n->rows[r] = &rows->items[r];
        n->elements[r] = elements_of(n->u, n->keyed, r);
    }
    n->count = rows->count;
}

/* Those that the user gives, in their order; of rows or not. */
static sw_status name_given(naming *n, sw_error *err)
{
    const swi_rows *rows = rows_of(n->u, n->keyed);
    swi_names *known = NULL;
    uint32_t id;
    sw_status st = swi_names_make(&known, err);
    for (size_t r = 0; st == SW_OK && r < rows->count; r++) {
        const char *name = name_of(n->u, n->keyed, r);
        st = swi_names_add(known, name, strlen(name), &id, NULL, err);
    }
    for (size_t i = 0; st == SW_OK && i < n->u->given.count; i++) {
        const char *name = n->u->given.items[i];
        const int64_t r = swi_names_find(known, name, strlen(name));
        n->names[i] = name;
        n->rows[i] = r >= 0 ? &rows->items[r] : NULL;
        n->elements[i] = r >= 0 ? elements_of(n->u, n->keyed, (size_t)r) : 0;
    }
    n->count = n->u->given.count;
    swi_names_free(known);
    return st;
}

sw_status swi_unflat_lift(const swi_unflat *u, swi_unflat_keyed keyed, const swi_state *state,
                          swi_optimizer **out, size_t *count, sw_error *err)
{
    const size_t room = rows_of(u, keyed)->count + u->given.count;
    naming n = {.u = u, .keyed = keyed};
    sw_status st = swi_alloc_array(room, sizeof *n.names, (void **)&n.names, err);
    if (st == SW_OK)
        st = swi_alloc_array(room, sizeof(swi_row *), (void **)&n.rows, err);
    if (st == SW_OK)
        st = swi_alloc_array(room, sizeof *n.elements, (void **)&n.elements, err);
    if (st == SW_OK && u->given.count > 0)
        st = name_given(&n, err);
    else if (st == SW_OK)
        name_rows(&n);
    const swi_opt_naming how = {.names = n.names,
                                .numbers = u->given.numbers,
                                .may_be = may_be,
                                .may_be_ctx = &n,
                                .name_count = n.count,
                                .by_model = u->given.count == 0};
    if (st == SW_OK)
        st = swi_optimizers_lift(u->in.base, state, &how, out, count, err);
    free(n.names);
    free(n.rows);
    free(n.elements);
    return st;
}

const swi_row *swi_unflat_row_of(const swi_unflat *u, const char *parameter)
{
    const int64_t shape = swi_shapes_find(u->shapes, parameter);
    if (u->keyed == SWI_KEYED_BY_PARAMETER)
        return shape >= 0 && u->single_of[shape] != SWI_NOT_MADE
                   ? &u->singles.items[u->single_of[shape]]
                   : NULL;
    for (size_t r = 0; r < u->units.count; r++)
        if (strcmp(u->unit_names[r], parameter) == 0)
            return &u->units.items[r];
    return NULL;
}

/* ---- which of both it is ----------------------------------------------------------------------
 */

static sw_status strange_parameter(const swi_optimizer *o, uint32_t parameter, sw_error *err)
{
    swi_quoted q;
    return swi_fail_at(err, SW_ERR_CONFLICT, "FS-10", 0,
                       "optimizer: parameter \"%s\" is none of the model's",
                       swi_quote_str(&q, o->parameters[parameter]));
}

/* A state of a flat parameter that is neither flat itself nor one number cannot follow. */
static sw_status strange_state(const swi_optimizer *o, const swi_opt_state *s, sw_error *err)
{
    swi_quoted q, r;
    return swi_fail_at(err, SW_ERR_UNSUPPORTED, "FS-10", 0,
                       "optimizer: state \"%s\" of \"%s\" is neither flat nor one number",
                       swi_quote_str(&q, s->name), swi_quote_str(&r, o->parameters[s->parameter]));
}

/* "optimizer.state." */
static sw_status before_of(swi_unflat *u, const swi_optimizer *o, const char **out, sw_error *err)
{
    swi_buf text = {0};
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < o->path_parts; i++)
        st = swi_buf_printf(&text, err, "%s.", o->path[i]);
    if (st == SW_OK)
        st = swi_buf_printf(&text, err, "state.");
    if (st == SW_OK)
        st = swi_arena_text(&u->arena, (const char *)text.data, text.size, out, err);
    swi_buf_free(&text);
    return st;
}

static sw_status mark_states(swi_unflat *u, const swi_optimizer *o, sw_error *err)
{
    const char *before;
    sw_status st = before_of(u, o, &before, err);
    for (size_t i = 0; st == SW_OK && i < o->state_count; i++) {
        const swi_opt_state *s = &o->states[i];
        const swi_row *row = swi_unflat_row_of(u, o->parameters[s->parameter]);
        uint32_t tensor;
        sw_tensor_info info;
        if (!sw_value_tensor(o->from->graph, s->value, &tensor) ||
            !sw_catalog_tensor(u->catalog, tensor, &info))
            continue;
        if (row == NULL)
            return strange_parameter(o, s->parameter, err);
        if (!is_noted(u, tensor) && info.elements != 1)
            return strange_state(o, s, err);
        u->tensors[tensor].row = row;
        u->tensors[tensor].before = before;
        st = swi_arena_text(&u->arena, s->name, strlen(s->name), &u->tensors[tensor].after, err);
    }
    return st;
}

/* What it says before it goes on to what to do, which is another thing here. */
static int first_words(const sw_error *e)
{
    const size_t size = strcspn(e->text, ";");
    return size < 200 ? (int)size : 200;
}

/* FS-10, FS-11: why neither way gives names. */
static sw_status no_names(swi_unflat *u, const swi_state *state, const sw_error *by_parameter,
                          const sw_error *by_unit, sw_error *err)
{
    swi_buf ways = {0};
    if (u->units.count > 0)
        return swi_fail_at(err, SW_ERR_CONFLICT, "FS-10", 0,
                           "the optimizer's flat states are neither those of parameters (%.*s) nor "
                           "those of flat parameters (%.*s)",
                           first_words(by_parameter), by_parameter->text, first_words(by_unit),
                           by_unit->text);
    sw_status st = swi_unflat_suggest(u, state, &ways, err);
    if (st == SW_OK)
        st = swi_fail_at(err, SW_ERR_INCOMPLETE, "FS-11", 0,
                         "the optimizer's states are those of flat parameters, and which modules "
                         "were wrapped is "
                         "not in the files: units: in a document for --shapes says it%s%.*s",
                         ways.size > 0 ? "; what fits: " : "",
                         ways.size < 200 ? (int)ways.size : 200,
                         ways.size > 0 ? (const char *)ways.data : "");
    swi_buf_free(&ways);
    return st;
}

/* Whether all states that are rows are of parameters that are known in this way. */
static bool all_known(const swi_unflat *u, const swi_optimizer *optimizers, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        const swi_optimizer *o = &optimizers[n];
        for (size_t i = 0; i < o->state_count; i++) {
            uint32_t tensor;
            if (sw_value_tensor(o->from->graph, o->states[i].value, &tensor) &&
                is_noted(u, tensor) &&
                swi_unflat_row_of(u, o->parameters[o->states[i].parameter]) == NULL)
                return false;
        }
    }
    return true;
}

/* Those of parameters, where their sizes fit; else those of units. */
static sw_status lift_somehow(swi_unflat *u, const swi_state *state, swi_optimizer **optimizers,
                              size_t *count, sw_error *err)
{
    sw_error first = {0}, second = {0};
    u->keyed = SWI_KEYED_BY_PARAMETER;
    sw_status st = swi_unflat_lift(u, u->keyed, state, optimizers, count, &first);
    if (st == SW_OK && all_known(u, *optimizers, *count))
        return SW_OK;
    if (swi_could_not_work(st)) {
        if (err != NULL)
            *err = first;
        return st;
    }
    if (st == SW_OK) {
        swi_optimizers_free(*optimizers, *count);
        *optimizers = NULL;
        *count = 0;
        (void)swi_fail(&first, SW_ERR_CONFLICT, "its parameters are none of the model's");
    }
    u->keyed = SWI_KEYED_BY_UNIT;
    st = SW_ERR_INCOMPLETE;
    if (u->units.count > 0)
        st = swi_unflat_lift(u, u->keyed, state, optimizers, count, &second);
    if (swi_could_not_work(st) && err != NULL)
        *err = second;
    return st == SW_OK || swi_could_not_work(st) ? st : no_names(u, state, &first, &second, err);
}

sw_status swi_unflat_states(swi_unflat *u, const swi_state *state, sw_error *err)
{
    swi_optimizer *optimizers = NULL;
    size_t count = 0;
    sw_status st = lift_somehow(u, state, &optimizers, &count, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = mark_states(u, &optimizers[i], err);
    swi_optimizers_free(optimizers, count);
    return st;
}
