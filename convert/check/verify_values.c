#include "check/verify_values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "check/coordinates.h"
#include "stats.h"

static sw_status say_count(sw_report *report, const sw_tensor_info *info, const char *code,
                           uint64_t count, uint64_t first, sw_error *err)
{
    char where[SWI_COORDINATES_TEXT];
    swi_finding_in in = {.severity = SW_WARNING, .code = code, .tensor = info->name};
    swi_coordinates_text(info, first, where);
    return swi_report_add(report, &in, err, "%" PRIu64 " of %" PRIu64 " elements, the first at %s",
                          count, info->elements, where);
}

/* A single element is constant by nature; counters and biases often are zero. */
static sw_status say_same(sw_report *report, const sw_tensor_info *info, const swi_stats *s,
                          sw_error *err)
{
    bool zero = s->zeros == info->elements;
    swi_finding_in in = {
        .severity = SW_NOTE, .code = zero ? "all-zero" : "constant", .tensor = info->name};
    if (info->elements < 2 || (!zero && !s->constant))
        return SW_OK;
    return swi_report_add(report, &in, err,
                          zero ? "all %" PRIu64 " elements are zero"
                               : "all %" PRIu64 " elements are the same",
                          info->elements);
}

static sw_status look_at(sw_report *report, const sw_tensor_info *info, const swi_stats *s,
                         sw_error *err)
{
    sw_status st = SW_OK;
    if (!s->known)
        return SW_OK;
    if (s->nans > 0)
        st = say_count(report, info, "nan", s->nans, s->first_nan, err);
    if (st == SW_OK && s->infinities > 0)
        st = say_count(report, info, "infinity", s->infinities, s->first_infinity, err);
    if (st == SW_OK)
        st = say_same(report, info, s, err);
    return st;
}

/* ---- duplicates --------------------------------------------------------------------------- */

typedef struct content {
    swi_digest digest;
    uint32_t tensor;
} content;

static int by_content(const void *left, const void *right)
{
    const content *a = left, *b = right;
    int order = memcmp(&a->digest, &b->digest, sizeof a->digest);
    return order != 0 ? order : (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

/* "state.w.exp_avg" and "state.w.exp_avg_sq": names that differ only behind the last dot. */
static bool same_parent(const char *a, const char *b)
{
    const char *dot_a = strrchr(a, '.'), *dot_b = strrchr(b, '.');
    return dot_a != NULL && dot_b != NULL && dot_a - a == dot_b - b &&
           strncmp(a, b, (size_t)(dot_a - a)) == 0;
}

/* Two states of one parameter are never the same by chance: one was saved over the other. */
static sw_status say_duplicate(const sw_catalog *catalog, uint32_t first, uint32_t second,
                               sw_report *report, sw_error *err)
{
    sw_tensor_info a, b;
    swi_quoted room;
    sw_catalog_tensor(catalog, first, &a);
    sw_catalog_tensor(catalog, second, &b);
    bool suspicious =
        a.role == SW_ROLE_OPTIMIZER && b.role == SW_ROLE_OPTIMIZER && same_parent(a.name, b.name);
    swi_finding_in in = {.severity = suspicious ? SW_WARNING : SW_NOTE,
                         .code = suspicious ? "suspicious-duplicate" : "duplicate",
                         .tensor = b.name};
    return swi_report_add(report, &in, err,
                          suspicious
                              ? "equal to \"%s\" bit by bit: two states of one parameter, of "
                                "which one was likely saved over the other"
                              : "equal to \"%s\" bit by bit",
                          swi_quote_str(&room, a.name));
}

/* Of each set of equal tensors every one but the first is named. Constant ones say nothing. */
static sw_status find_duplicates(const sw_catalog *catalog, const swi_stats *stats,
                                 sw_report *report, sw_error *err)
{
    size_t count = sw_catalog_tensor_count(catalog), n = 0;
    void *room;
    sw_status st = swi_alloc_array(count, sizeof(content), &room, err);
    if (st != SW_OK)
        return st;
    content *contents = room;
    for (size_t i = 0; i < count; i++) {
        sw_tensor_info info;
        sw_catalog_tensor(catalog, i, &info);
        if (stats[i].known && !stats[i].constant && info.elements > 1 && info.alias_of < 0)
            contents[n++] = (content){.digest = stats[i].content, .tensor = (uint32_t)i};
    }
    if (n > 1)
        qsort(contents, n, sizeof *contents, by_content);
    for (size_t i = 1, first = 0; i < n && st == SW_OK; i++) {
        if (memcmp(&contents[first].digest, &contents[i].digest, sizeof(swi_digest)) == 0)
            st = say_duplicate(catalog, contents[first].tensor, contents[i].tensor, report, err);
        else
            first = i;
    }
    free(room);
    return st;
}

sw_status swi_verify_values(const sw_checkpoint *checkpoint, const bool *want,
                            const sw_work_options *work, sw_report *report, sw_error *err)
{
    const swi_source source = swi_checkpoint_source(checkpoint);
    size_t count = sw_catalog_tensor_count(source.catalog);
    void *room;
    sw_status st = swi_alloc_array(count, sizeof(swi_stats), &room, err);
    if (st != SW_OK)
        return st;
    swi_stats *stats = room;
    st = swi_catalog_stats(&source, want, work, stats, err);
    for (size_t i = 0; i < count && st == SW_OK; i++) {
        sw_tensor_info info;
        sw_catalog_tensor(source.catalog, i, &info);
        st = look_at(report, &info, &stats[i], err);
    }
    if (st == SW_OK)
        st = find_duplicates(source.catalog, stats, report, err);
    free(room);
    return st;
}
