#include "codec/pickle_machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* What a call of a global means, when it is more than an opaque object. */
enum {
    CALL_PLAIN = 0,
    CALL_ENCODE,
    CALL_BYTES,
    CALL_BYTEARRAY,
    CALL_SET,
    CALL_FROZENSET,
    CALL_ORDERED,
    CALL_COMPLEX,
    CALL_GETATTR,
    CALL_RECONSTRUCTOR,
};

static const struct {
    const char *module;
    const char *name;
    unsigned call;
} CALLS[] = {
    {"_codecs", "encode", CALL_ENCODE},
    {"builtins", "bytes", CALL_BYTES},
    {"builtins", "bytearray", CALL_BYTEARRAY},
    {"builtins", "set", CALL_SET},
    {"builtins", "frozenset", CALL_FROZENSET},
    {"builtins", "complex", CALL_COMPLEX},
    {"builtins", "getattr", CALL_GETATTR},
    {"collections", "OrderedDict", CALL_ORDERED},
    {"copyreg", "_reconstructor", CALL_RECONSTRUCTOR},
};

/* Names that moved between Python 2 and 3; pickles of protocols 0 to 2 hold the old ones. */
static const struct {
    const char *old_module, *old_name; /* NULL: every name */
    const char *module, *name;
} MOVED[] = {
    {"__builtin__", "unicode", "builtins", "str"},
    {"__builtin__", "long", "builtins", "int"},
    {"__builtin__", "unichr", "builtins", "chr"},
    {"__builtin__", "xrange", "builtins", "range"},
    {"__builtin__", "reduce", "functools", "reduce"},
    {"__builtin__", NULL, "builtins", NULL},
    {"exceptions", NULL, "builtins", NULL},
    {"copy_reg", NULL, "copyreg", NULL},
    {"UserDict", "UserDict", "collections", "UserDict"},
    {"UserList", "UserList", "collections", "UserList"},
};

/* ---- globals ------------------------------------------------------------------------------------
 */

static sw_status list_unsafe(swi_pm *m, const char *module, const char *name, uint64_t pos)
{
    swi_quoted module_room, name_room;
    const char *shown_module = swi_quote_str(&module_room, module);
    const char *shown_name = swi_quote_str(&name_room, name);
    uint64_t offset = m->options->base_offset_bytes + pos;
    swi_pickle_unsafe *unsafe = m->unsafe;
    if (unsafe == NULL)
        return swi_fail_at(m->err, SW_ERR_UNSAFE, "PKL-21", offset,
                           "pickle: loading it in Python would call %s.%s (byte %" PRIu64 ")",
                           shown_module, shown_name, offset);
    unsafe->total++;
    if (unsafe->listed < SWI_PICKLE_UNSAFE_MAX) {
        (void)snprintf(unsafe->at[unsafe->listed].name, sizeof unsafe->at[0].name, "%.60s.%.64s",
                       shown_module, shown_name);
        swi_utf8_trim(unsafe->at[unsafe->listed].name);
        unsafe->at[unsafe->listed++].offset_bytes = offset;
    }
    return SW_OK;
}

#define MARK_CHECKED ((uint64_t)1 << 62)
#define MARK_UNSAFE ((uint64_t)1 << 63)

/* Notes in the node what a call of it means: call | hook + 1 << 8 | is it checked, unsafe. */
static void mark_global(swi_pm *m, sw_value v, const char *module, const char *name)
{
    uint64_t mark = swi_node(m->g, v)[0] & (MARK_CHECKED | MARK_UNSAFE);
    if (mark == 0)
        mark = MARK_CHECKED | (swi_pickle_global_unsafe(module, name) ? MARK_UNSAFE : 0);
    for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
        if (strcmp(CALLS[i].name, name) == 0 && strcmp(CALLS[i].module, module) == 0)
            mark |= CALLS[i].call;
    }
    for (size_t i = 0; i < m->options->hook_count; i++) {
        const swi_pickle_hook *hook = &m->options->hooks[i];
        if (strcmp(hook->name, name) == 0 &&
            (hook->module == NULL || strcmp(hook->module, module) == 0)) {
            mark |= (uint64_t)(i + 1) << 8;
            break;
        }
    }
    swi_node(m->g, v)[0] = mark;
}

