/* Reads rearrangements and finds their numbers for a tensor. */
#include "notation/einops.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "notation/lex.h"

#define SYNTAX "NT-4.1"
#define NAMES "NT-4.2"
#define SIZES "NT-4.3"
#define LIMITS "NT-4.4"

typedef struct group {
    uint32_t count;    /* factors; 0: it is a 1 */
    size_t start, end; /* in the text */
} group;

/* One side; its factors are numbered as on the left side. */
typedef struct side {
    group groups[SW_MAX_AXES];
    uint32_t axes;
    uint32_t factors[SW_MAX_AXES];
    size_t offsets[SW_MAX_AXES]; /* where they stand */
    uint32_t factor_count;
} side;

struct swi_einops {
    swi_arena arena; /* the texts */
    const char *text;
    size_t size;
    const char *names[SW_MAX_AXES];
    side sides[2]; /* left, right */
};

typedef struct parser {
    swi_einops *einops;
    side *to;
    const char *text; /* terminated; nothing after the end is looked at */
    size_t pos;
    sw_error *err;
} parser;

static sw_status fail(const parser *p, const char *clause, size_t offset, const char *what)
{
    return swi_fail_at(p->err, SW_ERR_FORMAT, clause, offset, "%s", what);
}

/* ---- reading ------------------------------------------------------------------------------ */

static void skip_blanks(parser *p)
{
    p->pos += swi_lex_blanks(p->text + p->pos);
}

/* The number of a factor of the left side, or that of all of them. */
static uint32_t find_factor(const swi_einops *e, const char *name, size_t size)
{
    uint32_t count = e->sides[0].factor_count, i = 0;
    while (i < count && (strlen(e->names[i]) != size || memcmp(e->names[i], name, size) != 0))
        i++;
    return i;
}

/* A name of the left side makes a factor. */
static sw_status make_factor(parser *p, size_t size, uint32_t *factor)
{
    side *left = &p->einops->sides[0];
    if (*factor < left->factor_count)
        return fail(p, NAMES, p->pos, "the same name again on this side");
    if (left->factor_count == SW_MAX_AXES)
        return swi_fail_at(p->err, SW_ERR_LIMIT, LIMITS, p->pos, "more than %d names", SW_MAX_AXES);
    return swi_arena_text(&p->einops->arena, p->text + p->pos, size, &p->einops->names[*factor],
                          p->err);
}

/* A name of the right side refers to one. */
static sw_status check_factor(const parser *p, uint32_t factor)
{
    const side *left = &p->einops->sides[0], *right = &p->einops->sides[1];
    if (factor == left->factor_count)
        return fail(p, NAMES, p->pos, "a name that is not on the left side");
    for (uint32_t i = 0; i < right->factor_count; i++)
        if (right->factors[i] == factor)
            return fail(p, NAMES, p->pos, "the same name again on this side");
    return SW_OK;
}

static sw_status take_name(parser *p, group *to)
{
    size_t size = swi_lex_name(p->text + p->pos);
    if (size == 0)
        return fail(p, SYNTAX, p->pos, "expected a name");
    uint32_t factor = find_factor(p->einops, p->text + p->pos, size);
    bool is_left = p->to == &p->einops->sides[0];
    sw_status status = is_left ? make_factor(p, size, &factor) : check_factor(p, factor);
    if (status != SW_OK)
        return status;
    p->to->factors[p->to->factor_count] = factor;
    p->to->offsets[p->to->factor_count++] = p->pos;
    p->pos += size;
    to->count++;
    return SW_OK;
}

/* "(a two i)" from its bracket on. */
static sw_status take_brackets(parser *p, group *to)
{
    size_t open = p->pos++;
    skip_blanks(p);
    while (p->text[p->pos] != ')') {
        if (p->text[p->pos] == '\0')
            return fail(p, SYNTAX, open, "a ( without its )");
        sw_status status = take_name(p, to);
        if (status != SW_OK)
            return status;
        skip_blanks(p);
    }
    if (to->count == 0)
        return fail(p, SYNTAX, open, "an empty group; write 1");
    p->pos++;
    return SW_OK;
}

