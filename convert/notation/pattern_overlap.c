/*
 * Whether two patterns have a name in common: both become automata over bytes, and a search goes
 * through the pairs of their states. Each pair is visited once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "notation/pattern_tokens.h"

typedef enum byte_class {
    CLASS_NOTHING, /* a step without a byte */
    CLASS_BYTE,
    CLASS_DIGIT_1, /* 1 to 9 */
    CLASS_DIGIT,
    CLASS_NOT_DOT,
    CLASS_ANY
} byte_class;

typedef struct edge {
    uint32_t from, to;
    byte_class kind;
    char byte;
} edge;

/* State 0 is the start; state `end` the end. Edges are ordered by where they begin. */
typedef struct automaton {
    edge *edges;
    size_t count, capacity;
    size_t *first; /* [state]: its first edge; one more for the end */
    uint32_t states, end;
} automaton;

static sw_status add_edge(automaton *a, uint32_t from, uint32_t to, byte_class kind, char byte,
                          sw_error *err)
{
    void *p = a->edges;
    sw_status status = swi_grow_array(&p, &a->capacity, a->count + 1, sizeof *a->edges, err);
    a->edges = p;
    if (status == SW_OK)
        a->edges[a->count++] = (edge){.from = from, .to = to, .kind = kind, .byte = byte};
    return status;
}

static sw_status add_word(automaton *a, uint32_t from, uint32_t to, const swi_alternative *word,
                          sw_error *err)
{
    if (word->size == 0)
        return add_edge(a, from, to, CLASS_NOTHING, 0, err);
    sw_status status = SW_OK;
    for (size_t i = 0; status == SW_OK && i < word->size; i++) {
        uint32_t next = i + 1 == word->size ? to : a->states++;
        status = add_edge(a, from, next, CLASS_BYTE, word->text[i], err);
        from = next;
    }
    return status;
}

static sw_status add_text(automaton *a, uint32_t from, uint32_t to, const swi_token *token,
                          sw_error *err)
{
    sw_status status = SW_OK;
    for (uint32_t i = 0; status == SW_OK && i < token->count; i++)
        status = add_word(a, from, to, &token->alternatives[i], err);
    if (status == SW_OK && token->optional)
        status = add_edge(a, from, to, CLASS_NOTHING, 0, err);
    return status;
}

static sw_status add_number(automaton *a, uint32_t from, uint32_t to, sw_error *err)
{
    uint32_t more = a->states++;
    sw_status status = add_edge(a, from, to, CLASS_BYTE, '0', err);
    if (status == SW_OK)
        status = add_edge(a, from, more, CLASS_DIGIT_1, 0, err);
    if (status == SW_OK)
        status = add_edge(a, more, more, CLASS_DIGIT, 0, err);
    return status == SW_OK ? add_edge(a, more, to, CLASS_NOTHING, 0, err) : status;
}

static sw_status add_star(automaton *a, uint32_t from, uint32_t to, byte_class kind, sw_error *err)
{
    sw_status status = add_edge(a, from, from, kind, 0, err);
    return status == SW_OK ? add_edge(a, from, to, CLASS_NOTHING, 0, err) : status;
}

