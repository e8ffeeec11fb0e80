#include "codec/value_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/names.h"
#include "base/text.h"
#include "codec/json_write.h"
#include "codec/sign.h"
#include "model/value_table.h"

/* Text that stands in many places is in memory once: so many times its size may be written. */
#define TEXT_FACTOR 64U
#define TEXT_SPARE ((size_t)16 << 20)

/* What is still to be written, the last first. */
typedef enum todo_kind {
    TODO_TEXT, /* as it stands */
    TODO_VALUE,
    TODO_CLOSED /* all of an object is written */
} todo_kind;

typedef struct todo {
    todo_kind kind;
    const char *text;
    sw_value v;
} todo;

typedef struct writing {
    const sw_value_graph *g;
    swi_tensor_name_fn name_of;
    const void *ctx;
    swi_buf *out;
    todo *stack;
    size_t depth, capacity;
    swi_value_table met; /* how often a container is met, 2: more than once */
    swi_value_table ids; /* 2 x number, and 1 while it is open */
    uint64_t next_id;
    uint64_t left; /* steps */
    size_t most;   /* bytes of `out` */
    sw_error *err;
} writing;

static sw_status push(writing *w, todo_kind kind, const char *text, sw_value v)
{
    sw_status st =
        swi_grow_array((void **)&w->stack, &w->capacity, w->depth + 1, sizeof *w->stack, w->err);
    if (st == SW_OK)
        w->stack[w->depth++] = (todo){.kind = kind, .text = text, .v = v};
    return st;
}

static sw_status push_text(writing *w, const char *text)
{
    return push(w, TODO_TEXT, text, swi_value_none());
}

static sw_status put(writing *w, const char *text)
{
    return swi_buf_append(w->out, text, strlen(text), w->err);
}

static sw_status step(writing *w)
{
    if (w->left > 0 && w->out->size <= w->most) {
        w->left--;
        return SW_OK;
    }
    return swi_fail(w->err, SW_ERR_LIMIT, "it unfolds into more places than any genuine value");
}

static bool is_shared_kind(sw_value_kind kind)
{
    return kind == SW_VALUE_LIST || kind == SW_VALUE_DICT || kind == SW_VALUE_SET ||
           kind == SW_VALUE_OBJECT;
}

/* ---- what is met more than once ---------------------------------------------------------------
 */

static sw_status push_parts(writing *w, sw_value v)
{
    sw_value_object o;
    sw_value a, b;
    sw_status st = SW_OK;
    if (sw_value_get_object(w->g, v, &o)) {
        const sw_value parts[] = {o.callable, o.args, o.state, o.items};
        for (size_t i = 0; st == SW_OK && i < 4; i++)
            st = push(w, TODO_VALUE, NULL, parts[i]);
        return st;
    }
    if (sw_value_persistent(w->g, v, &a))
        return push(w, TODO_VALUE, NULL, a);
    const bool dict = sw_value_get_kind(w->g, v) == SW_VALUE_DICT;
    for (size_t i = 0, n = sw_value_size(w->g, v); st == SW_OK && i < n; i++) {
        if (dict && sw_value_pair(w->g, v, i, &a, &b)) {
            st = push(w, TODO_VALUE, NULL, a);
            if (st == SW_OK)
                st = push(w, TODO_VALUE, NULL, b);
        } else if (sw_value_item(w->g, v, i, &a)) {
            st = push(w, TODO_VALUE, NULL, a);
        }
    }
    return st;
}

static sw_status count_places(writing *w, sw_value root)
{
    sw_status st = push(w, TODO_VALUE, NULL, root);
    while (st == SW_OK && w->depth > 0) {
        const sw_value v = w->stack[--w->depth].v;
        st = step(w);
        if (st == SW_OK && is_shared_kind(sw_value_get_kind(w->g, v))) {
            uint64_t *times = swi_value_table_find(&w->met, v);
            if (times != NULL) {
                *times = 2;
                continue;
            }
            st = swi_value_table_set(&w->met, v, 1, w->err);
        }
        if (st == SW_OK)
            st = push_parts(w, v);
    }
    return st;
}

/* ---- leaves ------------------------------------------------------------------------------------
 */

static sw_status put_hex(writing *w, const uint8_t *data, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < size; i++) {
        const char two[2] = {digits[data[i] >> 4], digits[data[i] & 15]};
        st = swi_buf_append(w->out, two, 2, w->err);
    }
    return st;
}

