#include "codec/pickle_machine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/text.h"

/* How much is kept in the window: most opcodes with their argument are shorter. */
#define MARGIN ((size_t)4 << 10)

typedef struct opcode {
    sw_status (*run)(swi_pm *m);
    const char *name;
} opcode;

static const opcode OPCODES[256];

/* ---- failing ------------------------------------------------------------------------------- */

sw_status swi_pm_fail(swi_pm *m, sw_status status, const char *clause, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    uint64_t offset = m->options->base_offset_bytes + m->op_pos;
    const char *name = OPCODES[m->op].name;
    return swi_fail_at(m->err, status, clause, offset, "pickle: %s at byte %" PRIu64 ": %s",
                       name != NULL ? name : "opcode", offset, text);
}

sw_status swi_pm_cut(swi_pm *m)
{
    m->cut = true;
    return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-3",
                       "the input ends inside it (%" PRIu64 " bytes in all)",
                       swi_feed_position(m->feed) + swi_feed_left(m->feed) - m->start);
}

sw_status swi_pm_underflow(swi_pm *m)
{
    return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-2", "the stack holds too few values above its mark");
}

/* ---- the stack, marks and the memo ---------------------------------------------------------- */

sw_status swi_pm_grow(swi_pm *m)
{
    if (m->top >= m->g->node_limit)
        return swi_pm_fail(m, SW_ERR_LIMIT, "PKL-2", "a stack of %zu values (limit nodes)", m->top);
    void *stack = m->stack;
    sw_status status = swi_grow_array(&stack, &m->capacity, m->top + 1, sizeof *m->stack, m->err);
    m->stack = stack;
    return status;
}

static inline sw_status op_mark(swi_pm *m)
{
    if (m->mark_count == m->mark_capacity) {
        if (m->mark_count >= m->g->node_limit)
            return swi_pm_fail(m, SW_ERR_LIMIT, "PKL-12", "%zu open marks (limit nodes)",
                               m->mark_count);
        void *marks = m->marks;
        sw_status status =
            swi_grow_array(&marks, &m->mark_capacity, m->mark_count + 1, sizeof *m->marks, m->err);
        m->marks = marks;
        if (status != SW_OK)
            return status;
    }
    m->marks[m->mark_count++] = m->top;
    m->floor = m->top;
    return SW_OK;
}

static void close_mark(swi_pm *m)
{
    m->mark_count--;
    m->floor = m->mark_count > 0 ? m->marks[m->mark_count - 1] : 0;
}

sw_status swi_pm_pop_mark(swi_pm *m, sw_value **items, size_t *count)
{
    if (m->mark_count == 0)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-12", "no mark is open");
    size_t mark = m->marks[m->mark_count - 1];
    *count = m->top - mark;
    *items = m->stack != NULL ? m->stack + mark : NULL;
    m->top = mark;
    close_mark(m);
    return SW_OK;
}

static sw_status op_pop(swi_pm *m)
{
    if (m->mark_count > 0 && m->top == m->floor) {
        close_mark(m);
        return SW_OK;
    }
    if (!swi_pm_has(m, 1))
        return swi_pm_underflow(m);
    m->top--;
    return SW_OK;
}

static sw_status op_pop_mark(swi_pm *m)
{
    sw_value *items;
    size_t count;
    return swi_pm_pop_mark(m, &items, &count);
}

/* A second way to a node: it is shared from now on. */
static inline sw_status push_shared(swi_pm *m, sw_value v)
{
    if (swi_value_has_head(v))
        *swi_node(m->g, v) |= SWI_LINK_SHARED;
    else if (v.bits == m->getattr.bits)
        m->getattr_pushed++;
    return swi_pm_push(m, v);
}

static sw_status op_dup(swi_pm *m)
{
    if (!swi_pm_has(m, 1))
        return swi_pm_underflow(m);
    return push_shared(m, m->stack[m->top - 1]);
}

static sw_status refuse_get(swi_pm *m, uint64_t number, sw_value v)
{
    if (swi_value_tag(v) == SWI_TAG_UNSET)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-11", "memo %" PRIu64 " was never set", number);
    return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-20",
                       "memo %" PRIu64 " is part of an object that is already folded", number);
}

static inline sw_status get(swi_pm *m, uint64_t number)
{
    sw_value v = number < m->g->ref_count ? swi_ref_at(m->g, number) : (sw_value){SWI_TAG_UNSET};
    if (swi_value_tag(v) >= SWI_TAG_UNSET)
        return refuse_get(m, number, v);
    return push_shared(m, v);
}

