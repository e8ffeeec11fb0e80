#include "map/name_groups.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/names.h"

/* Numbers of a name that are looked at, from the left. */
#define SLOTS_MAX 6U
/* Longer ones are no indexes. */
#define DIGITS_MAX 9U
/* Runs of numbers that are written out. */
#define RUNS_MAX 12U

#define NONE UINT32_MAX

typedef struct grouping {
    const swi_name_in *names;
    size_t count;
    swi_names *parts;       /* numbered parts: "layers.20" */
    uint64_t *all, *chosen; /* names below each */
    size_t all_capacity, chosen_capacity;
    swi_names *keys;
    swi_name_group *items;
    size_t item_count, item_capacity;
    swi_buf text;
    swi_arena arena;
} grouping;

void swi_name_groups_free(swi_name_groups *groups)
{
    free(groups->items);
    swi_arena_free(&groups->arena);
    *groups = (swi_name_groups){0};
}

/* ---- parts that are chosen whole ---------------------------------------------------------------
 */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The length up to the next part behind `from` that is a number with something below; 0: none. */
static size_t next_part(const char *name, size_t from)
{
    for (const char *p = name + from; *p != '\0';) {
        const char *end = strchr(p, '.');
        bool number = end != NULL && end > p;
        for (const char *c = p; number && c < end; c++)
            number = is_digit(*c);
        if (end == NULL)
            return 0;
        if (number)
            return (size_t)(end - name);
        p = end + 1;
    }
    return 0;
}

static sw_status count_part(grouping *g, const swi_name_in *in, size_t size, sw_error *err)
{
    uint32_t id;
    sw_status st = swi_names_add(g->parts, in->name, size, &id, NULL, err);
    if (st == SW_OK)
        st =
            swi_grow_array((void **)&g->all, &g->all_capacity, (size_t)id + 1, sizeof *g->all, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&g->chosen, &g->chosen_capacity, (size_t)id + 1,
                            sizeof *g->chosen, err);
    if (st == SW_OK) {
        g->all[id]++;
        g->chosen[id] += in->chosen;
    }
    return st;
}

static sw_status count_parts(grouping *g, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < g->count; i++) {
        size_t size = next_part(g->names[i].name, 0);
        for (; st == SW_OK && size > 0; size = next_part(g->names[i].name, size + 1))
            st = count_part(g, &g->names[i], size, err);
    }
    return st;
}

/* The length of the first part of the name below which all is chosen, and more than one; 0. */
static size_t whole_part(const grouping *g, const char *name)
{
    for (size_t size = next_part(name, 0); size > 0; size = next_part(name, size + 1)) {
        const int64_t id = swi_names_find(g->parts, name, size);
        if (id >= 0 && g->all[id] > 1 && g->all[id] == g->chosen[id])
            return size;
    }
    return 0;
}

/* ---- items -------------------------------------------------------------------------------------
 */

/* The item of g->text and that kind, made if there is none. */
static sw_status find_item(grouping *g, const swi_name_in *in, swi_name_group **out, sw_error *err)
{
    uint32_t id;
    bool is_new;
    const size_t size = g->text.size;
    sw_status st = swi_buf_append(&g->text, &in->kind, sizeof in->kind, err);
    if (st == SW_OK)
        st = swi_names_add(g->keys, g->text.data, g->text.size, &id, &is_new, err);
    if (st == SW_OK && is_new)
        st = swi_grow_array((void **)&g->items, &g->item_capacity, g->item_count + 1,
                            sizeof *g->items, err);
    if (st == SW_OK && is_new) {
        swi_name_group *item = &g->items[g->item_count];
        *item = (swi_name_group){.first = in->name, .kind = in->kind};
        st = swi_arena_text(&g->arena, (const char *)g->text.data, size, &item->text, err);
        g->item_count += st == SW_OK;
    }
    if (st == SW_OK)
        *out = &g->items[id];
    return st;
}

static sw_status take(grouping *g, const swi_name_in *in, bool whole, sw_error *err)
{
    swi_name_group *item = NULL;
    const size_t size = whole ? whole_part(g, in->name) : 0;
    g->text.size = 0;
    sw_status st = swi_buf_append(&g->text, in->name, size > 0 ? size : strlen(in->name), err);
    if (st == SW_OK && size > 0)
        st = swi_buf_append_str(&g->text, ".**", err);
    if (st == SW_OK)
        st = find_item(g, in, &item, err);
    if (st == SW_OK) {
        item->count++;
        item->elements += in->elements;
    }
    return st;
}

/* ---- numbers -----------------------------------------------------------------------------------
 */

typedef struct slot {
    size_t at, size; /* of the digits */
    uint64_t number;
} slot;

/* Number `nth` of a name from the left: digits that end a part. false: it has fewer. */
static bool find_slot(const char *text, size_t nth, slot *out)
{
    for (size_t i = 0; text[i] != '\0'; i++) {
        size_t n = 0;
        uint64_t number = 0;
        for (; is_digit(text[i + n]); n++)
            number = n < DIGITS_MAX ? number * 10 + (uint64_t)(text[i + n] - '0') : number;
        const char after = text[i + n];
        const bool plain = n == 1 || (n > 0 && n <= DIGITS_MAX && text[i] != '0');
        if (plain && (after == '.' || after == '\0') && nth-- == 0) {
            *out = (slot){.at = i, .size = n, .number = number};
            return true;
        }
        if (n > 0)
            i += n - 1;
    }
    return false;
}

