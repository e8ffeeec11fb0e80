/* What lies where in the rows of a model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "flat/unflatten_parts.h"
#include "select/names.h"

/* FS-4: 16 bytes in elements of the type that the module computes in, which files do not tell. */
static const uint32_t alignments[] = {1, 2, 4, 8, 16};
#define ALIGNMENTS (sizeof alignments / sizeof alignments[0])

typedef struct fitting {
    swi_unflat *u;
    const swi_row_note **notes; /* of the model, by row of u->units */
    uint64_t *elements;         /* that the row has, likewise */
    bool *recorded;             /* its places are in the files, likewise */
    swi_names *beside;          /* names of the section's tensors that are no rows */
    size_t *tensors;            /* of the base, by those names */
    size_t tensor_capacity;
    bool has_slices; /* tensors beside the rows are parts of them (use_orig_params) */
} fitting;

static const swi_row_note *noted(const swi_unflat *u, size_t i)
{
    return &u->in.notes->rows[i];
}

static sw_status misfit(const swi_unflat *u, const char *unit, sw_error *err, const char *text)
{
    swi_quoted q;
    return swi_fail_at(err, SW_ERR_CONFLICT, "FS-8", 0,
                       "flat parameter of module \"%s\": %s (shapes: %s)", swi_quote_str(&q, unit),
                       text, u->shapes->from);
}

/* ---- what lies beside the rows ----------------------------------------------------------------
 */

static sw_status list_beside(fitting *f, sw_error *err)
{
    const swi_unflat *u = f->u;
    const char *section, *name;
    swi_buf clean = {0};
    uint64_t removed = 0;
    sw_tensor_info info;
    sw_status st = swi_names_make(&f->beside, err);
    for (size_t i = 0; st == SW_OK && sw_catalog_tensor(u->catalog, i, &info); i++) {
        uint32_t id;
        sw_checkpoint_split_name(u->in.base, i, &section, &name);
        if (info.role == SW_ROLE_OPTIMIZER || strcmp(section, u->section) != 0 ||
            u->tensors[i].is_row)
            continue;
        clean.size = 0;
        st = swi_clean_name(name, false, &clean, &removed, err);
        if (st == SW_OK)
            st = swi_names_add(f->beside, clean.data, clean.size - 1, &id, NULL, err);
        if (st == SW_OK)
            st = swi_grow_array((void **)&f->tensors, &f->tensor_capacity, (size_t)id + 1,
                                sizeof *f->tensors, err);
        if (st == SW_OK)
            f->tensors[id] = i;
    }
    swi_buf_free(&clean);
    return st;
}

/* The tensor of the base that is called as a parameter; false: none is. */
static bool find_beside(const fitting *f, const swi_shape *s, size_t *tensor, bool *same)
{
    sw_tensor_info info;
    const int64_t id = swi_names_find(f->beside, s->name, strlen(s->name));
    if (id < 0 || !sw_catalog_tensor(f->u->catalog, f->tensors[id], &info))
        return false;
    *tensor = f->tensors[id];
    *same = info.axes == s->axes && memcmp(info.shape, s->shape, s->axes * sizeof *s->shape) == 0;
    return true;
}

/*
 * FS-6: what lies beside the rows under its own name and in its shape is in none; where something
 * there has another shape than its parameter, all that is there are slices that one rank had.
 */
static sw_status look_beside(fitting *f, sw_error *err)
{
    swi_unflat *u = f->u;
    size_t tensor;
    bool same;
    sw_status st = list_beside(f, err);
    if (st == SW_OK)
        st = swi_alloc_array(u->shapes->count, sizeof *u->left_out, (void **)&u->left_out, err);
    for (size_t i = 0; st == SW_OK && i < u->shapes->count; i++)
        f->has_slices = f->has_slices || (find_beside(f, &u->shapes->items[i], &tensor, &same) &&
                                          !u->shapes->items[i].buffer && !same);
    for (size_t i = 0; st == SW_OK && i < u->shapes->count; i++) {
        if (!find_beside(f, &u->shapes->items[i], &tensor, &same))
            continue;
        u->left_out[i] = !f->has_slices;
        if (f->has_slices && !u->shapes->items[i].buffer)
            u->tensors[tensor].first = SWI_NOT_MADE; /* its row has it */
    }
    return st;
}

