/* A layout that was found, as a document: names in groups, groups in few rules. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/names.h"
#include "base/text.h"
#include "notation/pattern.h"
#include "ranks/found_layout.h"

sw_status swi_found_dims(const swi_found_way *way, const char *const *names, swi_buf *out,
                         sw_error *err)
{
    sw_status st = SW_OK;
    uint32_t dim = 0;
    for (uint32_t i = 0; st == SW_OK && i < way->count; i++) {
        for (; st == SW_OK && dim < way->dim[i]; dim++)
            st = swi_buf_append_str(out, i > 0 && way->dim[i - 1] == dim ? ", " : "_, ", err);
        if (st == SW_OK)
            st =
                swi_buf_printf(out, err, "%s%s", i > 0 && way->dim[i] == way->dim[i - 1] ? ">" : "",
                               names[way->axis[i]]);
    }
    return st;
}

/* ---- groups ---------------------------------------------------------------------------------- */

typedef struct group {
    swi_ways fits; /* of all its tensors */
    size_t tensors;
    size_t way;                    /* that it is told with; SWI_FOUND_WAYS: none yet */
    const swi_found_tensor *first; /* whose parts all have */
} group;

typedef struct telling {
    const swi_found *f;
    swi_buf *out;
    const char *axis[SWI_FOUND_AXES]; /* their names */
    swi_names *patterns;              /* of the groups */
    uint32_t *group_of;               /* by tensor */
    group *groups;
    size_t group_capacity;
    bool used[SWI_FOUND_WAYS];
    size_t last; /* the way of the rule for all others */
    swi_buf text;
    sw_error *err;
} telling;

static bool is_number(const char *text, size_t size)
{
    if (size == 0 || size > 18 || (size > 1 && text[0] == '0'))
        return false;
    for (size_t i = 0; i < size; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return true;
}

static sw_status add_literal(telling *t, const char *text, size_t size)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < size; i++) {
        if (strchr("{}()|*?\\,", text[i]) != NULL)
            st = swi_buf_u8(&t->text, '\\', t->err);
        if (st == SW_OK)
            st = swi_buf_u8(&t->text, (uint8_t)text[i], t->err);
    }
    return st;
}

/* The name as a pattern, in t->text; with `numbers` as variables. */
static sw_status write_pattern(telling *t, const char *name, bool numbers)
{
    static const char *const vars[SWI_PATTERN_MAX_VARS] = {"{n}", "{m}", "{k}", "{j}"};
    size_t var = 0;
    sw_status st = SW_OK;
    t->text.size = 0;
    for (const char *part = name; st == SW_OK; part++) {
        size_t size = strcspn(part, ".");
        if (numbers && var < SWI_PATTERN_MAX_VARS && is_number(part, size))
            st = swi_buf_append_str(&t->text, vars[var++], t->err);
        else
            st = add_literal(t, part, size);
        part += size;
        if (st != SW_OK || *part == '\0')
            break;
        st = swi_buf_u8(&t->text, '.', t->err);
    }
    return st;
}

static bool same_parts(const swi_found_tensor *a, const swi_found_tensor *b)
{
    return a->part_count == b->part_count &&
           (a->part_count == 0 ||
            memcmp(a->parts, b->parts, a->part_count * sizeof *a->parts) == 0);
}

static sw_status add_to_group(telling *t, size_t tensor, bool numbers)
{
    const swi_found_tensor *from = &t->f->tensors[tensor];
    uint32_t id;
    bool is_new;
    sw_status st = write_pattern(t, from->name, numbers);
    if (st == SW_OK)
        st = swi_names_add(t->patterns, t->text.data, t->text.size, &id, &is_new, t->err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&t->groups, &t->group_capacity, (size_t)id + 1,
                            sizeof *t->groups, t->err);
    if (st != SW_OK)
        return st;
    group *g = &t->groups[id];
    if (is_new)
        *g = (group){.fits = from->fits, .way = SWI_FOUND_WAYS, .first = from};
    for (size_t i = 0; i < sizeof g->fits.bits / sizeof g->fits.bits[0]; i++)
        g->fits.bits[i] &= same_parts(from, g->first) ? from->fits.bits[i] : 0;
    g->tensors++;
    t->group_of[tensor] = id;
    return SW_OK;
}

/* Fit to stand in a document. */
static bool is_tellable(const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < size; i++)
        if ((uint8_t)name[i] < 0x20 || (uint8_t)name[i] >= 0x7f)
            return false;
    return size > 0 && size <= SWI_PATTERN_MAX_BYTES / 2;
}

static bool is_told(const swi_found_tensor *tensor)
{
    return swi_ways_any(&tensor->fits) && is_tellable(tensor->name);
}