static sw_status make_global(swi_pm *m, const char *module, const char *name, sw_value *out)
{
    sw_value v;
    sw_status status = swi_graph_global(m->g, module, name, &v, m->err);
    if (status != SW_OK)
        return status;
    mark_global(m, v, module, name);
    bool is_getattr = (swi_node(m->g, v)[0] & 0xff) == CALL_GETATTR;
    if (is_getattr) {
        if (m->getattr_pushed++ == 0)
            m->getattr_pos = m->op_pos;
        m->getattr = v;
    } else if ((swi_node(m->g, v)[0] & MARK_UNSAFE) != 0) {
        status = list_unsafe(m, module, name, m->op_pos);
    }
    if (status == SW_OK)
        *out = v;
    return status;
}

void swi_pm_move_global(const char **module, const char **name)
{
    for (size_t i = 0; i < sizeof MOVED / sizeof MOVED[0]; i++) {
        if (strcmp(*module, MOVED[i].old_module) != 0 ||
            (MOVED[i].old_name != NULL && strcmp(*name, MOVED[i].old_name) != 0))
            continue;
        *module = MOVED[i].module;
        if (MOVED[i].name != NULL)
            *name = MOVED[i].name;
        return;
    }
}

/* The two names as they stand in the input, not terminated. */
static sw_status named_global(swi_pm *m, const uint8_t *module, size_t module_size,
                              const uint8_t *name, size_t name_size, sw_value *out)
{
    char room[SWI_GLOBAL_MAX_BYTES + 2];
    if (module_size > SWI_GLOBAL_MAX_BYTES || name_size > SWI_GLOBAL_MAX_BYTES - module_size)
        return swi_pm_fail(m, SW_ERR_LIMIT, "PKL-14", "a name of more than %d bytes",
                           SWI_GLOBAL_MAX_BYTES);
    if (memchr(module, 0, module_size) != NULL || memchr(name, 0, name_size) != NULL ||
        module_size == 0 || name_size == 0)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-14", "a name that is empty or holds a zero");
    if (!swi_utf8_valid(module, module_size) || !swi_utf8_valid(name, name_size))
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-14", "a name that is not valid UTF-8");
    memcpy(room, module, module_size);
    room[module_size] = '\0';
    memcpy(room + module_size + 1, name, name_size);
    room[module_size + 1 + name_size] = '\0';
    const char *module_text = room;
    const char *name_text = room + module_size + 1;
    if (m->protocol < 3)
        swi_pm_move_global(&module_text, &name_text);
    return make_global(m, module_text, name_text, out);
}

static sw_status global_lines(swi_pm *m, sw_value *out)
{
    const uint8_t *module, *name;
    size_t module_size, name_size;
    if (!swi_get_line(m->c, &module, &module_size) || !swi_get_line(m->c, &name, &name_size))
        return swi_pm_cut(m);
    return named_global(m, module, module_size, name, name_size, out);
}

sw_status swi_pm_global(swi_pm *m)
{
    sw_value v;
    sw_status status = global_lines(m, &v);
    return status != SW_OK ? status : swi_pm_push(m, v);
}

sw_status swi_pm_stack_global(swi_pm *m)
{
    if (!swi_pm_has(m, 2))
        return swi_pm_underflow(m);
    sw_value module = m->stack[m->top - 2];
    sw_value name = m->stack[m->top - 1];
    const uint8_t *module_text, *name_text;
    size_t module_size, name_size;
    if (swi_value_tag(module) != SWI_TAG_STR || swi_value_tag(name) != SWI_TAG_STR ||
        !sw_value_bytes(m->g, module, &module_text, &module_size) ||
        !sw_value_bytes(m->g, name, &name_text, &name_size))
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-14", "module and name must be text");
    m->top -= 2;
    sw_value v;
    sw_status status = named_global(m, module_text, module_size, name_text, name_size, &v);
    return status != SW_OK ? status : swi_pm_push(m, v);
}

/* ---- calls that are values
 * ------------------------------------------------------------------------ */

static sw_value argument(const swi_pm *m, sw_value args, size_t i)
{
    sw_value v = swi_value_none();
    (void)sw_value_item(m->g, args, i, &v);
    return v;
}

