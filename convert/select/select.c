#include "select/select.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/report.h"
#include "base/text.h"
#include "cast.h"
#include "select/names.h"

typedef struct selecting {
    const sw_checkpoint *checkpoint;
    const sw_catalog *catalog;
    const sw_convert_options *options;
    sw_report *report;
    swi_selection *out;
    size_t capacity;
    swi_buf name;
} selecting;

void swi_selection_free(swi_selection *selection)
{
    free(selection->items);
    free(selection->leaves);
    swi_state_free(&selection->state);
    sw_checkpoint_close(selection->derived);
    swi_arena_free(&selection->arena);
    *selection = (swi_selection){0};
}

/* ---- which section is the model ----------------------------------------------------------- */

/* How much a section looks like the model among others: 3 is asked for, 2 "model", 1 the top. */
static int section_rank(const char *section, const char *asked)
{
    const char *dot = strrchr(section, '.');
    const char *last = dot ? dot + 1 : section;
    if (asked != NULL)
        return strcmp(section, asked) == 0 ? 3 : -1;
    if (strcmp(last, "model") == 0)
        return 2;
    return section[0] == '\0' ? 0 : 1;
}

static sw_status several_sections(const char *a, const char *b, sw_error *err)
{
    swi_quoted q, r;
    return swi_fail(err, SW_ERR_CONFLICT,
                    "several parts of the state dict could be the model: \"%s\" and \"%s\"; choose "
                    "one with --section",
                    swi_quote_str(&q, a), swi_quote_str(&r, b));
}

/* *section NULL: no tensor lies in a section that looks like a module's. */
static sw_status choose_section(selecting *s, const char **section, sw_error *err)
{
    const char *asked = s->options->section;
    const char *best = NULL, *second = NULL;
    int rank = -1;
    for (size_t i = 0; i < sw_catalog_tensor_count(s->catalog); i++) {
        sw_tensor_info info;
        const char *here, *name;
        sw_catalog_tensor(s->catalog, i, &info);
        sw_checkpoint_split_name(s->checkpoint, i, &here, &name);
        if (info.role != SW_ROLE_PARAMETER && asked == NULL)
            continue;
        int r = section_rank(here, asked);
        if (r < 0 || (best != NULL && strcmp(best, here) == 0))
            continue;
        if (r > rank) {
            best = here;
            second = NULL;
            rank = r;
        } else if (r == rank && best != NULL && second == NULL) {
            second = here;
        }
    }
    if (second != NULL)
        return several_sections(best, second, err);
    if (best == NULL && asked != NULL) {
        swi_quoted q;
        return swi_fail(err, SW_ERR_NOTFOUND,
                        "--section %s: no tensor lies in a part of that name; see inspect",
                        swi_quote_str(&q, asked));
    }
    *section = best;
    return SW_OK;
}

/* Whether tensor i belongs to the chosen part; *name is its name there. */
static bool in_section(const selecting *s, size_t i, const char *section, const char **name,
                       sw_tensor_info *info)
{
    const char *here;
    sw_catalog_tensor(s->catalog, i, info);
    sw_checkpoint_split_name(s->checkpoint, i, &here, name);
    if (section == NULL) {
        *name = info->name;
        return info->role != SW_ROLE_OPTIMIZER;
    }
    return strcmp(here, section) == 0 &&
           (info->role == SW_ROLE_PARAMETER || s->options->section != NULL);
}

/* ---- names -------------------------------------------------------------------------------- */

static bool all_have_module(const selecting *s, const char *section)
{
    bool any = false;
    for (size_t i = 0; i < sw_catalog_tensor_count(s->catalog); i++) {
        sw_tensor_info info;
        const char *name;
        if (!in_section(s, i, section, &name, &info))
            continue;
        if (!swi_has_module_prefix(name))
            return false;
        any = true;
    }
    return any;
}

