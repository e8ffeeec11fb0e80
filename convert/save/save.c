/* Saving from memory: a state dict is put together, and is then converted like any other. */
#include "save/save.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/report.h"
#include "base/text.h"
#include "codec/json.h"
#include "convert.h"
#include "select/sections.h"

sw_status sw_save_begin(const sw_save_options *options, sw_save **out, sw_error *err)
{
    sw_save *s = NULL;
    if (out == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_save_begin: out is needed");
    sw_status st = swi_alloc_array(1, sizeof *s, (void **)&s, err);
    if (st != SW_OK)
        return st;
    s->limits = sw_limits_resolve(options ? options->limits : NULL);
    s->in_order = options != NULL && options->in_order;
    st = swi_names_make(&s->names, err);
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
    sw_value_graph_free(save->graph);
    swi_arena_free(&save->arena);
    free(save->tensors);
    free(save->pieces);
    free(save->memory);
    free(save);
}

/* ---- places in the state dict --------------------------------------------------------------- */

/* "model/layers.0.weight" as its keys, which live as long as the save. */
static sw_status split(sw_save *s, const char *name, swi_path *out, sw_error *err)
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

static sw_status clash(const char *name, const char *why, sw_error *err)
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
            return clash(name, "one of its keys holds a tensor or a value, and no dict", err);
        }
        at = next;
    }
    *out = at;
    return st;
}

static sw_status put(const sw_save *s, const char *name, const swi_path *path, sw_value v,
                     sw_error *err)
{
    const char *key = path->parts[path->count - 1];
    sw_value dict, old, pair[2] = {{0}, v};
    sw_status st = find_dict(s, name, path, &dict, err);
    if (st != SW_OK)
        return st;
    if (swi_value_get(s->graph, dict, key, &old))
        return clash(name, "there is something of that name already", err);
    st = key_of(s, key, &pair[0], err);
    return st == SW_OK ? swi_graph_set_items(s->graph, dict, pair, 1, err) : st;
}

/* Whether these keys lead to the tensor. */
static bool leads_to(const sw_save *s, const swi_path *path, uint32_t tensor)
{
    sw_value at = s->root;
    uint32_t index;
    for (size_t i = 0; i < path->count; i++) {
        if (!swi_value_get(s->graph, at, path->parts[i], &at))
            return false;
    }
    return sw_value_tensor(s->graph, at, &index) && index == tensor;
}

/* ---- tensors -------------------------------------------------------------------------------- */

static sw_status check_tensor(const sw_tensor_data *t, swi_piece *piece, uint64_t *bytes,
                              sw_error *err)
{
    const uint32_t each = sw_dtype_bytes(t->dtype);
    uint64_t elements, held;
    swi_quoted q;
    const char *name = swi_quote_str(&q, t->name);
    if (each == 0 || t->axes > SW_MAX_AXES || !swi_shape_elements(t->axes, t->shape, &elements))
        return swi_fail(err, SW_ERR_ARG, "\"%s\": a tensor has a known type and at most %d axes",
                        name, SW_MAX_AXES);
    *piece = (swi_piece){.axes = t->axes};
    for (uint32_t k = 0; k < t->axes; k++) {
        piece->view[k] = t->shape[k];
        piece->offset[k] = t->is_box ? t->offset[k] : 0;
        piece->length[k] = t->is_box ? t->length[k] : t->shape[k];
        if (piece->offset[k] < 0 || piece->length[k] < 0 || piece->offset[k] > t->shape[k] ||
            piece->length[k] > t->shape[k] - piece->offset[k])
            return swi_fail(err, SW_ERR_ARG, "\"%s\": the box leaves the tensor on axis %u", name,
                            (unsigned)k);
    }
    if (!swi_shape_elements(t->axes, piece->length, &held) || !swi_mul_u64(held, each, bytes) ||
        *bytes > PTRDIFF_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "\"%s\": too large for memory", name);
    if (t->data == NULL && *bytes > 0)
        return swi_fail(err, SW_ERR_ARG, "\"%s\": its data is needed", name);
    swi_piece_make_dense(piece, each);
    return SW_OK;
}

static sw_status join(sw_save *s, const swi_path *path, const char **out, sw_error *err)
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

static sw_status fill_tensor(sw_save *s, const sw_tensor_data *t, const swi_path *path,
                             swi_saved_tensor *out, sw_error *err)
{
    swi_section section = {0};
    sw_status st = swi_section_of(path, out->name, &section, err);
    if (st == SW_OK)
        st = swi_arena_text(&s->arena, (const char *)section.section.data, section.section.size - 1,
                            &out->section, err);
    if (st == SW_OK)
        st = swi_arena_text(&s->arena, (const char *)section.name.data, section.name.size - 1,
                            &out->inner, err);
    out->role = section.role;
    out->dtype = t->dtype;
    out->axes = t->axes;
    for (uint32_t k = 0; k < t->axes; k++)
        out->shape[k] = t->shape[k];
    swi_section_end(&section);
    return st;
}

static bool same_kind(const swi_saved_tensor *a, const sw_tensor_data *b)
{
    return a->dtype == b->dtype && a->axes == b->axes &&
           (a->axes == 0 || memcmp(a->shape, b->shape, a->axes * sizeof a->shape[0]) == 0);
}

