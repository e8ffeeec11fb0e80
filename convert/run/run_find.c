#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "run/run.h"
#include "source/detect.h"

/* Entries of one run that are looked into. */
#define LOOKED_AT_MAX 16384

/* ---- rows of names ------------------------------------------------------------------------- */

/* "step-20" -> "step-": what names of one row have in common. */
static void without_digits(const char *name, char out[SWI_QUOTE_MAX])
{
    size_t n = 0;
    for (; *name != '\0' && n < SWI_QUOTE_MAX - 1; name++)
        if (!isdigit((unsigned char)*name))
            out[n++] = *name;
    out[n] = '\0';
}

static bool same_row(const swi_candidate *sure, const swi_candidate *other)
{
    char a[SWI_QUOTE_MAX], b[SWI_QUOTE_MAX];
    without_digits(sure->name, a);
    without_digits(other->name, b);
    return other->told.unfinished ? strstr(b, a) != NULL : strcmp(a, b) == 0;
}

static size_t count_sure(const sw_run *run)
{
    size_t count = 0;
    for (size_t i = 0; i < run->count; i++)
        count += run->items[i].sure;
    return count;
}

/* What looks like a step by its name alone is one when another of its row is a checkpoint. */
static void drop_strangers(sw_run *run)
{
    size_t kept = 0;
    if (count_sure(run) == 0)
        return;
    for (size_t i = 0; i < run->count; i++) {
        run->items[i].drop = !run->items[i].sure;
        for (size_t k = 0; run->items[i].drop && k < run->count; k++)
            run->items[i].drop = !(run->items[k].sure && same_row(&run->items[k], &run->items[i]));
    }
    for (size_t i = 0; i < run->count; i++)
        if (!run->items[i].drop)
            run->items[kept++] = run->items[i];
    run->count = kept;
}

static int by_number(const void *left, const void *right)
{
    const swi_candidate *a = left, *b = right;
    bool none_a = a->told.unit == SWI_UNIT_NONE, none_b = b->told.unit == SWI_UNIT_NONE;
    if (none_a != none_b)
        return none_a - none_b;
    if (a->told.unit != b->told.unit)
        return a->told.unit < b->told.unit ? -1 : 1;
    if (a->told.number != b->told.number)
        return a->told.number < b->told.number ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* ---- candidates ---------------------------------------------------------------------------- */

static sw_status add(sw_run *run, const char *name, const swi_step_name *told, bool sure,
                     sw_error *err)
{
    sw_status st = swi_grow_array((void **)&run->items, &run->capacity, run->count + 1,
                                  sizeof *run->items, err);
    if (st == SW_OK)
        run->items[run->count++] = (swi_candidate){.name = name, .told = *told, .sure = sure};
    return st;
}

/* `root`/`name`, terminated. */
static sw_status path_in(const sw_run *run, const char *name, swi_buf *out, sw_error *err)
{
    out->size = 0;
    sw_status st = swi_buf_printf(out, err, "%s/%s", run->root, name);
    return st == SW_OK ? swi_buf_u8(out, 0, err) : st;
}

/* A folder with a number in its name, or with something that is surely a checkpoint in it. */
static sw_status try_folder(sw_run *run, const char *name, const sw_limits *limits, swi_buf *path,
                            sw_error *err)
{
    swi_step_name told;
    swi_detected d = {0};
    sw_error cause = {0};
    swi_step_of_name(name, &told);
    sw_status st = path_in(run, name, path, err);
    if (st != SW_OK)
        return st;
    st = swi_detect((const char *)path->data, NULL, limits, NULL, &d, &cause);
    bool numbered = told.unit != SWI_UNIT_NONE;
    bool sure = (st == SW_OK && (numbered || d.claim >= SWI_CLAIM_PART)) ||
                (st == SW_ERR_CONFLICT && numbered);
    if (st == SW_OK)
        swi_detected_free(&d);
    if (st != SW_OK && swi_error_of_machine(&cause)) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    return sure || numbered ? add(run, name, &told, sure, err) : SW_OK;
}

static bool is_hidden(const swi_listing_entry *e)
{
    return e->name[0] == '.';
}

static sw_status find_folders(sw_run *run, const sw_limits *limits, sw_error *err)
{
    swi_buf path = {0};
    sw_status st = SW_OK;
    size_t looked = 0;
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(run->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(run->listing, i);
        if (e->kind == SWI_ENTRY_DIR && !e->is_link && !is_hidden(e) && !swi_stands_back(e->name) &&
            looked++ < LOOKED_AT_MAX)
            st = try_folder(run, e->name, limits, &path, err);
    }
    swi_buf_free(&path);
    return st;
}

/* Whether this file is a checkpoint by itself. */
static sw_status is_alone(const sw_run *run, const char *name, const sw_limits *limits, bool *out,
                          sw_error *err)
{
    swi_listing *one = NULL;
    swi_claim claim = SWI_CLAIM_NONE;
    sw_error cause = {0};
    sw_status st = swi_listing_make(run->store, name, limits, &one, &cause);
    if (st == SW_OK)
        st = swi_claim_best(run->store, one, &claim, &cause);
    swi_listing_free(one);
    *out = st == SW_OK && claim >= SWI_CLAIM_WHOLE;
    if (st == SW_OK || !swi_error_of_machine(&cause))
        return SW_OK;
    if (err != NULL)
        *err = cause;
    return st;
}

static const char *suffix_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot : "";
}

