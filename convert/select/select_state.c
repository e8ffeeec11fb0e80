/* What goes into a target that holds the whole state dict: every leaf under its path. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "map/remap.h"
#include "select/sections.h"
#include "select/select.h"

typedef struct selecting {
    const sw_checkpoint *checkpoint;
    const sw_catalog *catalog;
    const sw_convert_options *options;
    swi_selection *out;
    size_t capacity, leaf_capacity;
    swi_buf name;
    const char **path;
    size_t path_capacity;
    swi_section section;
    bool mapped;
    bool *met; /* mapped: by pattern of --only and then --drop: something in the target has it */
} selecting;

/* Options that choose or rename what a model is. */
static sw_status check_options(const sw_convert_options *o, const swi_target *target, sw_error *err)
{
    const struct {
        bool given;
        const char *name;
    } of_weights[] = {
        {o->section != NULL, "--section"},
        {o->strip_prefix != NULL, "--strip-prefix"},
        {o->add_prefix != NULL, "--add-prefix"},
        {o->untie, "--untie"},
        {o->assets != NULL && !target->assets, "--assets"},
    };
    for (size_t i = 0; i < sizeof of_weights / sizeof of_weights[0]; i++)
        if (of_weights[i].given)
            return swi_fail(err, SW_ERR_ARG,
                            "%s is for targets that hold weights only; this one takes the state "
                            "dict as it is, and --only, --drop and --drop-role choose in it",
                            of_weights[i].name);
    return swi_select_check_dtype(o->dtype, err);
}

static sw_status name_leaf(selecting *s, const swi_state_leaf *leaf, sw_error *err)
{
    s->name.size = 0;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < leaf->parts; i++) {
        st = i > 0 ? swi_buf_append_str(&s->name, ".", err) : SW_OK;
        if (st == SW_OK)
            st = swi_buf_append_str(&s->name, leaf->path[i], err);
    }
    return st == SW_OK ? swi_buf_append(&s->name, "", 1, err) : st;
}

static sw_status in_optimizer(selecting *s, const swi_state_leaf *leaf, bool *out, sw_error *err)
{
    swi_path path = {0};
    sw_tensor_info info;
    if (leaf->is_tensor) {
        *out = sw_catalog_tensor(s->catalog, leaf->tensor, &info) && info.role == SW_ROLE_OPTIMIZER;
        return SW_OK;
    }
    for (; path.count < leaf->parts && path.count < SWI_PATH_PARTS_MAX; path.count++) {
        path.parts[path.count] = leaf->path[path.count];
        path.is_index[path.count] = leaf->is_index[path.count];
    }
    sw_status st = swi_section_of(&path, (const char *)s->name.data, &s->section, err);
    *out = st == SW_OK && s->section.role == SW_ROLE_OPTIMIZER;
    return st;
}

/* Names of the source are met by --only and --drop, and those in the target. */
static bool matches(const selecting *s, const char *const *globs, const char *name,
                    const swi_state_leaf *leaf)
{
    const char *inner, *section;
    sw_tensor_info info;
    if (!leaf->is_tensor)
        return swi_select_match(globs, name, name);
    sw_catalog_tensor(s->catalog, leaf->tensor, &info);
    sw_checkpoint_split_name(s->checkpoint, leaf->tensor, &section, &inner);
    return swi_select_match(globs, inner, info.name) || swi_select_match(globs, name, name);
}

static bool is_named(const selecting *s, const char *name, const swi_state_leaf *leaf)
{
    const sw_convert_options *o = s->options;
    return (o->only == NULL || matches(s, o->only, name, leaf)) && !matches(s, o->drop, name, leaf);
}

/* Pattern i of --only and then --drop; NULL behind the last. */
static const char *pattern_at(const sw_convert_options *o, size_t i)
{
    size_t n = 0;
    while (o->only != NULL && o->only[n] != NULL)
        n++;
    if (i < n)
        return o->only[i];
    for (size_t k = 0; o->drop != NULL && o->drop[k] != NULL; k++)
        if (n + k == i)
            return o->drop[k];
    return NULL;
}

