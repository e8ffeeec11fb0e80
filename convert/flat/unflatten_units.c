/* Which modules may have been wrapped, where neither the files nor the caller tell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flat/unflatten_parts.h"

#define SUGGESTIONS_MAX 3
#define TRIES_MAX 64 /* patterns: a model has lists of blocks in a few places */

static bool is_number(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return size > 0;
}

/* "model.layers.0.w" -> "model.layers.{n}": the blocks of lists of modules, which is what wrapping
 * policies wrap. */
static sw_status add_blocks(const char *name, swi_names *patterns, sw_error *err)
{
    static const char *const variables[] = {"{n}", "{m}", "{k}"};
    size_t used = 0;
    uint32_t id;
    swi_buf text = {0};
    sw_status st = SW_OK;
    for (const char *dot = strchr(name, '.'); st == SW_OK && dot != NULL && used < 3;) {
        const size_t size = (size_t)(dot - name);
        const bool number = is_number(name, size);
        st = swi_buf_append(&text, number ? variables[used] : name,
                            number ? strlen(variables[used]) : size, err);
        if (st == SW_OK && number)
            st = swi_names_add(patterns, text.data, text.size, &id, NULL, err);
        if (st == SW_OK)
            st = swi_buf_u8(&text, '.', err);
        used += number;
        name = dot + 1;
        dot = strchr(name, '.');
    }
    swi_buf_free(&text);
    return st;
}

/* A unit as what a policy wraps, and nothing else; NULL: the root alone. */
static sw_status try_units(swi_unflat *u, const char *text, const swi_state *state, bool *fits,
                           sw_error *err)
{
    swi_pattern *pattern = NULL;
    const char **units = NULL;
    size_t count = 0, found = 0;
    swi_optimizer *optimizers = NULL;
    sw_error cause = {0};
    *fits = false;
    sw_status st = text != NULL ? swi_pattern_parse(text, strlen(text), &pattern, err) : SW_OK;
    if (st == SW_OK && pattern != NULL)
        st = swi_units_matching(u->shapes, &pattern, 1, &u->arena, &units, &count, err);
    if (st == SW_OK)
        st = swi_rows_of_units(u->shapes, u->left_out, units, count, &u->units, err);
    for (size_t r = 0; st == SW_OK && r < u->units.count; r++)
        st = swi_row_place(&u->units.items[r], 1, 1, err);
    if (st == SW_OK)
        st = swi_unflat_name_units(u, err);
    if (st == SW_OK) {
        *fits = swi_unflat_lift(u, SWI_KEYED_BY_UNIT, state, &optimizers, &found, &cause) == SW_OK;
        if (cause.status == SW_ERR_NOMEM)
            st = swi_fail_nomem(err);
    }
    swi_optimizers_free(optimizers, found);
    swi_rows_free(&u->units);
    swi_pattern_free(pattern);
    return st;
}

static sw_status suggest(const char *pattern, size_t *count, swi_buf *out, sw_error *err)
{
    (*count)++;
    return swi_buf_printf(out, err, "%sunits: [%s]", *count > 1 ? " or " : "", pattern);
}

sw_status swi_unflat_suggest(swi_unflat *u, const swi_state *state, swi_buf *out, sw_error *err)
{
    swi_names *patterns = NULL;
    size_t count = 0;
    bool fits = false;
    sw_status st = swi_names_make(&patterns, err);
    for (size_t i = 0; st == SW_OK && i < u->shapes->count; i++)
        st = add_blocks(u->shapes->items[i].name, patterns, err);
    if (st == SW_OK)
        st = try_units(u, NULL, state, &fits, err);
    if (st == SW_OK && fits)
        st = suggest("", &count, out, err);
    for (uint32_t p = 0; st == SW_OK && p < swi_names_count(patterns); p++) {
        char quoted[SWI_PATTERN_MAX_BYTES + 2];
        const char *text = swi_names_at(patterns, p, NULL);
        if (count >= SUGGESTIONS_MAX || p >= TRIES_MAX || strlen(text) > SWI_PATTERN_MAX_BYTES)
            break;
        st = try_units(u, text, state, &fits, err);
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", text);
        if (st == SW_OK && fits)
            st = suggest(quoted, &count, out, err);
    }
    swi_names_free(patterns);
    return st;
}
