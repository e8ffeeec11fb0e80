/* Runs a compiled expression over a small stack of values. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "model/value.h"
#include "notation/expr_program.h"

typedef struct machine {
    const swi_expr *expr;
    const swi_expr_scope *scope;
    const swi_expr_step *step;
    swi_expr_value stack[SWI_EXPR_MAX_DEPTH];
    size_t depth;
    sw_error *err;
} machine;

/* ---- messages ----------------------------------------------------------------------------- */

#define SHOWN_MAX 64
typedef struct shown {
    char text[SHOWN_MAX];
} shown;

/* "7", "0.5", "\"abc\"", "a list". */
static const char *show(shown *room, const swi_expr_value *v)
{
    char quoted[SHOWN_MAX - 4];
    if (v->kind == SWI_EXPR_INT) {
        (void)snprintf(room->text, sizeof room->text, "%" PRId64, v->integer);
    } else if (v->kind == SWI_EXPR_FLOAT) {
        (void)snprintf(room->text, sizeof room->text, "%g", v->number);
    } else if (v->kind == SWI_EXPR_BOOL) {
        (void)snprintf(room->text, sizeof room->text, "%s", v->truth ? "true" : "false");
    } else if (v->kind == SWI_EXPR_TEXT) {
        swi_quote_into(quoted, sizeof quoted, v->text, v->size);
        (void)snprintf(room->text, sizeof room->text, "\"%s\"", quoted);
    } else {
        (void)snprintf(room->text, sizeof room->text, "%s", swi_expr_kind_name(v->kind));
    }
    return room->text;
}

static const char *sign_of(swi_expr_op op)
{
    static const char *const signs[] = {
        [SWI_OP_NEGATE] = "-",      [SWI_OP_NOT] = "not",       [SWI_OP_TRUTH] = "and, or",
        [SWI_OP_ADD] = "+",         [SWI_OP_SUBTRACT] = "-",    [SWI_OP_MULTIPLY] = "*",
        [SWI_OP_DIVIDE] = "/",      [SWI_OP_MODULO] = "%",      [SWI_OP_FLOOR_DIVIDE] = "//",
        [SWI_OP_EQUAL] = "==",      [SWI_OP_UNEQUAL] = "!=",    [SWI_OP_LESS] = "<",
        [SWI_OP_LESS_EQUAL] = "<=", [SWI_OP_GREATER] = ">",     [SWI_OP_GREATER_EQUAL] = ">=",
        [SWI_OP_IN] = "in",         [SWI_OP_NOT_IN] = "not in", [SWI_OP_AND] = "and",
        [SWI_OP_OR] = "or",         [SWI_OP_CEIL] = "ceil",     [SWI_OP_INT] = "int",
        [SWI_OP_MIN] = "min",       [SWI_OP_MAX] = "max",       [SWI_OP_LEN] = "len",
    };
    return signs[op];
}

static sw_status fail_two(const machine *m, const char *clause, const char *why,
                          const swi_expr_value *a, const swi_expr_value *b)
{
    shown x, y;
    return swi_fail_at(m->err, SW_ERR_CONFLICT, clause, m->step->offset_bytes, "%s %s %s: %s",
                       show(&x, a), sign_of(m->step->op), show(&y, b), why);
}

static sw_status fail_one(const machine *m, const char *clause, const char *why,
                          const swi_expr_value *v)
{
    shown x;
    return swi_fail_at(m->err, SW_ERR_CONFLICT, clause, m->step->offset_bytes, "%s of %s: %s",
                       sign_of(m->step->op), show(&x, v), why);
}

/* ---- conditions --------------------------------------------------------------------------- */

static bool to_truth(const swi_expr_value *v, bool *out)
{
    if (v->kind != SWI_EXPR_BOOL && v->kind != SWI_EXPR_NONE)
        return false;
    *out = v->kind == SWI_EXPR_BOOL && v->truth;
    return true;
}

static sw_status replace_truth(machine *m, bool negate)
{
    swi_expr_value *top = &m->stack[m->depth - 1];
    bool truth;
    if (!to_truth(top, &truth))
        return fail_one(m, "NT-2.7", "is neither true nor false; compare it with something", top);
    *top = swi_expr_of_bool(truth != negate);
    return SW_OK;
}

/* AND, OR, ELSE: *jump tells whether the left operand is the result. */
static sw_status take_left(machine *m, bool *jump)
{
    swi_expr_value *top = &m->stack[m->depth - 1];
    if (m->step->op == SWI_OP_ELSE) {
        *jump = top->kind != SWI_EXPR_NONE;
    } else {
        sw_status status = replace_truth(m, false);
        if (status != SW_OK)
            return status;
        *jump = top->truth == (m->step->op == SWI_OP_OR);
    }
    m->depth -= !*jump;
    return SW_OK;
}

