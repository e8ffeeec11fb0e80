/*
 * Whether a name is one of a pattern's: for each token, from the last to the first, the set of the
 * places in the name from where the rest matches. So no combination is ever tried twice.
 */
#include <string.h>

#include "notation/pattern_tokens.h"

#define VAR_DIGITS 18U
#define WORDS (SWI_PATTERN_MAX_NAME / 64 + 1)

typedef struct places {
    uint64_t words[WORDS];
} places;

typedef struct matcher {
    const swi_pattern *pattern;
    const char *name;
    size_t size;
    places rest[SWI_PATTERN_MAX_TOKENS + 1]; /* [t]: tokens t and on match from there */
} matcher;

static bool has(const places *set, size_t place)
{
    return (set->words[place / 64] >> place % 64 & 1) != 0;
}

static void add(places *set, size_t place)
{
    set->words[place / 64] |= UINT64_C(1) << place % 64;
}

/* The least place of the set that is at least `from`; past the end of the name: there is none. */
static size_t next_place(const matcher *m, const places *set, size_t from)
{
    while (from <= m->size) {
        uint64_t word = set->words[from / 64] >> from % 64;
        if (word != 0)
            return from + (size_t)__builtin_ctzll(word);
        from = (from / 64 + 1) * 64;
    }
    return from;
}

static bool ends_with(const matcher *m, const swi_alternative *a, size_t end)
{
    return a->size <= end && memcmp(m->name + end - a->size, a->text, a->size) == 0;
}

/* The number that ends there begins at *start: a whole run of digits, as a variable is written. */
static bool number_before(const matcher *m, size_t end, size_t *start)
{
    size_t p = end;
    if (end < m->size && swi_is_decimal(m->name[end]))
        return false;
    while (p > 0 && swi_is_decimal(m->name[p - 1]))
        p--;
    *start = p;
    return end > p && end - p <= VAR_DIGITS && (m->name[p] != '0' || end - p == 1);
}

static void step_text(matcher *m, size_t t)
{
    const swi_token *token = &m->pattern->tokens[t];
    const places *after = &m->rest[t + 1];
    for (size_t end = next_place(m, after, 0); end <= m->size;
         end = next_place(m, after, end + 1)) {
        for (uint32_t i = 0; i < token->count; i++)
            if (ends_with(m, &token->alternatives[i], end))
                add(&m->rest[t], end - token->alternatives[i].size);
        if (token->optional)
            add(&m->rest[t], end);
    }
}

static void step_var(matcher *m, size_t t)
{
    const places *after = &m->rest[t + 1];
    size_t start;
    for (size_t end = next_place(m, after, 0); end <= m->size; end = next_place(m, after, end + 1))
        if (number_before(m, end, &start))
            add(&m->rest[t], start);
}

static void step_star(matcher *m, size_t t)
{
    bool dots = m->pattern->tokens[t].kind == SWI_TOKEN_ANYTHING, reaches = false;
    for (size_t p = m->size + 1; p-- > 0;) {
        reaches = (reaches && (dots || m->name[p] != '.')) || has(&m->rest[t + 1], p);
        if (reaches)
            add(&m->rest[t], p);
    }
}

static void fill(matcher *m)
{
    size_t words = m->size / 64 + 1;
    for (size_t t = 0; t <= m->pattern->count; t++)
        memset(m->rest[t].words, 0, words * sizeof m->rest[t].words[0]);
    add(&m->rest[m->pattern->count], m->size);
    for (size_t t = m->pattern->count; t-- > 0;) {
        switch (m->pattern->tokens[t].kind) {
        case SWI_TOKEN_TEXT:
            step_text(m, t);
            break;
        case SWI_TOKEN_VAR:
            step_var(m, t);
            break;
        default:
            step_star(m, t);
            break;
        }
    }
}

/* ---- from the first token to the last, along what is known to match ------------------------- */

/* Returns the alternative that is there; count: none, which is optional then. */
static uint32_t take_alternative(const matcher *m, size_t t, size_t *place)
{
    const swi_token *token = &m->pattern->tokens[t];
    for (uint32_t i = 0; i < token->count; i++) {
        const swi_alternative *a = &token->alternatives[i];
        size_t end = *place + a->size;
        if (end > m->size || !has(&m->rest[t + 1], end) || !ends_with(m, a, end))
            continue;
        *place = end;
        return i;
    }
    return token->count;
}

static uint64_t take_number(const matcher *m, size_t *place)
{
    uint64_t v = 0; /* of at most 18 digits */
    for (; *place < m->size && swi_is_decimal(m->name[*place]); ++*place)
        v = v * 10 + (uint64_t)(m->name[*place] - '0');
    return v;
}

static void take_star(const matcher *m, size_t t, size_t *place)
{
    bool dots = m->pattern->tokens[t].kind == SWI_TOKEN_ANYTHING;
    size_t last = *place;
    for (size_t p = *place; p <= m->size; p++) {
        if (has(&m->rest[t + 1], p))
            last = p;
        if (p < m->size && m->name[p] == '.' && !dots)
            break;
    }
    *place = last;
}

static void bind(const matcher *m, swi_bindings *out)
{
    *out = (swi_bindings){0};
    size_t place = 0;
    for (size_t t = 0; t < m->pattern->count; t++) {
        const swi_token *token = &m->pattern->tokens[t];
        if (token->kind == SWI_TOKEN_TEXT) {
            uint32_t i = take_alternative(m, t, &place);
            if (token->group == SWI_GROUP_PARTS)
                out->part = i;
        } else if (token->kind == SWI_TOKEN_VAR) {
            out->items[out->count].name = m->pattern->vars[token->var].name;
            out->items[out->count++].value = take_number(m, &place);
        } else {
            take_star(m, t, &place);
        }
    }
}

bool swi_pattern_match(const swi_pattern *pattern, const char *name, size_t size, swi_bindings *out)
{
    /* Most patterns begin with plain text, and most names with another one. */
    const swi_token *first = &pattern->tokens[0];
    const swi_alternative *text = first->kind == SWI_TOKEN_TEXT && first->group == SWI_GROUP_NONE
                                      ? first->alternatives
                                      : NULL;
    if (size > SWI_PATTERN_MAX_NAME ||
        (text != NULL && (size < text->size || memcmp(name, text->text, text->size) != 0)))
        return false;
    matcher m;
    m.pattern = pattern;
    m.name = name;
    m.size = size;
    fill(&m);
    if (!has(&m.rest[0], 0))
        return false;
    if (out != NULL)
        bind(&m, out);
    return true;
}
