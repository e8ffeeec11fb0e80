/*
 * Whether a pattern leaves nothing to another: a search through the states of that one, each
 * together with all states in which the first may be after the same bytes.
 */
#include "notation/pattern_cover.h"

#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "notation/pattern_automaton.h"

#define PAIRS_MAX 1024U
#define STATES_MAX 1024U /* more: too hard to tell */
#define WORDS (STATES_MAX / 64)

/* A state of the pattern, and states of `by`. Its bytes are the key of the pairs that were met. */
typedef struct pair {
    uint64_t state;
    uint64_t by[WORDS];
} pair;

typedef struct search {
    swi_automaton by, pattern;
    swi_names *met;        /* pairs, in the order in which they are looked at */
    uint8_t alphabet[256]; /* bytes of which at least one is in each class that matters */
    size_t letters;
    bool covered;
    sw_error *err;
} search;

static bool has(const pair *p, uint32_t state)
{
    return (p->by[state / 64] >> state % 64 & 1) != 0;
}

static void put(pair *p, uint32_t state)
{
    p->by[state / 64] |= UINT64_C(1) << state % 64;
}

/* Steps without a byte lead on, and mostly to later states: few rounds. */
static void close(const swi_automaton *a, pair *p)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < a->count; i++) {
            const swi_edge *e = &a->edges[i];
            if (e->kind != SWI_CLASS_NOTHING || !has(p, e->from) || has(p, e->to))
                continue;
            put(p, e->to);
            more = true;
        }
    }
}

static bool takes(const swi_edge *e, char byte)
{
    if (e->kind == SWI_CLASS_BYTE)
        return e->byte == byte;
    return e->kind != SWI_CLASS_NOTHING && swi_class_holds(e->kind, byte);
}

static sw_status visit(search *s, const pair *p)
{
    uint32_t id;
    bool some = false;
    for (size_t i = 0; i < WORDS; i++)
        some = some || p->by[i] != 0;
    if (!some || (p->state == s->pattern.end && !has(p, s->by.end)) ||
        swi_names_count(s->met) > PAIRS_MAX)
        s->covered = false;
    return swi_names_add(s->met, p, sizeof *p, &id, NULL, s->err);
}

static sw_status step(search *s, const pair *at, const swi_edge *e, char byte)
{
    pair next = {.state = e->to};
    for (size_t i = 0; i < s->by.count; i++)
        if (has(at, s->by.edges[i].from) && takes(&s->by.edges[i], byte))
            put(&next, s->by.edges[i].to);
    close(&s->by, &next);
    return visit(s, &next);
}

static sw_status expand(search *s, const pair *at)
{
    sw_status st = SW_OK;
    for (size_t i = s->pattern.first[at->state]; i < s->pattern.first[at->state + 1]; i++) {
        const swi_edge *e = &s->pattern.edges[i];
        if (e->kind == SWI_CLASS_NOTHING) {
            pair next = *at;
            next.state = e->to;
            if (st == SW_OK && s->covered)
                st = visit(s, &next);
        }
        for (size_t k = 0; st == SW_OK && s->covered && k < s->letters; k++)
            if (takes(e, (char)s->alphabet[k]))
                st = step(s, at, e, (char)s->alphabet[k]);
    }
    return st;
}

/* All bytes that the patterns name, digits and the dot, and one that is none of them. */
static void set_alphabet(search *s)
{
    bool named[256] = {['.'] = true};
    const swi_automaton *both[] = {&s->by, &s->pattern};
    for (int ch = '0'; ch <= '9'; ch++)
        named[ch] = true;
    for (size_t a = 0; a < 2; a++)
        for (size_t i = 0; i < both[a]->count; i++)
            if (both[a]->edges[i].kind == SWI_CLASS_BYTE)
                named[(uint8_t)both[a]->edges[i].byte] = true;
    bool other = false;
    for (int ch = 1; ch < 256; ch++) {
        if (!named[ch] && other)
            continue;
        other = other || !named[ch];
        s->alphabet[s->letters++] = (uint8_t)ch;
    }
}

static sw_status run(search *s)
{
    pair start = {.state = 0};
    put(&start, 0);
    close(&s->by, &start);
    sw_status st = visit(s, &start);
    for (uint32_t i = 0; st == SW_OK && s->covered && i < swi_names_count(s->met); i++) {
        pair at;
        memcpy(&at, swi_names_at(s->met, i, NULL), sizeof at);
        st = expand(s, &at);
    }
    return st;
}

sw_status swi_pattern_covers(const swi_pattern *by, const swi_pattern *pattern, bool *out,
                             sw_error *err)
{
    search s = {.covered = true, .err = err};
    sw_status st = swi_automaton_make(by, &s.by, err);
    if (st == SW_OK)
        st = swi_automaton_make(pattern, &s.pattern, err);
    if (st == SW_OK)
        st = swi_names_make(&s.met, err);
    if (st == SW_OK && s.by.states > STATES_MAX)
        s.covered = false;
    if (st == SW_OK && s.covered) {
        set_alphabet(&s);
        st = run(&s);
    }
    if (st == SW_OK)
        *out = s.covered;
    swi_automaton_free(&s.by);
    swi_automaton_free(&s.pattern);
    swi_names_free(s.met);
    return st;
}
