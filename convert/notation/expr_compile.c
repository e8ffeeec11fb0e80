/*
 * From text to a postfix program (shunting-yard). Operators wait on a stack until one that binds
 * less, a bracket or the end comes; there is no recursion.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "notation/expr_program.h"
#include "notation/lex.h"

#define SYNTAX "NT-2.2"
#define LIMITS "NT-2.10"

/* How strongly it binds; 0: it is no operator. */
static const uint8_t strength_of[] = {
    [SWI_OP_ELSE] = 1,       [SWI_OP_OR] = 2,       [SWI_OP_AND] = 3,           [SWI_OP_NOT] = 4,
    [SWI_OP_EQUAL] = 5,      [SWI_OP_UNEQUAL] = 5,  [SWI_OP_LESS] = 5,          [SWI_OP_IN] = 5,
    [SWI_OP_LESS_EQUAL] = 5, [SWI_OP_GREATER] = 5,  [SWI_OP_GREATER_EQUAL] = 5, [SWI_OP_NOT_IN] = 5,
    [SWI_OP_ADD] = 6,        [SWI_OP_SUBTRACT] = 6, [SWI_OP_MULTIPLY] = 7,      [SWI_OP_DIVIDE] = 7,
    [SWI_OP_MODULO] = 7,     [SWI_OP_NEGATE] = 8,   [SWI_OP_FLOOR_DIVIDE] = 7,  [SWI_OP_OPEN] = 0,
};
#define COMPARISON 5
#define FLOAT_DIGITS 15U

typedef struct waiting {
    swi_expr_op op; /* a function: its bracket is open */
    size_t offset;  /* in the text */
    uint32_t count; /* a function: arguments so far */
    size_t jump;    /* AND, OR, ELSE: their step */
} waiting;

typedef struct compiler {
    swi_expr *expr;
    const char *text; /* terminated, nothing after the end is looked at */
    size_t pos;
    size_t room; /* for steps, literals and uses, each */
    waiting stack[SWI_EXPR_MAX_DEPTH];
    size_t depth;
    size_t values; /* that wait while the steps so far run */
    sw_error *err;
} compiler;

/* ---- steps -------------------------------------------------------------------------------- */

static sw_status fail(const compiler *c, size_t offset, const char *what)
{
    return swi_fail_at(c->err, SW_ERR_FORMAT, SYNTAX, offset, "%s", what);
}

/* How many values it takes from the stack; each gives one. */
static size_t operands_of(swi_expr_op op, uint32_t index)
{
    if (op <= SWI_OP_NAME)
        return 0;
    if (op <= SWI_OP_TRUTH)
        return 1;
    if (op <= SWI_OP_NOT_IN)
        return 2;
    return op <= SWI_OP_ELSE ? 1 : index;
}

static sw_status emit(compiler *c, swi_expr_op op, size_t offset, size_t index)
{
    swi_expr *e = c->expr;
    if (e->step_count >= c->room || e->step_count >= SWI_EXPR_MAX_STEPS)
        return swi_fail_at(c->err, SW_ERR_LIMIT, LIMITS, offset,
                           "more than %u operands and operators", SWI_EXPR_MAX_STEPS);
    e->steps[e->step_count++] =
        (swi_expr_step){.op = op, .index = (uint32_t)index, .offset_bytes = offset};
    c->values = c->values - operands_of(op, (uint32_t)index) + 1;
    if (op == SWI_OP_AND || op == SWI_OP_OR || op == SWI_OP_ELSE)
        c->values--; /* the right operand takes the place of the left one */
    if (c->values > SWI_EXPR_MAX_DEPTH)
        return swi_fail_at(c->err, SW_ERR_LIMIT, LIMITS, offset, "more than %u levels",
                           SWI_EXPR_MAX_DEPTH);
    return SW_OK;
}

static sw_status emit_literal(compiler *c, swi_expr_value value, size_t offset)
{
    swi_expr *e = c->expr;
    if (e->literal_count >= c->room)
        return fail(c, offset, "more values than text");
    e->literals[e->literal_count] = value;
    return emit(c, SWI_OP_LITERAL, offset, e->literal_count++);
}

/* ---- operators that wait ------------------------------------------------------------------ */