static sw_status begin_patterns(selecting *s, sw_error *err)
{
    size_t n = 0;
    while (pattern_at(s->options, n) != NULL)
        n++;
    return swi_alloc_array(n, sizeof *s->met, (void **)&s->met, err);
}

static void note_patterns(selecting *s, const char *name, const swi_state_leaf *leaf)
{
    for (size_t i = 0; s->mapped && pattern_at(s->options, i) != NULL; i++) {
        const char *const one[] = {pattern_at(s->options, i), NULL};
        s->met[i] = s->met[i] || matches(s, one, name, leaf);
    }
}

/* A name that is only in the source chooses nothing when a map has made others of it. */
static sw_status check_patterns(const selecting *s, sw_error *err)
{
    const size_t own = s->mapped ? swi_checkpoint_own_tensors(s->checkpoint) : 0;
    for (size_t i = 0; own > 0 && pattern_at(s->options, i) != NULL; i++) {
        const char *const one[] = {pattern_at(s->options, i), NULL};
        for (size_t t = 0; !s->met[i] && t < own; t++) {
            const char *inner, *section;
            sw_tensor_info info;
            swi_quoted q, r;
            sw_catalog_tensor(s->catalog, t, &info);
            sw_checkpoint_split_name(s->checkpoint, t, &section, &inner);
            if (swi_select_match(one, inner, info.name))
                return swi_fail(err, SW_ERR_ARG,
                                "--only and --drop: \"%s\" matches \"%s\" of the source, which the "
                                "map or the target makes other tensors of, and none of these; "
                                "choose among the names that the plan shows",
                                swi_quote_str(&q, one[0]), swi_quote_str(&r, info.name));
        }
    }
    return SW_OK;
}

/*
 * Which of the optimizers' tensors are written: surely none, perhaps some (--only may mean a name
 * that one gets in the target), or some.
 */
static void look_at_optimizers(const selecting *s, swi_state_form *form)
{
    const sw_convert_options *o = s->options;
    sw_tensor_info info;
    bool left = false, named = o->only == NULL;
    for (uint32_t i = 0; sw_catalog_tensor(s->catalog, i, &info); i++) {
        const swi_state_leaf leaf = {.is_tensor = true, .tensor = i};
        if (info.role != SW_ROLE_OPTIMIZER || matches(s, o->drop, info.name, &leaf))
            continue;
        left = true;
        named = named || matches(s, o->only, info.name, &leaf);
    }
    /* without filters there may be an optimizer that has no tensors yet */
    form->without_optimizers = o->drop_optimizer || (!left && o->drop != NULL);
    form->lenient = !named;
}

static sw_status keep_path(selecting *s, const swi_state_leaf *leaf, swi_state_part *out,
                           sw_error *err)
{
    void *room;
    sw_status st =
        swi_grow_array((void **)&s->path, &s->path_capacity, leaf->parts + 1, sizeof *s->path, err);
    for (size_t i = 0; st == SW_OK && i < leaf->parts; i++) {
        char index[32];
        const char *part = leaf->path[i];
        if (leaf->is_index[i]) {
            snprintf(index, sizeof index, "#%s", part);
            part = index;
        } else if (part[0] == '#') {
            swi_quoted q;
            return swi_fail(err, SW_ERR_UNSUPPORTED,
                            "state dict: a key \"%s\" cannot be told from a position in a list",
                            swi_quote_str(&q, part));
        }
        st = swi_arena_text(&s->out->arena, part, strlen(part), &s->path[i], err);
    }
    if (st == SW_OK)
        st = swi_arena_alloc(&s->out->arena, leaf->parts * sizeof *s->path, &room, err);
    if (st != SW_OK)
        return st;
    memcpy(room, s->path, leaf->parts * sizeof *s->path);
    out->path = room;
    out->parts = leaf->parts;
    return SW_OK;
}