/* Layers that are not alike are told by their own names, before their like. */
static sw_status make_groups(telling *t)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < t->f->count; i++)
        if (is_told(&t->f->tensors[i]))
            st = add_to_group(t, i, true);
    for (size_t i = 0; st == SW_OK && i < t->f->count; i++)
        if (swi_ways_any(&t->f->tensors[i].fits) && !swi_ways_any(&t->groups[t->group_of[i]].fits))
            st = add_to_group(t, i, false);
    return st;
}

/* Rows of parts have rules of their own. */
static bool is_waiting(const group *g, size_t way)
{
    return g->way == SWI_FOUND_WAYS && g->first->part_count == 0 && swi_ways_has(&g->fits, way);
}

/* The way that tells the most tensors of those that are left. */
static bool choose_way(telling *t, size_t *out)
{
    size_t most = 0;
    for (size_t w = 0; w < t->f->way_count; w++) {
        size_t tensors = 0;
        for (uint32_t g = 0; g < swi_names_count(t->patterns); g++)
            if (is_waiting(&t->groups[g], w))
                tensors += t->groups[g].tensors;
        if (tensors > most) {
            most = tensors;
            *out = w;
        }
    }
    return most > 0;
}

static void choose_ways(telling *t)
{
    size_t way = 0;
    for (uint32_t g = 0; g < swi_names_count(t->patterns); g++)
        for (size_t w = 0; t->groups[g].first->part_count > 0 && w < t->f->way_count; w++)
            if (swi_ways_has(&t->groups[g].fits, w)) {
                t->groups[g].way = w;
                t->used[w] = true;
            }
    for (bool first = true; choose_way(t, &way); first = false) {
        t->used[way] = true;
        t->last = first ? way : t->last;
        for (uint32_t g = 0; g < swi_names_count(t->patterns); g++)
            if (is_waiting(&t->groups[g], way))
                t->groups[g].way = way;
    }
}

/* ---- names of axes --------------------------------------------------------------------------- */