/* ---- rows and units ---------------------------------------------------------------------------
 */

static sw_status units_of_notes(fitting *f, sw_error *err)
{
    const swi_unflat *u = f->u;
    const char **units = NULL;
    size_t count = 0;
    sw_status st = swi_alloc_array(u->in.notes->row_count, sizeof *units, (void **)&units, err);
    for (size_t i = 0; st == SW_OK && i < u->in.notes->row_count; i++)
        if (noted(u, i)->unit != NULL)
            units[count++] = noted(u, i)->unit;
    if (st == SW_OK)
        st = swi_rows_of_units(u->shapes, u->left_out, units, count, &f->u->units, err);
    free(units);
    return st;
}

static sw_status row_missing(const swi_unflat *u, const swi_row *row, sw_error *err)
{
    swi_quoted q, r;
    const swi_shape *s = &u->shapes->items[row->items[0].parameter];
    return swi_fail_at(err, SW_ERR_INCOMPLETE, "FS-7", 0,
                       "parameter \"%s\" is in no flat parameter of the files, nor beside them "
                       "(of %zu that module \"%s\" should have; shapes: %s)",
                       swi_quote_str(&q, s->name), row->count, swi_quote_str(&r, row->unit),
                       u->shapes->from);
}

static sw_status pair_rows(fitting *f, sw_error *err)
{
    const swi_unflat *u = f->u;
    const size_t count = u->units.count;
    sw_status st = swi_alloc_array(count, sizeof(swi_row_note *), (void **)&f->notes, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *f->elements, (void **)&f->elements, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *f->recorded, (void **)&f->recorded, err);
    if (st != SW_OK)
        return st;
    for (size_t i = 0; i < u->in.notes->row_count; i++) {
        const swi_row_note *note = noted(u, i);
        sw_tensor_info info;
        size_t r = 0;
        if (note->unit == NULL)
            continue;
        while (r < count && strcmp(u->units.items[r].unit, note->unit) != 0)
            r++;
        if (r == count)
            return misfit(u, note->unit, err, "no parameter belongs to that module");
        (void)sw_catalog_tensor(u->catalog, note->tensor, &info);
        f->notes[r] = note;
        f->elements[r] = info.elements;
    }
    for (size_t r = 0; r < count; r++)
        if (f->notes[r] == NULL)
            return row_missing(u, &u->units.items[r], err);
    return SW_OK;
}

/* ---- places that are recorded -----------------------------------------------------------------
 */

static int by_name(const void *a, const void *b)
{
    const swi_slice_note *x = *(const swi_slice_note *const *)a;
    const swi_slice_note *y = *(const swi_slice_note *const *)b;
    const int order = strcmp(x->name, y->name);
    return order != 0 ? order : x->at < y->at ? -1 : x->at > y->at;
}

/* The first of sorted slices that has this name, or whose name comes behind it. */
static size_t first_of(const swi_slice_note *const *slices, size_t count, const char *name)
{
    size_t lo = 0;
    while (lo < count) {
        const size_t mid = lo + (count - lo) / 2;
        if (strcmp(slices[mid]->name, name) < 0)
            lo = mid + 1;
        else
            count = mid;
    }
    return lo;
}

/* Slices of one name, one behind the other: where they begin, and how many elements they have. */
static uint64_t held_in_a_row(const swi_slice_note *const *slices, size_t count, const char *name,
                              uint64_t *at)
{
    uint64_t held = 0;
    for (size_t i = first_of(slices, count, name); i < count; i++) {
        if (strcmp(slices[i]->name, name) != 0)
            break;
        if (slices[i]->elements == 0)
            continue;
        if (held == 0)
            *at = slices[i]->at;
        else if (slices[i]->at != *at + held)
            break;
        held += slices[i]->elements;
    }
    return held;
}

