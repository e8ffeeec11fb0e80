/*
 * Whether two patterns have a name in common: both become automata over bytes, and a search goes
 * through the pairs of their states. Each pair is visited once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "notation/pattern_automaton.h"

/* ---- bytes that two edges have in common ---------------------------------------------------- */

/* Classes of more than one byte always meet: all have the digit 1. */
static bool common_byte(const swi_edge *a, const swi_edge *b, char *out)
{
    if (a->kind == SWI_CLASS_BYTE && b->kind == SWI_CLASS_BYTE) {
        *out = a->byte;
        return a->byte == b->byte;
    }
    if (a->kind == SWI_CLASS_BYTE || b->kind == SWI_CLASS_BYTE) {
        const swi_edge *byte = a->kind == SWI_CLASS_BYTE ? a : b,
                       *class = a->kind == SWI_CLASS_BYTE ? b : a;
        *out = byte->byte;
        return swi_class_holds(class->kind, byte->byte);
    }
    *out = a->kind >= SWI_CLASS_NOT_DOT && b->kind >= SWI_CLASS_NOT_DOT ? 'x' : '1';
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
    swi_automaton a, b;
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

/* From pair i over one swi_edge of each. */
static sw_status visit_both(search *s, size_t i, const swi_edge *x, const swi_edge *y)
{
    pair p = {.a = x->to, .b = y->to, .parent = (uint32_t)i, .has_byte = true};
    if (x->kind == SWI_CLASS_NOTHING || y->kind == SWI_CLASS_NOTHING || !common_byte(x, y, &p.byte))
        return SW_OK;
    return visit(s, &p);
}

static sw_status visit_nothing(search *s, size_t i)
{
    const pair at = s->pairs[i];
    sw_status status = SW_OK;
    for (size_t k = s->a.first[at.a]; status == SW_OK && k < s->a.first[at.a + 1]; k++) {
        const pair p = {.a = s->a.edges[k].to, .b = at.b, .parent = (uint32_t)i};
        if (s->a.edges[k].kind == SWI_CLASS_NOTHING)
            status = visit(s, &p);
    }
    for (size_t k = s->b.first[at.b]; status == SW_OK && k < s->b.first[at.b + 1]; k++) {
        const pair p = {.a = at.a, .b = s->b.edges[k].to, .parent = (uint32_t)i};
        if (s->b.edges[k].kind == SWI_CLASS_NOTHING)
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
    sw_status status = swi_automaton_make(a, &s.a, err);
    if (status == SW_OK)
        status = swi_automaton_make(b, &s.b, err);
    if (status == SW_OK)
        status = run(&s, &last);
    bool found = status == SW_OK && last < s.count;
    if (found && witness != NULL)
        status = append_witness(&s, last, witness, err);
    if (status == SW_OK)
        *out = found;
    swi_automaton_free(&s.a);
    swi_automaton_free(&s.b);
    free(s.seen);
    free(s.pairs);
    return status;
}