/* Which items are the same but for their number `nth`: next[i] is the one behind i, or NONE. */
static sw_status chain(grouping *g, size_t nth, uint32_t *next, bool *is_first, bool *any,
                       sw_error *err)
{
    swi_names *keys = NULL;
    uint32_t *last = NULL, id;
    bool is_new;
    slot s;
    sw_status st = swi_names_make(&keys, err);
    if (st == SW_OK)
        st = swi_alloc_array(g->item_count, sizeof *last, (void **)&last, err);
    for (uint32_t i = 0; st == SW_OK && i < g->item_count; i++) {
        const swi_name_group *item = &g->items[i];
        const char *text = item->text;
        next[i] = NONE;
        is_first[i] = true;
        if (!find_slot(text, nth, &s))
            s = (slot){.at = strlen(text)};
        g->text.size = 0;
        st = swi_buf_append(&g->text, &item->kind, sizeof item->kind, err);
        if (st == SW_OK)
            st = swi_buf_append(&g->text, text, s.at, err);
        if (st == SW_OK)
            st = swi_buf_append(&g->text, "", 1, err);
        if (st == SW_OK)
            st = swi_buf_append_str(&g->text, text + s.at + s.size, err);
        if (st == SW_OK)
            st = swi_names_add(keys, g->text.data, g->text.size, &id, &is_new, err);
        if (st != SW_OK)
            break;
        if (!is_new) {
            next[last[id]] = i;
            is_first[i] = false;
            *any = true;
        }
        last[id] = i;
    }
    swi_names_free(keys);
    free(last);
    return st;
}

/* "{0-3,7}": the numbers of a chain. */
static sw_status write_numbers(grouping *g, size_t nth, const uint32_t *next, uint32_t i,
                               sw_error *err)
{
    slot s, t;
    sw_status st = swi_buf_append_str(&g->text, "{", err);
    for (size_t runs = 0; st == SW_OK && i != NONE; runs++) {
        (void)find_slot(g->items[i].text, nth, &s);
        uint64_t end = s.number;
        for (i = next[i]; i != NONE && find_slot(g->items[i].text, nth, &t); i = next[i]) {
            if (t.number != end + 1)
                break;
            end = t.number;
        }
        if (runs == RUNS_MAX)
            return swi_buf_append_str(&g->text, ",...}", err);
        st = swi_buf_printf(&g->text, err, "%s%" PRIu64, runs > 0 ? "," : "", s.number);
        if (st == SW_OK && end > s.number)
            st = swi_buf_printf(&g->text, err, "-%" PRIu64, end);
    }
    return st == SW_OK ? swi_buf_append_str(&g->text, "}", err) : st;
}

static sw_status join_chain(grouping *g, size_t nth, const uint32_t *next, uint32_t i,
                            swi_name_group *out, sw_error *err)
{
    slot s;
    *out = g->items[i];
    if (next[i] == NONE || !find_slot(out->text, nth, &s))
        return SW_OK;
    g->text.size = 0;
    sw_status st = swi_buf_append(&g->text, out->text, s.at, err);
    if (st == SW_OK)
        st = write_numbers(g, nth, next, i, err);
    if (st == SW_OK)
        st = swi_buf_append_str(&g->text, out->text + s.at + s.size, err);
    if (st == SW_OK)
        st = swi_arena_text(&g->arena, (const char *)g->text.data, g->text.size, &out->text, err);
    for (uint32_t k = next[i]; k != NONE; k = next[k]) {
        out->count += g->items[k].count;
        out->elements += g->items[k].elements;
    }
    return st;
}

/* Items that differ in number `nth` alone become one. */
static sw_status join(grouping *g, size_t nth, sw_error *err)
{
    uint32_t *next = NULL;
    bool *is_first = NULL, any = false;
    swi_name_group *joined = NULL;
    size_t count = 0;
    sw_status st = swi_alloc_array(g->item_count, sizeof *next, (void **)&next, err);
    if (st == SW_OK)
        st = swi_alloc_array(g->item_count, sizeof *is_first, (void **)&is_first, err);
    if (st == SW_OK)
        st = chain(g, nth, next, is_first, &any, err);
    if (st == SW_OK && any)
        st = swi_alloc_array(g->item_count, sizeof *joined, (void **)&joined, err);
    for (uint32_t i = 0; st == SW_OK && any && i < g->item_count; i++)
        if (is_first[i])
            st = join_chain(g, nth, next, i, &joined[count++], err);
    if (st == SW_OK && any) {
        free(g->items);
        g->items = joined;
        g->item_count = g->item_capacity = count;
        joined = NULL;
    }
    free(next);
    free(is_first);
    free(joined);
    return st;
}

sw_status swi_name_groups_make(const swi_name_in *names, size_t count, bool whole,
                               swi_name_groups *out, sw_error *err)
{
    grouping g = {.names = names, .count = count};
    sw_status st = swi_names_make(&g.parts, err);
    if (st == SW_OK)
        st = swi_names_make(&g.keys, err);
    if (st == SW_OK && whole)
        st = count_parts(&g, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        if (names[i].chosen)
            st = take(&g, &names[i], whole, err);
    for (size_t nth = SLOTS_MAX; st == SW_OK && nth-- > 0;)
        st = join(&g, nth, err);
    swi_names_free(g.parts);
    swi_names_free(g.keys);
    free(g.all);
    free(g.chosen);
    swi_buf_free(&g.text);
    if (st == SW_OK) {
        *out = (swi_name_groups){.items = g.items, .count = g.item_count, .arena = g.arena};
        return SW_OK;
    }
    free(g.items);
    swi_arena_free(&g.arena);
    return st;
}