/* What a hook made is known by its number too: it is replaced when it is built. */
static inline void note_number(swi_pm *m, sw_value v, uint64_t number)
{
    if (m->made_count > 0) {
        swi_pm_made *last = &m->made[(m->made_count - 1) % SWI_PM_MADE_MAX];
        if (last->ref < 0 && last->v.bits == v.bits)
            last->ref = (int64_t)number;
    }
}

static sw_status put(swi_pm *m, uint64_t number)
{
    if (!swi_pm_has(m, 1))
        return swi_pm_underflow(m);
    /* A pickle cannot have put more values than it has bytes: sparse numbers are not genuine. */
    uint64_t passed = swi_feed_position(m->feed) - m->start;
    if (number >= passed)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-11",
                           "memo number %" PRIu64 " after only %" PRIu64 " bytes", number, passed);
    sw_value v = m->stack[m->top - 1];
    note_number(m, v, number);
    return swi_ref_put(m->g, number, v, m->err);
}

static sw_status op_get(swi_pm *m)
{
    const uint8_t *line;
    size_t size;
    uint64_t number;
    if (!swi_get_line(m->c, &line, &size))
        return swi_pm_cut(m);
    if (!swi_pm_decimal(line, size, &number))
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-11", "the memo number is not a decimal number");
    return m->op == 'g' ? get(m, number) : put(m, number);
}

static inline sw_status op_binget(swi_pm *m)
{
    uint8_t number;
    return swi_get_u8(m->c, &number) ? get(m, number) : swi_pm_cut(m);
}

static inline sw_status op_long_binget(swi_pm *m)
{
    uint32_t number;
    return swi_get_u32le(m->c, &number) ? get(m, number) : swi_pm_cut(m);
}

static sw_status op_binput(swi_pm *m)
{
    uint8_t number;
    return swi_get_u8(m->c, &number) ? put(m, number) : swi_pm_cut(m);
}

static sw_status op_long_binput(swi_pm *m)
{
    uint32_t number;
    return swi_get_u32le(m->c, &number) ? put(m, number) : swi_pm_cut(m);
}

/* There are never more numbers in use than bytes read: PKL-11 holds. */
static inline sw_status op_memoize(swi_pm *m)
{
    if (!swi_pm_has(m, 1))
        return swi_pm_underflow(m);
    sw_value v = m->stack[m->top - 1];
    note_number(m, v, m->g->refs_set);
    return swi_ref_put(m->g, m->g->refs_set, v, m->err);
}

/* ---- constants and containers ---------------------------------------------------------------- */

static sw_status op_none(swi_pm *m)
{
    return swi_pm_push(m, swi_value_none());
}

static sw_status op_bool(swi_pm *m)
{
    return swi_pm_push(m, swi_value_of_bool(m->op == 0x88));
}

static inline sw_status op_empty_tuple(swi_pm *m)
{
    return swi_pm_push(m, SWI_EMPTY_TUPLE);
}

static sw_status op_empty_list(swi_pm *m)
{
    sw_value v;
    sw_value_kind kind = m->op == ']' ? SW_VALUE_LIST : SW_VALUE_SET;
    sw_status status = swi_graph_sequence(m->g, kind, NULL, 0, &v, m->err);
    return status != SW_OK ? status : swi_pm_push(m, v);
}

static inline sw_status op_empty_dict(swi_pm *m)
{
    sw_value v;
    sw_status status = swi_graph_dict(m->g, &v, m->err);
    return status != SW_OK ? status : swi_pm_push(m, v);
}

/* TUPLE1, TUPLE2, TUPLE3 */
static inline sw_status op_tuple_n(swi_pm *m)
{
    size_t count = (size_t)m->op - 0x84;
    sw_value v;
    if (!swi_pm_has(m, count))
        return swi_pm_underflow(m);
    sw_status status = swi_graph_tuple(m->g, m->stack + m->top - count, count, &v, m->err);
    if (status != SW_OK)
        return status;
    m->top -= count;
    m->stack[m->top++] = v;
    return SW_OK;
}

/* TUPLE, LIST, FROZENSET: of what lies above the mark. */
static sw_status op_from_mark(swi_pm *m)
{
    sw_value *items = NULL, v;
    size_t count = 0;
    sw_value_kind kind = m->op == 't'   ? SW_VALUE_TUPLE
                         : m->op == 'l' ? SW_VALUE_LIST
                                        : SW_VALUE_FROZENSET;
    sw_status status = swi_pm_pop_mark(m, &items, &count);
    if (status == SW_OK)
        status = swi_graph_sequence(m->g, kind, items, count, &v, m->err);
    return status != SW_OK ? status : swi_pm_push(m, v);
}