/* Text that is no Unicode (half of a surrogate pair) by its bytes. */
static sw_status put_string(writing *w, const uint8_t *data, size_t size)
{
    if (swi_utf8_valid((const char *)data, size))
        return swi_json_quote(w->out, (const char *)data, size, w->err);
    sw_status st = put(w, "{\"$str\":\"");
    if (st == SW_OK)
        st = put_hex(w, data, size);
    return st == SW_OK ? put(w, "\"}") : st;
}

static sw_status put_number(writing *w, double v)
{
    swi_json_writer j;
    swi_json_start(&j, w->out, SWI_JSON_COMPACT);
    swi_json_float(&j, v);
    return swi_json_finish(&j, w->err);
}

static sw_status put_float(writing *w, double v)
{
    uint64_t bits;
    const char *name = v > 0 ? "inf" : "-inf";
    if (isfinite(v))
        return put_number(w, v);
    memcpy(&bits, &v, sizeof bits);
    if (!isnan(v))
        return swi_buf_printf(w->out, w->err, "{\"$float\":\"%s\"}", name);
    if (bits == UINT64_C(0x7ff8000000000000))
        return put(w, "{\"$float\":\"nan\"}");
    return swi_buf_printf(w->out, w->err, "{\"$float\":\"%016" PRIx64 "\"}", bits);
}

static sw_status put_bytes(writing *w, sw_value v, const uint8_t *data, size_t size)
{
    sw_status st = put(w, sw_value_is_bytearray(w->g, v) ? "{\"$bytearray\":\"" : "{\"$bytes\":\"");
    if (st == SW_OK)
        st = swi_base64_write(data, size, w->out, w->err);
    return st == SW_OK ? put(w, "\"}") : st;
}

static sw_status put_global(writing *w, const char *module, const char *name)
{
    sw_status st = put(w, "{\"$global\":[");
    if (st == SW_OK)
        st = swi_json_quote(w->out, module, strlen(module), w->err);
    if (st == SW_OK)
        st = put(w, ",");
    if (st == SW_OK)
        st = swi_json_quote(w->out, name, strlen(name), w->err);
    return st == SW_OK ? put(w, "]}") : st;
}

static sw_status put_tensor(writing *w, uint32_t index)
{
    const char *name = w->name_of != NULL ? w->name_of(w->ctx, index) : NULL;
    if (name == NULL)
        return swi_fail(w->err, SW_ERR_UNSUPPORTED, "it holds a tensor that has no name");
    sw_status st = put(w, "{\"$tensor\":");
    if (st == SW_OK)
        st = swi_json_quote(w->out, name, strlen(name), w->err);
    return st == SW_OK ? put(w, "}") : st;
}

static sw_status put_leaf(writing *w, sw_value v)
{
    const uint8_t *data;
    const char *module, *name;
    size_t size;
    int64_t n;
    double re, im;
    bool b;
    uint32_t tensor;
    sw_status st;
    switch (sw_value_get_kind(w->g, v)) {
    case SW_VALUE_NONE:
        return put(w, "null");
    case SW_VALUE_BOOL:
        return put(w, sw_value_bool(w->g, v, &b) && b ? "true" : "false");
    case SW_VALUE_INT:
        return sw_value_int(w->g, v, &n) ? swi_buf_printf(w->out, w->err, "%" PRId64, n) : SW_OK;
    case SW_VALUE_FLOAT:
        return sw_value_float(w->g, v, &re) ? put_float(w, re) : SW_OK;
    case SW_VALUE_COMPLEX:
        (void)sw_value_complex(w->g, v, &re, &im);
        st = put(w, "{\"$complex\":[");
        if (st == SW_OK)
            st = put_float(w, re);
        if (st == SW_OK)
            st = put(w, ",");
        if (st == SW_OK)
            st = put_float(w, im);
        return st == SW_OK ? put(w, "]}") : st;
    case SW_VALUE_STR:
        return sw_value_bytes(w->g, v, &data, &size) ? put_string(w, data, size) : SW_OK;
    case SW_VALUE_BYTES:
        return sw_value_bytes(w->g, v, &data, &size) ? put_bytes(w, v, data, size) : SW_OK;
    case SW_VALUE_BIGINT:
        (void)sw_value_bytes(w->g, v, &data, &size);
        st = put(w, "{\"$int\":\"");
        if (st == SW_OK)
            st = put_hex(w, data, size);
        return st == SW_OK ? put(w, "\"}") : st;
    case SW_VALUE_GLOBAL:
        return sw_value_global(w->g, v, &module, &name) ? put_global(w, module, name) : SW_OK;
    case SW_VALUE_TENSOR:
        return sw_value_tensor(w->g, v, &tensor) ? put_tensor(w, tensor) : SW_OK;
    default:
        return swi_fail(w->err, SW_ERR_UNSUPPORTED, "it holds what only its reader understands");
    }
}

