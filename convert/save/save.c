/* Saving from memory: a state dict is put together, and is then converted like any other. */
#include "save/save.h"

#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "convert.h"
#include "native/manifest.h"

sw_status sw_save_begin(const sw_save_options *options, sw_save **out, sw_error *err)
{
    sw_save *s = NULL;
    if (out == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_save_begin: out is needed");
    if (options != NULL && options->ranks > SWI_NATIVE_RANKS_MAX)
        return swi_fail(err, SW_ERR_ARG, "sw_save_begin: there are at most %u ranks",
                        SWI_NATIVE_RANKS_MAX);
    sw_status st = swi_alloc_array(1, sizeof *s, (void **)&s, err);
    if (st != SW_OK)
        return st;
    s->limits = sw_limits_resolve(options ? options->limits : NULL);
    s->in_order = options != NULL && options->in_order;
    s->ranks = options != NULL ? options->ranks : 0;
    s->rank = -1;
    st = swi_names_make(&s->names, err);
    if (st == SW_OK)
        st = swi_names_make(&s->scoped_names, err);
    if (st == SW_OK)
        st = swi_graph_make(&s->limits, &s->graph, err);
    if (st == SW_OK)
        st = swi_graph_dict(s->graph, &s->root, err);
    if (st == SW_OK)
        *out = s;
    else
        sw_save_free(s);
    return st;
}

void sw_save_free(sw_save *save)
{
    if (save == NULL)
        return;
    swi_names_free(save->names);
    swi_names_free(save->scoped_names);
    sw_value_graph_free(save->graph);
    swi_arena_free(&save->arena);
    free(save->tensors);
    free(save->layouts);
    free(save->scoped);
    free(save->pieces);
    free(save->memory);
    free(save);
}

/* ---- places in the state dict --------------------------------------------------------------- */

sw_status swi_save_path(sw_save *s, const char *name, swi_path *out, sw_error *err)
{
    const size_t size = name != NULL ? strlen(name) : 0;
    swi_quoted q;
    uint8_t *text;
    *out = (swi_path){0};
    if (size == 0)
        return swi_fail(err, SW_ERR_ARG, "a name is needed for what is saved");
    if (!swi_utf8_valid(name, size))
        return swi_fail(err, SW_ERR_FORMAT, "\"%s\": a name is UTF-8", swi_quote_str(&q, name));
    sw_status st = swi_arena_bytes(&s->arena, size + 1, &text, err);
    if (st != SW_OK)
        return st;
    memcpy(text, name, size + 1);
    for (char *part = (char *)text; part != NULL; out->count++) {
        char *end = strchr(part, '/');
        if (out->count == SWI_PATH_PARTS_MAX || *part == '\0' || end == part)
            return swi_fail(err, SW_ERR_ARG,
                            "\"%s\": a name is of 1 to %d keys, none of them empty, with a '/' "
                            "between them",
                            swi_quote_str(&q, name), SWI_PATH_PARTS_MAX);
        if (end != NULL)
            *end++ = '\0';
        out->parts[out->count] = part;
        part = end;
    }
    return SW_OK;
}

static sw_status key_of(const sw_save *s, const char *text, sw_value *out, sw_error *err)
{
    return swi_graph_text(s->graph, SW_VALUE_STR, text, strlen(text), out, err);
}

sw_status swi_save_clash(const char *name, const char *why, sw_error *err)
{
    swi_quoted q;
    return swi_fail(err, SW_ERR_CONFLICT, "\"%s\": %s", swi_quote_str(&q, name), why);
}

/* The dict that the last key is of, made where it is not there yet. */
static sw_status find_dict(const sw_save *s, const char *name, const swi_path *path, sw_value *out,
                           sw_error *err)
{
    sw_value at = s->root;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i + 1 < path->count; i++) {
        sw_value next, pair[2];
        if (!swi_value_get(s->graph, at, path->parts[i], &next)) {
            st = swi_graph_dict(s->graph, &next, err);
            if (st == SW_OK)
                st = key_of(s, path->parts[i], &pair[0], err);
            pair[1] = next;
            if (st == SW_OK)
                st = swi_graph_set_items(s->graph, at, pair, 1, err);
        } else if (sw_value_get_kind(s->graph, next) != SW_VALUE_DICT) {
            return swi_save_clash(name, "one of its keys holds a tensor or a value, and no dict",
                                  err);
        }
        at = next;
    }
    *out = at;
    return st;
}

sw_status swi_save_put(const sw_save *s, const char *name, const swi_path *path, sw_value v,
                       sw_error *err)
{
    const char *key = path->parts[path->count - 1];
    sw_value dict, old, pair[2] = {{0}, v};
    sw_status st = find_dict(s, name, path, &dict, err);
    if (st != SW_OK)
        return st;
    if (swi_value_get(s->graph, dict, key, &old))
        return swi_save_clash(name, "there is something of that name already", err);
    st = key_of(s, key, &pair[0], err);
    return st == SW_OK ? swi_graph_set_items(s->graph, dict, pair, 1, err) : st;
}

bool swi_save_get(const sw_save *s, const swi_path *path, sw_value *out)
{
    sw_value at = s->root;
    for (size_t i = 0; i < path->count; i++)
        if (!swi_value_get(s->graph, at, path->parts[i], &at))
            return false;
    *out = at;
    return true;
}

sw_status swi_save_join(sw_save *s, const swi_path *path, const char **out, sw_error *err)
{
    swi_buf text = {0};
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < path->count; i++)
        st = swi_buf_printf(&text, err, "%s%s", i > 0 ? "." : "", path->parts[i]);
    if (st == SW_OK)
        st = swi_arena_text(&s->arena, (const char *)text.data, text.size, out, err);
    swi_buf_free(&text);
    return st;
}

/* ---- the end -------------------------------------------------------------------------------- */

sw_status sw_save_commit(sw_save *save, const char *path, const sw_convert_options *options,
                         sw_report *report, sw_convert_summary *out, sw_error *err)
{
    sw_report *own = NULL;
    sw_checkpoint *checkpoint = NULL;
    sw_convert_summary sum;
    sw_status st = SW_OK;
    if (save == NULL || path == NULL || options == NULL || options->to == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_save_commit: save, path and options.to are needed");
    if (report == NULL)
        st = sw_report_make(&own, err);
    if (st == SW_OK)
        st = swi_save_open(save, report ? report : own, &checkpoint, err);
    if (st == SW_OK)
        st = swi_convert(checkpoint, path, options, report ? report : own, &sum, err);
    sw_checkpoint_close(checkpoint);
    sw_report_free(own);
    if (st == SW_OK && out != NULL)
        *out = sum;
    return st;
}
