/* Reads patterns, and makes names of them. */
#include "notation/pattern.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "notation/pattern_tokens.h"

#define SYNTAX "NT-3.1"
#define VARIABLES "NT-3.2"
#define PARTS "NT-3.3"
#define CHOICES "NT-3.4"
#define LIMITS "NT-3.8"
#define VALUE_END UINT64_C(1000000000000000000)

typedef struct parser {
    swi_pattern *pattern;
    const char *text; /* terminated; nothing after the end is looked at */
    size_t pos;
    sw_error *err;
} parser;

static sw_status fail(const parser *p, const char *clause, size_t offset, const char *what)
{
    return swi_fail_at(p->err, SW_ERR_FORMAT, clause, offset, "%s", what);
}

static sw_status add_token(parser *p, const swi_token *token)
{
    swi_pattern *pattern = p->pattern;
    if (pattern->count >= SWI_PATTERN_MAX_TOKENS)
        return swi_fail_at(p->err, SW_ERR_LIMIT, LIMITS, token->offset_bytes,
                           "a pattern of more than %u elements", SWI_PATTERN_MAX_TOKENS);
    pattern->tokens[pattern->count++] = *token;
    return SW_OK;
}

/* ---- texts -------------------------------------------------------------------------------- */

/*
 * The text up to one of these characters, or to the end; backslashes taken away. At most as long as
 * the pattern, so that this is the room.
 */
static sw_status read_text(parser *p, const char *ends, swi_alternative *out)
{
    char room[SWI_PATTERN_MAX_BYTES];
    size_t size = 0;
    while (p->text[p->pos] != '\0' && strchr(ends, p->text[p->pos]) == NULL) {
        if (p->text[p->pos] == '\\' && p->text[++p->pos] == '\0')
            return fail(p, SYNTAX, p->pos - 1, "a backslash with nothing behind it");
        room[size++] = p->text[p->pos++];
    }
    out->size = size;
    return swi_arena_text(&p->pattern->arena, room, size, &out->text, p->err);
}

static sw_status take_text(parser *p)
{
    swi_token token = {.kind = SWI_TOKEN_TEXT, .count = 1, .offset_bytes = p->pos};
    void *room;
    sw_status status =
        swi_arena_alloc(&p->pattern->arena, sizeof *token.alternatives, &room, p->err);
    if (status == SW_OK)
        status = read_text(p, "{}()|*?", room);
    token.alternatives = room;
    return status == SW_OK ? add_token(p, &token) : status;
}

/* ---- groups of alternatives --------------------------------------------------------------- */

static bool is_distinct(const swi_alternative *all, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++)
        if (strcmp(all[i].text, all[count - 1].text) == 0)
            return false;
    return true;
}

/* From behind the opening bracket to behind the closing one. */
static sw_status read_alternatives(parser *p, swi_token *token, char between, char end)
{
    const char *clause = token->group == SWI_GROUP_PARTS ? PARTS : CHOICES;
    void *room;
    sw_status status = swi_arena_alloc(
        &p->pattern->arena, (p->pattern->size + 1) * sizeof *token->alternatives, &room, p->err);
    if (status != SW_OK)
        return status;
    swi_alternative *all = room;
    const char ends[] = {between, end, '{', '}', '(', ')', '|', '*', '?', '\0'};
    token->alternatives = all;
    char found = between;
    while (found == between) {
        size_t start = p->pos;
        status = read_text(p, ends, &all[token->count++]);
        if (status != SW_OK)
            return status;
        found = p->text[p->pos];
        if (found == '\0')
            return fail(p, clause, token->offset_bytes, "a bracket that is not closed");
        if (found != between && found != end)
            return fail(p, clause, p->pos, "alternatives are plain text");
        if (!is_distinct(all, token->count))
            return fail(p, clause, start, "the same alternative again");
        p->pos++;
    }
    return SW_OK;
}

static sw_status take_choice(parser *p)
{
    swi_token token = {.kind = SWI_TOKEN_TEXT, .group = SWI_GROUP_CHOICE, .offset_bytes = p->pos++};
    sw_status status = read_alternatives(p, &token, '|', ')');
    if (status != SW_OK)
        return status;
    token.optional = p->text[p->pos] == '?';
    p->pos += token.optional;
    return add_token(p, &token);
}

static sw_status take_parts(parser *p)
{
    swi_token token = {.kind = SWI_TOKEN_TEXT, .group = SWI_GROUP_PARTS, .offset_bytes = p->pos++};
    if (p->pattern->parts != NULL)
        return fail(p, PARTS, token.offset_bytes, "a second group of parts; write (a|b) for one");
    sw_status status = read_alternatives(p, &token, ',', '}');
    if (status == SW_OK)
        status = add_token(p, &token);
    if (status == SW_OK)
        p->pattern->parts = &p->pattern->tokens[p->pattern->count - 1];
    return status;
}

/* ---- variables ---------------------------------------------------------------------------- */