static sw_status set_items(swi_pm *m, sw_value target, const sw_value *items, size_t count)
{
    if (count % 2 != 0)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-13", "an odd number of keys and values (%zu)",
                           count);
    if (swi_value_tag(target) == SWI_TAG_DICT)
        return swi_graph_set_items(m->g, target, items, count / 2, m->err);
    return swi_pm_set_in(m, target, items, count / 2);
}

static sw_status op_dict(swi_pm *m)
{
    sw_value *items = NULL, v;
    size_t count = 0;
    sw_status status = swi_pm_pop_mark(m, &items, &count);
    if (status == SW_OK)
        status = swi_graph_dict(m->g, &v, m->err);
    if (status == SW_OK)
        status = set_items(m, v, items, count);
    return status != SW_OK ? status : swi_pm_push(m, v);
}

static sw_status append(swi_pm *m, sw_value target, const sw_value *items, size_t count)
{
    if (swi_value_tag(target) == (m->op == 0x90 ? SWI_TAG_SET : SWI_TAG_LIST))
        return swi_graph_append(m->g, target, items, count, m->err);
    return swi_pm_append_to(m, target, items, count);
}

/* APPENDS, ADDITEMS, SETITEMS: into what lies below the mark. */
static inline sw_status op_fill(swi_pm *m)
{
    sw_value *items = NULL;
    size_t count = 0;
    sw_status status = swi_pm_pop_mark(m, &items, &count);
    if (status != SW_OK)
        return status;
    if (!swi_pm_has(m, 1))
        return swi_pm_underflow(m);
    sw_value target = m->stack[m->top - 1];
    if (m->op == 'u') {
        bool folded;
        status = swi_pm_fold_items(m, items, count, &folded);
        if (status != SW_OK || folded)
            return status;
    }
    return m->op == 'u' ? set_items(m, target, items, count) : append(m, target, items, count);
}

static sw_status op_append(swi_pm *m)
{
    if (!swi_pm_has(m, 2))
        return swi_pm_underflow(m);
    m->top--;
    return append(m, m->stack[m->top - 1], m->stack + m->top, 1);
}

static sw_status op_setitem(swi_pm *m)
{
    if (!swi_pm_has(m, 3))
        return swi_pm_underflow(m);
    m->top -= 2;
    return set_items(m, m->stack[m->top - 1], m->stack + m->top, 2);
}

/* ---- protocol, frames, persistent ids, end ----------------------------------------------------
 */

static sw_status op_proto(swi_pm *m)
{
    uint8_t protocol;
    if (!swi_get_u8(m->c, &protocol))
        return swi_pm_cut(m);
    if (protocol > 5)
        return swi_pm_fail(m, SW_ERR_UNSUPPORTED, "PKL-5", "protocol %u, the newest known is 5",
                           (unsigned)protocol);
    m->protocol = protocol;
    return SW_OK;
}

static sw_status op_frame(swi_pm *m)
{
    uint64_t size;
    if (!swi_get_u64le(m->c, &size))
        return swi_pm_cut(m);
    uint64_t left = swi_feed_left(m->feed);
    if (size > left)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-6",
                           "a frame of %" PRIu64 " bytes, %" PRIu64 " are left", size, left);
    if (m->op_pos < m->frame_end)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-6", "a frame begins inside another");
    m->frame_end = swi_feed_position(m->feed) + size;
    return SW_OK;
}

/* Hands the id to the caller's hook; without one it is a PERSISTENT node. */
static sw_status make_persistent(swi_pm *m, sw_value id, sw_value *out)
{
    if (m->options->persistent != NULL)
        return m->options->persistent(m->options->hook_ctx, m->g, id, out, m->err);
    return swi_graph_persistent(m->g, id, out, m->err);
}

static sw_status op_persid(swi_pm *m)
{
    const uint8_t *line;
    size_t size;
    sw_value id, v;
    if (!m->options->protocol0_persid)
        return swi_pm_fail(m, SW_ERR_UNSUPPORTED, "PKL-18", "a persistent id in text form");
    if (!swi_get_line(m->c, &line, &size))
        return swi_pm_cut(m);
    if (!swi_utf8_valid(line, size))
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-18", "the id is not valid UTF-8");
    sw_status status = swi_graph_text(m->g, SW_VALUE_STR, line, size, &id, m->err);
    if (status == SW_OK)
        status = make_persistent(m, id, &v);
    return status != SW_OK ? status : swi_pm_push(m, v);
}

static sw_status op_binpersid(swi_pm *m)
{
    sw_value v;
    if (!swi_pm_has(m, 1))
        return swi_pm_underflow(m);
    sw_status status = make_persistent(m, m->stack[m->top - 1], &v);
    if (status == SW_OK)
        m->stack[m->top - 1] = v;
    return status;
}