static sw_status target_name(selecting *s, const char *name, bool drop_module, uint64_t *removed,
                             const char **out, sw_error *err)
{
    const sw_convert_options *o = s->options;
    s->name.size = 0;
    sw_status st = o->add_prefix ? swi_buf_append_str(&s->name, o->add_prefix, err) : SW_OK;
    size_t start = s->name.size;
    if (st == SW_OK && o->keep_prefixes)
        st = swi_buf_append(&s->name, name, strlen(name) + 1, err);
    else if (st == SW_OK)
        st = swi_clean_name(name, drop_module, &s->name, removed, err);
    if (st != SW_OK)
        return st;
    char *text = (char *)s->name.data;
    size_t cut = o->strip_prefix ? strlen(o->strip_prefix) : 0;
    if (cut > 0) {
        swi_quoted q, r;
        if (strncmp(text + start, o->strip_prefix, cut) != 0 || text[start + cut] == '\0')
            return swi_fail(err, SW_ERR_ARG,
                            "--strip-prefix %s: tensor \"%s\" does not begin with it; narrow the "
                            "selection with --only or --drop",
                            swi_quote_str(&r, o->strip_prefix), swi_quote_str(&q, text + start));
        memmove(text + start, text + start + cut, s->name.size - start - cut);
        s->name.size -= cut;
    }
    return swi_arena_text(&s->out->arena, text, s->name.size - 1, out, err);
}

bool swi_select_match(const char *const *globs, const char *a, const char *b)
{
    for (; globs != NULL && *globs != NULL; globs++) {
        if (swi_glob_match(*globs, a) || swi_glob_match(*globs, b))
            return true;
    }
    return false;
}

/* ---- the list ----------------------------------------------------------------------------- */

sw_status swi_select_check_dtype(sw_dtype dtype, sw_error *err)
{
    if (dtype == SW_DTYPE_NONE || swi_cast_possible(SW_F32, dtype))
        return SW_OK;
    return swi_fail(err, SW_ERR_ARG,
                    "--dtype %s: tensors are cast to bf16, f16, f32 or f64 and nothing else",
                    sw_dtype_name(dtype));
}

sw_dtype swi_select_dtype(const sw_convert_options *options, const sw_tensor_info *info)
{
    sw_dtype want = options->dtype;
    if (want == SW_DTYPE_NONE || !sw_dtype_is_float(info->dtype))
        return info->dtype;
    return swi_cast_possible(info->dtype, want) ? want : info->dtype;
}

/* Whether a cast that was asked for leaves this tensor as it is, though it is floating-point. */
static bool stays_uncast(const selecting *s, const sw_tensor_info *info)
{
    sw_dtype want = s->options->dtype;
    return want != SW_DTYPE_NONE && !s->options->dequantise && want != info->dtype &&
           sw_dtype_is_float(info->dtype) && swi_select_dtype(s->options, info) == info->dtype;
}

static sw_status say_uncast(selecting *s, uint64_t count, const char *first, sw_error *err)
{
    if (count == 0)
        return SW_OK;
    swi_finding_in in = {.severity = SW_WARNING, .code = "not-cast", .tensor = first};
    return swi_report_add(s->report, &in, err,
                          "%" PRIu64
                          " tensors of float8 and smaller kinds, this one first, are not "
                          "cast to %s: without their scales the values mean nothing",
                          count, sw_dtype_name(s->options->dtype));
}

static sw_status take(selecting *s, size_t i, const sw_tensor_info *info, const char *name,
                      sw_error *err)
{
    sw_status st = swi_grow_array((void **)&s->out->items, &s->capacity, s->out->count + 1,
                                  sizeof *s->out->items, err);
    if (st != SW_OK)
        return st;
    s->out->items[s->out->count++] = (swi_chosen){.source = (uint32_t)i,
                                                  .name = name,
                                                  .dtype = swi_select_dtype(s->options, info),
                                                  .scale = -1};
    return SW_OK;
}