static sw_status call_bytes(swi_pm *m, unsigned call, sw_value args, sw_value *out, bool *done)
{
    size_t count = sw_value_size(m->g, args);
    sw_value source = argument(m, args, 0);
    const uint8_t *data = NULL;
    size_t size = 0;
    *done = false;
    if (call == CALL_ENCODE || (call == CALL_BYTEARRAY && count == 2)) {
        sw_value codec = argument(m, args, 1);
        if (count != 2 || (!swi_value_text_is(m->g, codec, "latin1") &&
                           !swi_value_text_is(m->g, codec, "latin-1")))
            return SW_OK;
        sw_status status = swi_pm_latin1(m, source, done);
        if (status != SW_OK || !*done)
            return status;
        data = m->scratch.data;
        size = m->scratch.size;
    } else if (count == 0) {
        *done = true;
    } else {
        *done = count == 1 && swi_value_tag(source) == SWI_TAG_BYTES;
        if (!*done || (call == CALL_BYTES && !sw_value_is_bytearray(m->g, source))) {
            *out = source;
            return SW_OK;
        }
        (void)sw_value_bytes(m->g, source, &data, &size);
    }
    if (call == CALL_BYTEARRAY)
        return swi_graph_bytearray(m->g, data, size, out, m->err);
    return swi_graph_text(m->g, SW_VALUE_BYTES, data, size, out, m->err);
}

static sw_status call_set(swi_pm *m, unsigned call, sw_value args, sw_value *out, bool *done)
{
    sw_value source = argument(m, args, 0);
    size_t count = sw_value_size(m->g, args);
    sw_value_kind kind = call == CALL_SET ? SW_VALUE_SET : SW_VALUE_FROZENSET;
    unsigned tag = swi_value_tag(source);
    size_t size = sw_value_size(m->g, source);
    *done = count == 0 || (count == 1 && (tag == SWI_TAG_LIST || tag == SWI_TAG_TUPLE));
    if (!*done)
        return SW_OK;
    if (size == 0)
        return swi_graph_sequence(m->g, kind, NULL, 0, out, m->err);
    m->scratch.size = 0;
    sw_status status = swi_buf_reserve(&m->scratch, size * sizeof(sw_value), m->err);
    for (size_t i = 0; status == SW_OK && i < size; i++) {
        sw_value item = argument(m, source, i);
        status = swi_buf_append(&m->scratch, &item, sizeof item, m->err);
    }
    if (status != SW_OK)
        return status;
    return swi_graph_sequence(m->g, kind, (const sw_value *)(const void *)m->scratch.data, size,
                              out, m->err);
}

/*
 * OrderedDict() and, of Python 2, OrderedDict([[key, value], ...]): an OBJECT with items. A list or
 * tuple that is no pair is refused, as Python does; with one that is filled later the call would
 * mean something else where it is written again.
 */
static sw_status call_ordered(swi_pm *m, sw_value callable, sw_value args, sw_value *out,
                              bool *done)
{
    sw_value source = argument(m, args, 0);
    size_t count = sw_value_size(m->g, args);
    size_t size = sw_value_size(m->g, source);
    *done = count == 0 || (count == 1 && swi_value_tag(source) == SWI_TAG_LIST);
    for (size_t i = 0; *done && i < size; i++) {
        sw_value pair = argument(m, source, i);
        unsigned tag = swi_value_tag(pair);
        *done = tag == SWI_TAG_LIST || tag == SWI_TAG_TUPLE;
        if (*done && sw_value_size(m->g, pair) != 2)
            return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-16",
                               "OrderedDict of a list whose element %zu is no pair", i);
    }
    if (!*done)
        return SW_OK;
    sw_value_object object = {.callable = callable, .args = SWI_EMPTY_TUPLE, .has_items = true};
    sw_status status = swi_graph_dict(m->g, &object.items, m->err);
    for (size_t i = 0; status == SW_OK && i < size; i++) {
        sw_value pair = argument(m, source, i);
        const sw_value both[2] = {argument(m, pair, 0), argument(m, pair, 1)};
        status = swi_graph_set_items(m->g, object.items, both, 1, m->err);
    }
    if (status != SW_OK)
        return status;
    return swi_graph_object(m->g, &object, out, m->err);
}