static sw_status take_group(parser *p)
{
    if (p->to->axes == SW_MAX_AXES)
        return swi_fail_at(p->err, SW_ERR_LIMIT, LIMITS, p->pos, "more than %d dimensions",
                           SW_MAX_AXES);
    group *to = &p->to->groups[p->to->axes];
    to->start = p->pos;
    char ch = p->text[p->pos];
    char next = ch == '1' ? p->text[p->pos + 1] : '\0';
    bool one = ch == '1' && !swi_is_decimal(next) && swi_lex_name(p->text + p->pos + 1) == 0;
    sw_status status = SW_OK;
    if (one)
        p->pos++;
    else
        status = ch == '(' ? take_brackets(p, to) : take_name(p, to);
    to->end = p->pos;
    p->to->axes += status == SW_OK;
    return status;
}

static bool is_arrow(const parser *p)
{
    return strncmp(p->text + p->pos, "->", 2) == 0;
}

static sw_status take_side(parser *p, side *to)
{
    p->to = to;
    skip_blanks(p);
    while (p->text[p->pos] != '\0' && !is_arrow(p)) {
        sw_status status = take_group(p);
        if (status != SW_OK)
            return status;
        skip_blanks(p);
    }
    return SW_OK;
}

/* Every name of the left side stands on the right one. */
static sw_status check_used(const parser *p)
{
    const side *left = &p->einops->sides[0], *right = &p->einops->sides[1];
    bool used[SW_MAX_AXES] = {false};
    for (uint32_t i = 0; i < right->factor_count; i++)
        used[right->factors[i]] = true;
    for (uint32_t i = 0; i < left->factor_count; i++)
        if (!used[i])
            return fail(p, NAMES, left->offsets[i], "a name that is not on the right side");
    return SW_OK;
}

static sw_status parse(parser *p)
{
    sw_status status = take_side(p, &p->einops->sides[0]);
    if (status != SW_OK)
        return status;
    if (!is_arrow(p))
        return fail(p, SYNTAX, p->pos, "expected ->");
    p->pos += 2;
    status = take_side(p, &p->einops->sides[1]);
    if (status != SW_OK)
        return status;
    if (p->text[p->pos] != '\0')
        return fail(p, SYNTAX, p->pos, "a second ->");
    return check_used(p);
}

sw_status swi_einops_parse(const char *text, size_t size, swi_einops **out, sw_error *err)
{
    static const swi_lex_kind kind = {"a rearrangement", SWI_EINOPS_MAX_BYTES, SYNTAX, LIMITS};
    sw_status status = swi_lex_check(&kind, text, size, err);
    if (status != SW_OK)
        return status;
    void *room;
    status = swi_alloc_array(1, sizeof(swi_einops), &room, err);
    if (status != SW_OK)
        return status;
    swi_einops *einops = room;
    einops->size = size;
    status = swi_arena_text(&einops->arena, text, size, &einops->text, err);
    parser p = {.einops = einops, .text = einops->text, .err = err};
    if (status == SW_OK)
        status = parse(&p);
    if (status != SW_OK) {
        swi_einops_free(einops);
        return status;
    }
    *out = einops;
    return SW_OK;
}

void swi_einops_free(swi_einops *einops)
{
    if (einops == NULL)
        return;
    swi_arena_free(&einops->arena);
    free(einops);
}

const char *swi_einops_text(const swi_einops *einops)
{
    return einops->text;
}

uint32_t swi_einops_axes(const swi_einops *einops, bool right)
{
    return einops->sides[right].axes;
}

size_t swi_einops_name_count(const swi_einops *einops)
{
    return einops->sides[0].factor_count;
}

const char *swi_einops_name(const swi_einops *einops, size_t i, size_t *offset_bytes)
{
    if (offset_bytes != NULL)
        *offset_bytes = einops->sides[0].offsets[i];
    return einops->names[i];
}

/* ---- numbers ------------------------------------------------------------------------------ */

typedef struct solver {
    const swi_einops *einops;
    const side *side; /* whose shape is given */
    const swi_expr_scope *scope;
    int64_t sizes[SW_MAX_AXES]; /* by factor */
    sw_error *err;
} solver;

