/* Values of what is saved: of all ranks, or of one alone. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "codec/json.h"
#include "codec/value_json.h"
#include "save/save.h"

sw_status sw_save_rank(sw_save *save, int64_t rank, sw_error *err)
{
    if (save == NULL || rank < -1 || rank >= (int64_t)save->ranks)
        return swi_fail(err, SW_ERR_ARG,
                        "sw_save_rank: a save, and one of its ranks or -1 are needed");
    save->rank = rank;
    return SW_OK;
}

/* ---- of one rank ---------------------------------------------------------------------------- */

typedef struct scoping {
    sw_save *save;
    const char *name; /* for messages */
    const char *joined;
} scoping;

static sw_status scoped_name(const scoping *s, const swi_state_leaf *leaf, const char **out,
                             sw_error *err)
{
    swi_buf text = {0};
    sw_status st = swi_buf_printf(&text, err, "%s", s->joined);
    for (size_t i = 0; st == SW_OK && i < leaf->parts; i++)
        st = swi_buf_printf(&text, err, ".%s", leaf->path[i]);
    if (st == SW_OK)
        st = swi_arena_text(&s->save->arena, (const char *)text.data, text.size, out, err);
    swi_buf_free(&text);
    return st;
}

/* A leaf of the state dict, as readers of files of ranks have it. */
static sw_status add_scoped(void *ctx, const swi_state_leaf *leaf, sw_error *err)
{
    const scoping *s = ctx;
    sw_save *save = s->save;
    swi_saved_scoped made = {.call = save->scoped_calls,
                             .of = {.rank = save->rank, .value = leaf->value}};
    swi_buf key = {0};
    uint32_t id;
    bool is_new = false;
    sw_status st = scoped_name(s, leaf, &made.of.name, err);
    if (st == SW_OK)
        st = swi_buf_printf(&key, err, "%" PRId64 "/%s", made.of.rank, made.of.name);
    if (st == SW_OK)
        st = swi_grow_array((void **)&save->scoped, &save->scoped_capacity,
                            (size_t)swi_names_count(save->scoped_names) + 1, sizeof made, err);
    if (st == SW_OK)
        st = swi_names_add(save->scoped_names, key.data, key.size, &id, &is_new, err);
    swi_buf_free(&key);
    if (st != SW_OK)
        return st;
    if (!is_new && save->scoped[id].call != 0)
        return swi_save_clash(s->name, "this rank has something of that name already", err);
    save->scoped[id] = made;
    return SW_OK;
}

/* The state dict that ranks share has the first that came. */
static sw_status put_scoped(sw_save *save, const char *name, const swi_path *path, sw_value v,
                            sw_error *err)
{
    scoping s = {.save = save, .name = name};
    const swi_state one = {.graph = save->graph, .root = v};
    sw_value there;
    uint32_t tensor;
    save->scoped_calls++;
    sw_status st = swi_save_join(save, path, &s.joined, err);
    const bool known = st == SW_OK && swi_save_get(save, path, &there);
    if (known && sw_value_tensor(save->graph, there, &tensor))
        st = swi_save_clash(name, "there is a tensor of that name", err);
    if (st == SW_OK)
        st = swi_state_walk(&one, add_scoped, &s, err);
    if (st == SW_OK && !known)
        st = swi_save_put(save, name, path, v, err);
    for (uint32_t i = 0; st != SW_OK && i < swi_names_count(save->scoped_names); i++)
        if (save->scoped[i].call == save->scoped_calls)
            save->scoped[i].call = 0; /* the name may come again */
    return st;
}

static sw_status put_value(sw_save *s, const char *name, sw_value v, sw_error *err)
{
    swi_path path;
    sw_status st = swi_save_path(s, name, &path, err);
    if (st != SW_OK)
        return st;
    return s->rank < 0 ? swi_save_put(s, name, &path, v, err) : put_scoped(s, name, &path, v, err);
}

/* ---- kinds ---------------------------------------------------------------------------------- */

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

/* What JSON is made into, in a graph of its own. */
typedef sw_status (*json_maker)(const sw_value_graph *json, sw_value text, sw_value_graph *graph,
                                sw_value *out, sw_error *err);

static sw_status as_json(const sw_value_graph *json, sw_value text, sw_value_graph *graph,
                         sw_value *out, sw_error *err)
{
    return swi_graph_copy(graph, json, text, NULL, NULL, out, err);
}

static sw_status as_tagged(const sw_value_graph *json, sw_value text, sw_value_graph *graph,
                           sw_value *out, sw_error *err)
{
    return swi_value_json_read(json, text, graph, NULL, NULL, out, err);
}

static sw_status save_json(sw_save *save, const char *name, const char *json, json_maker make,
                           sw_error *err)
{
    sw_value_graph *graph = NULL;
    sw_value root, v;
    swi_quoted q;
    sw_status st = need_save(save, err);
    if (st == SW_OK && (json == NULL || name == NULL))
        st = swi_fail(err, SW_ERR_ARG, "a name and a text are needed");
    if (st != SW_OK)
        return st;
    st = swi_json_parse(json, strlen(json), &save->limits, &graph, &root, err);
    if (st == SW_OK)
        st = make(graph, root, save->graph, &v, err);
    if (st != SW_OK)
        (void)swi_error_prefix(err, "\"%s\"", swi_quote_str(&q, name));
    sw_value_graph_free(graph);
    return st == SW_OK ? put_value(save, name, v, err) : st;
}

sw_status sw_save_json(sw_save *save, const char *name, const char *json, sw_error *err)
{
    return save_json(save, name, json, as_json, err);
}

sw_status sw_save_value(sw_save *save, const char *name, const char *text, sw_error *err)
{
    return save_json(save, name, text, as_tagged, err);
}