/* Files with numbers, and others of their kind: "epoch=3-step=100.ckpt", "last.ckpt". */
static sw_status find_files(sw_run *run, bool numbered, const sw_limits *limits, sw_error *err)
{
    sw_status st = SW_OK;
    size_t looked = 0, before = run->count;
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(run->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(run->listing, i);
        swi_step_name told;
        bool alone = false, alike = numbered;
        swi_step_of_name(e->name, &told);
        for (size_t k = 0; !alike && k < before; k++)
            alike = strcmp(suffix_of(run->items[k].name), suffix_of(e->name)) == 0;
        if (e->kind != SWI_ENTRY_FILE || e->is_link || is_hidden(e) || !alike ||
            numbered != (told.unit != SWI_UNIT_NONE) || looked++ >= LOOKED_AT_MAX)
            continue;
        st = is_alone(run, e->name, limits, &alone, err);
        if (st == SW_OK && alone)
            st = add(run, e->name, &told, true, err);
    }
    return st;
}

static bool has_pointer(const sw_run *run)
{
    for (size_t i = 0; i < swi_listing_count(run->listing); i++)
        if (swi_run_is_pointer(swi_listing_at(run->listing, i)))
            return true;
    return false;
}

static sw_status open_run(const char *path, const sw_limits *limits, sw_run *run, sw_error *err)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    sw_status st = swi_arena_text(&run->arena, path, size, &run->root, err);
    if (st == SW_OK)
        st = swi_store_open_posix(run->root, &run->store, err);
    if (st == SW_OK)
        st = swi_listing_make(run->store, NULL, limits, &run->listing, err);
    return st;
}

sw_status swi_run_find(const char *path, bool always, const sw_limits *limits, sw_run **out,
                       bool *is_run, sw_error *err)
{
    sw_run *run = NULL;
    swi_claim here = SWI_CLAIM_NONE;
    sw_status st = swi_alloc_array(1, sizeof *run, (void **)&run, err);
    if (st == SW_OK)
        st = open_run(path, limits, run, err);
    if (st == SW_OK)
        st = swi_claim_best(run->store, run->listing, &here, err);
    bool look = st == SW_OK && (always || here < SWI_CLAIM_PART);
    if (look)
        st = find_folders(run, limits, err);
    bool files = look && st == SW_OK && here == SWI_CLAIM_LOOSE && count_sure(run) == 0;
    if (files)
        st = find_files(run, true, limits, err);
    if (files && st == SW_OK && count_sure(run) > 0)
        st = find_files(run, false, limits, err);
    if (st != SW_OK) {
        sw_run_free(run);
        return st;
    }
    drop_strangers(run);
    if (run->count > 1)
        qsort(run->items, run->count, sizeof *run->items, by_number);
    *is_run = always ? run->count > 0 : count_sure(run) > 0 && (run->count > 1 || has_pointer(run));
    *out = run;
    return SW_OK;
}