static sw_status push(compiler *c, swi_expr_op op, size_t offset)
{
    if (c->depth >= SWI_EXPR_MAX_DEPTH)
        return swi_fail_at(c->err, SW_ERR_LIMIT, LIMITS, offset, "more than %u levels",
                           SWI_EXPR_MAX_DEPTH);
    c->stack[c->depth++] = (waiting){.op = op, .offset = offset, .count = 1};
    return SW_OK;
}

static sw_status pop(compiler *c)
{
    const waiting w = c->stack[--c->depth];
    bool jumps = w.op == SWI_OP_AND || w.op == SWI_OP_OR || w.op == SWI_OP_ELSE;
    if (!jumps)
        return emit(c, w.op, w.offset, 0);
    sw_status status = w.op == SWI_OP_ELSE ? SW_OK : emit(c, SWI_OP_TRUTH, w.offset, 0);
    c->expr->steps[w.jump].index = (uint32_t)c->expr->step_count;
    return status;
}

/* Pops what binds at least so strongly, down to the innermost open bracket. */
static sw_status pop_stronger(compiler *c, uint8_t strength)
{
    sw_status status = SW_OK;
    while (status == SW_OK && c->depth > 0) {
        swi_expr_op top = c->stack[c->depth - 1].op;
        if (top >= SWI_OP_CEIL || strength_of[top] < strength)
            break;
        status = pop(c);
    }
    return status;
}

static sw_status take_binary(compiler *c, swi_expr_op op, size_t offset)
{
    uint8_t strength = strength_of[op];
    sw_status status = pop_stronger(c, strength == COMPARISON ? COMPARISON + 1 : strength);
    if (status != SW_OK)
        return status;
    const waiting *top = c->depth > 0 ? &c->stack[c->depth - 1] : NULL;
    if (strength == COMPARISON && top != NULL && top->op < SWI_OP_CEIL &&
        strength_of[top->op] == COMPARISON)
        return fail(c, offset, "comparisons do not chain; join two of them with \"and\"");
    status = push(c, op, offset);
    if (status == SW_OK && (op == SWI_OP_AND || op == SWI_OP_OR || op == SWI_OP_ELSE)) {
        c->stack[c->depth - 1].jump = c->expr->step_count;
        status = emit(c, op, offset, 0);
    }
    return status;
}

/* ---- words -------------------------------------------------------------------------------- */

static void skip_blanks(compiler *c)
{
    c->pos += swi_lex_blanks(c->text + c->pos);
}

/* The size of the word at the position; 0: there is none. */
static size_t word_size(const compiler *c)
{
    return swi_lex_name(c->text + c->pos);
}

/* The word at the position is this one. */
static bool is_word(const compiler *c, const char *word)
{
    size_t size = word_size(c);
    return size == strlen(word) && memcmp(c->text + c->pos, word, size) == 0;
}

static bool take_word(compiler *c, const char *word)
{
    if (!is_word(c, word))
        return false;
    c->pos += strlen(word);
    return true;
}

static bool take_sign(compiler *c, const char *sign)
{
    size_t size = strlen(sign);
    if (strncmp(c->text + c->pos, sign, size) != 0)
        return false;
    c->pos += size;
    return true;
}

/* ---- literals ----------------------------------------------------------------------------- */

/* Behind the point. With so few digits both numbers are exact, and their quotient is rounded once.
 */
static sw_status read_float(compiler *c, size_t start, int64_t whole, swi_expr_value *out)
{
    size_t point = c->pos++;
    double scale = 1;
    for (; swi_is_decimal(c->text[c->pos]) && c->pos - start <= FLOAT_DIGITS; c->pos++) {
        whole = whole * 10 + (c->text[c->pos] - '0');
        scale *= 10;
    }
    char next = c->text[c->pos];
    if (c->pos == point + 1 || swi_is_decimal(next) || word_size(c) > 0 || next == '.')
        return fail(c, start, "a number that cannot be read; write digits.digits, at most 15");
    *out = (swi_expr_value){.kind = SWI_EXPR_FLOAT, .number = (double)whole / scale};
    return SW_OK;
}