static sw_status call_complex(swi_pm *m, sw_value args, sw_value *out, bool *done)
{
    double parts[2] = {0, 0};
    *done = sw_value_size(m->g, args) == 2;
    for (size_t i = 0; *done && i < 2; i++) {
        sw_value part = argument(m, args, i);
        *done = sw_value_float(m->g, part, &parts[i]);
    }
    return *done ? swi_graph_complex(m->g, parts[0], parts[1], out, m->err) : SW_OK;
}

/* getattr(class, "Name"): the nested class module, Class.Name. Anything else is dangerous. */
static sw_status call_getattr(swi_pm *m, sw_value args, sw_value *out, bool *done)
{
    char joined[SWI_GLOBAL_MAX_BYTES + 2];
    const char *module, *name;
    const uint8_t *attribute;
    size_t size;
    sw_value text = argument(m, args, 1);
    m->getattr_named++;
    *done = false;
    if (sw_value_size(m->g, args) != 2 ||
        !sw_value_global(m->g, argument(m, args, 0), &module, &name) ||
        swi_value_tag(text) != SWI_TAG_STR || !sw_value_bytes(m->g, text, &attribute, &size) ||
        size == 0 || size > SWI_GLOBAL_MAX_BYTES || memchr(attribute, 0, size) != NULL ||
        !swi_utf8_valid(attribute, size) || strlen(name) + size >= SWI_GLOBAL_MAX_BYTES)
        return list_unsafe(m, "builtins", "getattr", m->op_pos);
    (void)snprintf(joined, sizeof joined, "%s.%.*s", name, (int)size, (const char *)attribute);
    *done = true;
    return make_global(m, module, joined, out);
}

/* copyreg._reconstructor(class, object, None): how protocols 0 and 1 say NEWOBJ. */
static sw_status call_reconstructor(swi_pm *m, sw_value args, sw_value *out, bool *done)
{
    const char *module, *name;
    *done = sw_value_size(m->g, args) == 3 &&
            swi_value_tag(argument(m, args, 0)) == SWI_TAG_GLOBAL &&
            sw_value_global(m->g, argument(m, args, 1), &module, &name) &&
            strcmp(module, "builtins") == 0 && strcmp(name, "object") == 0 &&
            swi_value_tag(argument(m, args, 2)) == SWI_TAG_NONE;
    if (!*done)
        return SW_OK;
    const sw_value_object object = {
        .callable = argument(m, args, 0), .args = SWI_EMPTY_TUPLE, .is_new = true};
    return swi_graph_object(m->g, &object, out, m->err);
}

static sw_status special_call(swi_pm *m, sw_value callable, sw_value args, sw_value *out,
                              bool *done)
{
    unsigned call = swi_node(m->g, callable)[0] & 0xff;
    switch (call) {
    case CALL_ENCODE:
    case CALL_BYTES:
    case CALL_BYTEARRAY:
        return call_bytes(m, call, args, out, done);
    case CALL_SET:
    case CALL_FROZENSET:
        return call_set(m, call, args, out, done);
    case CALL_ORDERED:
        return call_ordered(m, callable, args, out, done);
    case CALL_COMPLEX:
        return call_complex(m, args, out, done);
    case CALL_GETATTR:
        return call_getattr(m, args, out, done);
    case CALL_RECONSTRUCTOR:
        return call_reconstructor(m, args, out, done);
    default:
        *done = false;
        return SW_OK;
    }
}

/* ---- calls
 * ------------------------------------------------------------------------------------------ */

static const swi_pickle_hook *hook_of(const swi_pm *m, sw_value callable)
{
    if (swi_value_tag(callable) != SWI_TAG_GLOBAL)
        return NULL;
    uint64_t mark = swi_node(m->g, callable)[0] >> 8 & 0xffffff;
    return mark == 0 ? NULL : &m->options->hooks[mark - 1];
}

