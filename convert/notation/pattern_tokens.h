/* The parsed form of a pattern: pattern.c makes it, pattern_match.c and pattern_overlap.c use it.
 */
#ifndef SW_CONVERT_NOTATION_PATTERN_TOKENS_H
#define SW_CONVERT_NOTATION_PATTERN_TOKENS_H

#include "base/arena.h"
#include "notation/lex.h"
#include "notation/pattern.h"

typedef enum swi_token_kind {
    SWI_TOKEN_TEXT, /* one of some alternatives; of one where it is plain text */
    SWI_TOKEN_VAR,
    SWI_TOKEN_STAR,     /* anything without a dot */
    SWI_TOKEN_ANYTHING, /* ** */
} swi_token_kind;

typedef enum swi_token_group {
    SWI_GROUP_NONE,
    SWI_GROUP_PARTS,  /* {q,k,v} */
    SWI_GROUP_CHOICE, /* (a|b) */
} swi_token_group;

typedef struct swi_alternative {
    const char *text; /* terminated */
    size_t size;
} swi_alternative;

typedef struct swi_token {
    swi_token_kind kind;
    swi_token_group group;               /* of TEXT */
    bool optional;                       /* of TEXT */
    const swi_alternative *alternatives; /* of TEXT */
    uint32_t count;                      /* of them */
    uint32_t var;                        /* of VAR */
    size_t offset_bytes;                 /* in the pattern's text */
} swi_token;

struct swi_pattern {
    swi_arena arena; /* the texts and alternatives */
    const char *text;
    size_t size;
    swi_token tokens[SWI_PATTERN_MAX_TOKENS];
    size_t count;
    struct {
        const char *name;
        size_t offset_bytes;
    } vars[SWI_PATTERN_MAX_VARS];
    size_t var_count;
    const swi_token *parts; /* NULL: none */
};

#endif