static sw_status place_recorded(const fitting *f, swi_row *row, const swi_slice_note **slices,
                                size_t count, sw_error *err)
{
    const swi_unflat *u = f->u;
    const swi_row_item *end = row->items + row->count;
    swi_quoted q;
    char text[400];
    qsort(slices, count, sizeof *slices, by_name);
    for (swi_row_item *item = row->items; item < end; item++) {
        const char *name = u->shapes->items[item->parameter].name;
        const uint64_t held = held_in_a_row(slices, count, name, &item->at);
        if (held == item->elements)
            continue;
        (void)snprintf(text, sizeof text,
                       "parameter \"%.160s\" has %" PRIu64
                       " elements by its shape, and the slices of it that ranks have hold %" PRIu64
                       " in a row",
                       swi_quote_str(&q, name), item->elements, held);
        return misfit(u, row->unit, err, text);
    }
    return SW_OK;
}

/* FS-7: views of the row under the names of parameters tell all places. */
static sw_status take_recorded(fitting *f, sw_error *err)
{
    const swi_unflat *u = f->u;
    const swi_slice_note **slices = NULL;
    sw_status st =
        swi_alloc_array(u->in.notes->slice_count, sizeof(swi_slice_note *), (void **)&slices, err);
    for (size_t r = 0; st == SW_OK && r < u->units.count; r++) {
        size_t count = 0;
        for (size_t i = 0; i < u->in.notes->slice_count; i++)
            if (u->in.notes->slices[i].tensor == f->notes[r]->tensor)
                slices[count++] = &u->in.notes->slices[i];
        f->recorded[r] = count > 0;
        if (count == 0)
            continue;
        st = place_recorded(f, &u->units.items[r], slices, count, err);
        u->units.items[r].total = f->elements[r];
    }
    free(slices);
    return st;
}

/* ---- places that are computed -----------------------------------------------------------------
 */

/* Whether the row may have been laid out so: its elements are as many. */
static sw_status fits(const fitting *f, size_t r, uint32_t align, bool *out, sw_error *err)
{
    swi_row *row = &f->u->units.items[r];
    const uint64_t shards = f->notes[r]->shards > 0 ? f->notes[r]->shards : 1;
    sw_status st = swi_row_place(row, align, shards, err);
    *out = st == SW_OK && row->total == f->elements[r];
    return st;
}

static bool may_be(const swi_shapes *shapes, uint32_t align)
{
    if (shapes->align > 0)
        return align == shapes->align;
    if (shapes->use_orig_params >= 0)
        return (align > 1) == (shapes->use_orig_params == 1);
    return true;
}

/* A sum over all places, by which two ways to lay out are told apart. */
static uint64_t places_of(const fitting *f)
{
    uint64_t sum = 1469598103934665603U; /* FNV-1a over numbers */
    for (size_t r = 0; r < f->u->units.count; r++)
        for (size_t i = 0; i < f->u->units.items[r].count; i++)
            sum = (sum ^ f->u->units.items[r].items[i].at) * 1099511628211U;
    return sum;
}

static sw_status try_alignment(const fitting *f, uint32_t align, size_t *misfitting, sw_error *err)
{
    sw_status st = SW_OK;
    *misfitting = f->u->units.count;
    for (size_t r = 0; st == SW_OK && r < f->u->units.count; r++) {
        bool good = true;
        if (!f->recorded[r])
            st = fits(f, r, align, &good, err);
        if (!good && *misfitting == f->u->units.count)
            *misfitting = r;
    }
    return st;
}