static sw_status take_tensor(selecting *s, const swi_state_leaf *leaf, const char *name,
                             sw_error *err)
{
    sw_tensor_info info;
    sw_status st = swi_grow_array((void **)&s->out->items, &s->capacity, s->out->count + 1,
                                  sizeof *s->out->items, err);
    if (st != SW_OK)
        return st;
    sw_catalog_tensor(s->catalog, leaf->tensor, &info);
    /* A step counter or a moment loses what training needs. */
    sw_dtype dtype =
        info.role == SW_ROLE_PARAMETER ? swi_select_dtype(s->options, &info) : info.dtype;
    s->out->items[s->out->count++] =
        (swi_chosen){.source = leaf->tensor, .name = name, .dtype = dtype, .scale = -1};
    return SW_OK;
}

static sw_status take_leaf(void *ctx, const swi_state_leaf *leaf, sw_error *err)
{
    selecting *s = ctx;
    swi_state_part made = {.value = leaf->value};
    if (leaf->parts == 0)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "what was saved is no dict: it has no names");
    sw_status st = name_leaf(s, leaf, err);
    if (st != SW_OK)
        return st;
    bool dropped = false;
    note_patterns(s, (const char *)s->name.data, leaf);
    if (s->options->drop_optimizer)
        st = in_optimizer(s, leaf, &dropped, err);
    if (st != SW_OK)
        return st;
    if (dropped || !is_named(s, (const char *)s->name.data, leaf)) {
        s->out->dropped += leaf->is_tensor;
        s->out->dropped_values += !leaf->is_tensor;
        return SW_OK;
    }
    st = swi_grow_array((void **)&s->out->leaves, &s->leaf_capacity, s->out->leaf_count + 1,
                        sizeof *s->out->leaves, err);
    if (st == SW_OK)
        st = swi_arena_text(&s->out->arena, (const char *)s->name.data, s->name.size - 1,
                            &made.name, err);
    if (st == SW_OK)
        st = keep_path(s, leaf, &made, err);
    if (st == SW_OK && leaf->is_tensor)
        st = take_tensor(s, leaf, made.name, err);
    if (st == SW_OK)
        s->out->leaves[s->out->leaf_count++] = made;
    return st;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Two paths may be one name when they are joined. */
static sw_status check_distinct(const selecting *s, sw_error *err)
{
    void *room;
    size_t count = s->out->leaf_count;
    sw_status st = swi_alloc_array(count, sizeof(char *), &room, err);
    if (st != SW_OK)
        return st;
    const char **names = room;
    for (size_t i = 0; i < count; i++)
        names[i] = s->out->leaves[i].name;
    if (count > 1)
        qsort(names, count, sizeof *names, by_text);
    for (size_t i = 1; st == SW_OK && i < count; i++) {
        swi_quoted q;
        if (strcmp(names[i - 1], names[i]) == 0)
            st = swi_fail(err, SW_ERR_CONFLICT,
                          "two places of the state dict would both be called \"%s\"; --drop "
                          "leaves both out",
                          swi_quote_str(&q, names[i]));
    }
    free(names);
    return st;
}

/* The list of tensors has stopped moving. */
static void point_at_tensors(const selecting *s)
{
    size_t next = 0;
    for (size_t i = 0; i < s->out->leaf_count; i++)
        if (sw_value_get_kind(s->out->state.graph, s->out->leaves[i].value) == SW_VALUE_TENSOR)
            s->out->leaves[i].tensor = &s->out->items[next++];
}

static sw_status say_scoped(selecting *s, sw_report *report, sw_error *err)
{
    const swi_state *state = &s->out->state;
    s->out->values = state->scoped_count;
    if (state->scoped_count == 0)
        return SW_OK;
    swi_finding_in in = {.severity = SW_WARNING, .code = "rank-values", .tensor = ""};
    return swi_report_add(report, &in, err,
                          "%zu values differ from rank to rank and the target has one place for "
                          "each; those of the first rank are carried",
                          state->scoped_count);
}