static sw_status read_number(compiler *c, swi_expr_value *out)
{
    size_t start = c->pos;
    int64_t v = 0;
    bool fits = true;
    for (; swi_is_decimal(c->text[c->pos]); c->pos++)
        fits = fits && swi_mul_i64(v, 10, &v) && swi_add_i64(v, c->text[c->pos] - '0', &v);
    char next = c->text[c->pos];
    if (next == '.')
        return read_float(c, start, v, out);
    if (word_size(c) > 0)
        return fail(c, start, "a number that cannot be read");
    if (!fits)
        return fail(c, start, "a number over 9223372036854775807");
    *out = swi_expr_of_int(v);
    return SW_OK;
}

static sw_status read_text(compiler *c, swi_expr_value *out)
{
    const char *start = c->text + c->pos + 1;
    const char *end = strchr(start, c->text[c->pos]);
    if (end == NULL)
        return fail(c, c->pos, "a text whose closing quote is missing");
    *out = (swi_expr_value){.kind = SWI_EXPR_TEXT, .text = start, .size = (size_t)(end - start)};
    c->pos = (size_t)(end - c->text) + 1;
    return SW_OK;
}

/* *found: there was a number, text, true, false or none. */
static sw_status read_literal(compiler *c, bool *found, swi_expr_value *out)
{
    char ch = c->text[c->pos];
    *found = true;
    if (swi_is_decimal(ch))
        return read_number(c, out);
    if (ch == '\'' || ch == '"')
        return read_text(c, out);
    if (take_word(c, "true"))
        *out = swi_expr_of_bool(true);
    else if (take_word(c, "false"))
        *out = swi_expr_of_bool(false);
    else if (take_word(c, "none"))
        *out = swi_expr_none();
    else
        *found = false;
    return SW_OK;
}

static sw_status read_item(compiler *c, swi_expr_value *out)
{
    skip_blanks(c);
    size_t start = c->pos;
    bool negative = take_sign(c, "-"), found;
    sw_status status = read_literal(c, &found, out);
    if (status != SW_OK)
        return status;
    bool number = found && (out->kind == SWI_EXPR_INT || out->kind == SWI_EXPR_FLOAT);
    if (!found || (negative && !number))
        return fail(c, start, "a list holds numbers, texts, true, false and none");
    if (negative && out->kind == SWI_EXPR_INT)
        out->integer = -out->integer;
    else if (negative)
        out->number = -out->number;
    skip_blanks(c);
    return SW_OK;
}

/* Behind its bracket. Items lie in the literals, one after the other. */
static sw_status read_list(compiler *c, size_t start)
{
    swi_expr *e = c->expr;
    size_t first = e->literal_count;
    skip_blanks(c);
    bool ended = take_sign(c, "]");
    while (!ended) {
        if (e->literal_count >= c->room)
            return fail(c, start, "more values than text");
        sw_status status = read_item(c, &e->literals[e->literal_count]);
        if (status != SW_OK)
            return status;
        e->literal_count++;
        ended = take_sign(c, "]");
        if (!ended && !take_sign(c, ","))
            return fail(c, c->pos, "expected , or ] in a list");
    }
    const swi_expr_value list = {
        .kind = SWI_EXPR_LIST, .items = e->literals + first, .count = e->literal_count - first};
    return emit_literal(c, list, start);
}

/* ---- names and functions ------------------------------------------------------------------ */

static const struct {
    const char *name;
    swi_expr_op op;
    uint32_t least, most;
} functions[] = {
    {"ceil", SWI_OP_CEIL, 2, 2},        {"int", SWI_OP_INT, 1, 1},
    {"min", SWI_OP_MIN, 1, UINT32_MAX}, {"max", SWI_OP_MAX, 1, UINT32_MAX},
    {"len", SWI_OP_LEN, 1, 1},
};
#define FUNCTION_COUNT (sizeof functions / sizeof functions[0])

/* A function's name with its bracket: the bracket is opened. */
static sw_status take_function(compiler *c, bool *found)
{
    size_t start = c->pos, size = word_size(c);
    *found = false;
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        if (!is_word(c, functions[i].name))
            continue;
        c->pos += size;
        skip_blanks(c);
        if (take_sign(c, "(")) {
            *found = true;
            return push(c, functions[i].op, start);
        }
        c->pos = start;
    }
    return SW_OK;
}

