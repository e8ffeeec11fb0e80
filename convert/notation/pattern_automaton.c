#include "notation/pattern_automaton.h"

#include <stdlib.h>

static sw_status add_edge(swi_automaton *a, uint32_t from, uint32_t to, swi_byte_class kind,
                          char byte, sw_error *err)
{
    void *p = a->edges;
    sw_status status = swi_grow_array(&p, &a->capacity, a->count + 1, sizeof *a->edges, err);
    a->edges = p;
    if (status == SW_OK)
        a->edges[a->count++] = (swi_edge){.from = from, .to = to, .kind = kind, .byte = byte};
    return status;
}

static sw_status add_word(swi_automaton *a, uint32_t from, uint32_t to, const swi_alternative *word,
                          sw_error *err)
{
    if (word->size == 0)
        return add_edge(a, from, to, SWI_CLASS_NOTHING, 0, err);
    sw_status status = SW_OK;
    for (size_t i = 0; status == SW_OK && i < word->size; i++) {
        uint32_t next = i + 1 == word->size ? to : a->states++;
        status = add_edge(a, from, next, SWI_CLASS_BYTE, word->text[i], err);
        from = next;
    }
    return status;
}

static sw_status add_text(swi_automaton *a, uint32_t from, uint32_t to, const swi_token *token,
                          sw_error *err)
{
    sw_status status = SW_OK;
    for (uint32_t i = 0; status == SW_OK && i < token->count; i++)
        status = add_word(a, from, to, &token->alternatives[i], err);
    if (status == SW_OK && token->optional)
        status = add_edge(a, from, to, SWI_CLASS_NOTHING, 0, err);
    return status;
}

static sw_status add_number(swi_automaton *a, uint32_t from, uint32_t to, sw_error *err)
{
    uint32_t more = a->states++;
    sw_status status = add_edge(a, from, to, SWI_CLASS_BYTE, '0', err);
    if (status == SW_OK)
        status = add_edge(a, from, more, SWI_CLASS_DIGIT_1, 0, err);
    if (status == SW_OK)
        status = add_edge(a, more, more, SWI_CLASS_DIGIT, 0, err);
    return status == SW_OK ? add_edge(a, more, to, SWI_CLASS_NOTHING, 0, err) : status;
}

static sw_status add_star(swi_automaton *a, uint32_t from, uint32_t to, swi_byte_class kind,
                          sw_error *err)
{
    sw_status status = add_edge(a, from, from, kind, 0, err);
    return status == SW_OK ? add_edge(a, from, to, SWI_CLASS_NOTHING, 0, err) : status;
}

static int by_start(const void *a, const void *b)
{
    const swi_edge *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static sw_status order_edges(swi_automaton *a, sw_error *err)
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

static sw_status make(const swi_pattern *pattern, swi_automaton *a, sw_error *err)
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
            status =
                add_star(a, from, to,
                         token->kind == SWI_TOKEN_STAR ? SWI_CLASS_NOT_DOT : SWI_CLASS_ANY, err);
    }
    return status == SW_OK ? order_edges(a, err) : status;
}

sw_status swi_automaton_make(const swi_pattern *pattern, swi_automaton *out, sw_error *err)
{
    swi_automaton made = {.states = 0};
    sw_status status = make(pattern, &made, err);
    if (status == SW_OK)
        *out = made;
    else
        swi_automaton_free(&made);
    return status;
}

void swi_automaton_free(swi_automaton *automaton)
{
    free(automaton->edges);
    free(automaton->first);
    *automaton = (swi_automaton){.states = 0};
}

bool swi_class_holds(swi_byte_class kind, char byte)
{
    switch (kind) {
    case SWI_CLASS_DIGIT_1:
        return byte >= '1' && byte <= '9';
    case SWI_CLASS_DIGIT:
        return swi_is_decimal(byte);
    case SWI_CLASS_NOT_DOT:
        return byte != '.';
    default:
        return kind == SWI_CLASS_ANY;
    }
}