/* The state dict in the form that the target wants. */
static sw_status read_state(const selecting *s, swi_state_form *form, sw_report *report,
                            sw_error *err)
{
    look_at_optimizers(s, form);
    form->naming.keep_prefixes = s->options->keep_prefixes;
    sw_status st = swi_checkpoint_state(s->checkpoint, &s->out->state, err);
    return st == SW_OK ? swi_state_reform(s->checkpoint, form, &s->out->state, report, err) : st;
}

/* Nothing more is mapped from here on. */
static sw_status end_map(selecting *s, swi_remap *remap, sw_error *err)
{
    if (remap == NULL)
        return SW_OK;
    sw_status st = swi_remap_end(remap, s->checkpoint, &s->checkpoint, err);
    s->catalog = sw_checkpoint_catalog(s->checkpoint);
    return st;
}

/* What the target makes of the state dict. */
static sw_status reshape(selecting *s, const swi_select_in *in, const swi_state_form *form,
                         sw_error *err)
{
    const swi_reshape_in how = {
        .checkpoint = s->checkpoint,
        .target = in->target,
        .rules = in->rules,
        .model = in->remap != NULL ? in->remap->model : NULL,
        .side = in->remap != NULL ? in->remap->side : 0,
        .mapped = s->mapped,
        .without_optimizers = form->without_optimizers,
        .lenient = form->lenient,
        .convert = in->options,
        .limits = swi_checkpoint_limits(in->checkpoint),
        .report = in->report,
    };
    if (in->target->framework->reshape == NULL)
        return SW_OK;
    sw_status st = in->target->framework->reshape(&how, &s->out->state, &s->out->derived, err);
    if (st != SW_OK || s->out->derived == NULL)
        return st;
    s->mapped = true;
    s->checkpoint = s->out->derived;
    s->catalog = sw_checkpoint_catalog(s->checkpoint);
    return SW_OK;
}

sw_status swi_select_state(const swi_select_in *in, const sw_checkpoint **whole, swi_selection *out,
                           sw_error *err)
{
    const sw_convert_options *options = in->options;
    swi_selection made = {.section = ""};
    swi_state_form form = *in->form;
    selecting s = {.checkpoint = in->checkpoint,
                   .catalog = sw_checkpoint_catalog(in->checkpoint),
                   .options = options,
                   .out = &made,
                   .mapped = in->remap != NULL && in->remap->mapping != NULL};
    sw_status st = check_options(options, in->target, err);
    if (st == SW_OK)
        st = begin_patterns(&s, err);
    if (st == SW_OK)
        st = read_state(&s, &form, in->report, err);
    if (st == SW_OK)
        st = end_map(&s, in->remap, err);
    if (st == SW_OK)
        st = reshape(&s, in, &form, err);
    if (st == SW_OK)
        st = swi_state_walk(&made.state, take_leaf, &s, err);
    if (st == SW_OK)
        st = check_patterns(&s, err);
    if (st == SW_OK && made.count == 0)
        st = swi_fail(err, made.dropped > 0 ? SW_ERR_ARG : SW_ERR_UNSUPPORTED,
                      "no tensor is left to write: the checkpoint has %zu tensors, %" PRIu64
                      " dropped by --only, --drop and --drop-role; see them with inspect --tensors "
                      "'*'",
                      sw_catalog_tensor_count(s.catalog), made.dropped);
    if (st == SW_OK)
        st = check_distinct(&s, err);
    if (st == SW_OK) {
        point_at_tensors(&s);
        st = swi_select_check_whole(s.checkpoint, in->report, &made, err);
    }
    if (st == SW_OK)
        st = in->target->rank_values ? SW_OK : say_scoped(&s, in->report, err);
    free(s.path);
    free(s.met);
    swi_buf_free(&s.name);
    swi_section_end(&s.section);
    if (st == SW_OK) {
        *out = made;
        *whole = s.checkpoint;
    } else {
        swi_selection_free(&made);
    }
    return st;
}
