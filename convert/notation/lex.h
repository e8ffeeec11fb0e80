/*
 * What the readers of the notation's short texts have in common: expressions, patterns and
 * rearrangements. They read a terminated copy and look at nothing behind its end, so that the size
 * of what stands at a position is always known from there.
 */
#ifndef SW_CONVERT_NOTATION_LEX_H
#define SW_CONVERT_NOTATION_LEX_H

#include "base/error.h"

/* A kind of text, and the clauses that it is read by. */
typedef struct swi_lex_kind {
    const char *what; /* "a pattern" */
    uint32_t max_bytes;
    const char *syntax, *limits;
} swi_lex_kind;

/* Before a text is copied: LIMIT when it is too long, FORMAT where a NUL byte is in it. */
SW_MUST_USE sw_status swi_lex_check(const swi_lex_kind *kind, const char *text, size_t size,
                                    sw_error *err);

bool swi_is_decimal(char ch);
/* Of the name at the start: letters, digits and _, and no digit first. 0: there is none. */
size_t swi_lex_name(const char *text);
/* Of the spaces and tabs at the start. */
size_t swi_lex_blanks(const char *text);

#endif