static sw_status emit_members(compiler *c, size_t *path_end)
{
    swi_expr *e = c->expr;
    while (c->text[c->pos] == '.') {
        size_t dot = c->pos++;
        size_t size = word_size(c);
        if (size == 0)
            return fail(c, dot, "a dot must be between two names");
        const char *key;
        sw_status status = swi_arena_text(&e->arena, c->text + c->pos, size, &key, c->err);
        if (status != SW_OK)
            return status;
        if (e->literal_count >= c->room)
            return fail(c, dot, "more values than text");
        e->literals[e->literal_count] = swi_expr_of_text(key);
        c->pos += size;
        status = emit(c, SWI_OP_MEMBER, dot, e->literal_count++);
        if (status != SW_OK)
            return status;
    }
    *path_end = c->pos;
    return SW_OK;
}

static sw_status take_name(compiler *c)
{
    static const char *const reserved[] = {"and", "or", "not", "in"};
    swi_expr *e = c->expr;
    size_t start = c->pos, size = word_size(c);
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (is_word(c, reserved[i]))
            return fail(c, start, "expected a value");
    if (e->use_count >= c->room)
        return fail(c, start, "more values than text");
    swi_expr_use *use = &e->uses[e->use_count];
    use->offset_bytes = start;
    sw_status status = swi_arena_text(&e->arena, c->text + start, size, &use->name, c->err);
    if (status == SW_OK)
        status = emit(c, SWI_OP_NAME, start, e->use_count++);
    if (status != SW_OK)
        return status;
    c->pos += size;
    size_t first = c->pos, end = first;
    status = emit_members(c, &end);
    if (status != SW_OK)
        return status;
    size_t dot = end > first;
    return swi_arena_text(&e->arena, c->text + first + dot, end - first - dot, &use->path, c->err);
}

/* ---- operands and operators in turn ------------------------------------------------------- */

/* *wanted: whether an operand is still wanted behind it. */
static sw_status take_operand(compiler *c, bool *wanted)
{
    size_t start = c->pos;
    bool found;
    swi_expr_value value;
    *wanted = true;
    if (take_sign(c, "-"))
        return push(c, SWI_OP_NEGATE, start);
    if (take_word(c, "not"))
        return push(c, SWI_OP_NOT, start);
    if (take_sign(c, "("))
        return push(c, SWI_OP_OPEN, start);
    sw_status status = take_function(c, &found);
    if (status != SW_OK || found)
        return status;
    *wanted = false;
    if (take_sign(c, "["))
        return read_list(c, start);
    status = read_literal(c, &found, &value);
    if (status != SW_OK)
        return status;
    if (found)
        return emit_literal(c, value, start);
    if (word_size(c) > 0)
        return take_name(c);
    return fail(c, start, "expected a value");
}

static sw_status check_arguments(const compiler *c, const waiting *w)
{
    size_t i = 0;
    while (functions[i].op != w->op)
        i++;
    if (w->count >= functions[i].least && w->count <= functions[i].most)
        return SW_OK;
    return swi_fail_at(c->err, SW_ERR_FORMAT, "NT-2.9", w->offset, "%s takes %u argument%s, not %u",
                       functions[i].name, functions[i].least, functions[i].least == 1 ? "" : "s",
                       w->count);
}

static sw_status close_bracket(compiler *c, size_t offset)
{
    sw_status status = pop_stronger(c, 0);
    if (status != SW_OK)
        return status;
    if (c->depth == 0)
        return fail(c, offset, "a ) without its (");
    const waiting w = c->stack[c->depth - 1];
    if (w.op != SWI_OP_OPEN)
        status = check_arguments(c, &w);
    c->depth--;
    return status == SW_OK && w.op != SWI_OP_OPEN ? emit(c, w.op, w.offset, w.count) : status;
}

static sw_status next_argument(compiler *c, size_t offset)
{
    sw_status status = pop_stronger(c, 0);
    if (status != SW_OK)
        return status;
    if (c->depth == 0 || c->stack[c->depth - 1].op == SWI_OP_OPEN)
        return fail(c, offset, "a comma is only between the arguments of a function");
    c->stack[c->depth - 1].count++;
    return SW_OK;
}