/* ---- containers --------------------------------------------------------------------------------
 */

/* The elements from the last to the first, so that the first is written next. */
static sw_status push_items(writing *w, sw_value v)
{
    sw_value item;
    sw_status st = SW_OK;
    for (size_t i = sw_value_size(w->g, v); st == SW_OK && i > 0; i--) {
        if (!sw_value_item(w->g, v, i - 1, &item))
            continue;
        st = push(w, TODO_VALUE, NULL, item);
        if (st == SW_OK && i > 1)
            st = push_text(w, ",");
    }
    return st;
}

/* Whether it can be an object of JSON: keys are text, and none looks like a tag. */
static bool is_plain(const writing *w, sw_value dict)
{
    const uint8_t *data;
    size_t size;
    sw_value key, v;
    for (size_t i = 0; sw_value_pair(w->g, dict, i, &key, &v); i++)
        if (sw_value_get_kind(w->g, key) != SW_VALUE_STR ||
            !sw_value_bytes(w->g, key, &data, &size) || (size > 0 && data[0] == '$') ||
            !swi_utf8_valid((const char *)data, size))
            return false;
    return true;
}

/* No Python has a dict with equal keys: a hostile pickle may, of keys too long to be compared. */
static sw_status check_long_keys(const writing *w, sw_value dict)
{
    swi_names *seen = NULL;
    const uint8_t *data;
    size_t size;
    uint32_t id;
    sw_value key, v;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && sw_value_pair(w->g, dict, i, &key, &v); i++) {
        bool is_new = false;
        if (sw_value_get_kind(w->g, key) != SW_VALUE_STR ||
            !sw_value_bytes(w->g, key, &data, &size) || size <= SWI_DICT_KEY_BYTES)
            continue;
        if (seen == NULL)
            st = swi_names_make(&seen, w->err);
        if (st == SW_OK)
            st = swi_names_add(seen, data, size, &id, &is_new, w->err);
        if (st == SW_OK && !is_new)
            st =
                swi_fail(w->err, SW_ERR_UNSUPPORTED,
                         "a dict has the same key of %zu bytes twice: no program saves such", size);
    }
    swi_names_free(seen);
    return st;
}

static sw_status push_pairs(writing *w, sw_value dict, bool plain)
{
    sw_value key, v;
    sw_status st = SW_OK;
    for (size_t i = sw_value_size(w->g, dict); st == SW_OK && i > 0; i--) {
        (void)sw_value_pair(w->g, dict, i - 1, &key, &v);
        if (!plain)
            st = push_text(w, "]");
        if (st == SW_OK)
            st = push(w, TODO_VALUE, NULL, v);
        if (st == SW_OK)
            st = push_text(w, plain ? ":" : ",");
        if (st == SW_OK)
            st = push(w, TODO_VALUE, NULL, key);
        if (st == SW_OK && !plain)
            st = push_text(w, "[");
        if (st == SW_OK && i > 1)
            st = push_text(w, ",");
    }
    return st;
}

static sw_status open_dict(writing *w, sw_value v)
{
    const bool plain = is_plain(w, v);
    sw_status st = check_long_keys(w, v);
    if (st == SW_OK)
        st = push_text(w, plain ? "}" : "]}");
    if (st == SW_OK)
        st = push_pairs(w, v, plain);
    return st == SW_OK ? put(w, plain ? "{" : "{\"$dict\":[") : st;
}

static sw_status open_object(writing *w, sw_value v)
{
    sw_value_object o;
    (void)sw_value_get_object(w->g, v, &o);
    const int flags = (o.is_new ? 1 : 0) | (o.has_state ? 2 : 0) | (o.has_items ? 4 : 0);
    static const char *const ends[] = {",0]}", ",1]}", ",2]}", ",3]}",
                                       ",4]}", ",5]}", ",6]}", ",7]}"};
    const sw_value parts[] = {o.items, o.state, o.args, o.callable};
    sw_status st = push(w, TODO_CLOSED, NULL, v);
    if (st == SW_OK)
        st = push_text(w, ends[flags]);
    for (size_t i = 0; st == SW_OK && i < 4; i++) {
        st = push(w, TODO_VALUE, NULL, parts[i]);
        if (st == SW_OK && i < 3)
            st = push_text(w, ",");
    }
    return st == SW_OK ? put(w, "{\"$object\":[") : st;
}