sw_status swi_select_say_cleaned(sw_report *report, uint64_t removed, sw_error *err)
{
    if (removed == 0)
        return SW_OK;
    swi_finding_in in = {.severity = SW_NOTE, .code = "names-cleaned"};
    return swi_report_add(report, &in, err,
                          "%" PRIu64 " parts that wrappers add to names (module., _orig_mod. and "
                          "their kin) were taken off; --keep-prefix leaves them",
                          removed);
}

/* A pattern that meets no tensor is most likely a slip of the pen. */
static sw_status say_unmatched(selecting *s, const char *option, const char *const *globs,
                               const char *section, sw_error *err)
{
    for (; globs != NULL && *globs != NULL; globs++) {
        const char *const one[] = {*globs, NULL};
        bool met = false;
        for (size_t i = 0; !met && i < sw_catalog_tensor_count(s->catalog); i++) {
            sw_tensor_info info;
            const char *inner;
            met =
                in_section(s, i, section, &inner, &info) && swi_select_match(one, inner, info.name);
        }
        if (met)
            continue;
        swi_quoted q;
        swi_finding_in in = {.severity = SW_WARNING, .code = "unmatched-glob"};
        sw_status st = swi_report_add(s->report, &in, err, "%s \"%s\" meets no tensor of the model",
                                      option, swi_quote_str(&q, *globs));
        if (st != SW_OK)
            return st;
    }
    return SW_OK;
}

static sw_status collect(selecting *s, sw_error *err)
{
    const char *section = NULL;
    sw_status st = choose_section(s, &section, err);
    if (st != SW_OK)
        return st;
    s->out->section = section ? section : "";
    st = say_unmatched(s, "--only", s->options->only, section, err);
    if (st == SW_OK)
        st = say_unmatched(s, "--drop", s->options->drop, section, err);
    if (st != SW_OK)
        return st;
    bool drop_module = !s->options->keep_prefixes && all_have_module(s, section);
    uint64_t removed = 0, uncast = 0;
    const char *first_uncast = NULL;
    for (size_t i = 0; i < sw_catalog_tensor_count(s->catalog); i++) {
        sw_tensor_info info;
        const char *inner, *name;
        if (!in_section(s, i, section, &inner, &info)) {
            uint64_t *count = info.role == SW_ROLE_OPTIMIZER ? &s->out->optimizer : &s->out->other;
            *count += 1;
            continue;
        }
        if ((s->options->only != NULL && !swi_select_match(s->options->only, inner, info.name)) ||
            swi_select_match(s->options->drop, inner, info.name)) {
            s->out->dropped++;
            continue;
        }
        if (stays_uncast(s, &info) && uncast++ == 0)
            first_uncast = info.name;
        st = target_name(s, inner, drop_module, &removed, &name, err);
        if (st == SW_OK)
            st = take(s, i, &info, name, err);
        if (st != SW_OK)
            return st;
    }
    s->out->values = sw_catalog_value_count(s->catalog);
    if (s->out->count == 0)
        return swi_fail(err, SW_ERR_ARG,
                        "no tensor is left to write: the checkpoint has %zu tensors, %" PRIu64
                        " of the optimizer, %" PRIu64
                        " dropped by --only and --drop; see them with inspect --tensors '*'",
                        sw_catalog_tensor_count(s->catalog), s->out->optimizer, s->out->dropped);
    st = say_uncast(s, uncast, first_uncast, err);
    return st == SW_OK ? swi_select_say_cleaned(s->report, removed, err) : st;
}

static int by_name(const void *a, const void *b)
{
    return swi_name_order(((const swi_chosen *)a)->name, ((const swi_chosen *)b)->name);
}

void swi_selection_sort(swi_selection *selection)
{
    if (selection->count > 1)
        qsort(selection->items, selection->count, sizeof *selection->items, by_name);
}

