/* The names of a model's parameters in the order of registration, from a file of the user's. */
#ifndef SW_CONVERT_PARAM_NAMES_H
#define SW_CONVERT_PARAM_NAMES_H

#include "base/arena.h"
#include "shardwright_convert.h"

typedef struct swi_param_names {
    const char **items;
    uint64_t *numbers; /* of each, where the file has numbers; else NULL: in order */
    size_t count;
    swi_arena arena;
} swi_param_names;

/*
 * Text, one name a line, or one "NUMBER NAME" a line: the optimizer's number of that parameter;
 * lines may end with CR LF, empty ones are left out. Names lose wrapper parts unless they are kept.
 * SW_ERR_FORMAT: no text in UTF-8, or no name in it; SW_ERR_CONFLICT: a name twice; each with its
 * line. SW_ERR_LIMIT: more than limits.metadata_bytes.
 */
SW_MUST_USE sw_status swi_param_names_read(const char *path, const sw_limits *limits,
                                           bool keep_prefixes, swi_param_names *out, sw_error *err);
void swi_param_names_free(swi_param_names *names);

#endif