static sw_status op_unsupported(swi_pm *m)
{
    return swi_pm_fail(m, SW_ERR_UNSUPPORTED, "PKL-19", "%s",
                       m->op >= 0x97 ? "a buffer that is kept outside of the pickle"
                                     : "a code of Python's extension registry");
}

static sw_status op_stop(swi_pm *m)
{
    if (m->top != 1 || m->mark_count != 0)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-1",
                           "the stack holds %zu values and %zu marks, must hold one value", m->top,
                           m->mark_count);
    m->stopped = true;
    return SW_OK;
}

static const opcode OPCODES[256] = {
    ['('] = {op_mark, "MARK"},
    ['.'] = {op_stop, "STOP"},
    ['0'] = {op_pop, "POP"},
    ['1'] = {op_pop_mark, "POP_MARK"},
    ['2'] = {op_dup, "DUP"},
    ['F'] = {swi_pm_float_text, "FLOAT"},
    ['I'] = {swi_pm_int_text, "INT"},
    ['J'] = {swi_pm_binint, "BININT"},
    ['K'] = {swi_pm_binint1, "BININT1"},
    ['L'] = {swi_pm_long_text, "LONG"},
    ['M'] = {swi_pm_binint2, "BININT2"},
    ['N'] = {op_none, "NONE"},
    ['P'] = {op_persid, "PERSID"},
    ['Q'] = {op_binpersid, "BINPERSID"},
    ['R'] = {swi_pm_reduce, "REDUCE"},
    ['S'] = {swi_pm_string, "STRING"},
    ['T'] = {swi_pm_counted, "BINSTRING"},
    ['U'] = {swi_pm_counted, "SHORT_BINSTRING"},
    ['V'] = {swi_pm_unicode, "UNICODE"},
    ['X'] = {swi_pm_counted, "BINUNICODE"},
    ['a'] = {op_append, "APPEND"},
    ['b'] = {swi_pm_build, "BUILD"},
    ['c'] = {swi_pm_global, "GLOBAL"},
    ['d'] = {op_dict, "DICT"},
    ['}'] = {op_empty_dict, "EMPTY_DICT"},
    ['e'] = {op_fill, "APPENDS"},
    ['g'] = {op_get, "GET"},
    ['h'] = {op_binget, "BINGET"},
    ['i'] = {swi_pm_inst, "INST"},
    ['j'] = {op_long_binget, "LONG_BINGET"},
    ['l'] = {op_from_mark, "LIST"},
    [']'] = {op_empty_list, "EMPTY_LIST"},
    ['o'] = {swi_pm_obj, "OBJ"},
    ['p'] = {op_get, "PUT"},
    ['q'] = {op_binput, "BINPUT"},
    ['r'] = {op_long_binput, "LONG_BINPUT"},
    ['s'] = {op_setitem, "SETITEM"},
    ['t'] = {op_from_mark, "TUPLE"},
    [')'] = {op_empty_tuple, "EMPTY_TUPLE"},
    ['u'] = {op_fill, "SETITEMS"},
    ['G'] = {swi_pm_binfloat, "BINFLOAT"},
    ['B'] = {swi_pm_counted, "BINBYTES"},
    ['C'] = {swi_pm_counted, "SHORT_BINBYTES"},
    [0x80] = {op_proto, "PROTO"},
    [0x81] = {swi_pm_newobj, "NEWOBJ"},
    [0x82] = {op_unsupported, "EXT1"},
    [0x83] = {op_unsupported, "EXT2"},
    [0x84] = {op_unsupported, "EXT4"},
    [0x85] = {op_tuple_n, "TUPLE1"},
    [0x86] = {op_tuple_n, "TUPLE2"},
    [0x87] = {op_tuple_n, "TUPLE3"},
    [0x88] = {op_bool, "NEWTRUE"},
    [0x89] = {op_bool, "NEWFALSE"},
    [0x8a] = {swi_pm_long1, "LONG1"},
    [0x8b] = {swi_pm_long4, "LONG4"},
    [0x8c] = {swi_pm_counted, "SHORT_BINUNICODE"},
    [0x8d] = {swi_pm_counted, "BINUNICODE8"},
    [0x8e] = {swi_pm_counted, "BINBYTES8"},
    [0x8f] = {op_empty_list, "EMPTY_SET"},
    [0x90] = {op_fill, "ADDITEMS"},
    [0x91] = {op_from_mark, "FROZENSET"},
    [0x92] = {swi_pm_newobj_ex, "NEWOBJ_EX"},
    [0x93] = {swi_pm_stack_global, "STACK_GLOBAL"},
    [0x94] = {op_memoize, "MEMOIZE"},
    [0x95] = {op_frame, "FRAME"},
    [0x96] = {swi_pm_counted, "BYTEARRAY8"},
    [0x97] = {op_unsupported, "NEXT_BUFFER"},
    [0x98] = {op_unsupported, "READONLY_BUFFER"},
};