static const char *source_name(const selecting *s, const swi_chosen *item)
{
    sw_tensor_info info;
    sw_catalog_tensor(s->catalog, item->source, &info);
    return info.name;
}

static sw_status check_distinct(const selecting *s, sw_error *err)
{
    for (size_t i = 1; i < s->out->count; i++) {
        const swi_chosen *a = &s->out->items[i - 1], *b = &s->out->items[i];
        if (strcmp(a->name, b->name) != 0)
            continue;
        swi_quoted p, q, r;
        return swi_fail(err, SW_ERR_CONFLICT,
                        "tensors \"%s\" and \"%s\" would both be called \"%s\"; --keep-prefix "
                        "leaves names as they are, --drop leaves one out",
                        swi_quote_str(&p, source_name(s, a)), swi_quote_str(&q, source_name(s, b)),
                        swi_quote_str(&r, a->name));
    }
    return SW_OK;
}

static sw_status find_settled(selecting *s, sw_error *err)
{
    sw_status st = SW_OK;
    uint64_t removed = 0;
    bool drop_module = true;
    for (size_t i = 0; drop_module && i < s->out->count; i++)
        drop_module = swi_has_module_prefix(s->out->items[i].name);
    for (size_t i = 0; st == SW_OK && i < s->out->count; i++) {
        s->name.size = 0;
        st = swi_clean_name(s->out->items[i].name, drop_module, &s->name, &removed, err);
    }
    s->out->settled = removed == 0;
    return st;
}

/* The finding that explains a tensor's defect, when it is still at hand. */
static const char *why_damaged(const sw_report *report, const char *tensor)
{
    swi_quoted q;
    const char *shown = swi_quote_str(&q, tensor);
    for (size_t i = 0; report != NULL && i < sw_report_count(report); i++) {
        const sw_finding *f = sw_report_at(report, i);
        if (f->severity >= SW_DEFECT && strcmp(f->tensor, shown) == 0)
            return f->message;
    }
    return "it is damaged";
}

sw_status swi_select_check_whole(const sw_checkpoint *checkpoint, const sw_report *report,
                                 const swi_selection *selection, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    for (size_t i = 0; i < selection->count; i++) {
        sw_status defect = swi_tensor_defect(catalog, selection->items[i].source);
        if (defect == SW_OK)
            continue;
        swi_quoted q;
        sw_tensor_info info;
        sw_catalog_tensor(catalog, selection->items[i].source, &info);
        return swi_fail(err, defect, "tensor \"%s\": %s; verify lists all that is wrong",
                        swi_quote_str(&q, info.name), why_damaged(report, info.name));
    }
    return SW_OK;
}

sw_status swi_select_any(const sw_checkpoint *checkpoint, const sw_convert_options *options,
                         sw_report *report, swi_selection *out, sw_error *err)
{
    swi_selection made = {0};
    selecting s = {.checkpoint = checkpoint,
                   .catalog = sw_checkpoint_catalog(checkpoint),
                   .options = options,
                   .report = report,
                   .out = &made};
    sw_status st = swi_select_check_dtype(options->dtype, err);
    if (st == SW_OK)
        st = collect(&s, err);
    if (st == SW_OK) {
        swi_selection_sort(&made);
        st = check_distinct(&s, err);
    }
    if (st == SW_OK)
        st = find_settled(&s, err);
    swi_buf_free(&s.name);
    if (st != SW_OK) {
        swi_selection_free(&made);
        return st;
    }
    *out = made;
    return SW_OK;
}

sw_status swi_select(const sw_checkpoint *checkpoint, const sw_convert_options *options,
                     sw_report *report, swi_selection *out, sw_error *err)
{
    swi_selection made = {0};
    sw_status st = swi_select_any(checkpoint, options, report, &made, err);
    if (st == SW_OK)
        st = swi_select_check_whole(checkpoint, report, &made, err);
    if (st == SW_OK)
        *out = made;
    else
        swi_selection_free(&made);
    return st;
}