static sw_status open_persistent(writing *w, sw_value id)
{
    sw_status st = push_text(w, "}");
    if (st == SW_OK)
        st = push(w, TODO_VALUE, NULL, id);
    return st == SW_OK ? put(w, "{\"$persistent\":") : st;
}

static sw_status open_container(writing *w, sw_value v)
{
    sw_value id;
    const char *tag = NULL;
    switch (sw_value_get_kind(w->g, v)) {
    case SW_VALUE_DICT:
        return open_dict(w, v);
    case SW_VALUE_OBJECT:
        return open_object(w, v);
    case SW_VALUE_TUPLE:
        tag = "{\"$tuple\":[";
        break;
    case SW_VALUE_SET:
        tag = "{\"$set\":[";
        break;
    case SW_VALUE_FROZENSET:
        tag = "{\"$frozenset\":[";
        break;
    case SW_VALUE_PERSISTENT:
        (void)sw_value_persistent(w->g, v, &id);
        return open_persistent(w, id);
    case SW_VALUE_LIST:
        break;
    default:
        return put_leaf(w, v);
    }
    sw_status st = push_text(w, tag != NULL ? "]}" : "]");
    if (st == SW_OK)
        st = push_items(w, v);
    return st == SW_OK ? put(w, tag != NULL ? tag : "[") : st;
}

/* VAL-5: a number where it is met first, later a reference to that. */
static sw_status write_value(writing *w, sw_value v)
{
    uint64_t *times =
        is_shared_kind(sw_value_get_kind(w->g, v)) ? swi_value_table_find(&w->met, v) : NULL;
    sw_status st = step(w);
    if (st != SW_OK || times == NULL || *times < 2)
        return st == SW_OK ? open_container(w, v) : st;
    uint64_t *id = swi_value_table_find(&w->ids, v);
    if (id != NULL && *id % 2 == 1 && sw_value_get_kind(w->g, v) == SW_VALUE_OBJECT)
        return swi_fail(w->err, SW_ERR_UNSUPPORTED, "an object that is inside itself");
    if (id != NULL)
        return swi_buf_printf(w->out, w->err, "{\"$ref\":%" PRIu64 "}", *id / 2);
    st = swi_value_table_set(&w->ids, v, 2 * w->next_id + 1, w->err);
    if (st == SW_OK)
        st = swi_buf_printf(w->out, w->err, "{\"$id\":%" PRIu64 ",\"$value\":", w->next_id++);
    if (st == SW_OK)
        st = push_text(w, "}");
    return st == SW_OK ? open_container(w, v) : st;
}

static sw_status write_all(writing *w, sw_value root)
{
    sw_status st = push(w, TODO_VALUE, NULL, root);
    while (st == SW_OK && w->depth > 0) {
        const todo t = w->stack[--w->depth];
        if (t.kind == TODO_TEXT) {
            st = put(w, t.text);
        } else if (t.kind == TODO_CLOSED) {
            uint64_t *id = swi_value_table_find(&w->ids, t.v);
            if (id != NULL)
                *id &= ~(uint64_t)1;
        } else {
            st = write_value(w, t.v);
        }
    }
    return st;
}

sw_status swi_value_json_write(const sw_value_graph *graph, sw_value v, swi_tensor_name_fn name_of,
                               const void *ctx, swi_buf *out, sw_error *err)
{
    writing w = {.g = graph,
                 .name_of = name_of,
                 .ctx = ctx,
                 .out = out,
                 .met = {.graph = graph},
                 .ids = {.graph = graph},
                 .left = swi_graph_unfold_limit(graph),
                 .most = out->size + TEXT_SPARE + TEXT_FACTOR * (size_t)swi_graph_memory(graph),
                 .err = err};
    sw_status st = count_places(&w, v);
    w.left = swi_graph_unfold_limit(graph);
    w.depth = 0;
    if (st == SW_OK)
        st = write_all(&w, v);
    swi_value_table_free(&w.met);
    swi_value_table_free(&w.ids);
    free(w.stack);
    return st;
}