/* ---- numbers ------------------------------------------------------------------------------ */

static bool is_number(const swi_expr_value *v)
{
    return v->kind == SWI_EXPR_INT || v->kind == SWI_EXPR_FLOAT;
}

static double to_double(const swi_expr_value *v)
{
    return v->kind == SWI_EXPR_INT ? (double)v->integer : v->number;
}

static bool subtract(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}

/* Rounded down; b is not 0. False: it does not fit. */
static bool floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest)
{
    if (a == INT64_MIN && b == -1)
        return false;
    int64_t q = a / b, r = a % b;
    bool down = r != 0 && (r < 0) != (b < 0);
    *quotient = q - down;
    *rest = down ? r + b : r;
    return true;
}

static sw_status int_arithmetic(const machine *m, const swi_expr_value *a, const swi_expr_value *b,
                                swi_expr_value *out)
{
    int64_t x = a->integer, y = b->integer, v = 0, rest = 0;
    bool divides = m->step->op == SWI_OP_DIVIDE || m->step->op == SWI_OP_FLOOR_DIVIDE ||
                   m->step->op == SWI_OP_MODULO;
    if (divides && y == 0)
        return fail_two(m, "NT-2.6", "a division by 0", a, b);
    bool fits = true;
    if (divides)
        fits = floor_divide(x, y, &v, &rest);
    else if (m->step->op == SWI_OP_ADD)
        fits = swi_add_i64(x, y, &v);
    else if (m->step->op == SWI_OP_SUBTRACT)
        fits = subtract(x, y, &v);
    else
        fits = swi_mul_i64(x, y, &v);
    if (!fits)
        return fail_two(m, "NT-2.6", "does not fit 64 bits", a, b);
    if (m->step->op == SWI_OP_DIVIDE && rest != 0)
        return fail_two(m, "NT-2.6", "does not divide; // would round down", a, b);
    *out = swi_expr_of_int(m->step->op == SWI_OP_MODULO ? rest : v);
    return SW_OK;
}

static sw_status float_arithmetic(const machine *m, const swi_expr_value *a,
                                  const swi_expr_value *b, swi_expr_value *out)
{
    double x = to_double(a), y = to_double(b), v;
    switch (m->step->op) {
    case SWI_OP_ADD:
        v = x + y;
        break;
    case SWI_OP_SUBTRACT:
        v = x - y;
        break;
    case SWI_OP_MULTIPLY:
        v = x * y;
        break;
    case SWI_OP_DIVIDE:
        v = x / y;
        break;
    case SWI_OP_FLOOR_DIVIDE:
        v = floor(x / y);
        break;
    default:
        v = fmod(x, y);
        v += v != 0 && (v < 0) != (y < 0) ? y : 0;
        break;
    }
    if (!isfinite(v))
        return fail_two(m, "NT-2.6", "gives no finite number", a, b);
    *out = (swi_expr_value){.kind = SWI_EXPR_FLOAT, .number = v};
    return SW_OK;
}

static sw_status arithmetic(const machine *m, const swi_expr_value *a, const swi_expr_value *b,
                            swi_expr_value *out)
{
    if (!is_number(a) || !is_number(b))
        return fail_two(m, "NT-2.6", "is only for numbers", a, b);
    bool whole = a->kind == SWI_EXPR_INT && b->kind == SWI_EXPR_INT;
    return whole ? int_arithmetic(m, a, b, out) : float_arithmetic(m, a, b, out);
}

static sw_status negate(machine *m)
{
    swi_expr_value *v = &m->stack[m->depth - 1];
    if (!is_number(v))
        return fail_one(m, "NT-2.6", "is only for numbers", v);
    if (v->kind == SWI_EXPR_FLOAT)
        v->number = -v->number;
    else if (!subtract(0, v->integer, &v->integer))
        return fail_one(m, "NT-2.6", "does not fit 64 bits", v);
    return SW_OK;
}

/* ---- comparisons -------------------------------------------------------------------------- */

static int compare_numbers(const swi_expr_value *a, const swi_expr_value *b)
{
    if (a->kind == SWI_EXPR_INT && b->kind == SWI_EXPR_INT)
        return a->integer < b->integer ? -1 : a->integer > b->integer;
    double x = to_double(a), y = to_double(b);
    return x < y ? -1 : x > y;
}

/* False: it is not defined (two lists, two objects). */
static bool equal(const swi_expr_value *a, const swi_expr_value *b, bool *out)
{
    *out = false;
    if (is_number(a) && is_number(b)) {
        *out = compare_numbers(a, b) == 0;
        return true;
    }
    if (a->kind != b->kind)
        return true;
    switch (a->kind) {
    case SWI_EXPR_TEXT:
        *out = a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
        return true;
    case SWI_EXPR_BOOL:
        *out = a->truth == b->truth;
        return true;
    default:
        *out = a->kind == SWI_EXPR_NONE;
        return *out;
    }
}

