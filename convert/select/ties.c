#include "select/ties.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "compare.h"
#include "optimizer/optimizer.h"

#define COMPARE_BYTES ((size_t)1 << 20)

typedef struct tying {
    const sw_checkpoint *checkpoint;
    const sw_catalog *catalog;
    sw_report *report;
    swi_selection *selection;
} tying;

/* Up to two matrices over the vocabulary; *count may be more. */
static void find_candidates(const tying *t, int64_t vocabulary, size_t at[2], size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < t->selection->count; i++) {
        sw_tensor_info info;
        sw_catalog_tensor(t->catalog, t->selection->items[i].source, &info);
        if (info.axes != 2 || info.shape[0] != vocabulary)
            continue;
        if (*count < 2)
            at[*count] = i;
        *count += 1;
    }
}

static bool same_form(const tying *t, const size_t at[2])
{
    sw_tensor_info a, b;
    sw_catalog_tensor(t->catalog, t->selection->items[at[0]].source, &a);
    sw_catalog_tensor(t->catalog, t->selection->items[at[1]].source, &b);
    return a.dtype == b.dtype && a.shape[0] == b.shape[0] && a.shape[1] == b.shape[1];
}

static const char *inner_name(const tying *t, size_t item)
{
    const char *section, *name;
    sw_checkpoint_split_name(t->checkpoint, t->selection->items[item].source, &section, &name);
    return name;
}

static sw_status differ(const tying *t, const size_t at[2], uint64_t first, sw_error *err)
{
    swi_quoted q, r;
    sw_tensor_info info;
    sw_catalog_tensor(t->catalog, t->selection->items[at[0]].source, &info);
    uint64_t columns = info.shape[1] > 0 ? (uint64_t)info.shape[1] : 1;
    return swi_fail(err, SW_ERR_CONFLICT,
                    "config.json says that the embeddings are tied, but \"%s\" and \"%s\" differ, "
                    "first at [%" PRIu64 ", %" PRIu64 "]; --untie writes both and says so in "
                    "config.json",
                    swi_quote_str(&q, t->selection->items[at[0]].name),
                    swi_quote_str(&r, t->selection->items[at[1]].name), first / columns,
                    first % columns);
}

static sw_status say(const tying *t, const char *code, const char *kept, const char *dropped,
                     sw_error *err)
{
    swi_quoted q, r;
    swi_finding_in in = {.severity = SW_NOTE, .code = code, .tensor = dropped ? dropped : kept};
    if (dropped == NULL)
        return swi_report_add(t->report, &in, err,
                              "tied and equal to another tensor; nothing tells which name loaders "
                              "expect, so both are written");
    return swi_report_add(t->report, &in, err,
                          "\"%s\" is tied to \"%s\" and equal to it bit by bit; written once",
                          swi_quote_str(&q, dropped), swi_quote_str(&r, kept));
}

static void remove_item(swi_selection *s, size_t i)
{
    memmove(&s->items[i], &s->items[i + 1], (s->count - i - 1) * sizeof *s->items);
    s->count--;
    s->tied++;
}

static sw_status compare_pair(const tying *t, const size_t at[2], bool *equal, uint64_t *first,
                              sw_error *err)
{
    swi_source source = swi_checkpoint_source(t->checkpoint);
    void *buffer = NULL;
    sw_status st = swi_alloc_array(COMPARE_BYTES, 1, &buffer, err);
    const swi_compare_in in = {.a = &source,
                               .tensor_a = t->selection->items[at[0]].source,
                               .b = &source,
                               .tensor_b = t->selection->items[at[1]].source,
                               .buffer = buffer,
                               .buffer_bytes = COMPARE_BYTES};
    if (st == SW_OK)
        st = swi_compare(&in, equal, first, err);
    free(buffer);
    return st;
}

sw_status swi_resolve_ties(const sw_checkpoint *checkpoint, const swi_assets *assets,
                           const sw_convert_options *options, sw_report *report,
                           swi_selection *selection, sw_error *err)
{
    tying t = {.checkpoint = checkpoint,
               .catalog = sw_checkpoint_catalog(checkpoint),
               .report = report,
               .selection = selection};
    size_t at[2], count;
    bool equal = false;
    uint64_t first = 0;
    if (!assets->tied || assets->vocabulary <= 0 || options->untie)
        return SW_OK;
    find_candidates(&t, assets->vocabulary, at, &count);
    if (count != 2 || !same_form(&t, at))
        return SW_OK;
    sw_status st = compare_pair(&t, at, &equal, &first, err);
    if (st != SW_OK)
        return st;
    if (!equal)
        return differ(&t, at, first, err);
    const char *const names[2] = {inner_name(&t, at[0]), inner_name(&t, at[1])};
    bool state[2];
    st = swi_optimizers_know(checkpoint, names, 2, state, err);
    if (st != SW_OK)
        return st;
    if (state[0] == state[1])
        return say(&t, "tied-kept", selection->items[at[1]].name, NULL, err);
    size_t keep = state[0] ? 0 : 1;
    st = say(&t, "tied", selection->items[at[keep]].name, selection->items[at[1 - keep]].name, err);
    if (st == SW_OK)
        remove_item(selection, at[1 - keep]);
    return st;
}
