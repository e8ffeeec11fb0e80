#include "flat/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/names.h"
#include "base/text.h"

/* ---- modules --------------------------------------------------------------------------------- */

/* Where the module that holds this name ends: "a.b.w" -> "a.b" -> "a" -> ""; -1: no more. */
static int64_t module_above(const char *name, int64_t end)
{
    if (end == 0)
        return -1;
    while (end > 0 && name[--end] != '.')
        continue;
    return end;
}

/* The unit that a parameter is in: the deepest module above it that is one. */
static int64_t unit_of(const swi_names *units, const char *name)
{
    int64_t id = -1;
    for (int64_t end = module_above(name, (int64_t)strlen(name)); id < 0 && end >= 0;
         end = module_above(name, end))
        id = swi_names_find(units, name, (size_t)end);
    return id;
}

static bool is_in_a_row(const swi_shapes *shapes, const bool *left_out, size_t i)
{
    const swi_shape *s = &shapes->items[i];
    return !s->buffer && s->tied_to < 0 && (left_out == NULL || !left_out[i]);
}

/* ---- which parameters a unit has ------------------------------------------------------------- */

typedef struct dividing {
    const swi_shapes *shapes;
    const bool *left_out;
    swi_names *units;
    uint32_t *unit; /* by shape; UINT32_MAX: in none */
    uint32_t *row;  /* by unit: its place among those with parameters */
    size_t *counts; /* by unit */
    swi_rows *out;
} dividing;

static sw_status know_units(dividing *d, const char *const *units, size_t count, sw_error *err)
{
    uint32_t id;
    sw_status st = swi_names_make(&d->units, err);
    if (st == SW_OK)
        st = swi_names_add(d->units, "", 0, &id, NULL, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = swi_names_add(d->units, units[i], strlen(units[i]), &id, NULL, err);
    return st;
}

/*
 * Rows in the order in which the modules are registered: by the first parameter below them, those
 * above before those below.
 */
static sw_status order_rows(dividing *d, sw_error *err)
{
    const uint32_t units = swi_names_count(d->units);
    void *room;
    sw_status st = swi_arena_alloc(&d->out->arena, units * sizeof *d->out->items, &room, err);
    if (st != SW_OK)
        return st;
    d->out->items = room;
    memset(d->row, 0xff, units * sizeof *d->row);
    for (size_t i = 0; i < d->shapes->count; i++) {
        const char *name = d->shapes->items[i].name;
        for (size_t end = 0; end <= strlen(name); end++) {
            if (end != 0 && name[end] != '.')
                continue;
            const int64_t id = swi_names_find(d->units, name, end);
            if (id < 0 || d->counts[id] == 0 || d->row[id] != UINT32_MAX)
                continue;
            d->row[id] = (uint32_t)d->out->count;
            d->out->items[d->out->count++] = (swi_row){.count = d->counts[id]};
        }
    }
    return SW_OK;
}

static sw_status begin_row(dividing *d, uint32_t unit, sw_error *err)
{
    swi_row *row = &d->out->items[d->row[unit]];
    size_t size;
    const char *name = swi_names_at(d->units, unit, &size);
    void *room;
    sw_status st = swi_arena_alloc(&d->out->arena, row->count * sizeof *row->items, &room, err);
    if (st == SW_OK)
        st = swi_arena_text(&d->out->arena, name, size, &row->unit, err);
    if (st == SW_OK)
        row->items = room;
    row->count = 0;
    return st;
}

sw_status swi_shape_count(const swi_shape *s, uint64_t *out, sw_error *err)
{
    *out = 1;
    for (uint32_t k = 0; k < s->axes; k++) {
        if (s->shape[k] < 0 || !swi_mul_u64(*out, (uint64_t)s->shape[k], out)) {
            swi_quoted q;
            return swi_fail(err, SW_ERR_LIMIT, "parameter \"%s\": its shape is too large",
                            swi_quote_str(&q, s->name));
        }
    }
    return SW_OK;
}

static sw_status fill_rows(dividing *d, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t u = 0; st == SW_OK && u < swi_names_count(d->units); u++)
        if (d->row[u] != UINT32_MAX)
            st = begin_row(d, u, err);
    for (size_t i = 0; st == SW_OK && i < d->shapes->count; i++) {
        if (d->unit[i] == UINT32_MAX)
            continue;
        swi_row *row = &d->out->items[d->row[d->unit[i]]];
        swi_row_item *item = &row->items[row->count++];
        *item = (swi_row_item){.parameter = (uint32_t)i};
        st = swi_shape_count(&d->shapes->items[i], &item->elements, err);
    }
    return st;
}