/* Arguments that were folded, with the one tuple that they may hold: torch.Size((2, 3)). */
static void drop_args(swi_pm *m, sw_value args)
{
    sw_value inner = swi_value_none();
    if (swi_value_tag(args) != SWI_TAG_TUPLE || (*swi_node(m->g, args) & SWI_LINK_SHARED) != 0)
        return;
    if (sw_value_size(m->g, args) == 1)
        (void)sw_value_item(m->g, args, 0, &inner);
    swi_graph_drop(m->g, args);
    if (swi_value_tag(inner) == SWI_TAG_TUPLE)
        swi_graph_drop(m->g, inner);
}

static sw_status make_by_hook(swi_pm *m, const swi_pickle_hook *hook, sw_value args, sw_value *out)
{
    sw_status status = hook->make(m->options->hook_ctx, m->g, args, out, m->err);
    if (status != SW_OK)
        return status;
    if (swi_value_tag(*out) == SWI_TAG_RECORD)
        drop_args(m, args);
    if (hook->build != NULL)
        m->made[m->made_count++ % SWI_PM_MADE_MAX] =
            (swi_pm_made){.v = *out, .hook = hook, .ref = -1};
    return SW_OK;
}

static sw_status call(swi_pm *m, sw_value callable, sw_value args, bool is_new, sw_value *out)
{
    const swi_pickle_hook *hook = hook_of(m, callable);
    if (hook != NULL && hook->make != NULL)
        return make_by_hook(m, hook, args, out);
    if (!is_new && swi_value_tag(callable) == SWI_TAG_GLOBAL) {
        bool done = false;
        sw_status status = special_call(m, callable, args, out, &done);
        if (status != SW_OK || done)
            return status;
    }
    const sw_value_object object = {.callable = callable, .args = args, .is_new = is_new};
    return swi_graph_object(m->g, &object, out, m->err);
}

/* REDUCE, NEWOBJ: callable and arguments are the two values on top. */
static sw_status call_top(swi_pm *m, bool is_new)
{
    if (!swi_pm_has(m, 2))
        return swi_pm_underflow(m);
    sw_value args = m->stack[m->top - 1];
    if (swi_value_tag(args) != SWI_TAG_TUPLE)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-15", "the arguments are not a tuple");
    sw_value made;
    sw_status status = call(m, m->stack[m->top - 2], args, is_new, &made);
    if (status != SW_OK)
        return status;
    m->top--;
    m->stack[m->top - 1] = made;
    return SW_OK;
}

sw_status swi_pm_reduce(swi_pm *m)
{
    return call_top(m, false);
}

sw_status swi_pm_newobj(swi_pm *m)
{
    return call_top(m, true);
}

/* class, args, kwargs; with keywords it is copyreg's call of the same meaning. */
sw_status swi_pm_newobj_ex(swi_pm *m)
{
    if (!swi_pm_has(m, 3))
        return swi_pm_underflow(m);
    const sw_value *three = m->stack + m->top - 3;
    if (swi_value_tag(three[1]) != SWI_TAG_TUPLE || swi_value_tag(three[2]) != SWI_TAG_DICT)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-15", "the arguments are not a tuple and a dict");
    if (sw_value_size(m->g, three[2]) == 0) {
        m->top--;
        return call_top(m, true);
    }
    sw_value made;
    sw_value_object object = {0};
    sw_status status = swi_graph_global(m->g, "copyreg", "__newobj_ex__", &object.callable, m->err);
    if (status == SW_OK)
        status = swi_graph_sequence(m->g, SW_VALUE_TUPLE, three, 3, &object.args, m->err);
    if (status == SW_OK)
        status = swi_graph_object(m->g, &object, &made, m->err);
    if (status != SW_OK)
        return status;
    m->top -= 3;
    return swi_pm_push(m, made);
}

static sw_status call_items(swi_pm *m, sw_value callable, const sw_value *items, size_t count)
{
    sw_value args, made;
    sw_status status = swi_graph_sequence(m->g, SW_VALUE_TUPLE, items, count, &args, m->err);
    if (status == SW_OK)
        status = call(m, callable, args, false, &made);
    return status != SW_OK ? status : swi_pm_push(m, made);
}

sw_status swi_pm_inst(swi_pm *m)
{
    sw_value *items = NULL, callable;
    size_t count = 0;
    sw_status status = global_lines(m, &callable);
    if (status == SW_OK)
        status = swi_pm_pop_mark(m, &items, &count);
    return status != SW_OK ? status : call_items(m, callable, items, count);
}

