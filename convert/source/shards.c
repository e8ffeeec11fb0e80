#include "source/shards.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "ranges.h"

bool swi_shard_numbered(const char *name, const char *suffix, uint64_t *number, uint64_t *of,
                        size_t *stem)
{
    if (!swi_has_suffix(name, suffix))
        return false;
    const char *end = name + strlen(name) - strlen(suffix);
    const char *p = end;
    uint64_t n[2] = {0, 0};
    for (int k = 1; k >= 0; k--) {
        const char *stop = p;
        while (p > name && p[-1] >= '0' && p[-1] <= '9' && stop - p < 9)
            p--;
        if (p == stop)
            return false;
        for (const char *q = p; q < stop; q++)
            n[k] = n[k] * 10 + (uint64_t)(*q - '0');
        size_t cut = k == 1 ? 4 : 1;
        if ((size_t)(p - name) < cut || memcmp(p - cut, k == 1 ? "-of-" : "-", cut) != 0)
            return false;
        p -= cut;
    }
    *number = n[0];
    *of = n[1];
    *stem = (size_t)(p - name);
    return true;
}

static sw_status add_shard(swi_shards *r, const char *name, uint64_t bytes, bool missing,
                           sw_error *err)
{
    sw_status st =
        swi_grow_array((void **)&r->items, &r->capacity, r->count + 1, sizeof *r->items, err);
    if (st == SW_OK)
        r->items[r->count++] = (swi_shard){.name = name, .bytes = bytes, .missing = missing};
    return st;
}

static sw_status finding(swi_shards *r, sw_severity severity, sw_status status, const char *code,
                         const char *file, const char *text, sw_error *err)
{
    swi_finding_in in = {.severity = severity, .status = status, .code = code, .file = file};
    return swi_report_add(r->o->report, &in, err, "%s", text);
}

static sw_status read_index(swi_shards *r, const char *name, sw_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    sw_status st =
        swi_store_read_all(r->o->store, name, r->o->limits.metadata_bytes, &data, &size, err);
    if (st == SW_OK)
        st = swi_hf_index_parse(data, size, &r->o->limits, &r->index, err);
    free(data);
    r->index_name = name;
    return st == SW_OK ? SW_OK : swi_error_prefix(err, "%s", name);
}

typedef struct placed {
    const char *first; /* tensor that the index places in the file */
    size_t count;
} placed;

static sw_status count_placed(const swi_hf_index *index, placed **out, sw_error *err)
{
    const char *name;
    uint32_t file;
    sw_status st = swi_alloc_array(swi_hf_index_file_count(index), sizeof **out, (void **)out, err);
    for (size_t i = 0; st == SW_OK && swi_hf_index_at(index, i, &name, &file); i++) {
        placed *p = &(*out)[file];
        if (p->count++ == 0)
            p->first = name;
    }
    return st;
}

static sw_status say_missing(swi_shards *r, const char *file, const char *what, const placed *p,
                             sw_error *err)
{
    swi_quoted q;
    swi_finding_in in = {
        .severity = SW_DEFECT, .status = SW_ERR_INCOMPLETE, .code = "missing-file", .file = file};
    return swi_report_add(r->o->report, &in, err,
                          "the index places %zu tensor%s in this file, \"%s\" first, and it is %s",
                          p->count, p->count == 1 ? "" : "s", swi_quote_str(&q, p->first), what);
}

/* IDX: the index governs; files beside it that it does not name are not read, and said. */
static sw_status shards_of_index(swi_shards *r, sw_error *err)
{
    placed *of_file = NULL;
    sw_status st = count_placed(r->index, &of_file, err);
    for (uint32_t i = 0; st == SW_OK && i < swi_hf_index_file_count(r->index); i++) {
        const char *name = swi_hf_index_file(r->index, i);
        const swi_listing_entry *e = swi_listing_find(r->o->listing, name);
        bool missing = e == NULL || e->kind != SWI_ENTRY_FILE;
        st = add_shard(r, name, missing ? 0 : e->bytes, missing, err);
        if (missing)
            swi_opening_incomplete(r->o);
        if (st == SW_OK && missing)
            st = say_missing(r, name, e == NULL || e->is_link ? "not there" : "no regular file",
                             &of_file[i], err);
    }
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(r->o->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(r->o->listing, i);
        bool named = false;
        for (uint32_t k = 0; r->belongs(e) && !named && k < swi_hf_index_file_count(r->index); k++)
            named = strcmp(swi_hf_index_file(r->index, k), e->name) == 0;
        if (r->belongs(e) && !named)
            st = finding(r, SW_WARNING, SW_OK, "stray-file", e->name,
                         "the index does not name this file; it is not read", err);
    }
    free(of_file);
    return st;
}