/* The tensor's index; it is a new one unless it was begun before. */
static sw_status find_tensor(sw_save *s, const sw_tensor_data *t, const swi_path *path,
                             uint32_t *id, sw_error *err)
{
    swi_saved_tensor fresh = {0};
    sw_status st = join(s, path, &fresh.name, err);
    if (st != SW_OK)
        return st;
    const int64_t known = swi_names_find(s->names, fresh.name, strlen(fresh.name));
    if (known >= 0) {
        *id = (uint32_t)known;
        if (!leads_to(s, path, *id))
            return clash(t->name, "a tensor at another place is called alike", err);
        return same_kind(&s->tensors[known], t)
                   ? SW_OK
                   : clash(t->name, "its parts are of different types or shapes", err);
    }
    *id = swi_names_count(s->names);
    st = swi_grow_array((void **)&s->tensors, &s->tensor_capacity, (size_t)*id + 1,
                        sizeof *s->tensors, err);
    if (st == SW_OK)
        st = fill_tensor(s, t, path, &fresh, err);
    if (st == SW_OK)
        st = put(s, t->name, path, swi_value_of_tensor(*id), err);
    if (st == SW_OK)
        st = swi_names_add(s->names, fresh.name, strlen(fresh.name), id, NULL, err);
    if (st == SW_OK)
        s->tensors[*id] = fresh;
    return st;
}

sw_status sw_save_tensor(sw_save *save, const sw_tensor_data *tensor, sw_error *err)
{
    swi_saved_piece p;
    swi_path path;
    uint64_t bytes = 0;
    if (save == NULL || tensor == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_save_tensor: a save and a tensor are needed");
    sw_status st = split(save, tensor->name, &path, err);
    if (st == SW_OK)
        st = check_tensor(tensor, &p.piece, &bytes, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&save->pieces, &save->piece_capacity, save->piece_count + 1,
                            sizeof *save->pieces, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&save->memory, &save->memory_capacity, save->piece_count + 1,
                            sizeof *save->memory, err);
    if (st == SW_OK)
        st = find_tensor(save, tensor, &path, &p.tensor, err);
    if (st != SW_OK || bytes == 0)
        return st;
    save->pieces[save->piece_count] = p;
    save->memory[save->piece_count++] = (swi_slice){tensor->data, (size_t)bytes};
    return SW_OK;
}

/* ---- values --------------------------------------------------------------------------------- */

static sw_status put_value(sw_save *s, const char *name, sw_value v, sw_error *err)
{
    swi_path path;
    sw_status st = split(s, name, &path, err);
    return st == SW_OK ? put(s, name, &path, v, err) : st;
}

static sw_status need_save(const sw_save *save, sw_error *err)
{
    return save != NULL ? SW_OK : swi_fail(err, SW_ERR_ARG, "a save is needed");
}

sw_status sw_save_int(sw_save *save, const char *name, int64_t value, sw_error *err)
{
    sw_value v;
    sw_status st = need_save(save, err);
    if (st == SW_OK)
        st = swi_graph_int(save->graph, value, &v, err);
    return st == SW_OK ? put_value(save, name, v, err) : st;
}

sw_status sw_save_float(sw_save *save, const char *name, double value, sw_error *err)
{
    sw_value v;
    sw_status st = need_save(save, err);
    if (st == SW_OK)
        st = swi_graph_float(save->graph, value, &v, err);
    return st == SW_OK ? put_value(save, name, v, err) : st;
}

sw_status sw_save_bool(sw_save *save, const char *name, bool value, sw_error *err)
{
    sw_status st = need_save(save, err);
    return st == SW_OK ? put_value(save, name, swi_value_of_bool(value), err) : st;
}

static sw_status save_text(sw_save *save, const char *name, sw_value_kind kind, const void *data,
                           size_t size, sw_error *err)
{
    sw_value v;
    sw_status st = need_save(save, err);
    if (st == SW_OK && data == NULL && size > 0)
        st = swi_fail(err, SW_ERR_ARG, "a value is needed");
    if (st == SW_OK && kind == SW_VALUE_STR && !swi_utf8_valid(data, size))
        st = swi_fail(err, SW_ERR_FORMAT, "a value that is text is UTF-8");
    if (st == SW_OK)
        st = swi_graph_text(save->graph, kind, data != NULL ? data : "", size, &v, err);
    return st == SW_OK ? put_value(save, name, v, err) : st;
}

sw_status sw_save_text(sw_save *save, const char *name, const char *value, sw_error *err)
{
    return save_text(save, name, SW_VALUE_STR, value, value != NULL ? strlen(value) : 1, err);
}

sw_status sw_save_bytes(sw_save *save, const char *name, const void *data, size_t size,
                        sw_error *err)
{
    return save_text(save, name, SW_VALUE_BYTES, data, size, err);
}

sw_status sw_save_json(sw_save *save, const char *name, const char *json, sw_error *err)
{
    sw_value_graph *graph = NULL;
    sw_value root, v;
    swi_quoted q;
    sw_status st = need_save(save, err);
    if (st == SW_OK && (json == NULL || name == NULL))
        st = swi_fail(err, SW_ERR_ARG, "sw_save_json: a name and a text are needed");
    if (st != SW_OK)
        return st;
    st = swi_json_parse(json, strlen(json), &save->limits, &graph, &root, err);
    if (st == SW_OK)
        st = swi_graph_copy(save->graph, graph, root, NULL, NULL, &v, err);
    else
        (void)swi_error_prefix(err, "\"%s\"", swi_quote_str(&q, name));
    sw_value_graph_free(graph);
    return st == SW_OK ? put_value(save, name, v, err) : st;
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