sw_status swi_pm_obj(swi_pm *m)
{
    sw_value *items;
    size_t count;
    sw_status status = swi_pm_pop_mark(m, &items, &count);
    if (status != SW_OK)
        return status;
    if (count == 0)
        return swi_pm_underflow(m);
    return call_items(m, items[0], items + 1, count - 1);
}

sw_status swi_pm_check_getattr(swi_pm *m)
{
    if (m->getattr_pushed <= m->getattr_named)
        return SW_OK;
    return list_unsafe(m, "builtins", "getattr", m->getattr_pos);
}

/* State or items for a global would change a class, a function or a module for good. */
static sw_status refuse_change(swi_pm *m, sw_value v, const char *clause, const char *what)
{
    const char *module, *name;
    if (sw_value_global(m->g, v, &module, &name)) {
        sw_status status = list_unsafe(m, module, name, m->op_pos);
        if (status != SW_OK)
            return status;
    }
    return swi_pm_fail(m, SW_ERR_FORMAT, clause, "%s", what);
}

/* ---- state and items
 * ----------------------------------------------------------------------------------- */

static swi_pm_made *made_by_hook(swi_pm *m, sw_value v)
{
    size_t kept = m->made_count < SWI_PM_MADE_MAX ? m->made_count : SWI_PM_MADE_MAX;
    for (size_t i = 1; i <= kept; i++) {
        swi_pm_made *made = &m->made[(m->made_count - i) % SWI_PM_MADE_MAX];
        if (made->hook != NULL && made->v.bits == v.bits)
            return made;
    }
    return NULL;
}

/* *fresh takes the place of the object that a hook folded: on the stack and in the memo. */
static sw_status replace_made(swi_pm *m, sw_value object, sw_value fresh, int64_t ref)
{
    m->stack[m->top - 1] = fresh;
    if (ref >= 0)
        return swi_ref_set(m->g, (size_t)ref, fresh, m->err);
    return swi_graph_replace(m->g, object, fresh, m->err);
}

/* The hook folds object and state into one. */
static sw_status build_by_hook(swi_pm *m, const swi_pickle_hook *hook, sw_value object,
                               sw_value state, int64_t ref)
{
    sw_value fresh;
    sw_status status = hook->build(m->options->hook_ctx, m->g, object, state, &fresh, m->err);
    if (status != SW_OK)
        return status;
    status = replace_made(m, object, fresh, ref);
    if (status != SW_OK || swi_value_tag(fresh) != SWI_TAG_RECORD)
        return status;
    if (swi_value_tag(object) == SWI_TAG_OBJECT)
        swi_graph_drop(m->g, object);
    if (swi_value_tag(state) == SWI_TAG_DICT)
        swi_graph_drop(m->g, state);
    return SW_OK;
}

/* Takes the entry out; what was made inside its object was built before it and is gone too. */
static swi_pm_made take_made(swi_pm *m, swi_pm_made *made)
{
    swi_pm_made taken = *made;
    made->hook = NULL;
    while (m->made_count > 0 && m->made[(m->made_count - 1) % SWI_PM_MADE_MAX].hook == NULL)
        m->made_count--;
    return taken;
}

sw_status swi_pm_fold_items(swi_pm *m, const sw_value *items, size_t count, bool *folded)
{
    *folded = false;
    if (m->made_count == 0 || count % 2 != 0 || !swi_pm_has(m, 2))
        return SW_OK;
    sw_value dict = m->stack[m->top - 1], object = m->stack[m->top - 2];
    uint8_t next;
    if (swi_value_tag(dict) != SWI_TAG_DICT || swi_value_tag(object) != SWI_TAG_RECORD ||
        !swi_peek_u8(m->c, &next) || next != 'b')
        return SW_OK;
    uint64_t head = *swi_node(m->g, dict);
    swi_pm_made *made = made_by_hook(m, object);
    if (made == NULL || made->hook->build_items == NULL || swi_head_count(head) != 0 ||
        (head & SWI_LINK_SHARED) != 0)
        return SW_OK;
    sw_value fresh;
    sw_status status = made->hook->build_items(m->options->hook_ctx, m->g, object, items, count / 2,
                                               &fresh, m->err);
    if (status != SW_OK)
        return status;
    swi_pm_made taken = take_made(m, made);
    m->c->pos++; /* BUILD */
    m->top--;
    status = replace_made(m, object, fresh, taken.ref);
    swi_graph_drop(m->g, dict);
    *folded = true;
    return status;
}