/* Whether file i is of the row of numbered files that begins with `first`. */
static bool same_row(const swi_shards *r, size_t first, size_t i, uint64_t *number, uint64_t *of)
{
    uint64_t ignored[2];
    size_t stem, other;
    return i < r->count &&
           swi_shard_numbered(r->items[first].name, r->suffix, &ignored[0], &ignored[1], &stem) &&
           swi_shard_numbered(r->items[i].name, r->suffix, number, of, &other) && stem == other &&
           memcmp(r->items[first].name, r->items[i].name, stem) == 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The numbers of 1 .. of that are not among these (sorted here). */
static void find_gaps(uint64_t *numbers, size_t count, uint64_t of, swi_ranges *gaps)
{
    uint64_t next = 1;
    qsort(numbers, count, sizeof *numbers, by_number);
    for (size_t i = 0; i <= count; i++) {
        uint64_t here = i < count ? numbers[i] : of + 1;
        for (; next < here && next <= of; next++)
            swi_ranges_add(gaps, next);
        if (here >= next)
            next = here + 1;
    }
}

/* One row of `count` numbered files from shard `first` on. */
static sw_status check_row(swi_shards *r, size_t first, size_t count, uint64_t *numbers,
                           sw_error *err)
{
    uint64_t of = 0, least = UINT64_MAX, most = 0;
    swi_ranges gaps = {0};
    for (size_t i = 0; i < count; i++) {
        (void)same_row(r, first, first + i, &numbers[i], &of);
        least = of < least ? of : least;
        most = of > most ? of : most;
    }
    swi_finding_in in = {.severity = SW_DEFECT, .file = r->items[first].name};
    if (least != most) {
        in.status = SW_ERR_CONFLICT;
        in.code = "mixed-files";
        return swi_report_add(r->o->report, &in, err,
                              "files of %" PRIu64 " and files of %" PRIu64
                              " are here: two saves in one folder",
                              least, most);
    }
    in.status = SW_ERR_INCOMPLETE;
    in.code = "missing-file";
    if (most > r->o->limits.files)
        return swi_report_add(r->o->report, &in, err,
                              "its name says that there are %" PRIu64 " files and %zu are here",
                              most, count);
    find_gaps(numbers, count, most, &gaps);
    if (gaps.count == 0)
        return SW_OK;
    swi_opening_incomplete(r->o);
    return swi_report_add(r->o->report, &in, err,
                          "its name says that there are %" PRIu64 " files and %zu are here; "
                          "missing: %s",
                          most, count, swi_ranges_text(&gaps));
}

/* Without an index the numbers in the names must be complete. */
static sw_status check_numbers(swi_shards *r, sw_error *err)
{
    uint64_t *numbers = NULL, number, of;
    sw_status st = swi_alloc_array(r->count, sizeof *numbers, (void **)&numbers, err);
    for (size_t i = 0, count; st == SW_OK && i < r->count; i += count) {
        count = 0;
        while (same_row(r, i, i + count, &number, &of))
            count++;
        if (count > 0)
            st = check_row(r, i, count, numbers, err);
        else
            count = 1;
    }
    free(numbers);
    return st;
}

static sw_status shards_of_listing(swi_shards *r, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(r->o->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(r->o->listing, i);
        if (r->belongs(e))
            st = add_shard(r, e->name, e->bytes, false, err);
    }
    return st == SW_OK ? check_numbers(r, err) : st;
}

sw_status swi_shards_find(swi_shards *r, sw_error *err)
{
    const char *found = NULL;
    for (size_t i = 0; i < swi_listing_count(r->o->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(r->o->listing, i);
        if (e->kind != SWI_ENTRY_FILE || !swi_has_suffix(e->name, r->index_suffix))
            continue;
        if (found == NULL || strcmp(e->name, r->first_index) == 0)
            found = e->name;
    }
    if (found == NULL)
        return shards_of_listing(r, err);
    sw_status st = read_index(r, found, err);
    return st == SW_OK ? shards_of_index(r, err) : st;
}

sw_status swi_shards_say_no_index(swi_shards *r, sw_error *err)
{
    char name[256];
    uint64_t number, of = 0;
    size_t stem = 0, size = strlen(r->index_suffix) + 1;
    if (r->index != NULL || r->count == 0 ||
        !swi_shard_numbered(r->items[0].name, r->suffix, &number, &of, &stem) || of < 2 ||
        stem > sizeof name - size)
        return SW_OK;
    memcpy(name, r->items[0].name, stem);
    memcpy(name + stem, r->index_suffix, size);
    return finding(r, SW_WARNING, SW_ERR_INCOMPLETE, "no-index", name,
                   "it is not there: loaders that follow the index find no weights; converting to "
                   "hf makes one",
                   err);
}

sw_status swi_shards_add(swi_shards *r, const char *name, uint64_t bytes, sw_error *err)
{
    return add_shard(r, name, bytes, false, err);
}

void swi_shards_free(swi_shards *r)
{
    swi_hf_index_free(r->index);
    free(r->items);
    *r = (swi_shards){0};
}
