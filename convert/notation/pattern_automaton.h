/* A pattern as an automaton over bytes: for questions about two patterns. */
#ifndef SW_CONVERT_NOTATION_PATTERN_AUTOMATON_H
#define SW_CONVERT_NOTATION_PATTERN_AUTOMATON_H

#include "notation/pattern_tokens.h"

typedef enum swi_byte_class {
    SWI_CLASS_NOTHING, /* a step without a byte */
    SWI_CLASS_BYTE,
    SWI_CLASS_DIGIT_1, /* 1 to 9 */
    SWI_CLASS_DIGIT,
    SWI_CLASS_NOT_DOT,
    SWI_CLASS_ANY
} swi_byte_class;

typedef struct swi_edge {
    uint32_t from, to;
    swi_byte_class kind;
    char byte;
} swi_edge;

/* State 0 is the start; state `end` the end. Edges are ordered by where they begin. */
typedef struct swi_automaton {
    swi_edge *edges;
    size_t count, capacity;
    size_t *first; /* [state]: its first swi_edge; one more for the end */
    uint32_t states, end;
} swi_automaton;

/* The end is reached from every state. */
SW_MUST_USE sw_status swi_automaton_make(const swi_pattern *pattern, swi_automaton *out,
                                         sw_error *err);
void swi_automaton_free(swi_automaton *automaton);
/* Whether an edge of this class, not BYTE and not NOTHING, takes the byte. */
bool swi_class_holds(swi_byte_class kind, char byte);

#endif