static sw_status none_fits(const fitting *f, size_t r, sw_error *err)
{
    swi_row *row = &f->u->units.items[r];
    char text[256], factor[64] = "";
    sw_status st = swi_row_place(row, 1, 1, err);
    if (st != SW_OK)
        return st;
    if (row->total > 0 && f->elements[r] > 0 && row->total % f->elements[r] == 0)
        (void)snprintf(factor, sizeof factor, ", %" PRIu64 " times as many",
                       row->total / f->elements[r]);
    else if (row->total > 0 && f->elements[r] % row->total == 0)
        (void)snprintf(factor, sizeof factor, ": %" PRIu64 " times as many in the files",
                       f->elements[r] / row->total);
    (void)snprintf(text, sizeof text,
                   "its %zu parameters have %" PRIu64
                   " elements by their shapes, and it has %" PRIu64 "%s, aligned or not",
                   row->count, row->total, f->elements[r], factor);
    return misfit(f->u, row->unit, err, text);
}

/* FS-8, FS-9: one alignment for all rows; two that fit and differ are not guessed between. */
static sw_status find_alignment(fitting *f, sw_error *err)
{
    swi_unflat *u = f->u;
    uint64_t places = 0;
    size_t misfitting = 0, worst = 0;
    for (size_t i = 0; i < ALIGNMENTS; i++) {
        if (!may_be(u->shapes, alignments[i]))
            continue;
        sw_status st = try_alignment(f, alignments[i], &misfitting, err);
        if (st != SW_OK)
            return st;
        worst = misfitting < u->units.count && misfitting > worst ? misfitting : worst;
        if (misfitting < u->units.count)
            continue;
        if (u->align == 0) {
            u->align = alignments[i];
            places = places_of(f);
        } else if (places != places_of(f)) {
            char text[200];
            (void)snprintf(text, sizeof text,
                           "parameters aligned to %" PRIu32 " and to %" PRIu32
                           " elements both fit and differ; say which with align: in a document of "
                           "shapes",
                           u->align, alignments[i]);
            return misfit(u, u->units.items[0].unit, err, text);
        }
    }
    if (u->align == 0)
        return none_fits(f, worst, err);
    return try_alignment(f, u->align, &misfitting, err);
}

static bool all_recorded(const fitting *f)
{
    for (size_t r = 0; r < f->u->units.count; r++)
        if (!f->recorded[r])
            return false;
    return true;
}

static sw_status need_order(const swi_unflat *u, sw_error *err)
{
    if (u->shapes->ordered)
        return SW_OK;
    return swi_fail_at(
        err, SW_ERR_ARG, "FS-6", 0,
        "%s tells shapes in no order, and parameters of one size would change places "
        "unseen; give --shapes a torch state dict, the model's config.json, or a "
        "document with a list",
        u->shapes->from);
}

/* Where parameters lie; states of optimizers are cut at the same places. */
static sw_status note_places(const fitting *f, sw_error *err)
{
    swi_unflat *u = f->u;
    sw_status st = swi_alloc_array(u->shapes->count, sizeof *u->places, (void **)&u->places, err);
    for (size_t r = 0; st == SW_OK && r < u->units.count; r++) {
        const uint64_t shards = f->notes[r]->shards > 0 ? f->notes[r]->shards : 1;
        for (size_t i = 0; i < u->units.items[r].count; i++) {
            const swi_row_item *item = &u->units.items[r].items[i];
            u->places[item->parameter] =
                (swi_unflat_place){.shard = swi_row_shard(f->elements[r], shards), .at = item->at};
        }
    }
    return st;
}

sw_status swi_unflat_fit(swi_unflat *u, sw_error *err)
{
    fitting f = {.u = u};
    sw_status st = look_beside(&f, err);
    if (st == SW_OK)
        st = units_of_notes(&f, err);
    if (st == SW_OK)
        st = pair_rows(&f, err);
    if (st == SW_OK)
        st = take_recorded(&f, err);
    if (st == SW_OK && !all_recorded(&f))
        st = need_order(u, err);
    if (st == SW_OK && !all_recorded(&f))
        st = find_alignment(&f, err);
    if (st == SW_OK)
        st = note_places(&f, err);
    for (size_t r = 0; st == SW_OK && r < u->units.count; r++)
        u->tensors[f.notes[r]->tensor].row = &u->units.items[r];
    free(f.notes);
    free(f.elements);
    free(f.recorded);
    free(f.tensors);
    swi_names_free(f.beside);
    return st;
}