static sw_status take_var(parser *p)
{
    swi_pattern *pattern = p->pattern;
    swi_token token = {.kind = SWI_TOKEN_VAR, .offset_bytes = p->pos++};
    size_t size = swi_lex_name(p->text + p->pos);
    if (size == 0 || p->text[p->pos + size] != '}')
        return fail(p, VARIABLES, token.offset_bytes,
                    "{...} holds the name of a variable, or parts with commas between them");
    if (pattern->var_count >= SWI_PATTERN_MAX_VARS)
        return swi_fail_at(p->err, SW_ERR_LIMIT, LIMITS, token.offset_bytes,
                           "a pattern with more than %u variables", SWI_PATTERN_MAX_VARS);
    const char *name;
    sw_status status = swi_arena_text(&pattern->arena, p->text + p->pos, size, &name, p->err);
    if (status != SW_OK)
        return status;
    if (swi_pattern_has_var(pattern, name))
        return fail(p, VARIABLES, p->pos, "the same variable again");
    token.var = (uint32_t)pattern->var_count;
    pattern->vars[pattern->var_count].name = name;
    pattern->vars[pattern->var_count++].offset_bytes = p->pos;
    p->pos += size + 1;
    return add_token(p, &token);
}

/* {a,b}: the bracket has a comma before it closes. */
static bool has_comma(const char *text)
{
    while (*text != '\0' && *text != '}' && *text != ',')
        text += text[0] == '\\' && text[1] != '\0' ? 2 : 1;
    return *text == ',';
}

/* ---- no digits beside a variable ---------------------------------------------------------- */

static bool can_be_empty(const swi_token *token)
{
    bool empty = token->optional;
    for (uint32_t i = 0; i < token->count; i++)
        empty = empty || token->alternatives[i].size == 0;
    return empty;
}

static bool has_digit_at(const swi_token *token, bool at_end)
{
    for (uint32_t i = 0; i < token->count; i++) {
        const swi_alternative *a = &token->alternatives[i];
        if (a->size > 0 && swi_is_decimal(a->text[at_end ? a->size - 1 : 0]))
            return true;
    }
    return false;
}

/* From token `i`, which is a variable, to the right. */
static sw_status check_right(const parser *p, size_t i)
{
    const swi_pattern *pattern = p->pattern;
    for (size_t k = i + 1; k < pattern->count; k++) {
        const swi_token *token = &pattern->tokens[k];
        if (token->kind == SWI_TOKEN_VAR ||
            (token->kind == SWI_TOKEN_TEXT && has_digit_at(token, false)))
            return fail(p, VARIABLES, token->offset_bytes, "a number right behind a variable");
        if (token->kind != SWI_TOKEN_TEXT || !can_be_empty(token))
            break;
    }
    return SW_OK;
}

static sw_status check_left(const parser *p, size_t i)
{
    const swi_pattern *pattern = p->pattern;
    for (size_t k = i; k-- > 0;) {
        const swi_token *token = &pattern->tokens[k];
        if (token->kind == SWI_TOKEN_TEXT && has_digit_at(token, true))
            return fail(p, VARIABLES, pattern->tokens[i].offset_bytes,
                        "a variable right behind a digit");
        if (token->kind != SWI_TOKEN_TEXT || !can_be_empty(token))
            break;
    }
    return SW_OK;
}