static sw_status divide(dividing *d, sw_error *err)
{
    const uint32_t units = swi_names_count(d->units);
    sw_status st = swi_alloc_array(d->shapes->count, sizeof *d->unit, (void **)&d->unit, err);
    if (st == SW_OK)
        st = swi_alloc_array(units, sizeof *d->row, (void **)&d->row, err);
    if (st == SW_OK)
        st = swi_alloc_array(units, sizeof *d->counts, (void **)&d->counts, err);
    for (size_t i = 0; st == SW_OK && i < d->shapes->count; i++) {
        d->unit[i] = UINT32_MAX;
        if (!is_in_a_row(d->shapes, d->left_out, i))
            continue;
        d->unit[i] = (uint32_t)unit_of(d->units, d->shapes->items[i].name);
        d->counts[d->unit[i]]++;
    }
    if (st == SW_OK)
        st = order_rows(d, err);
    return st == SW_OK ? fill_rows(d, err) : st;
}

sw_status swi_rows_of_units(const swi_shapes *shapes, const bool *left_out,
                            const char *const *units, size_t count, swi_rows *out, sw_error *err)
{
    swi_rows rows = {0};
    dividing d = {.shapes = shapes, .left_out = left_out, .out = &rows};
    sw_status st = know_units(&d, units, count, err);
    if (st == SW_OK)
        st = divide(&d, err);
    swi_names_free(d.units);
    free(d.unit);
    free(d.row);
    free(d.counts);
    if (st == SW_OK)
        *out = rows;
    else
        swi_rows_free(&rows);
    return st;
}

void swi_rows_free(swi_rows *rows)
{
    swi_arena_free(&rows->arena);
    *rows = (swi_rows){0};
}

/* ---- units by patterns ----------------------------------------------------------------------- */

static sw_status list_modules(const swi_shapes *shapes, swi_names *modules, sw_error *err)
{
    uint32_t id;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < shapes->count; i++) {
        const char *name = shapes->items[i].name;
        for (const char *dot = strchr(name, '.'); st == SW_OK && dot != NULL;
             dot = strchr(dot + 1, '.'))
            st = swi_names_add(modules, name, (size_t)(dot - name), &id, NULL, err);
    }
    return st;
}

static sw_status match_modules(const swi_names *modules, swi_pattern *const *patterns, size_t count,
                               bool *matched, sw_error *err)
{
    for (size_t p = 0; p < count; p++) {
        bool any = false;
        for (uint32_t m = 0; m < swi_names_count(modules); m++) {
            size_t size;
            const char *name = swi_names_at(modules, m, &size);
            const bool match = swi_pattern_match(patterns[p], name, size, NULL);
            matched[m] = matched[m] || match;
            any = any || match;
        }
        swi_quoted q;
        if (!any)
            return swi_fail(err, SW_ERR_ARG,
                            "units: no module that holds parameters is called \"%s\"; modules are "
                            "called like \"%s\"",
                            swi_quote_str(&q, swi_pattern_text(patterns[p])),
                            swi_names_count(modules) > 0 ? swi_names_at(modules, 0, NULL) : "");
    }
    return SW_OK;
}

static sw_status take_matched(const swi_names *modules, const bool *matched, swi_arena *arena,
                              const char ***units, size_t *count, sw_error *err)
{
    const uint32_t all = swi_names_count(modules);
    void *room;
    size_t n = 0;
    sw_status st = swi_arena_alloc(arena, all * sizeof(char *), &room, err);
    const char **list = room;
    for (uint32_t m = 0; st == SW_OK && m < all; m++) {
        size_t size;
        const char *name = swi_names_at(modules, m, &size);
        if (matched[m])
            st = swi_arena_text(arena, name, size, &list[n++], err);
    }
    if (st == SW_OK) {
        *units = list;
        *count = n;
    }
    return st;
}

sw_status swi_units_matching(const swi_shapes *shapes, swi_pattern *const *patterns, size_t count,
                             swi_arena *arena, const char ***units, size_t *unit_count,
                             sw_error *err)
{
    swi_names *modules = NULL;
    bool *matched = NULL;
    sw_status st = swi_names_make(&modules, err);
    if (st == SW_OK)
        st = list_modules(shapes, modules, err);
    if (st == SW_OK)
        st = swi_alloc_array(swi_names_count(modules), sizeof *matched, (void **)&matched, err);
    if (st == SW_OK)
        st = match_modules(modules, patterns, count, matched, err);
    if (st == SW_OK)
        st = take_matched(modules, matched, arena, units, unit_count, err);
    free(matched);
    swi_names_free(modules);
    return st;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool round_up(uint64_t n, uint64_t unit, uint64_t *out)
{
    return n % unit == 0 ? (*out = n, true) : swi_add_u64(n, unit - n % unit, out);
}

sw_status swi_row_place(swi_row *row, uint32_t align, uint64_t shards, sw_error *err)
{
    uint64_t at = 0;
    bool fits = true;
    for (size_t i = 0; fits && i < row->count; i++) {
        fits = round_up(at, align, &at);
        row->items[i].at = at;
        fits = fits && swi_add_u64(at, row->items[i].elements, &at);
    }
    if (fits && align > 1)
        fits = round_up(at, shards, &at);
    if (!fits || at > (uint64_t)INT64_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "a row of parameters would be too large");
    row->total = at;
    return SW_OK;
}

uint64_t swi_row_shard(uint64_t total, uint64_t shards)
{
    return total / shards + (total % shards != 0);
}