/* A second BUILD of a dict updates the first one's; that may be shared, so a new one is made. */
static sw_status merge_states(swi_pm *m, sw_value first, sw_value second, sw_value *out)
{
    if (swi_value_tag(first) != SWI_TAG_DICT || swi_value_tag(second) != SWI_TAG_DICT)
        return swi_pm_fail(m, SW_ERR_UNSUPPORTED, "PKL-17", "a second state for one object");
    const sw_value both[2] = {first, second};
    sw_value merged;
    sw_status status = swi_graph_dict(m->g, &merged, m->err);
    for (size_t k = 0; k < 2; k++) {
        sw_value pair[2];
        for (size_t i = 0; status == SW_OK && sw_value_pair(m->g, both[k], i, &pair[0], &pair[1]);
             i++)
            status = swi_graph_set_items(m->g, merged, pair, 1, m->err);
    }
    if (status == SW_OK)
        *out = merged;
    return status;
}

sw_status swi_pm_build(swi_pm *m)
{
    if (!swi_pm_has(m, 2))
        return swi_pm_underflow(m);
    sw_value state = m->stack[--m->top];
    sw_value v = m->stack[m->top - 1];
    sw_value_object object;
    if (m->made_count > 0) {
        swi_pm_made *made = made_by_hook(m, v);
        if (made != NULL) {
            swi_pm_made taken = take_made(m, made);
            return build_by_hook(m, taken.hook, v, state, taken.ref);
        }
    }
    if (!sw_value_get_object(m->g, v, &object))
        return refuse_change(m, v, "PKL-17", "state for what is no object");
    const swi_pickle_hook *hook = hook_of(m, object.callable);
    if (hook != NULL && hook->build != NULL)
        return build_by_hook(m, hook, v, state, -1);
    if (object.has_state) {
        sw_status status = merge_states(m, object.state, state, &state);
        if (status != SW_OK)
            return status;
    }
    object.state = state;
    object.has_state = true;
    return swi_graph_object_update(m->g, v, &object, m->err);
}

/* The items of an OBJECT, made when it has none yet. */
static sw_status items_of(swi_pm *m, sw_value target, sw_value_kind kind, sw_value *items)
{
    sw_value_object object;
    sw_status status;
    if (!sw_value_get_object(m->g, target, &object))
        return refuse_change(m, target, "PKL-13",
                             kind == SW_VALUE_LIST ? "items for what is no list, set or object"
                                                   : "items for what is no dict or object");
    if (object.has_items && sw_value_get_kind(m->g, object.items) != kind)
        return swi_pm_fail(m, SW_ERR_UNSUPPORTED, "PKL-13",
                           "an object with list items and dict items");
    if (!object.has_items) {
        status = kind == SW_VALUE_LIST
                     ? swi_graph_sequence(m->g, SW_VALUE_LIST, NULL, 0, &object.items, m->err)
                     : swi_graph_dict(m->g, &object.items, m->err);
        object.has_items = true;
        if (status == SW_OK)
            status = swi_graph_object_update(m->g, target, &object, m->err);
        if (status != SW_OK)
            return status;
    }
    *items = object.items;
    return SW_OK;
}

sw_status swi_pm_append_to(swi_pm *m, sw_value target, const sw_value *items, size_t count)
{
    sw_value list;
    sw_status status = items_of(m, target, SW_VALUE_LIST, &list);
    return status != SW_OK ? status : swi_graph_append(m->g, list, items, count, m->err);
}

sw_status swi_pm_set_in(swi_pm *m, sw_value target, const sw_value *pairs, size_t pair_count)
{
    sw_value dict;
    sw_status status = items_of(m, target, SW_VALUE_DICT, &dict);
    return status != SW_OK ? status : swi_graph_set_items(m->g, dict, pairs, pair_count, m->err);
}