static sw_status check_vars(const parser *p)
{
    sw_status status = SW_OK;
    for (size_t i = 0; status == SW_OK && i < p->pattern->count; i++) {
        if (p->pattern->tokens[i].kind != SWI_TOKEN_VAR)
            continue;
        status = check_left(p, i);
        if (status == SW_OK)
            status = check_right(p, i);
    }
    return status;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static sw_status take_stars(parser *p)
{
    swi_token token = {.kind = SWI_TOKEN_STAR, .offset_bytes = p->pos};
    size_t count = strspn(p->text + p->pos, "*");
    if (count > 2)
        return fail(p, "NT-3.5", p->pos, "more than two stars in a row");
    token.kind = count == 2 ? SWI_TOKEN_ANYTHING : SWI_TOKEN_STAR;
    p->pos += count;
    return add_token(p, &token);
}

static sw_status take_token(parser *p)
{
    switch (p->text[p->pos]) {
    case '{':
        return has_comma(p->text + p->pos + 1) ? take_parts(p) : take_var(p);
    case '(':
        return take_choice(p);
    case '*':
        return take_stars(p);
    case '?':
        return fail(p, CHOICES, p->pos, "a ? that does not follow a ); write (x)?");
    case '}':
    case ')':
        return fail(p, SYNTAX, p->pos, "a bracket that was not opened");
    case '|':
        return fail(p, CHOICES, p->pos, "a | outside of (...)");
    default:
        return take_text(p);
    }
}

static sw_status parse(parser *p)
{
    if (p->text[0] == '\0')
        return fail(p, SYNTAX, 0, "an empty pattern");
    while (p->text[p->pos] != '\0') {
        sw_status status = take_token(p);
        if (status != SW_OK)
            return status;
    }
    return check_vars(p);
}

sw_status swi_pattern_parse(const char *text, size_t size, swi_pattern **out, sw_error *err)
{
    static const swi_lex_kind kind = {"a pattern", SWI_PATTERN_MAX_BYTES, SYNTAX, LIMITS};
    sw_status status = swi_lex_check(&kind, text, size, err);
    if (status != SW_OK)
        return status;
    void *room;
    status = swi_alloc_array(1, sizeof(swi_pattern), &room, err);
    if (status != SW_OK)
        return status;
    swi_pattern *pattern = room;
    pattern->size = size;
    status = swi_arena_text(&pattern->arena, text, size, &pattern->text, err);
    parser p = {.pattern = pattern, .text = pattern->text, .err = err};
    if (status == SW_OK)
        status = parse(&p);
    if (status != SW_OK) {
        swi_pattern_free(pattern);
        return status;
    }
    *out = pattern;
    return SW_OK;
}

void swi_pattern_free(swi_pattern *pattern)
{
    if (pattern == NULL)
        return;
    swi_arena_free(&pattern->arena);
    free(pattern);
}

/* ---- what it holds ------------------------------------------------------------------------ */

const char *swi_pattern_text(const swi_pattern *pattern)
{
    return pattern->text;
}

size_t swi_pattern_var_count(const swi_pattern *pattern)
{
    return pattern->var_count;
}

const char *swi_pattern_var(const swi_pattern *pattern, size_t i, size_t *offset_bytes)
{
    if (offset_bytes != NULL)
        *offset_bytes = pattern->vars[i].offset_bytes;
    return pattern->vars[i].name;
}

bool swi_pattern_has_var(const swi_pattern *pattern, const char *name)
{
    for (size_t i = 0; i < pattern->var_count; i++)
        if (strcmp(pattern->vars[i].name, name) == 0)
            return true;
    return false;
}

uint32_t swi_pattern_part_count(const swi_pattern *pattern)
{
    return pattern->parts != NULL ? pattern->parts->count : 1;
}

const char *swi_pattern_part(const swi_pattern *pattern, uint32_t part)
{
    return pattern->parts != NULL ? pattern->parts->alternatives[part].text : "";
}

bool swi_pattern_is_invertible(const swi_pattern *pattern)
{
    for (size_t i = 0; i < pattern->count; i++) {
        const swi_token *token = &pattern->tokens[i];
        if (token->kind > SWI_TOKEN_VAR || token->group == SWI_GROUP_CHOICE)
            return false;
    }
    return true;
}

bool swi_pattern_is_name(const swi_pattern *pattern, const char **name)
{
    const swi_token *first = &pattern->tokens[0];
    if (pattern->count != 1 || first->kind != SWI_TOKEN_TEXT || first->group != SWI_GROUP_NONE)
        return false;
    *name = first->alternatives[0].text;
    return true;
}

/* ---- names -------------------------------------------------------------------------------- */

static sw_status append_var(const char *name, const swi_bindings *bindings, swi_buf *out,
                            sw_error *err)
{
    size_t i = 0;
    while (i < bindings->count && strcmp(bindings->items[i].name, name) != 0)
        i++;
    if (i == bindings->count)
        return swi_fail(err, SW_ERR_ARG, "no value for {%s}", name);
    if (bindings->items[i].value >= VALUE_END)
        return swi_fail(err, SW_ERR_ARG, "{%s} has more than 18 digits", name);
    return swi_buf_printf(out, err, "%" PRIu64, bindings->items[i].value);
}

static sw_status append_name(const swi_pattern *pattern, const swi_bindings *bindings, swi_buf *out,
                             sw_error *err)
{
    sw_status status = SW_OK;
    for (size_t i = 0; status == SW_OK && i < pattern->count; i++) {
        const swi_token *token = &pattern->tokens[i];
        if (token->kind == SWI_TOKEN_VAR) {
            status = append_var(pattern->vars[token->var].name, bindings, out, err);
            continue;
        }
        const swi_alternative *a =
            &token->alternatives[token->group == SWI_GROUP_PARTS ? bindings->part : 0];
        status = swi_buf_append(out, a->text, a->size, err);
    }
    return status;
}

sw_status swi_pattern_instantiate(const swi_pattern *pattern, const swi_bindings *bindings,
                                  swi_buf *out, sw_error *err)
{
    if (!swi_pattern_is_invertible(pattern))
        return swi_fail(err, SW_ERR_ARG, "\"%s\" makes no names: it has a star or a (choice)",
                        pattern->text);
    if (pattern->parts != NULL && bindings->part >= pattern->parts->count)
        return swi_fail(err, SW_ERR_ARG, "\"%s\" has no part %u", pattern->text, bindings->part);
    size_t before = out->size;
    sw_status status = append_name(pattern, bindings, out, err);
    if (status != SW_OK)
        out->size = before;
    return status;
}