/* FS-11: without alignment, for only use_orig_params has one and then states are by parameter. */
sw_status swi_unflat_units(swi_unflat *u, sw_error *err)
{
    const char **units = NULL;
    size_t count = 0;
    if (!u->shapes->has_units)
        return SW_OK;
    sw_status st = need_order(u, err);
    if (st == SW_OK)
        st = swi_units_matching(u->shapes, u->shapes->units, u->shapes->unit_count, &u->arena,
                                &units, &count, err);
    if (st == SW_OK)
        st = swi_rows_of_units(u->shapes, u->left_out, units, count, &u->units, err);
    for (size_t r = 0; st == SW_OK && r < u->units.count; r++)
        st = swi_row_place(&u->units.items[r], 1, 1, err);
    return st;
}

/* ---- names of rows ----------------------------------------------------------------------------
 */

sw_status swi_unflat_name_units(swi_unflat *u, sw_error *err)
{
    void *room;
    swi_buf name = {0};
    sw_status st = swi_arena_alloc(&u->arena, u->units.count * sizeof *u->unit_names, &room, err);
    if (st != SW_OK)
        return st;
    u->unit_names = room;
    for (size_t r = 0; st == SW_OK && r < u->units.count; r++) {
        const char *unit = u->units.items[r].unit;
        name.size = 0;
        st = swi_buf_printf(&name, err, "%s%s_flat_param", unit, unit[0] != '\0' ? "." : "");
        if (st == SW_OK)
            st = swi_arena_text(&u->arena, (const char *)name.data, name.size, &u->unit_names[r],
                                err);
    }
    swi_buf_free(&name);
    return st;
}

/* A parameter as a row; of a model with rows what lies beside them is none. */
static bool is_single(const swi_unflat *u, size_t i)
{
    const swi_shape *s = &u->shapes->items[i];
    return !s->buffer && s->tied_to < 0 && !(u->has_model && u->left_out != NULL && u->left_out[i]);
}

static sw_status make_singles(swi_unflat *u, sw_error *err)
{
    const size_t n = u->shapes->count;
    void *rows, *items;
    sw_status st = swi_arena_alloc(&u->singles.arena, n * sizeof(swi_row), &rows, err);
    if (st == SW_OK)
        st = swi_arena_alloc(&u->singles.arena, n * sizeof(swi_row_item), &items, err);
    if (st != SW_OK)
        return st;
    u->singles.items = rows;
    for (size_t i = 0; st == SW_OK && i < n; i++) {
        swi_row_item *item = (swi_row_item *)items + u->singles.count;
        swi_row *row = &u->singles.items[u->singles.count];
        if (!is_single(u, i))
            continue;
        *item = (swi_row_item){.parameter = (uint32_t)i};
        *row = (swi_row){.unit = u->shapes->items[i].name, .items = item, .count = 1};
        u->single_of[i] = (uint32_t)u->singles.count++;
        st = swi_shape_count(&u->shapes->items[i], &item->elements, err);
        row->total = item->elements;
    }
    return st;
}

sw_status swi_unflat_name_rows(swi_unflat *u, sw_error *err)
{
    const size_t bytes = u->shapes->count * sizeof *u->single_of;
    sw_status st = swi_unflat_name_units(u, err);
    if (st == SW_OK)
        st = swi_alloc_array(u->shapes->count, sizeof *u->single_of, (void **)&u->single_of, err);
    if (st != SW_OK)
        return st;
    if (bytes > 0)
        memset(u->single_of, 0xff, bytes);
    return make_singles(u, err);
}