/* The size that the scope gives to factor i of the side; *found: whether it does. */
static sw_status look_up(solver *s, uint32_t i, bool *found)
{
    const char *name = s->einops->names[s->side->factors[i]];
    swi_expr_value value = swi_expr_none();
    sw_status status = swi_expr_look_up(s->scope, name, &value, found, s->err);
    if (status != SW_OK && s->err != NULL) { /* it tells of another text: the place is here */
        s->err->has_offset = true;
        s->err->offset_bytes = s->side->offsets[i];
        (void)swi_error_prefix(s->err, "%s", name);
    }
    if (status != SW_OK || !*found)
        return status;
    if (value.kind != SWI_EXPR_INT || value.integer < 0)
        return swi_fail_at(s->err, SW_ERR_CONFLICT, SIZES, s->side->offsets[i],
                           "the size \"%s\" is %s", name,
                           value.kind == SWI_EXPR_INT ? "below 0" : "no whole number");
    s->sizes[s->side->factors[i]] = value.integer;
    return SW_OK;
}

static sw_status fail_group(const solver *s, uint32_t axis, int64_t have, int64_t known,
                            const char *why)
{
    const group *g = &s->side->groups[axis];
    return swi_fail_at(s->err, SW_ERR_CONFLICT, SIZES, g->start,
                       "dimension %u has %" PRId64 " elements, \"%.*s\" %s %" PRId64, axis, have,
                       (int)(g->end - g->start), s->einops->text + g->start, why, known);
}

/* The factors of one dimension, of which the first is number `first` of the side. */
static sw_status solve_group(solver *s, uint32_t axis, uint32_t first, int64_t have)
{
    const group *g = &s->side->groups[axis];
    uint32_t unknown = UINT32_MAX;
    int64_t known = 1;
    for (uint32_t i = first; i < first + g->count; i++) {
        bool found;
        sw_status status = look_up(s, i, &found);
        if (status != SW_OK)
            return status;
        if (!found && unknown != UINT32_MAX)
            return swi_fail_at(s->err, SW_ERR_FORMAT, SIZES, s->side->offsets[i],
                               "neither \"%s\" nor \"%s\" has a size; define one of them",
                               s->einops->names[s->side->factors[unknown]],
                               s->einops->names[s->side->factors[i]]);
        if (!found)
            unknown = i;
        else if (!swi_mul_i64(known, s->sizes[s->side->factors[i]], &known))
            return fail_group(s, axis, have, INT64_MAX, "has more than");
    }
    if (unknown == UINT32_MAX)
        return known == have ? SW_OK : fail_group(s, axis, have, known, "has");
    if (known == 0 || have % known != 0)
        return fail_group(s, axis, have, known, "has a multiple of");
    s->sizes[s->side->factors[unknown]] = have / known;
    return SW_OK;
}

static void set_numbers(const solver *s, swi_rearrange *out)
{
    const side *left = &s->einops->sides[0], *right = &s->einops->sides[1];
    *out = (swi_rearrange){
        .factors = left->factor_count, .in_axes = left->axes, .out_axes = right->axes};
    for (uint32_t i = 0; i < left->factor_count; i++) {
        out->size[i] = s->sizes[i];
        out->order[i] = right->factors[i];
    }
    for (uint32_t i = 0; i < left->axes; i++)
        out->in_count[i] = left->groups[i].count;
    for (uint32_t i = 0; i < right->axes; i++)
        out->out_count[i] = right->groups[i].count;
}

sw_status swi_einops_solve(const swi_einops *einops, bool reverse, const int64_t *shape,
                           uint32_t axes, const swi_expr_scope *scope, swi_rearrange *out,
                           sw_error *err)
{
    solver s = {.einops = einops, .side = &einops->sides[reverse], .scope = scope, .err = err};
    if (axes != s.side->axes)
        return swi_fail_at(err, SW_ERR_CONFLICT, SIZES, 0,
                           "the tensor has %u dimensions, the %s side of \"%s\" has %u", axes,
                           reverse ? "right" : "left", einops->text, s.side->axes);
    uint32_t first = 0;
    for (uint32_t i = 0; i < axes; i++) {
        sw_status status = solve_group(&s, i, first, shape[i]);
        if (status != SW_OK)
            return status;
        first += s.side->groups[i].count;
    }
    swi_rearrange forward;
    set_numbers(&s, &forward);
    if (reverse)
        swi_rearrange_inverse(&forward, out);
    else
        *out = forward;
    return SW_OK;
}