/* ---- the loop ----------------------------------------------------------------------------------
 */

static sw_status run_table(swi_pm *m)
{
    const opcode *op = &OPCODES[m->op];
    if (op->run == NULL)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-4", "0x%02x is no opcode", m->op);
    return op->run(m);
}

/* The opcodes of which a big `.metadata` is made are called directly, the others by the table. */
static sw_status run_one(swi_pm *m)
{
    switch (m->op) {
    case 0x94:
        return op_memoize(m);
    case 'h':
        return op_binget(m);
    case 'j':
        return op_long_binget(m);
    case 'K':
        return swi_pm_binint1(m);
    case 'M':
        return swi_pm_binint2(m);
    case 'J':
        return swi_pm_binint(m);
    case 0x85:
    case 0x86:
    case 0x87:
        return op_tuple_n(m);
    case '(':
        return op_mark(m);
    case ')':
        return op_empty_tuple(m);
    case '}':
        return op_empty_dict(m);
    case 'u':
        return op_fill(m);
    case 'R':
        return swi_pm_reduce(m);
    case 0x81:
        return swi_pm_newobj(m);
    case 'b':
        return swi_pm_build(m);
    default:
        return run_table(m);
    }
}

/* An opcode that the window cuts runs again, with so much more of the input in it. */
static sw_status run_again(swi_pm *m, size_t pos)
{
    size_t want = 2 * (m->c->size - pos);
    m->cut = false;
    m->c->pos = pos;
    *m->err = (sw_error){0};
    return swi_feed_more(m->feed, want, m->err);
}

static sw_status run(swi_pm *m)
{
    swi_cursor *c = m->c;
    const size_t ahead = m->feed->window_bytes < MARGIN ? m->feed->window_bytes : MARGIN;
    while (!m->stopped) {
        if (swi_cursor_left(c) < ahead && m->feed->behind > 0) {
            sw_status status = swi_feed_more(m->feed, ahead, m->err);
            if (status != SW_OK)
                return status;
        }
        size_t pos = c->pos;
        m->op_pos = m->feed->passed + pos;
        if (!swi_get_u8(c, &m->op)) {
            m->op = '.';
            return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-3", "missing: the input ends before it");
        }
        sw_status status = run_one(m);
        if (status != SW_OK && m->cut && m->feed->behind > 0)
            status = run_again(m, pos);
        if (status != SW_OK)
            return status;
    }
    return SW_OK;
}

sw_status swi_pickle_read(swi_cursor *cursor, const swi_pickle_options *options,
                          sw_value_graph *graph, sw_value *root, swi_pickle_unsafe *unsafe,
                          sw_error *err)
{
    swi_feed feed = {.cursor = *cursor};
    sw_status status = swi_pickle_read_feed(&feed, options, graph, root, unsafe, err);
    *cursor = feed.cursor;
    return status;
}

sw_status swi_pickle_read_feed(swi_feed *feed, const swi_pickle_options *options,
                               sw_value_graph *graph, sw_value *root, swi_pickle_unsafe *unsafe,
                               sw_error *err)
{
    static const swi_pickle_options defaults;
    sw_error local = {0};
    swi_pm m = {
        .feed = feed,
        .c = &feed->cursor,
        .g = graph,
        .options = options != NULL ? options : &defaults,
        .unsafe = unsafe,
        .err = err != NULL ? err : &local,
        .start = swi_feed_position(feed),
        .getattr = {SWI_TAG_UNSET},
    };
    if (unsafe != NULL)
        *unsafe = (swi_pickle_unsafe){0};
    swi_graph_forget(graph);
    sw_status status = run(&m);
    /* Failures of the graph and of hooks do not know the position. */
    if (status != SW_OK && status != SW_ERR_NOMEM && !m.err->has_offset) {
        m.err->has_offset = true;
        m.err->offset_bytes = m.options->base_offset_bytes + m.op_pos;
    }
    sw_status getattr = swi_pm_check_getattr(&m);
    if (getattr != SW_OK)
        status = getattr;
    if (status == SW_OK)
        *root = m.stack[0];
    swi_graph_forget(graph);
    free(m.stack);
    free(m.marks);
    swi_buf_free(&m.scratch);
    return status;
}