static int by_start(const void *a, const void *b)
{
    const edge *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static sw_status order_edges(automaton *a, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array((size_t)a->states + 1, sizeof *a->first, &p, err);
    if (status != SW_OK)
        return status;
    a->first = p;
    qsort(a->edges, a->count, sizeof *a->edges, by_start);
    for (size_t i = 0, state = 0; state <= a->states; state++) {
        while (i < a->count && a->edges[i].from < state)
            i++;
        a->first[state] = i;
    }
    return SW_OK;
}

static sw_status make(const swi_pattern *pattern, automaton *a, sw_error *err)
{
    sw_status status = SW_OK;
    a->states = 1;
    for (size_t i = 0; status == SW_OK && i < pattern->count; i++) {
        const swi_token *token = &pattern->tokens[i];
        uint32_t from = a->end, to = a->states++;
        a->end = to;
        if (token->kind == SWI_TOKEN_TEXT)
            status = add_text(a, from, to, token, err);
        else if (token->kind == SWI_TOKEN_VAR)
            status = add_number(a, from, to, err);
        else
            status = add_star(a, from, to,
                              token->kind == SWI_TOKEN_STAR ? CLASS_NOT_DOT : CLASS_ANY, err);
    }
    return status == SW_OK ? order_edges(a, err) : status;
}

static void release(automaton *a)
{
    free(a->edges);
    free(a->first);
}

/* ---- bytes that two edges have in common ---------------------------------------------------- */

static bool holds(byte_class kind, char byte)
{
    switch (kind) {
    case CLASS_DIGIT_1:
        return byte >= '1' && byte <= '9';
    case CLASS_DIGIT:
        return swi_is_decimal(byte);
    case CLASS_NOT_DOT:
        return byte != '.';
    default:
        return kind == CLASS_ANY;
    }
}

/* Classes of more than one byte always meet: all have the digit 1. */
static bool common_byte(const edge *a, const edge *b, char *out)
{
    if (a->kind == CLASS_BYTE && b->kind == CLASS_BYTE) {
        *out = a->byte;
        return a->byte == b->byte;
    }
    if (a->kind == CLASS_BYTE || b->kind == CLASS_BYTE) {
        const edge *byte = a->kind == CLASS_BYTE ? a : b, *class = a->kind == CLASS_BYTE ? b : a;
        *out = byte->byte;
        return holds(class->kind, byte->byte);
    }
    *out = a->kind >= CLASS_NOT_DOT && b->kind >= CLASS_NOT_DOT ? 'x' : '1';
    return true;
}

/* ---- the search --------------------------------------------------------------------------- */

typedef struct pair {
    uint32_t a, b;
    uint32_t parent; /* in the list of pairs */
    bool has_byte;
    char byte; /* that leads here from it */
} pair;

typedef struct search {
    automaton a, b;
    uint64_t *seen; /* bits */
    pair *pairs;
    size_t count, capacity;
    sw_error *err;
} search;

static sw_status visit(search *s, const pair *p)
{
    size_t bit = (size_t)p->a * s->b.states + p->b;
    if ((s->seen[bit / 64] >> bit % 64 & 1) != 0)
        return SW_OK;
    s->seen[bit / 64] |= UINT64_C(1) << bit % 64;
    void *room = s->pairs;
    sw_status status = swi_grow_raw(&room, &s->capacity, s->count + 1, sizeof *s->pairs, s->err);
    s->pairs = room;
    if (status == SW_OK)
        s->pairs[s->count++] = *p;
    return status;
}

/* From pair i over one edge of each. */
static sw_status visit_both(search *s, size_t i, const edge *x, const edge *y)
{
    pair p = {.a = x->to, .b = y->to, .parent = (uint32_t)i, .has_byte = true};
    if (x->kind == CLASS_NOTHING || y->kind == CLASS_NOTHING || !common_byte(x, y, &p.byte))
        return SW_OK;
    return visit(s, &p);
}

static sw_status visit_nothing(search *s, size_t i)
{
    const pair at = s->pairs[i];
    sw_status status = SW_OK;
    for (size_t k = s->a.first[at.a]; status == SW_OK && k < s->a.first[at.a + 1]; k++) {
        const pair p = {.a = s->a.edges[k].to, .b = at.b, .parent = (uint32_t)i};
        if (s->a.edges[k].kind == CLASS_NOTHING)
            status = visit(s, &p);
    }
    for (size_t k = s->b.first[at.b]; status == SW_OK && k < s->b.first[at.b + 1]; k++) {
        const pair p = {.a = at.a, .b = s->b.edges[k].to, .parent = (uint32_t)i};
        if (s->b.edges[k].kind == CLASS_NOTHING)
            status = visit(s, &p);
    }
    return status;
}

static sw_status expand(search *s, size_t i)
{
    const pair at = s->pairs[i];
    sw_status status = visit_nothing(s, i);
    for (size_t k = s->a.first[at.a]; k < s->a.first[at.a + 1]; k++)
        for (size_t n = s->b.first[at.b]; status == SW_OK && n < s->b.first[at.b + 1]; n++)
            status = visit_both(s, i, &s->a.edges[k], &s->b.edges[n]);
    return status;
}

/* *last: the pair of both ends, or the count of pairs: it is not reached. */
static sw_status run(search *s, size_t *last)
{
    void *p;
    size_t bits = (size_t)s->a.states * s->b.states;
    sw_status status = swi_alloc_array(bits / 64 + 1, sizeof *s->seen, &p, s->err);
    if (status != SW_OK)
        return status;
    s->seen = p;
    const pair start = {0};
    status = visit(s, &start);
    size_t i = 0;
    while (status == SW_OK && i < s->count &&
           (s->pairs[i].a != s->a.end || s->pairs[i].b != s->b.end))
        status = expand(s, i++);
    *last = i;
    return status;
}

static sw_status append_witness(const search *s, size_t last, swi_buf *out, sw_error *err)
{
    size_t start = out->size;
    sw_status status = SW_OK;
    for (size_t i = last; status == SW_OK && i > 0; i = s->pairs[i].parent)
        if (s->pairs[i].has_byte)
            status = swi_buf_append(out, &s->pairs[i].byte, 1, err);
    if (status != SW_OK) {
        out->size = start;
        return status;
    }
    for (size_t i = start, j = out->size; i + 1 < j; i++) {
        uint8_t byte = out->data[i];
        out->data[i] = out->data[--j];
        out->data[j] = byte;
    }
    return SW_OK;
}

sw_status swi_pattern_overlap(const swi_pattern *a, const swi_pattern *b, bool *out,
                              swi_buf *witness, sw_error *err)
{
    search s = {.err = err};
    size_t last = 0;
    sw_status status = make(a, &s.a, err);
    if (status == SW_OK)
        status = make(b, &s.b, err);
    if (status == SW_OK)
        status = run(&s, &last);
    bool found = status == SW_OK && last < s.count;
    if (found && witness != NULL)
        status = append_witness(&s, last, witness, err);
    if (status == SW_OK)
        *out = found;
    release(&s.a);
    release(&s.b);
    free(s.seen);
    free(s.pairs);
    return status;
}