static sw_status compare(const machine *m, const swi_expr_value *a, const swi_expr_value *b,
                         swi_expr_value *out)
{
    swi_expr_op op = m->step->op;
    bool same;
    if (op == SWI_OP_EQUAL || op == SWI_OP_UNEQUAL) {
        if (!equal(a, b, &same))
            return fail_two(m, "NT-2.8", "is not for lists and objects", a, b);
        *out = swi_expr_of_bool(same == (op == SWI_OP_EQUAL));
        return SW_OK;
    }
    if (!is_number(a) || !is_number(b))
        return fail_two(m, "NT-2.8", "is only for numbers", a, b);
    int order = compare_numbers(a, b);
    bool or_equal = op == SWI_OP_LESS_EQUAL || op == SWI_OP_GREATER_EQUAL;
    bool less = op == SWI_OP_LESS || op == SWI_OP_LESS_EQUAL;
    *out = swi_expr_of_bool(order == 0 ? or_equal : (order < 0) == less);
    return SW_OK;
}

/* A list that is absent has no members. */
static sw_status member_of(const machine *m, const swi_expr_value *a, const swi_expr_value *list,
                           swi_expr_value *out)
{
    if (list->kind != SWI_EXPR_LIST && list->kind != SWI_EXPR_NONE)
        return fail_two(m, "NT-2.8", "is only for lists", a, list);
    bool found = false;
    size_t count = list->kind == SWI_EXPR_LIST ? list->count : 0;
    for (size_t i = 0; i < count && !found; i++) {
        const swi_expr_value item = swi_expr_item(list, i);
        bool same;
        found = equal(a, &item, &same) && same;
    }
    *out = swi_expr_of_bool(found == (m->step->op == SWI_OP_IN));
    return SW_OK;
}

static sw_status take_two(machine *m)
{
    const swi_expr_value b = m->stack[--m->depth], a = m->stack[m->depth - 1];
    swi_expr_value *out = &m->stack[m->depth - 1];
    if (m->step->op <= SWI_OP_MODULO)
        return arithmetic(m, &a, &b, out);
    if (m->step->op <= SWI_OP_GREATER_EQUAL)
        return compare(m, &a, &b, out);
    return member_of(m, &a, &b, out);
}

/* ---- functions ---------------------------------------------------------------------------- */

static sw_status call_ceil(const machine *m, const swi_expr_value *args, swi_expr_value *out)
{
    const swi_expr_value *a = &args[0], *b = &args[1];
    if (a->kind != SWI_EXPR_INT || b->kind != SWI_EXPR_INT || b->integer <= 0)
        return fail_two(m, "NT-2.9", "needs two whole numbers, the second above 0", a, b);
    int64_t quotient, rest, up;
    (void)floor_divide(a->integer, b->integer, &quotient, &rest);
    if (!swi_add_i64(a->integer, rest == 0 ? 0 : b->integer - rest, &up))
        return fail_two(m, "NT-2.6", "does not fit 64 bits", a, b);
    *out = swi_expr_of_int(up);
    return SW_OK;
}

static sw_status call_int(const machine *m, const swi_expr_value *arg, swi_expr_value *out)
{
    if (!is_number(arg))
        return fail_one(m, "NT-2.9", "is only for numbers", arg);
    /* 2^63, exactly. */
    if (arg->kind == SWI_EXPR_FLOAT && !(fabs(arg->number) < 9223372036854775808.0))
        return fail_one(m, "NT-2.6", "does not fit 64 bits", arg);
    *out = arg->kind == SWI_EXPR_INT ? *arg : swi_expr_of_int((int64_t)arg->number);
    return SW_OK;
}

static sw_status call_extreme(const machine *m, const swi_expr_value *args, swi_expr_value *out)
{
    const swi_expr_value *best = &args[0];
    for (uint32_t i = 0; i < m->step->index; i++) {
        if (!is_number(&args[i]))
            return fail_one(m, "NT-2.9", "is only for numbers", &args[i]);
        int order = compare_numbers(&args[i], best);
        if (m->step->op == SWI_OP_MIN ? order < 0 : order > 0)
            best = &args[i];
    }
    *out = *best;
    return SW_OK;
}

static sw_status call_len(const machine *m, const swi_expr_value *arg, swi_expr_value *out)
{
    if (arg->kind != SWI_EXPR_LIST)
        return fail_one(m, "NT-2.9", "is only for lists", arg);
    *out = swi_expr_of_int((int64_t)arg->count);
    return SW_OK;
}