/* The operator at the position; those that begin like another one come first. */
static bool find_operator(compiler *c, swi_expr_op *out)
{
    static const struct {
        const char *sign;
        swi_expr_op op;
    } signs[] = {
        {"??", SWI_OP_ELSE},       {"==", SWI_OP_EQUAL},        {"!=", SWI_OP_UNEQUAL},
        {"<=", SWI_OP_LESS_EQUAL}, {"<", SWI_OP_LESS},          {">=", SWI_OP_GREATER_EQUAL},
        {">", SWI_OP_GREATER},     {"+", SWI_OP_ADD},           {"-", SWI_OP_SUBTRACT},
        {"*", SWI_OP_MULTIPLY},    {"//", SWI_OP_FLOOR_DIVIDE}, {"/", SWI_OP_DIVIDE},
        {"%", SWI_OP_MODULO},
    };
    static const struct {
        const char *word;
        swi_expr_op op;
    } words[] = {{"and", SWI_OP_AND}, {"or", SWI_OP_OR}, {"in", SWI_OP_IN}};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        *out = signs[i].op;
        if (take_sign(c, signs[i].sign))
            return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        *out = words[i].op;
        if (take_word(c, words[i].word))
            return true;
    }
    *out = SWI_OP_NOT_IN;
    if (!take_word(c, "not"))
        return false;
    skip_blanks(c);
    return take_word(c, "in");
}

static sw_status take_operator(compiler *c, bool *wanted)
{
    size_t start = c->pos;
    swi_expr_op op;
    *wanted = false;
    if (take_sign(c, ")"))
        return close_bracket(c, start);
    *wanted = true;
    if (take_sign(c, ","))
        return next_argument(c, start);
    if (find_operator(c, &op))
        return take_binary(c, op, start);
    return fail(c, start, "expected an operator");
}

static sw_status compile(compiler *c)
{
    bool wanted = true;
    for (;;) {
        skip_blanks(c);
        if (c->text[c->pos] == '\0')
            break;
        sw_status status = wanted ? take_operand(c, &wanted) : take_operator(c, &wanted);
        if (status != SW_OK)
            return status;
    }
    if (wanted)
        return fail(c, c->pos, "expected a value");
    sw_status status = pop_stronger(c, 0);
    if (status != SW_OK)
        return status;
    if (c->depth > 0)
        return fail(c, c->stack[c->depth - 1].offset, "a ( without its )");
    return SW_OK;
}

/* No text gives more of one kind than it has bytes. */
static sw_status make_room(compiler *c)
{
    swi_expr *e = c->expr;
    void *p;
    c->room = e->size + 1;
    sw_status status = swi_arena_alloc(&e->arena, c->room * sizeof *e->steps, &p, c->err);
    if (status != SW_OK)
        return status;
    e->steps = p;
    status = swi_arena_alloc(&e->arena, c->room * sizeof *e->literals, &p, c->err);
    if (status != SW_OK)
        return status;
    e->literals = p;
    status = swi_arena_alloc(&e->arena, c->room * sizeof *e->uses, &p, c->err);
    if (status == SW_OK)
        e->uses = p;
    return status;
}

sw_status swi_expr_compile(const char *text, size_t size, swi_expr **out, sw_error *err)
{
    static const swi_lex_kind kind = {"an expression", SWI_EXPR_MAX_BYTES, SYNTAX, LIMITS};
    sw_status status = swi_lex_check(&kind, text, size, err);
    if (status != SW_OK)
        return status;
    void *p;
    status = swi_alloc_array(1, sizeof(swi_expr), &p, err);
    if (status != SW_OK)
        return status;
    swi_expr *expr = p;
    expr->size = size;
    status = swi_arena_text(&expr->arena, text, size, &expr->text, err);
    compiler c = {.expr = expr, .text = expr->text, .err = err};
    if (status == SW_OK)
        status = make_room(&c);
    if (status == SW_OK)
        status = compile(&c);
    if (status != SW_OK) {
        swi_expr_free(expr);
        return status;
    }
    *out = expr;
    return SW_OK;
}

void swi_expr_free(swi_expr *expr)
{
    if (expr == NULL)
        return;
    swi_arena_free(&expr->arena);
    free(expr);
}

const char *swi_expr_text(const swi_expr *expr)
{
    return expr->text;
}

size_t swi_expr_use_count(const swi_expr *expr)
{
    return expr->use_count;
}

swi_expr_use swi_expr_use_at(const swi_expr *expr, size_t i)
{
    return expr->uses[i];
}