/* The axes that split, from the slowest on, and whether they split more than rows. */
static void name_axes(telling *t)
{
    static const char *const copies[SWI_FOUND_AXES] = {"replicate", "replicate2", "replicate3"};
    bool splits[SWI_FOUND_AXES] = {false}, columns = false;
    size_t count = 0, met = 0, whole = 0;
    for (size_t w = 0; w < t->f->way_count; w++) {
        const swi_found_way *way = &t->f->ways[w];
        for (uint32_t i = 0; t->used[w] && i < way->count; i++) {
            splits[way->axis[i]] = true;
            columns = columns || way->dim[i] > 0;
        }
    }
    for (uint32_t a = 0; a < t->f->axes; a++)
        count += splits[a];
    for (uint32_t a = 0; a < t->f->axes; a++) {
        if (!splits[a] && t->f->axes > 1) {
            t->axis[a] = copies[whole++];
            continue;
        }
        met++;
        bool is_last = met == count && (count > 1 || columns);
        t->axis[a] = is_last ? "tp" : met == 1 ? "dp" : "cp";
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

/* In double quotes, where a backslash is written twice. */
static sw_status write_quoted(telling *t, const char *text, size_t size)
{
    sw_status st = swi_buf_u8(t->out, '"', t->err);
    for (size_t i = 0; st == SW_OK && i < size; i++) {
        if (text[i] == '"' || text[i] == '\\')
            st = swi_buf_u8(t->out, '\\', t->err);
        if (st == SW_OK)
            st = swi_buf_u8(t->out, (uint8_t)text[i], t->err);
    }
    return st == SW_OK ? swi_buf_u8(t->out, '"', t->err) : st;
}

static sw_status write_dims(telling *t, size_t way)
{
    sw_status st = swi_buf_append_str(t->out, "    dims: [", t->err);
    if (st == SW_OK)
        st = swi_found_dims(&t->f->ways[way], t->axis, t->out, t->err);
    return st == SW_OK ? swi_buf_append_str(t->out, "]\n", t->err) : st;
}

static bool is_used_group(const telling *t, uint32_t g, size_t way)
{
    return t->groups[g].way == way && swi_ways_any(&t->groups[g].fits) &&
           t->groups[g].first->part_count == 0;
}

static sw_status write_parts(telling *t, uint32_t g)
{
    const swi_found_tensor *first = t->groups[g].first;
    size_t size;
    const char *pattern = swi_names_at(t->patterns, g, &size);
    sw_status st = swi_buf_append_str(t->out, "  - tensor: ", t->err);
    if (st == SW_OK)
        st = write_quoted(t, pattern, size);
    if (st == SW_OK)
        st = swi_buf_u8(t->out, '\n', t->err);
    if (st == SW_OK)
        st = write_dims(t, t->groups[g].way);
    for (size_t p = 0; st == SW_OK && p < first->part_count; p++)
        st = swi_buf_printf(t->out, t->err, "%s%" PRId64, p > 0 ? ", " : "    parts: [",
                            first->parts[p]);
    return st == SW_OK ? swi_buf_append_str(t->out, "]\n", t->err) : st;
}

static sw_status write_all_parts(telling *t)
{
    sw_status st = SW_OK;
    for (uint32_t g = 0; st == SW_OK && g < swi_names_count(t->patterns); g++)
        if (t->groups[g].first->part_count > 0 && swi_ways_any(&t->groups[g].fits))
            st = write_parts(t, g);
    return st;
}

static sw_status write_rule(telling *t, size_t way)
{
    size_t count = 0;
    sw_status st = SW_OK;
    for (uint32_t g = 0; g < swi_names_count(t->patterns); g++)
        count += is_used_group(t, g, way);
    if (count == 0)
        return SW_OK;
    st = swi_buf_append_str(t->out, count > 1 ? "  - tensor:\n" : "  - tensor: ", t->err);
    for (uint32_t g = 0; st == SW_OK && g < swi_names_count(t->patterns); g++) {
        size_t size;
        const char *pattern = swi_names_at(t->patterns, g, &size);
        if (!is_used_group(t, g, way))
            continue;
        if (count > 1)
            st = swi_buf_append_str(t->out, "      - ", t->err);
        if (st == SW_OK)
            st = write_quoted(t, pattern, size);
        if (st == SW_OK)
            st = swi_buf_u8(t->out, '\n', t->err);
    }
    return st == SW_OK ? write_dims(t, way) : st;
}

static sw_status write_head(telling *t)
{
    const swi_found *f = t->f;
    sw_status st = swi_buf_printf(t->out, t->err,
                                  "# Found in the %" PRIu64 " pieces of %zu tensors of the model.\n"
                                  "# Copies that were stored once tell no mesh: this is the "
                                  "simplest that fits.\n"
                                  "layout: 1\nmesh: {",
                                  f->pieces, f->count);
    for (uint32_t a = 0; st == SW_OK && a < f->axes; a++)
        st = swi_buf_printf(t->out, t->err, "%s%s: %" PRIu64, a > 0 ? ", " : "", t->axis[a],
                            f->size[a]);
    return st == SW_OK ? swi_buf_append_str(t->out, "}\nrules:\n", t->err) : st;
}

static sw_status write_untold(telling *t, size_t *untold)
{
    sw_status st = SW_OK;
    *untold = 0;
    for (size_t i = 0; st == SW_OK && i < t->f->count; i++) {
        const swi_found_tensor *tensor = &t->f->tensors[i];
        swi_quoted q;
        if (is_told(tensor))
            continue;
        *untold += 1;
        st = swi_buf_printf(t->out, t->err, "# no rule describes the pieces of \"%s\"\n",
                            swi_quote_str(&q, tensor->name));
    }
    return st;
}

static sw_status write_all(telling *t, size_t *untold)
{
    sw_status st = write_head(t);
    if (st == SW_OK)
        st = write_all_parts(t);
    for (size_t w = 0; st == SW_OK && w < t->f->way_count; w++)
        if (w != t->last)
            st = write_rule(t, w);
    if (st == SW_OK)
        st = swi_buf_append_str(t->out, "  - tensor: \"**\"\n", t->err);
    if (st == SW_OK)
        st = write_dims(t, t->last);
    return st == SW_OK ? write_untold(t, untold) : st;
}

sw_status swi_found_text(const swi_found *found, swi_buf *out, size_t *untold, sw_error *err)
{
    telling t = {.f = found, .out = out, .err = err};
    sw_status st = swi_names_make(&t.patterns, err);
    if (st == SW_OK)
        st = swi_alloc_array(found->count, sizeof *t.group_of, (void **)&t.group_of, err);
    if (st == SW_OK)
        st = make_groups(&t);
    if (st == SW_OK) {
        choose_ways(&t);
        name_axes(&t);
        st = write_all(&t, untold);
    }
    swi_names_free(t.patterns);
    swi_buf_free(&t.text);
    free(t.group_of);
    free(t.groups);
    return st;
}

sw_status sw_checkpoint_layout(const sw_checkpoint *checkpoint, char **text, size_t *untold,
                               sw_error *err)
{
    swi_found found = {0};
    swi_buf out = {0};
    size_t left = 0;
    sw_status st = swi_find_layout(checkpoint, &found, err);
    if (st == SW_OK)
        st = swi_found_text(&found, &out, &left, err);
    if (st == SW_OK)
        st = swi_buf_u8(&out, 0, err);
    swi_found_end(&found);
    if (st != SW_OK) {
        swi_buf_free(&out);
        return st;
    }
    *text = (char *)out.data;
    *untold = left;
    return SW_OK;
}