static sw_status call(machine *m)
{
    m->depth -= m->step->index;
    const swi_expr_value *args = &m->stack[m->depth];
    swi_expr_value out = swi_expr_none();
    sw_status status;
    switch (m->step->op) {
    case SWI_OP_CEIL:
        status = call_ceil(m, args, &out);
        break;
    case SWI_OP_INT:
        status = call_int(m, args, &out);
        break;
    case SWI_OP_LEN:
        status = call_len(m, args, &out);
        break;
    default:
        status = call_extreme(m, args, &out);
        break;
    }
    m->stack[m->depth++] = out;
    return status;
}

/* ---- names -------------------------------------------------------------------------------- */

static sw_status find_name(machine *m)
{
    const swi_expr_use *use = &m->expr->uses[m->step->index];
    bool found;
    swi_expr_value value = swi_expr_none();
    sw_status status = swi_expr_look_up(m->scope, use->name, &value, &found, m->err);
    if (status != SW_OK) {
        if (m->err != NULL) { /* it tells of another text: the place is where it is used here */
            m->err->has_offset = true;
            m->err->offset_bytes = m->step->offset_bytes;
        }
        (void)swi_error_prefix(m->err, "%s", use->name);
        return status;
    }
    if (!found)
        return swi_fail_at(m->err, SW_ERR_FORMAT, "NT-2.3", m->step->offset_bytes,
                           "nothing defines the name \"%s\"", use->name);
    m->stack[m->depth++] = value;
    return SW_OK;
}

static sw_status find_member(machine *m)
{
    swi_expr_value *top = &m->stack[m->depth - 1];
    const char *key = m->expr->literals[m->step->index].text;
    sw_value v;
    shown x;
    if (top->kind == SWI_EXPR_NONE)
        return SW_OK;
    if (top->kind != SWI_EXPR_OBJECT)
        return swi_fail_at(m->err, SW_ERR_CONFLICT, "NT-2.4", m->step->offset_bytes,
                           "%s has no member \"%s\"", show(&x, top), key);
    *top = swi_value_get(top->graph, top->json, key, &v) ? swi_expr_of_json(top->graph, v)
                                                         : swi_expr_none();
    return SW_OK;
}

/* ---- the machine -------------------------------------------------------------------------- */

static sw_status run_step(machine *m)
{
    switch (m->step->op) {
    case SWI_OP_LITERAL:
        m->stack[m->depth++] = m->expr->literals[m->step->index];
        return SW_OK;
    case SWI_OP_NAME:
        return find_name(m);
    case SWI_OP_MEMBER:
        return find_member(m);
    case SWI_OP_NEGATE:
        return negate(m);
    case SWI_OP_NOT:
    case SWI_OP_TRUTH:
        return replace_truth(m, m->step->op == SWI_OP_NOT);
    default:
        return m->step->op < SWI_OP_AND ? take_two(m) : call(m);
    }
}

sw_status swi_expr_eval(const swi_expr *expr, const swi_expr_scope *scope, swi_expr_value *out,
                        sw_error *err)
{
    machine m = {.expr = expr, .scope = scope, .err = err};
    for (size_t i = 0; i < expr->step_count;) {
        m.step = &expr->steps[i];
        bool jump = false;
        bool looks =
            m.step->op == SWI_OP_AND || m.step->op == SWI_OP_OR || m.step->op == SWI_OP_ELSE;
        sw_status status = looks ? take_left(&m, &jump) : run_step(&m);
        if (status != SW_OK)
            return status;
        i = jump ? m.step->index : i + 1;
    }
    *out = m.stack[0];
    return SW_OK;
}

static sw_status fail_result(const swi_expr *expr, const char *wanted, const swi_expr_value *v,
                             sw_error *err)
{
    swi_quoted room;
    shown x;
    return swi_fail_at(err, SW_ERR_CONFLICT, "NT-2.1", 0, "\"%s\" must give %s, gives %s",
                       swi_quote(&room, expr->text, expr->size), wanted, show(&x, v));
}

sw_status swi_expr_eval_int(const swi_expr *expr, const swi_expr_scope *scope, int64_t *out,
                            sw_error *err)
{
    swi_expr_value v;
    sw_status status = swi_expr_eval(expr, scope, &v, err);
    if (status != SW_OK)
        return status;
    if (v.kind != SWI_EXPR_INT)
        return fail_result(expr, "a whole number", &v, err);
    *out = v.integer;
    return SW_OK;
}

sw_status swi_expr_eval_truth(const swi_expr *expr, const swi_expr_scope *scope, bool *out,
                              sw_error *err)
{
    swi_expr_value v;
    sw_status status = swi_expr_eval(expr, scope, &v, err);
    if (status != SW_OK)
        return status;
    if (!to_truth(&v, out))
        return fail_result(expr, "true or false", &v, err);
    return SW_OK;
}
